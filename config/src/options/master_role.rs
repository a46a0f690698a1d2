//! The master's role of a configuration: how its file is loaded, and which options a running master takes over.

use std::path::Path;

use saline_data::yaml::YamlError;

use super::master;
use crate::given::Given;
use crate::role::{ApiListenerRole, FleetRole, Role, fields_of};
use crate::{ConfigError, Loaded, MasterConfig, MinionConfig, OptionDoc};

impl MasterConfig {
    /// Every option of the file: what the loader accepts and what the documentation lists.
    pub const OPTIONS: &'static [OptionDoc<Self>] = <Self as Role>::OPTIONS;

    /// Reads `folder/master`, then `folder/master.d/*.conf` (`default_include`) and `include`. `schemes`
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

impl Role for MasterConfig {
    const FILE: &'static str = "master";
    const DEFAULT_INCLUDE: &'static str = "master.d/*.conf";
    const OPTIONS: &'static [OptionDoc<Self>] = master::OPTIONS;
    const OTHER: &'static str = "minion";
    const RELOADED: &'static [&'static str] = &[
        "audit_max_bytes",
        "auto_accept",
        "autoreject_file",
        "autosign_file",
        "batch_safe_limit",
        "batch_safe_size",
        "default_include",
        "durable_events",
        "ext_pillar",
        "external_auth",
        "file_env_access",
        "file_ignore_glob",
        "file_ignore_regex",
        "file_recv",
        "file_recv_max_size",
        "file_roots",
        "include",
        "job_ttl",
        "keep_jobs_seconds",
        "log_file",
        "log_fmt_console",
        "log_fmt_logfile",
        "log_level",
        "log_level_logfile",
        "max_minions",
        "max_pending_keys",
        "mine_get",
        "minion_event_bytes",
        "minion_event_rate",
        "netapi_enable_clients",
        "nodegroups",
        "open_mode",
        "operators",
        "pending_key_days",
        "permissive_acl",
        "pillar_merge_lists",
        "pillar_opts",
        "pillar_roots",
        "pillar_source_merging_strategy",
        "publish_session",
        "publisher_acl",
        "publisher_acl_blacklist",
        "reactor",
        "reactor_acl",
        // The master does nothing with it.
        "rest_cherrypy",
        "schedule",
        "sharedsecret",
        "timeout",
        "token_expire",
        "trusted_grains",
    ];
    const RELOADS_TRANSPORTS: bool = false;
    const KEPT_PREFIX: Option<&'static str> = Some("saltgui_");
    const SECTION_OPTIONS: &'static [&'static str] = &["connections", "publish_port", "ret_port"];

    fn is_of_other_role(name: &str) -> bool {
        MinionConfig::OPTIONS
            .iter()
            .any(|option| option.name == name)
    }
    fn place_own_paths(&mut self, root: &std::path::Path) {
        let files = [
            &mut self.audit_file,
            &mut self.autosign_file,
            &mut self.autoreject_file,
            &mut self.external_auth.user_file,
            &mut self.returners.local_file,
            &mut self.returners.sqlite3_database,
        ];
        for file in files {
            *file = file.take().map(|path| crate::paths::place(root, &path));
        }
    }
    fields_of!(Role);
    fn unknown_names(&self) -> Vec<(&'static str, String, String)> {
        let unknown = super::file_roots::unknown_environments(self).into_iter();
        unknown
            .map(|(name, message)| ("file_env_access", name, message))
            .collect()
    }

    fn read_section_option(
        &mut self,
        scheme: &str,
        name: &str,
        given: &Given<'_>,
    ) -> Result<(), YamlError> {
        let section = self.listen.entry(scheme.to_owned()).or_default();
        match name {
            "connections" => {
                let what = "a number of connections, 1 or more";
                section.connections = Some(given.whole(1..=i64::from(u32::MAX), what)?);
            }
            "publish_port" => section.publications = Some(given.port()?),
            _ => section.requests = Some(given.port()?),
        }
        Ok(())
    }
}

impl FleetRole for MasterConfig {
    fields_of!(FleetRole);
}

impl ApiListenerRole for MasterConfig {
    fields_of!(ApiListenerRole);
}
