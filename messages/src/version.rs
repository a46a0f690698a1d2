//! The versions that a peer speaks, and what a peer may skip.
//!
//! Both sides tell their protocol versions inside the handshake, and the master answers with the highest common
//! one; the first byte of a header is the version of the envelope alone. What may be skipped travels as a numbered
//! extension. No option chooses versions: `Master::start_with_versions` and `Minion::with_versions` are for tests
//! of a successor.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of this build, as operators see it.
pub const SOFTWARE: &str = env!("CARGO_PKG_VERSION");

/// The longest name of a version that is taken from a peer, in bytes.
pub const MAX_SOFTWARE: usize = 64;

/// The protocol versions that a side speaks. Both sides tell theirs inside the handshake, and the master
/// answers with the one that the session has: the highest that both speak. Nobody in the middle can
/// change what is said there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolVersions {
    /// The lowest version.
    pub lowest: u16,
    /// The highest version.
    pub highest: u16,
}

impl ProtocolVersions {
    /// The versions that this build speaks.
    pub const OURS: Self = Self {
        lowest: 1,
        highest: 1,
    };

    /// Returns the highest version that both sides speak.
    pub fn common(self, other: Self) -> Option<u16> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

impl fmt::Display for ProtocolVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lowest == self.highest {
            true => write!(f, "{}", self.highest),
            false => write!(f, "{} to {}", self.lowest, self.highest),
        }
    }
}

/// A field of a handshake that not every version knows. A peer that does not know the
/// number skips it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// The kind of the extension: [`Self::ATTEMPT_TIME`], [`Self::SUCCESSORS`] or [`Self::TOKEN`].
    pub number: u16,
    /// The content of the extension.
    pub bytes: Vec<u8>,
}

impl Extension {
    /// When the peer began the handshake: nanoseconds since 1970 by its own clock, 8 bytes, big-endian. The
    /// master takes each time once from a key, so that a `Resume` which was captured is recognised. After
    /// WireGuard's timestamp.
    pub const ATTEMPT_TIME: u16 = 1;

    /// The identities that a master had before, each of which signed its successor, from the oldest to the one that the
    /// master has now. The channel makes and reads the bytes.
    pub const SUCCESSORS: u16 = 2;

    /// A token that lets a minion in. It is secret, and travels in the last message of a first contact alone, to the master
    /// that made it. The channel makes and reads the bytes.
    pub const TOKEN: u16 = 3;

    /// Creates the extension that says when the handshake began.
    pub fn attempt_time(time: u64) -> Self {
        Self {
            number: Self::ATTEMPT_TIME,
            bytes: time.to_be_bytes().to_vec(),
        }
    }

    /// Finds among extensions when the handshake began; none when that is not said.
    pub fn find_attempt_time(extensions: &[Self]) -> Option<u64> {
        let bytes = Self::find(extensions, Self::ATTEMPT_TIME)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }

    /// Creates the extension that names the predecessors of a master's identity.
    pub fn successors(bytes: Vec<u8>) -> Self {
        Self {
            number: Self::SUCCESSORS,
            bytes,
        }
    }

    /// Returns the content of the extension with the predecessors of a master's identity, if it is among these.
    pub fn find_successors(extensions: &[Self]) -> Option<&[u8]> {
        Self::find(extensions, Self::SUCCESSORS)
    }

    /// Creates the extension with a token.
    pub fn token(bytes: Vec<u8>) -> Self {
        Self {
            number: Self::TOKEN,
            bytes,
        }
    }

    /// Returns the content of the extension with a token, if it is among these.
    pub fn find_token(extensions: &[Self]) -> Option<&[u8]> {
        Self::find(extensions, Self::TOKEN)
    }

    /// Returns the content of the first extension with this number.
    fn find(extensions: &[Self], number: u16) -> Option<&[u8]> {
        let mut found = extensions
            .iter()
            .filter(|extension| extension.number == number);
        Some(&found.next()?.bytes)
    }
}

/// Shows no content, since that may be secret.
impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extension({}, {} bytes)", self.number, self.bytes.len())
    }
}

/// The protocol version of a session, and the software at its other end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerVersion {
    /// The protocol version of the session.
    pub protocol: u16,
    /// The version of the peer's software, as the peer tells it.
    pub software: String,
}

impl PeerVersion {
    /// Stands for the version with a peer that speaks no common one, and gets no session.
    pub const NONE: u16 = 0;
}

/// Returns whether a version that a peer tells can be shown to operators: printable ASCII, and at most
/// [`MAX_SOFTWARE`] bytes.
pub fn is_presentable(software: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    software.len() <= MAX_SOFTWARE && software.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_spoken() {
        let versions = |lowest, highest| ProtocolVersions { lowest, highest };
        for (ours, theirs, common) in [
            (versions(1, 1), versions(1, 1), Some(1)),
            (versions(1, 2), versions(1, 1), Some(1)),
            (versions(1, 2), versions(2, 3), Some(2)),
            (versions(2, 3), versions(1, 1), None),
            (versions(1, 3), versions(2, 2), Some(2)),
            // What makes no sense speaks nothing.
            (versions(1, 3), versions(3, 1), None),
        ] {
            assert_eq!(ours.common(theirs), common, "{ours} and {theirs}");
            assert_eq!(theirs.common(ours), common, "{theirs} and {ours}");
        }
    }
}
