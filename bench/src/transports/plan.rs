//! The measurements, and the amount of work of each.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Everything that one run measures.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) backends: Vec<String>,
    pub(crate) works: Vec<Work>,
    /// How often ours and bare take turns.
    pub(crate) pairs: usize,
    /// How long one measurement counts.
    pub(crate) seconds: f64,
    /// Threads of each half's runtime.
    pub(crate) workers: usize,
    /// Only our side.
    pub(crate) alone: bool,
    pub(crate) json: Option<PathBuf>,
}

/// The carrier of the work: a transport of the contract, or a bare library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Over {
    /// Ours.
    Contract,
    /// The bare library, doing the same work.
    Bare,
    /// The bare library in one loop over a buffer, which hands nobody a reply: what no program that
    /// does the work can reach.
    Loop,
}

impl Over {
    /// Returns the carriers to compare for `work` on `backend`, ours first.
    pub(crate) fn all(backend: &str, work: Work) -> &'static [Self] {
        match (backend, work) {
            ("tcp" | "quic", Work::Requests { .. }) => &[Self::Contract, Self::Bare, Self::Loop],
            ("tcp" | "quic" | "zeromq", _) => &[Self::Contract, Self::Bare],
            _ => &[Self::Contract],
        }
    }
}

/// The work that every side does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// One client keeps so many requests outstanding; each is echoed.
    Requests { outstanding: usize, bytes: usize },
    /// One publisher, so many subscribers with a connection each.
    FanOut { subscribers: usize, bytes: usize },
}

impl Work {
    /// The size of a payload.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Requests { bytes, .. } | Self::FanOut { bytes, .. } => bytes,
        }
    }

    /// How many connections that client or those subscribers make.
    pub(crate) fn clients(self) -> usize {
        match self {
            Self::Requests { .. } => 1,
            Self::FanOut { subscribers, .. } => subscribers,
        }
    }

    /// Returns the name in the JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Requests { .. } => "requests",
            Self::FanOut { .. } => "fan_out",
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests { outstanding, bytes } => {
                write!(f, "requests, {outstanding} outstanding, {bytes} B")
            }
            Self::FanOut { subscribers, bytes } => {
                write!(f, "fan-out to {subscribers}, {bytes} B")
            }
        }
    }
}

/// One measurement, as both halves need to know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) backend: String,
    pub(crate) over: Over,
    pub(crate) work: Work,
    pub(crate) seconds: f64,
    /// Threads of each half's runtime.
    pub(crate) workers: usize,
    /// Where the server process serves, as it wrote it for its own client process.
    pub(crate) at: Vec<String>,
}

impl Spec {
    /// How long it counts.
    pub(crate) fn run(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// How long it runs before it counts.
    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.min(1.0) / 5.0)
    }
}
