//! How far the minion is on its way to its master, for logs and SIGUSR1.

use std::fmt;
use std::sync::{Mutex, PoisonError};

/// How far the minion is on its way to its master.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Stage {
    /// Nothing has been tried yet.
    #[default]
    Starting,
    /// Looks for a master there.
    Connecting(String),
    /// Makes a session.
    Authenticating(String),
    /// The master has not accepted the key yet.
    Pending,
    /// The master does not take the minion.
    Refused(&'static str),
    /// The master is not the one that is trusted.
    WrongMaster,
    /// There is a session.
    Attending(String),
    /// On the way out.
    Draining,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Connecting(to) => write!(f, "connecting to {to}"),
            Self::Authenticating(to) => write!(f, "authenticating at {to}"),
            Self::Pending => f.write_str("waiting for its key to be accepted"),
            Self::Refused(why) => write!(f, "not taken by the master: {why}"),
            Self::WrongMaster => f.write_str("refusing a master with another key"),
            Self::Attending(session) => write!(f, "attending, {session}"),
            Self::Draining => f.write_str("draining"),
        }
    }
}

/// The stage now.
#[derive(Debug, Default)]
pub struct CurrentStage(Mutex<Stage>);

impl CurrentStage {
    /// Changes it; true when it was another one.
    pub fn set(&self, stage: Stage) -> bool {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *current != stage;
        *current = stage;
        changed
    }

    /// It.
    pub fn get(&self) -> Stage {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
