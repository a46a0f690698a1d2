//! What can go wrong between two ends of a session.

use std::path::PathBuf;
use std::time::Duration;

use super::PublicIdentity;
use crate::message::{DecodeError, EnvelopeError, Refusal};
use crate::random::NoRandomness;
use crate::transport;

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file system says no.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// Read, write, create.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not a key.
    #[error("{} does not hold {what}", path.display())]
    NotAKey {
        /// What it should hold.
        what: &'static str,
        /// Which.
        path: PathBuf,
    },
    /// No key in this text.
    #[error("not {0}")]
    Malformed(&'static str),
    /// The system has no randomness.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// Why a handshake or a record failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// It did not travel.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// The other side refused it before looking at it. A hint: nobody vouches for it.
    #[error("the master refused the message: {0:?}")]
    Refused(Refusal),
    /// The other side asks to come again later.
    #[error("the master is busy, come again in {} ms", after.as_millis())]
    Busy {
        /// How long to wait.
        after: Duration,
    },
    /// The bytes are not an envelope.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The bytes inside are not the message that was expected.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A message of the wrong kind, session or number.
    #[error("the answer does not belong to the question")]
    Mismatch,
    /// It does not open with this session's key.
    #[error("a message does not open: it was changed on the way or sealed by somebody else")]
    Forged,
    /// Its counter was seen, or is too old to tell.
    #[error("a message came twice")]
    Replayed,
    /// Noise failed.
    #[error("the handshake failed: {0}")]
    Noise(snow::Error),
    /// An introduction is not signed by the identity that it names.
    #[error("the other side does not hold the identity that it names")]
    NotVouched,
    /// The master has another identity than the one that is trusted.
    #[error("the master's key has changed: its fingerprint is {found}, trusted is {expected}")]
    WrongMaster {
        /// The trusted fingerprint.
        expected: String,
        /// The one that the master showed.
        found: String,
    },
}

impl ChannelError {
    pub(super) fn wrong_master(expected: &PublicIdentity, found: &PublicIdentity) -> Self {
        Self::WrongMaster {
            expected: expected.fingerprint(),
            found: found.fingerprint(),
        }
    }
}

impl From<snow::Error> for ChannelError {
    fn from(error: snow::Error) -> Self {
        Self::Noise(error)
    }
}
