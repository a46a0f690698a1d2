//! Why a function was not called, in one line.

use std::io::ErrorKind;

use saline_channel::{ChannelError, KeyError};
use saline_messages::random::NoRandomness;
use saline_messages::{IdError, MinionId, ProtocolVersions};
use saline_protocol::transport;

/// Returns what to do about a key that cannot be read, where the error does not say it.
fn remedy(error: &KeyError) -> &'static str {
    match error {
        KeyError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            "; start saline-minion once, or use --local to do without a master"
        }
        KeyError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            "; run this as the user of saline-minion, or use --local to do without a master"
        }
        _ => "; or use --local to do without a master",
    }
}

/// The reason why a function was not called, or did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The host's name is not a valid minion id.
    #[error("{0}; give the minion an `id` in its configuration, or use --id")]
    Id(#[from] IdError),
    /// The key of the minion cannot be read.
    #[error("{0}{remedy}", remedy = remedy(.0))]
    Key(#[from] KeyError),
    /// The configuration names an unknown transport, or no master.
    #[error(transparent)]
    Config(transport::Error),
    /// No configured transport reaches the master.
    #[error("no master answers at {tried}; use --local to run without a master")]
    NoMaster {
        /// Each endpoint that was tried, and why it failed.
        tried: String,
    },
    /// The master's keys are not the trusted ones, or cannot be read.
    #[error("{0}")]
    Distrust(String),
    /// The session with the master failed.
    #[error(
        "no session with the master at {endpoint}: {source}; use --local to run without a master"
    )]
    Session {
        /// The master's endpoint.
        endpoint: String,
        /// The reason.
        source: ChannelError,
    },
    /// The master does not accept the key of the minion: it waits, was rejected, or is not the one known under the id.
    #[error(
        "the master at {endpoint} does not accept the key here as that of minion {id}: on the master, `saline-key -f {id}` \
         shows the keys that it knows under this id, and `saline-key -a {id}` accepts one that waits; or use --local here"
    )]
    NotAccepted {
        /// The master's endpoint.
        endpoint: String,
        /// The minion.
        id: MinionId,
    },
    /// The master has met a newer Noise key of the minion.
    #[error(
        "the master at {endpoint} refuses minion {id}: it has met a newer noise.key of it; if the disk here was put back, remove \
         noise.key from pki_dir and restart saline-minion, which makes another one"
    )]
    OldNoiseKey {
        /// The master's endpoint.
        endpoint: String,
        /// The minion.
        id: MinionId,
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
    /// The master would not deliver the return to a destination that the call names.
    #[error("the function was not called: {0}")]
    NoDestination(String),
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
