//! A role that has a configuration, and what an option of it is.

use std::collections::BTreeMap;
use std::time::Duration;

use saline_data::yaml::YamlError;
use saline_messages::MinionId;
use saline_protocol::transport::{HostPort, Limits, OptionValue};

use crate::given::Given;
use crate::paths::place;
use crate::{Logging, MetricsAddress, Paths, RestCherrypyConfig, ScheduleConfig, Secrecy};

/// An option of a role's configuration `C`: how it is read, and its documentation.
#[derive(Debug, Clone, Copy)]
pub struct OptionDoc<C> {
    /// The name in the file; Salt's, where Salt has it.
    pub name: &'static str,
    /// Whether the value is shown.
    pub secrecy: Secrecy,
    /// The kind of value, with the unit.
    pub unit: &'static str,
    /// The default as it would be written in the file; empty when it is not set by default, and
    /// then [`help`](Self::help) explains the effect.
    pub default: &'static str,
    /// The documentation.
    pub help: &'static str,
    /// Reads the value into the configuration.
    pub(crate) read: fn(&mut C, &Given<'_>) -> Result<(), YamlError>,
}

/// Options of transports by scheme, as the sections of the configuration give them.
pub type TransportOptions = BTreeMap<String, Vec<(String, OptionValue)>>;

/// Writes the methods of a trait below that return the fields of the same names, for a configuration that has these.
macro_rules! fields_of {
    (Role) => {
        fields_of! {
            paths: $crate::Paths,
            logging: $crate::Logging,
            metrics_listen: Option<$crate::MetricsAddress>,
            transport: Vec<String>,
            max_message_size: usize,
            tls: Option<saline_protocol::transport::Tls>,
            transport_options: $crate::TransportOptions,
        }
    };
    (FleetRole) => {
        fields_of! {
            ipc_transport: Option<String>,
            schedule: $crate::ScheduleConfig,
            keepalive_interval: std::time::Duration,
        }
    };
    (ConnectingRole) => {
        fields_of! {
            master: Vec<saline_protocol::transport::HostPort>,
            master_port: u16,
            master_finger: Option<String>,
            id: Option<saline_messages::MinionId>,
        }
    };
    (ApiListenerRole) => {
        fields_of! {
            user: Option<String>,
            rest_cherrypy: Option<$crate::RestCherrypyConfig>,
        }
    };
    ($($field:ident: $type:ty,)+) => {
        $(fn $field(&mut self) -> &mut $type {
            &mut self.$field
        })+
    };
}
pub(crate) use fields_of;

/// A role that has a configuration.
pub(crate) trait Role: Default + 'static {
    /// The name of the file.
    const FILE: &'static str;
    /// The files that are read after the main one by default.
    const DEFAULT_INCLUDE: &'static str;
    /// The options. An option that the value of another depends on stands before that one.
    const OPTIONS: &'static [OptionDoc<Self>];
    /// Whether another role has an option of that name.
    fn is_of_other_role(name: &str) -> bool;
    /// The name of the other role.
    const OTHER: &'static str;
    /// The options that a running daemon takes over when it reads its configuration again.
    const RELOADED: &'static [&'static str];
    /// Whether a running daemon takes over the sections of transports too.
    const RELOADS_TRANSPORTS: bool;
    /// The beginning of the names of options that are kept as values, for programs that ask for them.
    const KEPT_PREFIX: Option<&'static str>;
    /// The options of a transport's section that are the role's own, and not the transport's.
    const SECTION_OPTIONS: &'static [&'static str];

    /// Whether an option is kept as a value.
    fn is_kept(name: &str) -> bool {
        Self::KEPT_PREFIX.is_some_and(|prefix| name.starts_with(prefix))
    }

    fn paths(&mut self) -> &mut Paths;
    fn logging(&mut self) -> &mut Logging;
    fn metrics_listen(&mut self) -> &mut Option<MetricsAddress>;
    fn transport(&mut self) -> &mut Vec<String>;
    fn max_message_size(&mut self) -> &mut usize;
    fn tls(&mut self) -> &mut Option<saline_protocol::transport::Tls>;
    fn transport_options(&mut self) -> &mut TransportOptions;

    /// Reads one of [`SECTION_OPTIONS`](Self::SECTION_OPTIONS), by its name, from the section of `scheme`.
    fn read_section_option(
        &mut self,
        scheme: &str,
        name: &str,
        given: &Given<'_>,
    ) -> Result<(), YamlError>;

    /// Returns the names in values that no other option has: the option, the name, and what the operator is warned of.
    fn unknown_names(&self) -> Vec<(&'static str, String, String)> {
        Vec::new()
    }

    /// Completes the configuration with values that depend on several options.
    fn finish(&mut self) {
        self.place_paths();
    }

    /// Puts `root_dir` before the paths that only this role has.
    fn place_own_paths(&mut self, _root: &std::path::Path) {}

    /// Puts `root_dir` before the paths.
    fn place_paths(&mut self) {
        let root = self.paths().root_dir.clone();
        let log_file = self.logging().file.take();
        self.logging().file = log_file.map(|path| place(&root, &path));
        let metrics = self.metrics_listen().take();
        *self.metrics_listen() = metrics.map(|address| address.under(&root));
        self.place_own_paths(&root);
        let paths = self.paths();
        *paths = paths.clone().under(&root);
    }
}

/// A role of a fleet's daemons, with an event bus on its machine and a schedule: master and minion.
pub(crate) trait FleetRole: Role {
    fn ipc_transport(&mut self) -> &mut Option<String>;
    fn schedule(&mut self) -> &mut ScheduleConfig;
    fn keepalive_interval(&mut self) -> &mut Duration;
}

/// A role that connects to a master over the network: minion and API.
pub(crate) trait ConnectingRole: Role {
    fn master(&mut self) -> &mut Vec<HostPort>;
    fn master_port(&mut self) -> &mut u16;
    fn master_finger(&mut self) -> &mut Option<String>;
    fn id(&mut self) -> &mut Option<MinionId>;
}

/// A role whose file may have the listener of the HTTP API, and that need not run as root: the API, and the master that it runs
/// beside.
pub(crate) trait ApiListenerRole: Role {
    fn user(&mut self) -> &mut Option<String>;
    fn rest_cherrypy(&mut self) -> &mut Option<RestCherrypyConfig>;
}

/// Returns the limits of connections, with what a configuration says of them.
pub(crate) fn limits(max_message_size: usize, keepalive_interval: Duration) -> Limits {
    let mut limits = Limits::default();
    limits.max_message = max_message_size;
    limits.ping_interval = keepalive_interval;
    limits
}

/// Returns the addresses of the master over the transport `scheme`, which may have a port of its own in `ports`.
pub(crate) fn masters(
    masters: &[HostPort],
    ports: &BTreeMap<String, u16>,
    scheme: &str,
) -> Vec<HostPort> {
    let mut masters = masters.to_vec();
    if let Some(port) = ports.get(scheme) {
        for master in &mut masters {
            master.port = *port;
        }
    }
    masters
}
