//! The settings that can change while a master runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use saline_config::{
    AccessBlacklist, AccessRule, AccessRules, ExternalAuth, LoginWay, MasterConfig, MineRule,
};
use saline_data::Value;
use saline_messages::MinionId;
use saline_targeting::{Assignments, Nodegroups};

use crate::fileserver::ServedFiles;
use crate::keys::IdFile;
use crate::pillar::PillarSettings;
use crate::wire_time::milliseconds;

/// The configured treatment of unknown keys.
#[derive(Debug, Clone)]
pub struct KeyPolicy {
    /// Accept the keys of unknown ids, and pending keys when they are presented again.
    pub auto_accept: bool,
    /// `autosign_file`: the ids whose keys are accepted in the same way.
    pub autosign: Option<Arc<IdFile>>,
    /// `autoreject_file`: the ids whose keys are rejected, before anything accepts them.
    pub autoreject: Option<Arc<IdFile>>,
    /// Accept every key of every id. For emergencies.
    pub open_mode: bool,
    /// The largest number of pending keys.
    pub max_pending: usize,
}

/// What the configuration decides about a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// This option accepts it.
    Accept(&'static str),
    /// This option rejects it.
    Reject(&'static str),
    /// An operator decides, or a token that the minion brings.
    Nothing,
    /// An operator decides, and nothing else: `autoreject_file` cannot be read.
    OperatorAlone,
}

impl KeyPolicy {
    /// Decides about a new key of this id. A list that cannot be read accepts nobody, and while `autoreject_file` cannot be
    /// read nothing accepts a key. Blocks on the disk.
    pub fn decide(&self, id: &MinionId) -> Decided {
        match self.autoreject.as_ref().map(|file| file.names(id)) {
            Some(Ok(true)) => return Decided::Reject("autoreject_file"),
            Some(Err(_)) => return Decided::OperatorAlone,
            Some(Ok(false)) | None => {}
        }
        if self.auto_accept {
            return Decided::Accept("auto_accept");
        }
        match self.autosign.as_ref().map(|file| file.names(id)) {
            Some(Ok(true)) => Decided::Accept("autosign_file"),
            Some(Ok(false) | Err(_)) | None => Decided::Nothing,
        }
    }
}

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

/// Who may do what.
#[derive(Debug, Default)]
pub(crate) struct AccessSettings {
    /// What users of this machine may do.
    pub(crate) publisher_acl: AccessRules,
    /// Whom and what `publisher_acl` never allows.
    pub(crate) publisher_acl_blacklist: AccessBlacklist,
    /// Whether the rules for everybody are also for those who are named.
    pub(crate) permissive_acl: bool,
    /// Who may log in, by which way, and what they may do then.
    pub(crate) external_auth: ExternalAuth,
    /// What operators with keys of their own may do; none for everything.
    pub(crate) operators: Option<AccessRules>,
    /// What files of the reactor may do; none for everything.
    pub(crate) reactor_acl: Option<Vec<AccessRule>>,
}

impl AccessSettings {
    /// Returns the rules of a user who logs in by this way; none for one who is not named.
    pub(crate) fn external_rules<'a>(
        &'a self,
        way: LoginWay,
        name: &'a str,
        groups: &'a [String],
    ) -> Vec<&'a AccessRule> {
        let rules = self.external_auth.ways.get(&way);
        let own = rules.map(|rules| rules.of(name, groups, self.permissive_acl));
        own.into_iter().flatten().collect()
    }
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

fn id_file(option: &'static str, path: Option<&Path>) -> Option<Arc<IdFile>> {
    path.map(|path| {
        let file = IdFile::new(option, path);
        // The log says what is wrong.
        let _ = file.read();
        Arc::new(file)
    })
}

impl SettingsValues {
    fn of(config: &MasterConfig) -> Self {
        Self {
            policy: KeyPolicy {
                auto_accept: config.auto_accept,
                autosign: id_file("autosign_file", config.autosign_file.as_deref()),
                autoreject: id_file("autoreject_file", config.autoreject_file.as_deref()),
                open_mode: config.open_mode,
                max_pending: config.max_pending_keys,
            },
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
            access: Arc::new(AccessSettings {
                publisher_acl: config.publisher_acl.clone(),
                publisher_acl_blacklist: config.publisher_acl_blacklist.clone(),
                permissive_acl: config.permissive_acl,
                external_auth: config.external_auth.clone(),
                operators: config.operators.clone(),
                reactor_acl: config.reactor.acl.clone(),
            }),
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
