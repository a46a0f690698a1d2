//! The state of the minion's connection to its master, for logs and SIGUSR1.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The state of the minion's connection to its master.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ConnectionState {
    /// The minion has not tried to connect yet.
    #[default]
    Starting,
    /// The minion connects to this endpoint.
    Connecting(String),
    /// The minion makes a session at this endpoint.
    Authenticating(String),
    /// The master has not accepted the minion's key yet.
    Pending,
    /// The master refuses the minion, for this reason.
    Refused(&'static str),
    /// The master that answers is not the trusted one.
    WrongMaster,
    /// The minion has this session.
    Connected(String),
    /// The minion has a session, and its connection to this endpoint has been down for seconds.
    Down(String),
    /// The minion stops.
    Draining,
}

impl ConnectionState {
    /// Whether a minion is in this state before it has a session.
    pub fn is_before_a_session(&self) -> bool {
        !matches!(self, Self::Connected(_) | Self::Down(_) | Self::Draining)
    }
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Connecting(to) => write!(f, "connecting to {to}"),
            Self::Authenticating(to) => write!(f, "authenticating at {to}"),
            Self::Pending => f.write_str("waiting for its key to be accepted"),
            Self::Refused(why) => write!(f, "refused by the master: {why}"),
            Self::WrongMaster => f.write_str("refusing a master with another key"),
            Self::Connected(session) => write!(f, "connected, {session}"),
            Self::Down(at) => write!(f, "the connection to {at} is down"),
            Self::Draining => f.write_str("draining"),
        }
    }
}

/// The current state. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CurrentState(Arc<Mutex<ConnectionState>>);

impl CurrentState {
    /// Sets the state. Returns whether it was another one before.
    pub fn set(&self, state: ConnectionState) -> bool {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *current != state;
        *current = state;
        changed
    }

    /// Returns the current state.
    pub fn get(&self) -> ConnectionState {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}
