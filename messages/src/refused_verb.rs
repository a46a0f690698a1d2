//! The reasons why a request in a session is refused.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason why a request in a session was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusedVerb {
    /// The bytes are no request of this audience.
    Malformed,
    /// The session has ended: another one of the same minion took its place.
    Replaced,
    /// The session has ended: its key was deleted or rejected.
    KeyGone,
    /// The master stops.
    ShuttingDown,
}

impl fmt::Display for RefusedVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the master cannot read it",
            Self::Replaced => "another session has taken the place of this one",
            Self::KeyGone => "the key was deleted or rejected",
            Self::ShuttingDown => "the master stops",
        })
    }
}
