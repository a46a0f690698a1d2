//! The errors of sessions and key files.

use std::path::PathBuf;
use std::time::Duration;

use saline_messages::random::NoRandomness;
use saline_messages::{DecodeError, EnvelopeError, Refusal};
use saline_protocol::transport;

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file system failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation: read, write, create.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The file does not hold a key.
    #[error("{} does not hold {what}", path.display())]
    NotAKey {
        /// The expected content.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Others can read a private key.
    #[error(
        "others can read the private key {} (mode {mode:o}): chmod 600 it; if somebody may have read it, delete it instead \
         (with identity.key also identity.pub) and start again: a new key is made",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// The private key is missing although `identity.pub` exists: a new identity would be refused by every peer that
    /// trusts the old one.
    #[error(
        "the private key {} is missing, but identity.pub is there: put the key back from a copy, or remove identity.pub \
         to make a new identity, which peers that trust the old one will refuse",
        path.display()
    )]
    Lost {
        /// The file of the private key.
        path: PathBuf,
    },
    /// The next identity is there without the present one, which has to sign it.
    #[error(
        "{} is there, and identity.key, which has to sign it as its successor, is not: put identity.key back from a copy; \
         without one remove this file, and a new identity is made, which peers that trust the old one refuse",
        path.display()
    )]
    NextAlone {
        /// The file of the next private key.
        path: PathBuf,
    },
    /// The text does not hold a key.
    #[error("not {0}")]
    Malformed(&'static str),
    /// The system has no randomness.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// The reason why a handshake or a record failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// The peer refused the message before it opened it. The refusal is not authenticated: a hint.
    #[error("the master refused a message: {0}")]
    Refused(Refusal),
    /// The master is busy, and asks for a delay.
    #[error("the master is busy; try again in {} ms", after.as_millis())]
    Busy {
        /// The delay.
        after: Duration,
    },
    /// The bytes are not an envelope.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The bytes inside an envelope are not the expected message.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A message of the wrong kind, session or number.
    #[error("the reply does not belong to the request")]
    Mismatch,
    /// The message does not open with this session's key.
    #[error("a message does not open: it was changed on the way or sealed with another key")]
    Forged,
    /// The counter was used before, or is too old to tell.
    #[error("a message was replayed")]
    Replayed,
    /// Noise failed.
    #[error("the handshake failed: {0}")]
    Noise(snow::Error),
    /// The introduction is not signed by the identity that it names.
    #[error("the other side does not hold the identity that it names")]
    NotVouched,
    /// The master has another identity than the trusted one.
    #[error("the master's key has changed: its fingerprint is {found}, trusted is {expected}")]
    WrongMaster {
        /// The trusted fingerprint.
        expected: String,
        /// The fingerprint that the master showed.
        found: String,
    },
    /// The master's identity is the trusted one, and its Noise key is one that it has replaced.
    #[error(
        "the master that answers shows a session key that the master has replaced: somebody may have copied its old \
         noise.key, or the master was restored from an old copy"
    )]
    OldNoiseKey,
}

impl From<snow::Error> for ChannelError {
    fn from(error: snow::Error) -> Self {
        Self::Noise(error)
    }
}
