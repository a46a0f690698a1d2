//! The configuration of a minion.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_messages::MinionId;
use saline_protocol::transport::{HostPort, Limits, Tls};

use crate::minion_id;
use crate::{Logging, MetricsAddress, MineConfig, Paths, ScheduleConfig, TransportOptions};

/// The configuration of a minion, with Salt's option names. Times are in the option's own unit in
/// the file and durations here.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MinionConfig {
    /// The folder that the configuration was read from; none for one that was not.
    pub folder: Option<PathBuf>,
    /// Every option by its name, with secrets hidden, as functions show it.
    pub shown: saline_data::Value,
    /// `root_dir` and the folders under it.
    pub paths: Paths,
    /// `master`: hosts of the one master, tried in order. `salt`, port 4506
    pub master: Vec<HostPort>,
    /// `master_port`: where masters take requests that name no port. 4506
    pub master_port: u16,
    /// `id`, else the one in the file `minion_id`; none for the host's name.
    pub id: Option<MinionId>,
    /// `transport`: schemes, the preferred one first; empty for the registry's default.
    pub transport: Vec<String>,
    /// `master_finger`: the fingerprint that the master's identity must have.
    pub master_finger: Option<String>,
    /// `enrolment_token_file`: the file with the token by which the master lets the minion in; none for the default one.
    pub enrolment_token_file: Option<PathBuf>,
    /// `acceptance_wait_time`: how often a minion whose key is not accepted asks again. 10 s
    pub acceptance_wait: Duration,
    /// `acceptance_wait_time_max`: up to which the wait doubles; zero leaves it the same. 0 s
    pub acceptance_wait_max: Duration,
    /// `recon_default`, in milliseconds in the file: the first wait before connecting again. 200 ms
    pub reconnect_first: Duration,
    /// `recon_max`, in milliseconds in the file: the longest. 10,000 ms
    pub reconnect_max: Duration,
    /// `rekey_interval`: how long the keys of a session are used at most. 3,600 s
    pub rekey_interval: Duration,
    /// Sections named by a scheme: options of transports, not yet judged.
    pub transport_options: TransportOptions,
    /// `master_port` of such sections, by scheme.
    pub transport_ports: BTreeMap<String, u16>,
    /// `ssl`: what transports that can encrypt network links with, when it is set.
    pub tls: Option<Tls>,
    /// `max_message_size`: in bytes. 64 MiB
    pub max_message_size: usize,
    /// `keepalive_interval`: the longest time for which this end of a connection says nothing. 5 s
    pub keepalive_interval: Duration,
    /// `process_count_max`: jobs that run at once; the others wait. 128
    pub process_count_max: usize,
    /// `output_file_size`: how much of the output of one command is kept in a file, in bytes. 128 MiB
    pub output_file_size: u64,
    /// `pass_environment`: the names of further variables that commands get. A trailing `*` stands for any text.
    pub pass_environment: Vec<String>,
    /// `module_dirs`: folders with executables that are modules.
    pub module_dirs: Vec<PathBuf>,
    /// `grains_dirs`: folders with executables that print grains.
    pub grains_dirs: Vec<PathBuf>,
    /// `minion_pillar_cache`: whether the pillar is kept in a file too.
    pub pillar_cache: bool,
    /// `spool_sync`: `always` writes the spool through to the disk at every record.
    pub spool_sync_always: bool,
    /// `grains`: facts that the operator adds.
    pub grains: Vec<(String, saline_data::Value)>,
    /// `ipc_transport`: the scheme of the minion's own event bus; none for the registry's default.
    pub ipc_transport: Option<String>,
    /// `schedule` and `schedule_missed`: jobs that run by the clock.
    pub schedule: ScheduleConfig,
    /// `mine_functions`, `mine_interval` and `mine_enabled`: what the minion leaves in the mine.
    pub mine: MineConfig,
    /// `metrics_listen`: where the metrics are served; none by default.
    pub metrics_listen: Option<MetricsAddress>,
    /// `log_level`, `log_file` and the like.
    pub logging: Logging,
}

impl Default for MinionConfig {
    fn default() -> Self {
        Self {
            folder: None,
            shown: saline_data::Value::Null,
            paths: Paths::minion(),
            master: vec![HostPort::new("salt", 4506)],
            master_port: 4506,
            id: None,
            transport: Vec::new(),
            master_finger: None,
            enrolment_token_file: None,
            acceptance_wait: Duration::from_secs(10),
            acceptance_wait_max: Duration::ZERO,
            reconnect_first: Duration::from_millis(200),
            reconnect_max: Duration::from_secs(10),
            rekey_interval: Duration::from_secs(3_600),
            transport_options: TransportOptions::new(),
            transport_ports: BTreeMap::new(),
            tls: None,
            max_message_size: 64 * 1024 * 1024,
            keepalive_interval: Duration::from_secs(5),
            process_count_max: 128,
            output_file_size: 128 * 1024 * 1024,
            pass_environment: Vec::new(),
            module_dirs: Vec::new(),
            grains_dirs: Vec::new(),
            pillar_cache: false,
            spool_sync_always: false,
            grains: Vec::new(),
            ipc_transport: None,
            schedule: ScheduleConfig::default(),
            mine: MineConfig::default(),
            metrics_listen: None,
            logging: Logging::default(),
        }
    }
}

/// The folder of the master's modules, below `cachedir`.
const SYNCED_MODULES: &str = "extmods/modules";

impl MinionConfig {
    /// Returns the limits of connections: `max_message_size`, `keepalive_interval`, and the defaults of the contract.
    pub fn limits(&self) -> Limits {
        crate::role::limits(self.max_message_size, self.keepalive_interval)
    }

    /// Returns the addresses of the master over the transport `scheme`.
    pub fn masters(&self, scheme: &str) -> Vec<HostPort> {
        crate::role::masters(&self.master, &self.transport_ports, scheme)
    }

    /// `state_dir/spool.log`
    pub fn spool(&self) -> PathBuf {
        self.paths.state_dir.join("spool.log")
    }

    /// `cachedir/extmods/modules`: the folder of the modules that the master has for all minions.
    pub fn synced_modules_in(cache_dir: &Path) -> PathBuf {
        cache_dir.join(SYNCED_MODULES)
    }

    /// Whether a module lies in a folder of modules that the master has for all minions.
    pub fn is_synced_module(path: &Path) -> bool {
        path.parent()
            .is_some_and(|folder| folder.ends_with(SYNCED_MODULES))
    }

    /// `cachedir/pillar`: the minion's pillar, where `minion_pillar_cache` says so.
    pub fn cached_pillar(&self) -> PathBuf {
        self.paths.cache_dir.join("pillar")
    }

    /// Returns the folders with executables that are modules: `module_dirs`, then that of the master's modules.
    pub fn all_module_dirs(&self) -> Vec<PathBuf> {
        let synced = Self::synced_modules_in(&self.paths.cache_dir);
        self.module_dirs.iter().cloned().chain([synced]).collect()
    }

    /// `state_dir/schedule_runs.json`: when jobs of the schedule ran.
    pub fn schedule_runs(&self) -> PathBuf {
        self.paths.state_dir.join("schedule_runs.json")
    }

    /// `state_dir/schedule.yaml`: the jobs that functions added to the schedule.
    pub fn saved_schedule(&self) -> PathBuf {
        self.paths.state_dir.join("schedule.yaml")
    }

    /// `pki_dir/master.pub`: the identity of the master that this minion trusts.
    pub fn master_identity(&self) -> PathBuf {
        self.paths.pki_dir.join("master.pub")
    }

    /// `sock_dir/.lock`: held by a running minion.
    pub fn lock_file(&self) -> PathBuf {
        self.paths.sock_dir.join(".lock")
    }

    /// `state_dir/.lock`: held by a running minion, so that no second one with another `sock_dir` uses its spool.
    pub fn spool_lock_file(&self) -> PathBuf {
        self.paths.state_dir.join(".lock")
    }

    /// Returns the file with the token by which the master lets the minion in: `enrolment_token_file`, else `enrolment_token`
    /// beside the configuration. None for a configuration that was not read from a folder.
    pub fn token_file(&self) -> Option<PathBuf> {
        let beside = || Some(self.folder.as_ref()?.join("enrolment_token"));
        self.enrolment_token_file.clone().or_else(beside)
    }

    /// Returns the file `minion_id` in the folder of a configuration, which has the minion's id when `id` is not set.
    pub fn id_file(folder: &Path) -> PathBuf {
        minion_id::path(folder)
    }
}
