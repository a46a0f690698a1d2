//! The configuration of the HTTP API on a host of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_messages::MinionId;
use saline_protocol::transport::{HostPort, Tls};

use crate::{Logging, MetricsAddress, Paths, RestCherrypyConfig, TransportOptions};

/// The configuration of the HTTP API on a host of its own: the file `api`. An API on the master's host that has no such file takes
/// [`MasterConfig`](crate::MasterConfig) instead, whose `rest_cherrypy` is the same.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ApiConfig {
    /// `root_dir` and the folders under it.
    pub paths: Paths,
    /// `master`: hosts of the one master, tried in order. `salt`, port 4506
    pub master: Vec<HostPort>,
    /// `master_port`: where masters take requests that name no port. 4506
    pub master_port: u16,
    /// `id`: the name under which the master has this API's key; none for the host's name.
    pub id: Option<MinionId>,
    /// `transport`: schemes, the preferred one first; empty for the registry's default.
    pub transport: Vec<String>,
    /// `master_finger`: the fingerprint that the master's identity must have.
    pub master_finger: Option<String>,
    /// `timeout`: how long a request waits for minions without a sign of life. 5 s
    pub timeout: Duration,
    /// Sections named by a scheme: options of transports, not yet judged.
    pub transport_options: TransportOptions,
    /// `master_port` of such sections, by scheme.
    pub transport_ports: BTreeMap<String, u16>,
    /// `ssl`: what transports that can encrypt network links with, when it is set.
    pub tls: Option<Tls>,
    /// `max_message_size`: in bytes. 64 MiB
    pub max_message_size: usize,
    /// `user`: whom the API switches to when root starts it; none for whoever starts it.
    pub user: Option<String>,
    /// `rest_cherrypy`: the listener; none when there is to be none.
    pub rest_cherrypy: Option<RestCherrypyConfig>,
    /// `metrics_listen`: where the metrics are served; none by default.
    pub metrics_listen: Option<MetricsAddress>,
    /// `log_level`, `log_file` and the like.
    pub logging: Logging,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            paths: Paths::api(),
            master: vec![HostPort::new("salt", 4506)],
            master_port: 4506,
            id: None,
            transport: Vec::new(),
            master_finger: None,
            timeout: Duration::from_secs(5),
            transport_options: TransportOptions::new(),
            transport_ports: BTreeMap::new(),
            tls: None,
            max_message_size: 64 * 1024 * 1024,
            user: None,
            rest_cherrypy: None,
            metrics_listen: None,
            logging: Logging::default(),
        }
    }
}

impl ApiConfig {
    /// Returns the file of the API in the folder of a configuration. Where there is none, the API runs beside a master and
    /// reads that one's file.
    pub fn file(folder: &Path) -> PathBuf {
        folder.join("api")
    }

    /// Returns the addresses of the master over the transport `scheme`.
    pub fn masters(&self, scheme: &str) -> Vec<HostPort> {
        crate::role::masters(&self.master, &self.transport_ports, scheme)
    }

    /// `pki_dir/master.pub`: the identity of the master that this API trusts.
    pub fn master_identity(&self) -> PathBuf {
        self.paths.pki_dir.join("master.pub")
    }

    /// `sock_dir/.lock`: held by a running API.
    pub fn lock_file(&self) -> PathBuf {
        self.paths.sock_dir.join(".lock")
    }
}
