//! The settings that can change while a master runs.

mod access;
mod id_file;
mod key_policy;
mod pillar_settings;
mod served_files;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use saline_config::{MasterConfig, MineRule};
use saline_data::Value;
use saline_targeting::{Assignments, Nodegroups};

pub(crate) use access::AccessSettings;
pub use id_file::IdFile;
pub use key_policy::{Decided, KeyPolicy};
pub(crate) use pillar_settings::PillarSettings;
pub(crate) use served_files::{ServedFiles, inner_path};

use crate::wire_time::milliseconds;

/// The rate at which one minion and its callers may fire events: `minion_event_rate` and `minion_event_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRates {
    /// The number of events in a second; none for no bound.
    pub events: Option<u64>,
    /// The bytes of tags and data in a second; none for no bound.
    pub bytes: Option<u64>,
}

/// When a job becomes a batch though nobody asked for one, from the master's configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SafeBatch {
    /// The number of matched minions from which a job becomes a batch; 0 for never. Salt's `batch_safe_limit`.
    pub(crate) limit: u32,
    /// The size of such a batch. Salt's `batch_safe_size`.
    pub(crate) size: u32,
}

/// What root says of minions.
#[derive(Debug, Default)]
pub struct RootFacts {
    /// `minions.d`: the roles and attributes of minions.
    pub(crate) assignments: Assignments,
    /// `trusted_grains`: the grains that minions are believed.
    pub(crate) trusted_grains: BTreeSet<String>,
}

/// The values of the settings at one moment.
#[derive(Debug, Clone)]
pub struct SettingsValues {
    /// The treatment of unknown keys.
    pub policy: KeyPolicy,
    /// The largest number of connected minions; 0 for no limit.
    pub max_minions: usize,
    /// How long an offered job may be begun, in milliseconds.
    pub job_ttl: u64,
    /// How long jobs are kept, in milliseconds.
    pub keep_jobs: u64,
    /// How long a pending key is kept that its minion does not present; none for ever.
    pub pending_key_expiry: Option<Duration>,
    /// How long a group key is used.
    pub publish_session: Duration,
    /// The events that one minion may fire in a second.
    pub event_rates: EventRates,
    /// When a job becomes a batch though nobody asked for one.
    pub(crate) safe_batch: SafeBatch,
    /// The names for targets.
    pub nodegroups: Arc<Nodegroups>,
    /// What root says of minions.
    pub root_facts: Arc<RootFacts>,
    /// The files that minions may read.
    pub(crate) files: Arc<ServedFiles>,
    /// Where pillars come from.
    pub(crate) pillar: Arc<PillarSettings>,
    /// Which minions may get what from the mine; none for everything.
    pub(crate) mine_get: Option<Arc<[MineRule]>>,
    /// Who may do what.
    pub(crate) access: Arc<AccessSettings>,
    /// The size in bytes at which a new audit file is begun.
    pub audit_max_bytes: u64,
    /// How long a runner waits for minions without a sign of life.
    pub timeout: Duration,
    /// Every option of the master by its name, as it is in force.
    pub options: Arc<Value>,
}

impl SettingsValues {
    fn of(config: &MasterConfig) -> Self {
        Self {
            policy: KeyPolicy::of(config),
            max_minions: config.max_minions,
            job_ttl: milliseconds(config.job_ttl),
            keep_jobs: milliseconds(config.keep_jobs),
            pending_key_expiry: config.pending_key_expiry,
            publish_session: config.publish_session,
            event_rates: EventRates {
                events: config.minion_event_rate,
                bytes: config.minion_event_bytes,
            },
            safe_batch: SafeBatch {
                limit: config.batch_safe_limit,
                size: config.batch_safe_size,
            },
            nodegroups: Arc::new(config.nodegroups.clone()),
            root_facts: Arc::new(RootFacts {
                assignments: config.assignments.clone(),
                trusted_grains: config.trusted_grains.clone(),
            }),
            files: Arc::new(ServedFiles::of(config)),
            pillar: Arc::new(PillarSettings::of(config)),
            mine_get: config.mine_get.clone().map(Arc::from),
            access: Arc::new(AccessSettings::of(config)),
            audit_max_bytes: config.audit_max_bytes,
            timeout: config.timeout,
            options: Arc::new(config.options.clone()),
        }
    }
}

/// The settings that can change while a master runs. Clones share them.
#[derive(Debug, Clone)]
pub struct LiveSettings(Arc<RwLock<SettingsValues>>);

impl LiveSettings {
    /// Takes the settings from `config`.
    pub fn new(config: &MasterConfig) -> Self {
        Self(Arc::new(RwLock::new(SettingsValues::of(config))))
    }

    /// Returns the values of now.
    pub fn now(&self) -> SettingsValues {
        let values = self.0.read().unwrap_or_else(PoisonError::into_inner);
        values.clone()
    }

    /// Returns who may do what now.
    pub(crate) fn access(&self) -> Arc<AccessSettings> {
        let values = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&values.access)
    }

    /// Returns the files that minions may read now.
    pub(crate) fn files(&self) -> Arc<ServedFiles> {
        let values = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&values.files)
    }

    /// Takes other values over.
    pub fn set(&self, config: &MasterConfig) {
        let mut values = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *values = SettingsValues::of(config);
    }
}
