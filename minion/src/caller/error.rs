//! Why a function was not called, in one line.

use saline_protocol::channel::{ChannelError, KeyError};
use saline_protocol::message::{IdError, MinionId, ProtocolVersions};
use saline_protocol::random::NoRandomness;
use saline_protocol::transport;

/// The reason why a function was not called, or did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The host's name is not a valid minion id.
    #[error("{0}; give the minion an `id` in its configuration, or use --id")]
    Id(#[from] IdError),
    /// The key of the minion cannot be read.
    #[error("{0}; start saline-minion once, or use --local to do without a master")]
    Key(#[from] KeyError),
    /// The configuration names an unknown transport, or no master.
    #[error(transparent)]
    Config(transport::Error),
    /// No configured transport reaches the master.
    #[error("no master answers at {tried}; use --local to do without one")]
    NoMaster {
        /// Each endpoint that was tried, and why it failed.
        tried: String,
    },
    /// The master's keys are not the trusted ones, or cannot be read.
    #[error("{0}")]
    Distrust(String),
    /// The session with the master failed.
    #[error("no session with the master at {endpoint}: {source}; use --local to do without one")]
    Session {
        /// The master's endpoint.
        endpoint: String,
        /// The reason.
        source: ChannelError,
    },
    /// The master has not accepted the key of the minion.
    #[error(
        "the master at {endpoint} has not accepted the key of minion {id}: on the master, run \
         `saline-key -a {id}`, or use --local here"
    )]
    NotAccepted {
        /// The master's endpoint.
        endpoint: String,
        /// The minion.
        id: MinionId,
    },
    /// The master knows another key under the id.
    #[error(
        "the master at {endpoint} knows another key as that of minion {id}: call with the id that belongs to the key here, \
         or let this key in instead with `saline-key -a {id} --include-denied` on the master"
    )]
    Denied {
        /// The master's endpoint.
        endpoint: String,
        /// The minion.
        id: MinionId,
    },
    /// The key of the minion was rejected.
    #[error(
        "the master at {endpoint} has rejected the key of minion {id}: on the master, run \
         `saline-key -a {id} --include-rejected`, or use --local here"
    )]
    Rejected {
        /// The master's endpoint.
        endpoint: String,
        /// The minion.
        id: MinionId,
    },
    /// The master takes no more minions, or no more pending keys.
    #[error(
        "the master at {endpoint} takes no more minions or keys now: try later, or use --local"
    )]
    Full {
        /// The master's endpoint.
        endpoint: String,
    },
    /// The master speaks no common version of the protocol.
    #[error(
        "the master at {endpoint} is Saline {software} and speaks protocol {versions}, with which this \
         saline-call has nothing in common: upgrade the older one"
    )]
    NoCommonVersion {
        /// The master's endpoint.
        endpoint: String,
        /// The versions that the master speaks.
        versions: ProtocolVersions,
        /// The master's software.
        software: String,
    },
    /// The function was interrupted by a signal.
    #[error("the function was interrupted")]
    Interrupted,
    /// The eventfd that interrupts the function cannot be created.
    #[error("cannot create an eventfd: {0}")]
    Eventfd(std::io::Error),
    /// The system refuses handlers of signals.
    #[error("cannot catch signals: {0}")]
    Signals(std::io::Error),
    /// The system has no randomness.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}
