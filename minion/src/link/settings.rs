//! How the minion reaches its master, which can change while it runs.

use std::sync::Arc;
use std::time::Duration;

use saline_config::MinionConfig;
use saline_protocol::transport::{Backoff, Registry, Result};
use tokio::sync::watch;

use super::candidate::{Candidate, candidates};

/// The longest delay of a refused minion, unless `acceptance_wait_time_max` is set.
const MAX_REFUSED_DELAY: Duration = Duration::from_secs(300);

/// The shortest delay after a master with another key.
const MIN_WRONG_MASTER_DELAY: Duration = Duration::from_secs(5);

/// The delays between attempts to authenticate, each at its beginning.
#[derive(Debug, Clone)]
pub struct Delays {
    /// After an attempt that did not reach the master.
    pub reconnect: Backoff,
    /// After a refusal.
    pub refused: Backoff,
    /// After a master with another key than the trusted one.
    pub wrong_master: Backoff,
    /// Between polls of a pending key, at first and at most.
    pub poll: (Duration, Duration),
}

impl Delays {
    fn of(config: &MinionConfig) -> Self {
        let (first, most) = (config.acceptance_wait, config.acceptance_wait_max);
        Self {
            reconnect: Backoff::new(config.reconnect_first, config.reconnect_max),
            refused: Backoff::new(
                first,
                if most.is_zero() {
                    MAX_REFUSED_DELAY
                } else {
                    most
                },
            ),
            wrong_master: Backoff::new(MIN_WRONG_MASTER_DELAY.min(first), MAX_REFUSED_DELAY),
            poll: (first, most.max(first)),
        }
    }
}

/// How the minion reaches its master.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// The places at which the master may be, the preferred one first.
    pub candidates: Vec<Candidate>,
    /// The delays between attempts.
    pub delays: Delays,
    /// How long the keys of a session are used at most: `rekey_interval`.
    pub rekey: Duration,
    /// `master_finger`
    pub finger: Option<String>,
}

impl ConnectionSettings {
    /// Takes the settings from a configuration.
    ///
    /// # Errors
    /// `Config` for an unknown transport or a wrong option of one, or when no master is configured.
    pub fn of(config: &MinionConfig, registry: &Registry) -> Result<Self> {
        Ok(Self {
            candidates: candidates(config, registry)?,
            delays: Delays::of(config),
            rekey: config.rekey_interval,
            finger: config.master_finger.clone(),
        })
    }
}

/// Notices that the settings have changed since they were seen.
pub type Changes = watch::Receiver<Arc<ConnectionSettings>>;

/// The settings of now. Clones share them.
#[derive(Debug, Clone)]
pub struct LiveConnectionSettings(Arc<watch::Sender<Arc<ConnectionSettings>>>);

impl LiveConnectionSettings {
    /// Begins with these settings.
    pub fn new(settings: ConnectionSettings) -> Self {
        Self(Arc::new(watch::Sender::new(Arc::new(settings))))
    }

    /// Returns the settings of now.
    pub fn now(&self) -> Arc<ConnectionSettings> {
        Arc::clone(&self.0.borrow())
    }

    /// Takes other settings over.
    pub fn set(&self, settings: ConnectionSettings) {
        self.0.send_replace(Arc::new(settings));
    }

    /// Returns a receiver of changes after this call.
    pub fn subscribe(&self) -> Changes {
        self.0.subscribe()
    }
}
