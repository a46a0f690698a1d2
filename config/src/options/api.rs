//! The options of an API on a host of its own.

use std::path::Path;

use saline_data::yaml::YamlError;

use super::{common, master_address, rest_cherrypy};
use crate::given::Given;
use crate::role::{ApiListenerRole, ConnectingRole, Role, fields_of};
use crate::{ApiConfig, ConfigError, Loaded, MasterConfig, MinionConfig, OptionDoc, Secrecy};

impl ApiConfig {
    /// Every option of the file: what the loader accepts and what the documentation lists.
    pub const OPTIONS: &'static [OptionDoc<Self>] = <Self as Role>::OPTIONS;

    /// Reads `folder/api`, then `folder/api.d/*.conf` (`default_include`) and `include`. `schemes`
    /// are the transports that this program has: they may be named in `transport`, and each may
    /// have a section of options.
    ///
    /// # Errors
    /// When there is no such folder, a file cannot be read, or something in it is wrong; the error
    /// is one line that says where.
    pub fn load(folder: &Path, schemes: &[&str]) -> Result<Loaded<Self>, ConfigError> {
        crate::load::load(folder, schemes)
    }
}

impl Role for ApiConfig {
    const FILE: &'static str = "api";
    const DEFAULT_INCLUDE: &'static str = "api.d/*.conf";
    const OPTIONS: &'static [OptionDoc<Self>] = OPTIONS;
    const OTHER: &'static str = "master or of a minion";
    const RELOADED: &'static [&'static str] = &[
        "default_include",
        "include",
        "log_file",
        "log_fmt_console",
        "log_fmt_logfile",
        "log_level",
        "log_level_logfile",
    ];
    const RELOADS_TRANSPORTS: bool = false;
    const KEPT_PREFIX: Option<&'static str> = None;
    const SECTION_OPTIONS: &'static [&'static str] = &["master_port"];

    fn is_of_other_role(name: &str) -> bool {
        let mut of_master = MasterConfig::OPTIONS.iter();
        let mut of_minion = MinionConfig::OPTIONS.iter();
        of_master.any(|option| option.name == name) || of_minion.any(|option| option.name == name)
    }
    fields_of!(Role);
    fn read_section_option(
        &mut self,
        scheme: &str,
        _name: &str,
        given: &Given<'_>,
    ) -> Result<(), YamlError> {
        self.transport_ports
            .insert(scheme.to_owned(), given.port()?);
        Ok(())
    }
}

impl ConnectingRole for ApiConfig {
    fields_of!(ConnectingRole);
}

impl ApiListenerRole for ApiConfig {
    fields_of!(ApiListenerRole);
}

const OPTIONS: &[OptionDoc<ApiConfig>] = &[
    master_address::master_port(),
    master_address::master(),
    master_address::id(
        "The name under which the master has the key of this API, and its audit file what it does. Under another name its key \
               waits again. Not set: the host's name.",
    ),
    common::transport(
        "The transports to reach the master by, the preferred one first. Not set: the default of this \
         build. Transport options go in a section named after the transport.",
    ),
    master_address::master_finger(),
    OptionDoc {
        name: "timeout",
        secrecy: Secrecy::Public,
        unit: "seconds",
        default: "5",
        help: "How long a request waits for minions that show no sign of life.",
        read: |config, given| {
            config.timeout = given.seconds(false)?;
            Ok(())
        },
    },
    rest_cherrypy::rest_cherrypy(),
    common::user(
        "The user that the API switches to when root starts it; it keeps no right of root's. Files that only root may read are read \
         before: the configuration, and the keys of `ssl`. The user must be able to read `ssl_crt` and `ssl_key` of `rest_cherrypy`, \
         and `pki_dir` and `sock_dir` must belong to that user. Not set: the user that starts it.",
    ),
    common::max_message_size(),
    common::ssl(),
    common::root_dir(),
    common::pki_dir("/etc/saline/pki/api"),
    common::sock_dir("/run/saline/api"),
    common::pidfile(),
    common::metrics_listen(),
    common::log_level(),
    common::log_level_logfile(),
    common::log_fmt_console(),
    common::log_fmt_logfile(),
    common::log_file(
        "The file of the log, usually `/var/log/saline/api`. Not set: the standard error output.",
    ),
    common::default_include(ApiConfig::DEFAULT_INCLUDE),
    common::include(),
];
