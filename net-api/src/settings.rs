//! The checks of `rest_cherrypy` that a start makes.

use std::net::{IpAddr, SocketAddr};

use saline_config::RestCherrypyConfig;

/// The reason why the API is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("rest_cherrypy is not set in the configuration: there is no port to listen on")]
    Absent,
    #[error(
        "rest_cherrypy: other machines reach {0}, and plain HTTP would show them passwords: set ssl_crt and ssl_key, or host: \
         127.0.0.1, or, behind a proxy that encrypts, disable_ssl: True"
    )]
    Plain(IpAddr),
    #[error("rest_cherrypy: {0} names {1}, which is a path of the API itself or of another option")]
    Taken(&'static str, String),
}

/// The paths below which the API itself answers.
const OWN: [&str; 13] = [
    "events", "healthz", "jobs", "keys", "login", "logout", "metrics", "minions", "readyz", "run",
    "stats", "targets", "token",
];

/// Returns the address to listen on.
///
/// # Errors
/// When there is none, passwords would be sent in the clear without that being asked for, or two things have one path.
pub(crate) fn address(config: Option<&RestCherrypyConfig>) -> Result<SocketAddr, SettingsError> {
    let config = config.ok_or(SettingsError::Absent)?;
    let is_own = |path: &str| OWN.contains(&path.split('/').nth(1).unwrap_or_default());
    let taken = |option, path: &str| SettingsError::Taken(option, path.to_owned());
    if is_own(&config.webhook_url) {
        return Err(taken("webhook_url", &config.webhook_url));
    }
    if is_own(&config.static_path) || config.static_path == config.webhook_url {
        return Err(taken("static_path", &config.static_path));
    }
    let app = &config.app_path;
    if is_own(app) || *app == config.static_path || *app == config.webhook_url {
        return Err(taken("app_path", app));
    }
    let is_plain = config.ssl.is_none() && !config.disable_ssl;
    match is_plain && !config.host.is_loopback() {
        true => Err(SettingsError::Plain(config.host)),
        false => Ok(SocketAddr::new(config.host, config.port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_leaves_the_machine_only_when_that_is_asked_for() {
        let mut config = RestCherrypyConfig::on_port(8000);
        let line = address(Some(&config)).unwrap_err().to_string();
        assert!(
            line.contains("0.0.0.0") && line.contains("disable_ssl"),
            "{line}"
        );
        config.disable_ssl = true;
        assert_eq!(address(Some(&config)).unwrap().to_string(), "0.0.0.0:8000");
        config.disable_ssl = false;
        config.host = [127, 0, 0, 1].into();
        assert_eq!(
            address(Some(&config)).unwrap().to_string(),
            "127.0.0.1:8000"
        );
        assert!(address(None).is_err());
    }

    #[test]
    fn two_things_do_not_have_one_path() {
        let refused_app = |app: &str| {
            let mut config = RestCherrypyConfig::on_port(8000);
            config.host = [127, 0, 0, 1].into();
            config.app_path = app.to_owned();
            address(Some(&config)).err().map(|error| error.to_string())
        };
        assert_eq!(refused_app("/ui/salt"), None);
        for app in ["/jobs", "/healthz", "/static", "/hook"] {
            assert!(refused_app(app).unwrap().contains("app_path"), "{app}");
        }
        let refused = |webhook: &str, files: &str| {
            let mut config = RestCherrypyConfig::on_port(8000);
            config.host = [127, 0, 0, 1].into();
            config.webhook_url = webhook.to_owned();
            config.static_path = files.to_owned();
            address(Some(&config)).err().map(|error| error.to_string())
        };
        assert_eq!(refused("/hook", "/static"), None);
        assert_eq!(refused("/my/login", "/files"), None);
        let line = "rest_cherrypy: webhook_url names /minions/x, which is a path of the API itself or of another option";
        assert_eq!(refused("/minions/x", "/static").as_deref(), Some(line));
        assert!(refused("/hook", "/jobs").unwrap().contains("static_path"));
        assert!(refused("/hook", "/hook").unwrap().contains("static_path"));
    }
}
