//! The section `rest_cherrypy`: the listener of the HTTP API.

use std::net::IpAddr;

use saline_data::nearest;
use saline_data::yaml::{Content, YamlError};

use crate::given::Given;
use crate::rest_cherrypy::{ApiCertificate, CorsOrigins};
use crate::role::ApiListenerRole;
use crate::{OptionDoc, RestCherrypyConfig, Secrecy};

const TAKES: &str = "a mapping with a port";

/// The entries of the section.
const KNOWN: &[&str] = &[
    "app",
    "app_path",
    "cors_origin",
    "disable_ssl",
    "host",
    "max_request_body_size",
    "port",
    "ssl_chain",
    "ssl_crt",
    "ssl_key",
    "static",
    "static_path",
    "trusted_proxies",
    "webhook_disable_auth",
    "webhook_url",
];

/// The entries that Salt has, and that change nothing here.
const WITHOUT_EFFECT: &[&str] = &[
    "collect_stats",
    "debug",
    "enable_sessions",
    "expire_responses",
    "log.access_file",
    "log.error_file",
    "log_access_file",
    "log_error_file",
    "root_prefix",
    "socket_queue_size",
    "stats_disable_auth",
    "thread_pool",
];

pub(super) const fn rest_cherrypy<C: ApiListenerRole>() -> OptionDoc<C> {
    OptionDoc {
        name: "rest_cherrypy",
        secrecy: Secrecy::Public,
        unit: TAKES,
        default: "",
        help: "The listener of the HTTP API, with Salt's names: `port`, which must be given; `host` (an address, `0.0.0.0`); `ssl_crt`, `ssl_key` and \
               `ssl_chain` (PEM files, read again on SIGHUP); `disable_ssl`, without which plain HTTP is served on addresses \
               of this machine alone; `app` (a file) and `app_path` (`/app`); `static` (a folder) and `static_path` \
               (`/static`); `cors_origin` (origins, or `'*'`); `webhook_url` (`/hook`) and `webhook_disable_auth`; \
               `max_request_body_size` (`1M`). Beside these `trusted_proxies`: the addresses that are believed in \
               `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host` and `X-Request-Id`. In the file of a master for an API on its host that has no file `api`. Not set: no API is served.",
        read: |config, given| {
            *config.rest_cherrypy() = given.optional(read)?;
            Ok(())
        },
    }
}

fn read(given: &Given<'_>) -> Result<RestCherrypyConfig, YamlError> {
    let Content::Map(entries) = &given.node.content else {
        return Err(given.wrong(TAKES));
    };
    let mut listener = RestCherrypyConfig::on_port(0);
    let (mut port, mut certificate, mut key, mut chain) = (None, None, None, None);
    for (name, node) in entries {
        let full = format!("rest_cherrypy:{}", name.name);
        let entry = given.entry(&full, node);
        match name.name.as_str() {
            "port" => port = Some(entry.port()?),
            "host" => {
                listener.host = entry.checked("an IP address to listen on", |text| {
                    let error = |_| format!("takes an IP address to listen on, not {text:?}");
                    text.parse().map_err(error)
                })?;
            }
            "ssl_crt" => certificate = entry.optional(|entry| entry.path())?,
            "ssl_key" => key = entry.optional(|entry| entry.path())?,
            "ssl_chain" => chain = entry.optional(|entry| entry.path())?,
            "disable_ssl" => listener.disable_ssl = entry.flag()?,
            "app" => listener.app = entry.optional(|entry| entry.path())?,
            "app_path" => listener.app_path = url_path(&entry)?,
            "static" => listener.static_folder = entry.optional(|entry| entry.path())?,
            "static_path" => listener.static_path = url_path(&entry)?,
            "cors_origin" => {
                listener.cors_origin = entry
                    .optional(origins)?
                    .unwrap_or_else(|| CorsOrigins::Listed(Vec::new()));
            }
            "webhook_url" => listener.webhook_url = url_path(&entry)?,
            "webhook_disable_auth" => listener.webhook_disable_auth = entry.flag()?,
            "max_request_body_size" => {
                let takes = "a number of bytes, from 1024 to 2147483647";
                listener.max_request_body_size = entry.bytes(1_024..=i64::from(i32::MAX), takes)?;
            }
            "trusted_proxies" => {
                listener.trusted_proxies = entry
                    .optional(|entry| entry.texts("an IP address or a list of them", address))?
                    .unwrap_or_default();
            }
            known if WITHOUT_EFFECT.contains(&known) => entry.warn("of Salt has no effect"),
            unknown => {
                let hint = match nearest(unknown, KNOWN.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("known are: {}", KNOWN.join(", ")),
                };
                let error = format!("unknown option {full:?}; {hint}");
                return Err(name.position.error(error));
            }
        }
    }
    listener.port = port.ok_or_else(|| given.refuse(format!("takes {TAKES}, and has no port")))?;
    listener.ssl = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(ApiCertificate {
            certificate,
            key,
            chain,
        }),
        (None, None) if chain.is_none() => None,
        _ => return Err(given.refuse("takes ssl_crt and ssl_key together")),
    };
    Ok(listener)
}

fn address(text: &str) -> Result<IpAddr, String> {
    let error = |_| format!("takes IP addresses, and {text:?} is none");
    text.parse().map_err(error)
}

/// Reads the path of a URL: it begins with a slash, and does not end with one.
fn url_path(entry: &Given<'_>) -> Result<String, YamlError> {
    entry.checked("the path of a URL, such as /app", |text| {
        let is_plain = |part: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
            !part.is_empty() && part != "." && part != ".." && part.chars().all(allowed)
        };
        match text.strip_prefix('/') {
            Some(rest) if rest.split('/').all(is_plain) => Ok(text.to_owned()),
            _ => Err(format!(
                "takes the path of a URL, such as /app, not {text:?}"
            )),
        }
    })
}

fn origins(entry: &Given<'_>) -> Result<CorsOrigins, YamlError> {
    let takes = "an origin such as https://ops.example, a list of them, or '*'";
    let origins = entry.texts(takes, |text| {
        let host = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        let is_host = |host: &str| {
            let foreign = |c: char| c.is_whitespace() || c.is_control() || "/?#@*".contains(c);
            !host.is_empty() && !host.contains(foreign)
        };
        match text == "*" || host.is_some_and(is_host) {
            true => Ok(text.to_owned()),
            false => Err(format!("takes {takes}, not {text:?}")),
        }
    })?;
    if origins.iter().any(|origin| origin == "*") {
        return Ok(CorsOrigins::All);
    }
    Ok(CorsOrigins::Listed(origins))
}
