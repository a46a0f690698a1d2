//! The configuration of a master.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_data::Value;
use saline_protocol::transport::{Limits, Tls};
use saline_targeting::{Assignments, NodegroupDefinition, Nodegroups};

use crate::{
    AccessBlacklist, AccessRules, ExternalAuth, FileOptions, Logging, MetricsAddress, MineRule,
    Paths, PillarSources, ReactorConfig, RestCherrypyConfig, ReturnerConfig, ScheduleConfig,
    Secrecy, ShownOptions, TransportOptions,
};

/// How one transport is served, as its section gives it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenSection {
    /// `ret_port` of the section; none for the master's own.
    pub requests: Option<u16>,
    /// `publish_port` of the section; none for the master's own.
    pub publications: Option<u16>,
    /// `connections` of the section: how many minions may be connected over the transport; none for the default of the
    /// contract's limits, 65,536.
    pub connections: Option<usize>,
}

/// The configuration of a master, with Salt's option names. Times are in the option's own unit in
/// the file (seconds) and durations here.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MasterConfig {
    /// `root_dir` and the folders under it.
    pub paths: Paths,
    /// `interface`: the address to listen on. `0.0.0.0`
    pub interface: String,
    /// `publish_port`: where publications are, for transports that have them apart. 4505
    pub publish_port: u16,
    /// `ret_port`: where requests are taken. 4506
    pub ret_port: u16,
    /// `transport`: schemes served on the network; empty for the registry's default.
    pub transport: Vec<String>,
    /// `ipc_transport`: the scheme of the local endpoints; none for the registry's default.
    pub ipc_transport: Option<String>,
    /// `worker_threads`: threads of the runtime; none for one a core.
    pub worker_threads: Option<usize>,
    /// `user`: the user that a master switches to when root starts it; `None` for the user that starts it.
    pub user: Option<String>,
    /// `auto_accept`: accept every new key.
    pub auto_accept: bool,
    /// `autosign_file`: the list of ids whose new keys are accepted.
    pub autosign_file: Option<PathBuf>,
    /// `autoreject_file`: the list of ids whose new keys are rejected.
    pub autoreject_file: Option<PathBuf>,
    /// `open_mode`: accept every key, also one that differs from the known one. For emergencies.
    pub open_mode: bool,
    /// `timeout`: how long the command line waits for minions without a sign of life. 5 s
    pub timeout: Duration,
    /// `keep_jobs_seconds`: how long jobs and returns are kept; 0 in the file is fifty years. 86,400 s
    pub keep_jobs: Duration,
    /// `publish_session`: how long a group key, with which jobs for many minions are sealed, is used. 86,400 s
    pub publish_session: Duration,
    /// `job_store_size`: the size from which the oldest jobs are removed earlier. A quarter of the disk
    pub job_store_size: JobStoreSize,
    /// `job_store_cache`: the cache of an open file of the job store for writing, in bytes. 8 MiB
    pub job_store_cache: usize,
    /// `heartbeat_interval`: told to minions. 15 s
    pub heartbeat_interval: Duration,
    /// `job_ttl`: how long an offered job may be begun. 60 s
    pub job_ttl: Duration,
    /// `batch_safe_limit`: the number of matched minions from which a job is carried out in batches even if nobody
    /// asked for it; 0 for never.
    pub batch_safe_limit: u32,
    /// `batch_safe_size`: the size of such a batch. 8
    pub batch_safe_size: u32,
    /// Sections named by a scheme: options of transports, not yet judged.
    pub transport_options: TransportOptions,
    /// `connections`, `ret_port` and `publish_port` of such sections, by scheme.
    pub listen: BTreeMap<String, ListenSection>,
    /// `ssl`: what transports that can encrypt network links with, when it is set.
    pub tls: Option<Tls>,
    /// `max_message_size`: in bytes, the same on every transport. 64 MiB
    pub max_message_size: usize,
    /// `keepalive_interval`: the longest time for which this end of a connection says nothing. 5 s
    pub keepalive_interval: Duration,
    /// `max_minions`: sessions of minions; 0 for no limit but the transport's.
    pub max_minions: usize,
    /// `max_pending_keys`: keys that wait to be accepted. 10,000
    pub max_pending_keys: usize,
    /// `minion_event_rate`: the events that one minion may fire in a second; none for no bound. 100
    pub minion_event_rate: Option<u64>,
    /// `minion_event_bytes`: the bytes of the events that one minion may fire in a second; none for no bound.
    /// 8 MiB
    pub minion_event_bytes: Option<u64>,
    /// `durable_events`: the globs of the tags of events that are kept on the disk.
    pub durable_events: Vec<String>,
    /// `durable_events_size`: the size in bytes of all kept events. 64 MiB
    pub durable_events_size: u64,
    /// `pending_key_days`: how long a pending key is kept that its minion does not present; none for ever.
    /// 7 days
    pub pending_key_expiry: Option<Duration>,
    /// `nodegroups`: names for targets.
    pub nodegroups: Nodegroups,
    /// The definitions of the nodegroups, as the files read so far have them.
    pub(crate) nodegroup_definitions: BTreeMap<String, NodegroupDefinition>,
    /// `minions.d`: the roles and attributes of minions; empty until they are
    /// [read](crate::Loaded::read_assignments).
    pub assignments: Assignments,
    /// `trusted_grains`: the grains that minions are believed.
    pub trusted_grains: BTreeSet<String>,
    /// `publisher_acl`: what users of this machine may do.
    pub publisher_acl: AccessRules,
    /// `publisher_acl_blacklist`: whom and what `publisher_acl` never allows.
    pub publisher_acl_blacklist: AccessBlacklist,
    /// `operators`: what operators with keys of their own may do; none for everything.
    pub operators: Option<AccessRules>,
    /// `permissive_acl`: whether the rules for everybody are also for those who are named.
    pub permissive_acl: bool,
    /// `external_auth` and the other options about users who log in.
    pub external_auth: ExternalAuth,
    /// `file_roots` and the other options about files.
    pub files: FileOptions,
    /// `pillar_roots` and the other options about pillar.
    pub pillar: PillarSources,
    /// `mine_get`: which minions may get what from the mine; none for everything.
    pub mine_get: Option<Vec<MineRule>>,
    /// `ext_job_cache`, `event_return` and the settings of their destinations.
    pub returners: ReturnerConfig,
    /// `audit_file`: the file with a line for every order; none for `/var/log/saline/master-audit.log` under `root_dir`.
    pub audit_file: Option<PathBuf>,
    /// `audit_max_bytes`: the size at which a new audit file is begun. 100 MiB
    pub audit_max_bytes: u64,
    /// `reactor` and the options beside it: what is done about events.
    pub reactor: ReactorConfig,
    /// `schedule` and `schedule_missed`: runners that run by the clock.
    pub schedule: ScheduleConfig,
    /// `rest_cherrypy`: the listener of an HTTP API on this host; none when there is to be none.
    pub rest_cherrypy: Option<RestCherrypyConfig>,
    /// `metrics_listen`: where the metrics are served; none by default.
    pub metrics_listen: Option<MetricsAddress>,
    /// `log_level`, `log_file` and the like.
    pub logging: Logging,
    /// Every option by its name, for runners that show them: a daemon puts
    /// [`Loaded::options`](crate::Loaded::options) here. Null otherwise.
    pub options: Value,
}

/// The size from which the job store removes the oldest jobs before their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStoreSize {
    /// A quarter of the file system that holds the store.
    QuarterOfDisk,
    /// The files of the store have at most this number of bytes.
    Bytes(u64),
    /// The size of the store has no limit.
    Unbounded,
}

impl Default for MasterConfig {
    fn default() -> Self {
        Self {
            paths: Paths::master(),
            interface: "0.0.0.0".to_owned(),
            publish_port: 4505,
            ret_port: 4506,
            transport: Vec::new(),
            ipc_transport: None,
            worker_threads: None,
            user: None,
            auto_accept: false,
            autosign_file: None,
            autoreject_file: None,
            open_mode: false,
            timeout: Duration::from_secs(5),
            keep_jobs: Duration::from_secs(86_400),
            publish_session: Duration::from_secs(86_400),
            job_store_size: JobStoreSize::QuarterOfDisk,
            job_store_cache: 8 * 1024 * 1024,
            heartbeat_interval: Duration::from_secs(15),
            job_ttl: Duration::from_secs(60),
            batch_safe_limit: 0,
            batch_safe_size: 8,
            transport_options: TransportOptions::new(),
            listen: BTreeMap::new(),
            tls: None,
            max_message_size: 64 * 1024 * 1024,
            keepalive_interval: Duration::from_secs(5),
            max_minions: 0,
            max_pending_keys: 10_000,
            minion_event_rate: Some(100),
            minion_event_bytes: Some(8 * 1024 * 1024),
            durable_events: Vec::new(),
            durable_events_size: 64 * 1024 * 1024,
            pending_key_expiry: Some(Duration::from_secs(7 * 86_400)),
            nodegroups: Nodegroups::default(),
            nodegroup_definitions: BTreeMap::new(),
            assignments: Assignments::default(),
            trusted_grains: BTreeSet::new(),
            publisher_acl: AccessRules::default(),
            publisher_acl_blacklist: AccessBlacklist::default(),
            operators: None,
            permissive_acl: false,
            external_auth: ExternalAuth::default(),
            files: FileOptions::default(),
            pillar: PillarSources::default(),
            mine_get: None,
            returners: ReturnerConfig::default(),
            audit_file: None,
            audit_max_bytes: 100 * 1024 * 1024,
            reactor: ReactorConfig::default(),
            schedule: ScheduleConfig::default(),
            rest_cherrypy: None,
            metrics_listen: None,
            logging: Logging::default(),
            options: Value::Null,
        }
    }
}

/// Whether minions may see an option of the master: a public one that has no path of a key, no rule about who gets what, and no command
/// or address that may have a password in it. Sections of transports have such paths.
pub(crate) fn may_be_shown(name: &str) -> bool {
    const NOT_SHOWN: [&str; 5] = ["ext_pillar", "pki_dir", "rest_cherrypy", "schedule", "ssl"];
    let is_kept_back = NOT_SHOWN.contains(&name) || name.starts_with("returner.");
    let mut options = MasterConfig::OPTIONS.iter();
    let found = options.find(|option| option.name == name);
    found.is_some_and(|option| {
        matches!(option.secrecy, Secrecy::Public | Secrecy::ByKeys) && !is_kept_back
    })
}

impl MasterConfig {
    /// Returns the limits of connections: `max_message_size`, `keepalive_interval`, and the defaults of the contract.
    pub fn limits(&self) -> Limits {
        crate::role::limits(self.max_message_size, self.keepalive_interval)
    }

    /// Returns the options that `pillar_opts` shows to minions, a mapping; none if it shows none. It has no secret, no rule
    /// about who may do what, and no path of a key.
    pub fn options_for_pillars(&self) -> Option<Value> {
        let shows = |name: &str| match &self.pillar.shown_options {
            ShownOptions::Nothing => false,
            ShownOptions::All => true,
            ShownOptions::Named(names) => names.contains(name),
        };
        if self.pillar.shown_options == ShownOptions::Nothing {
            return None;
        }
        let Value::Map(options) = &self.options else {
            return None;
        };
        let shown = options
            .iter()
            .filter(|(name, _)| shows(name) && may_be_shown(name));
        Some(Value::Map(shown.cloned().collect()))
    }

    /// Returns the ports that `scheme` is served on: those of its section, else `ret_port` and `publish_port`.
    pub fn ports(&self, scheme: &str) -> (u16, u16) {
        let own = self.listen.get(scheme).copied();
        let own = own.unwrap_or_default();
        (
            own.requests.unwrap_or(self.ret_port),
            own.publications.unwrap_or(self.publish_port),
        )
    }

    /// Returns how many connections the section of `scheme` allows, if it says.
    pub fn connections(&self, scheme: &str) -> Option<usize> {
        self.listen.get(scheme)?.connections
    }

    /// `state_dir/jobs`: the folder of the job store.
    pub fn job_store(&self) -> PathBuf {
        self.paths.state_dir.join("jobs")
    }

    /// `state_dir/schedule_runs.json`: when jobs of the schedule ran.
    pub fn schedule_runs(&self) -> PathBuf {
        self.paths.state_dir.join("schedule_runs.json")
    }

    /// `state_dir/events`: the folder of the kept events.
    pub fn event_store(&self) -> PathBuf {
        self.paths.state_dir.join("events")
    }

    /// `state_dir/tokens.sqlite`: the tokens that let minions in, without their secrets.
    pub fn token_file(&self) -> PathBuf {
        self.paths.state_dir.join("tokens.sqlite")
    }

    /// `state_dir/logins.sqlite`: who is logged in, with the digests of their tokens.
    pub fn login_file(&self) -> PathBuf {
        self.paths.state_dir.join("logins.sqlite")
    }

    /// `cachedir/own_functions`: the names of the functions of minions' own modules, for completion.
    pub fn own_functions_file(&self) -> PathBuf {
        self.paths.cache_dir.join("own_functions")
    }

    /// `state_dir/mine.sqlite`: what minions have left in the mine.
    pub fn mine_file(&self) -> PathBuf {
        self.paths.state_dir.join("mine.sqlite")
    }

    /// `cachedir/grains.sqlite`: the last known grains of the minions.
    pub fn grains_file(&self) -> PathBuf {
        self.paths.cache_dir.join("grains.sqlite")
    }

    /// `cachedir/.root_key`: the local operator's identity, 0400.
    pub fn root_key(&self) -> PathBuf {
        self.paths.cache_dir.join(".root_key")
    }

    /// `sock_dir/master_event_pull.ipc`: where local requests are taken.
    pub fn local_requests(&self) -> PathBuf {
        self.paths.sock_dir.join("master_event_pull.ipc")
    }

    /// `sock_dir/master_event_pub.ipc`: where local listeners subscribe to the event bus, for
    /// transports that have publications apart.
    pub fn local_publications(&self) -> PathBuf {
        self.paths.sock_dir.join("master_event_pub.ipc")
    }

    /// The file with a line for every order.
    pub fn audit_file(&self) -> PathBuf {
        let default = || {
            let root = &self.paths.root_dir;
            crate::paths::place(root, Path::new("/var/log/saline/master-audit.log"))
        };
        self.audit_file.clone().unwrap_or_else(default)
    }

    /// `sock_dir/access.ipc`: where users of this machine ask who cannot read the root key.
    pub fn access_socket(&self) -> PathBuf {
        self.paths.sock_dir.join("access.ipc")
    }

    /// `sock_dir/job_secrets.key`: the key under which the secrets of open jobs are stored, 0600. It is neither in the
    /// state folder nor in a copy of it.
    pub fn secrets_key_file(&self) -> PathBuf {
        self.paths.sock_dir.join("job_secrets.key")
    }

    /// `sock_dir/.lock`: held by a running master, and by whoever acts on its keys while none runs.
    pub fn lock_file(&self) -> PathBuf {
        self.paths.sock_dir.join(".lock")
    }

    /// `state_dir/.lock`: held by a running master, so that no second one with another `sock_dir` uses its job store.
    pub fn store_lock_file(&self) -> PathBuf {
        self.paths.state_dir.join(".lock")
    }
}

#[cfg(test)]
mod tests {
    use super::may_be_shown;

    #[test]
    fn minions_see_no_rule_and_nothing_that_may_have_a_password_in_it() {
        for name in ["timeout", "file_roots", "keep_jobs_seconds"] {
            assert!(may_be_shown(name), "{name}");
        }
        for name in [
            "ext_pillar",
            "file_env_access",
            "mine_get",
            "operators",
            "permissive_acl",
            "pki_dir",
            "publisher_acl",
            "publisher_acl_blacklist",
            "reactor_acl",
            "returner.executable.command",
            "returner.http.url",
            "returner.postgres.passwd",
            "schedule",
            "sharedsecret",
            "ssl",
        ] {
            assert!(!may_be_shown(name), "{name}");
        }
    }
}
