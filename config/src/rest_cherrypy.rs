//! The listener of the HTTP API, as the section `rest_cherrypy` has it.

use std::net::IpAddr;
use std::path::PathBuf;

/// The listener of the HTTP API: the section `rest_cherrypy`, in the file of the API or, beside a master, in the master's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestCherrypyConfig {
    /// `port`: the port to listen on; 0 for any free one.
    pub port: u16,
    /// `host`: the address to listen on. `0.0.0.0`
    pub host: IpAddr,
    /// `ssl_crt` and `ssl_key`: the certificate and its key; none for plain HTTP.
    pub ssl: Option<ApiCertificate>,
    /// `disable_ssl`: serve plain HTTP also where other machines reach it.
    pub disable_ssl: bool,
    /// `app`: the file that is served at `app_path`; none for the built-in page.
    pub app: Option<PathBuf>,
    /// `app_path`: `/app`
    pub app_path: String,
    /// `static`: the folder whose files are served below `static_path`; none for none.
    pub static_folder: Option<PathBuf>,
    /// `static_path`: `/static`
    pub static_path: String,
    /// `cors_origin`: the origins whose pages may use the API; none by default.
    pub cors_origin: CorsOrigins,
    /// `webhook_url`: the path below which requests become events. `/hook`
    pub webhook_url: String,
    /// `webhook_disable_auth`: take such requests without a login.
    pub webhook_disable_auth: bool,
    /// `max_request_body_size`: the largest body of a request, in bytes. 1 MiB
    pub max_request_body_size: usize,
    /// `trusted_proxies`: the addresses that are believed in what `X-Forwarded-For` and the like say.
    pub trusted_proxies: Vec<IpAddr>,
}

/// The files of a certificate in PEM, which are read when the API starts and again on SIGHUP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiCertificate {
    /// `ssl_crt`: the certificate.
    pub certificate: PathBuf,
    /// `ssl_key`: its private key.
    pub key: PathBuf,
    /// `ssl_chain`: the certificates of the authorities between it and the root.
    pub chain: Option<PathBuf>,
}

/// The origins whose pages may use the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorsOrigins {
    /// These, each a scheme, a host and perhaps a port: `https://ops.example`.
    Listed(Vec<String>),
    /// Every origin: `*`.
    All,
}

impl RestCherrypyConfig {
    /// Returns a listener on this port, with the defaults for everything else.
    pub fn on_port(port: u16) -> Self {
        Self {
            port,
            host: IpAddr::from([0, 0, 0, 0]),
            ssl: None,
            disable_ssl: false,
            app: None,
            app_path: "/app".to_owned(),
            static_folder: None,
            static_path: "/static".to_owned(),
            cors_origin: CorsOrigins::Listed(Vec::new()),
            webhook_url: "/hook".to_owned(),
            webhook_disable_auth: false,
            max_request_body_size: 1_048_576,
            trusted_proxies: Vec::new(),
        }
    }
}
