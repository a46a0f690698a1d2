//! The configuration of an API: its own file `api`, or, where there is none, the file of the master on this machine.

use std::path::{Path, PathBuf};

use saline_client::transport::Registry;
use saline_client::{Client, ClientError};
use saline_config::{
    ApiConfig, ChangedOption, ConfigError, Loaded, Logging, MasterConfig, MetricsAddress,
    RestCherrypyConfig,
};
use saline_daemon::{Arguments, OwnUser, Reloaded};

/// The configuration of an API.
#[derive(Debug, Clone)]
pub(crate) enum Configuration {
    /// That of the master on this machine, whose key lets the API in.
    OfMaster(Box<Loaded<MasterConfig>>),
    /// Its own: the master is on another host, and lets the key of the API in.
    Own(Box<Loaded<ApiConfig>>),
}

impl Configuration {
    /// Reads the configuration, over which the arguments of the command line go. The log file in a master's file is the
    /// master's: beside it the API writes to the standard error output.
    ///
    /// # Errors
    /// When a file cannot be read, or is wrong.
    pub(crate) fn load(registry: &Registry, arguments: &Arguments) -> Result<Self, ConfigError> {
        let schemes: Vec<&str> = registry.schemes().collect();
        let folder = &arguments.config_dir;
        if ApiConfig::file(folder).exists() {
            let mut loaded = ApiConfig::load(folder, &schemes)?;
            loaded.check_daemon(registry)?;
            arguments.override_logging(&mut loaded.config.logging);
            if rustix::process::geteuid().is_root() {
                let stays = stays_root(&loaded.config, &ApiConfig::file(folder));
                loaded.warnings.extend(stays);
            }
            return Ok(Self::Own(Box::new(loaded)));
        }
        let mut loaded = MasterConfig::load(folder, &schemes)?;
        loaded.config.logging.file = None;
        arguments.override_logging(&mut loaded.config.logging);
        Ok(Self::OfMaster(Box::new(loaded)))
    }

    /// Returns the section about the listener.
    pub(crate) fn listener(&self) -> Option<&RestCherrypyConfig> {
        match self {
            Self::OfMaster(loaded) => loaded.config.rest_cherrypy.as_ref(),
            Self::Own(loaded) => loaded.config.rest_cherrypy.as_ref(),
        }
    }

    /// Returns the folder of the API's lock and of the socket for its health.
    pub(crate) fn folder(&self) -> PathBuf {
        match self {
            Self::OfMaster(loaded) => loaded.config.paths.sock_dir.join("api"),
            Self::Own(loaded) => loaded.config.paths.sock_dir.clone(),
        }
    }

    /// Returns the user that the API runs as, the master's or its own, and what must belong to that user.
    pub(crate) fn own_user(&self) -> OwnUser {
        let (name, folders) = match self {
            Self::OfMaster(loaded) => {
                let config = &loaded.config;
                (&config.user, vec![config.paths.sock_dir.clone()])
            }
            Self::Own(loaded) => {
                let (config, paths) = (&loaded.config, &loaded.config.paths);
                let folders = vec![paths.pki_dir.clone(), paths.sock_dir.clone()];
                (&config.user, folders)
            }
        };
        let log_file = self.logging().file.clone();
        OwnUser {
            daemon: "API",
            name: name.clone(),
            folders,
            logs: log_file
                .map(|path| ("log_file", path))
                .into_iter()
                .collect(),
        }
    }

    /// Returns where the metrics are served without a login. The address in a master's file is the master's.
    pub(crate) fn metrics_listen(&self) -> Option<&MetricsAddress> {
        match self {
            Self::OfMaster(_) => None,
            Self::Own(loaded) => loaded.config.metrics_listen.as_ref(),
        }
    }

    /// Returns the file that the process id is written to: that of the command line or its own. The one in a master's file is
    /// the master's.
    pub(crate) fn pid_file(&self, arguments: &Arguments) -> Option<PathBuf> {
        let of_file = match self {
            Self::OfMaster(_) => None,
            Self::Own(loaded) => loaded.config.paths.pid_file.clone(),
        };
        arguments.pid_file.clone().or(of_file)
    }

    /// Connects to the master.
    ///
    /// # Errors
    /// As [`Client::connect`] and [`Client::connect_to`].
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    pub(crate) async fn connect(&self, registry: &Registry) -> Result<Client, ClientError> {
        match self {
            Self::OfMaster(loaded) => Client::connect(&loaded.config, registry).await,
            Self::Own(loaded) => Client::connect_to(&loaded.config, registry).await,
        }
    }
}

/// Returns a warning for an API that root starts and that stays root, as its own `file` names no user. Beside a master it runs as
/// that one's user.
fn stays_root(config: &ApiConfig, file: &Path) -> Option<String> {
    if config.user.is_some() {
        return None;
    }
    Some(format!(
        "the API runs as root, and needs root's rights for a port below 1024 alone: set `user` in {}, such as user: saline, and give that \
         user what belongs to the API: chown -R saline: {} {}",
        file.display(),
        config.paths.pki_dir.display(),
        config.paths.sock_dir.display()
    ))
}

impl Reloaded for Configuration {
    fn changed_since(&self, before: &Self) -> Vec<ChangedOption> {
        match (self, before) {
            (Self::OfMaster(new), Self::OfMaster(old)) => new.changed_since(old),
            (Self::Own(new), Self::Own(old)) => new.changed_since(old),
            // Another file took its place, which takes a restart to matter.
            _ => Vec::new(),
        }
    }

    fn logging(&self) -> &Logging {
        match self {
            Self::OfMaster(loaded) => &loaded.config.logging,
            Self::Own(loaded) => &loaded.config.logging,
        }
    }

    fn warnings(&self) -> &[String] {
        match self {
            Self::OfMaster(loaded) => &loaded.warnings,
            Self::Own(loaded) => &loaded.warnings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_that_stays_root_is_told_how_it_need_not() {
        let file = Path::new("/etc/saline/api");
        let mut config = ApiConfig::default();
        assert_eq!(
            stays_root(&config, file).as_deref(),
            Some(
                "the API runs as root, and needs root's rights for a port below 1024 alone: set `user` in /etc/saline/api, such as user: \
                 saline, and give that user what belongs to the API: chown -R saline: /etc/saline/pki/api /run/saline/api"
            )
        );
        config.user = Some("saline".to_owned());
        assert_eq!(stays_root(&config, file), None);
    }
}
