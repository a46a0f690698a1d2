//! What both sides say first: which versions they speak, and what they allow.
//!
//! The body of a greeting is `"saline", lowest version u8, highest version u8, ping u32 (ms), largest
//! payload u64, count of extensions u8`, and each extension `number u16, length u16, bytes`. An
//! extension whose number a peer does not know is skipped.

use std::time::Duration;

use bytes::Buf;
use saline_protocol::transport::Limits;

use super::frame::{FrameKind, HEADER, Violation, header};

/// The versions of the wire that this engine speaks.
pub(crate) const VERSIONS: Versions = Versions {
    lowest: 1,
    highest: 1,
};

const MAGIC: &[u8; 6] = b"saline";
/// The body of a greeting without extensions.
pub(crate) const SHORTEST: usize = MAGIC.len() + 2 + 4 + 8 + 1;
/// The longest body of a greeting that is read.
pub(crate) const LONGEST: usize = 4 * 1024;

/// A range of versions of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) lowest: u8,
    pub(crate) highest: u8,
}

impl Versions {
    /// Returns the highest version that both ranges have.
    pub(crate) fn common(self, other: Self) -> Option<u8> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.lowest == self.highest {
            true => write!(f, "version {}", self.lowest),
            false => write!(f, "versions {} to {}", self.lowest, self.highest),
        }
    }
}

/// What one side says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) versions: Versions,
    /// How often it wants to hear something.
    pub(crate) ping: Duration,
    /// The largest payload that it takes, in bytes.
    pub(crate) max_message: usize,
}

impl Greeting {
    /// Returns what an end with these limits says.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            versions: VERSIONS,
            ping: limits.ping_interval,
            max_message: limits.max_message,
        }
    }

    /// Returns the whole frame.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + SHORTEST);
        bytes.extend_from_slice(&header(FrameKind::Greeting, SHORTEST));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[self.versions.lowest, self.versions.highest]);
        let ping = u32::try_from(self.ping.as_millis()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&ping.to_le_bytes());
        bytes.extend_from_slice(&(self.max_message as u64).to_le_bytes());
        bytes.push(0);
        bytes
    }

    /// Reads the body of a greeting.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Violation> {
        let mut rest = body
            .strip_prefix(MAGIC)
            .filter(|rest| rest.len() >= SHORTEST - MAGIC.len())
            .ok_or(Violation("its greeting is none of Saline's"))?;
        let greeting = Self {
            versions: Versions {
                lowest: rest.get_u8(),
                highest: rest.get_u8(),
            },
            ping: Duration::from_millis(rest.get_u32_le().into()),
            max_message: usize::try_from(rest.get_u64_le()).unwrap_or(usize::MAX),
        };
        let extensions = rest.get_u8();
        for _ in 0..extensions {
            rest = skip_extension(rest).ok_or(Violation("an extension that is cut off"))?;
        }
        match rest.is_empty() {
            true => Ok(greeting),
            false => Err(Violation("a greeting that is too long")),
        }
    }
}

/// Returns what stands behind the extension at the front of `bytes`. None is known yet.
fn skip_extension(bytes: &[u8]) -> Option<&[u8]> {
    let (_number, rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = rest.split_first_chunk()?;
    rest.get(usize::from(u16::from_le_bytes(*length))..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(versions: (u8, u8), extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let greeting = Greeting {
            versions: Versions {
                lowest: versions.0,
                highest: versions.1,
            },
            ..Greeting::new(&Limits::default())
        };
        let mut body = greeting.encode().split_off(HEADER);
        body[SHORTEST - 1] = extensions.len() as u8;
        for (number, bytes) in extensions {
            body.extend_from_slice(&number.to_le_bytes());
            body.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            body.extend_from_slice(bytes);
        }
        body
    }

    #[test]
    fn the_highest_common_version_is_chosen() {
        let versions = |lowest, highest| Versions { lowest, highest };
        assert_eq!(versions(1, 3).common(versions(2, 5)), Some(3));
        assert_eq!(versions(2, 5).common(versions(1, 3)), Some(3));
        assert_eq!(versions(1, 1).common(versions(1, 1)), Some(1));
        assert_eq!(versions(1, 2).common(versions(3, 4)), None);
        assert_eq!(versions(3, 4).common(versions(1, 2)), None);
        assert_eq!(versions(2, 1).common(versions(1, 2)), None);
    }

    #[test]
    fn a_log_names_the_versions() {
        let text = |lowest, highest| Versions { lowest, highest }.to_string();
        assert_eq!(text(2, 2), "version 2");
        assert_eq!(text(1, 3), "versions 1 to 3");
    }

    #[test]
    fn a_greeting_comes_as_it_went() {
        let mut limits = Limits::default();
        limits.ping_interval = Duration::from_millis(1234);
        limits.max_message = 56_789;
        let greeting = Greeting::new(&limits);
        let bytes = greeting.encode();
        assert_eq!(bytes.len(), HEADER + SHORTEST);
        assert_eq!(Greeting::decode(&bytes[HEADER..]), Ok(greeting));
        assert_eq!(greeting.ping, limits.ping_interval);
        assert_eq!((SHORTEST, LONGEST), (21, 4096));
    }

    proptest! {
        #[test]
        fn extensions_of_a_newer_peer_are_skipped(
            extensions in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..50)), 0..9),
            versions in (any::<u8>(), any::<u8>()),
        ) {
            let greeting = Greeting::decode(&body(versions, &extensions)).unwrap();
            let (lowest, highest) = versions;
            prop_assert_eq!(greeting.versions, Versions { lowest, highest });
            prop_assert_eq!(greeting.max_message, Limits::default().max_message);
        }

        #[test]
        fn a_greeting_that_is_cut_off_or_too_long_is_refused(
            extension in prop::collection::vec(any::<u8>(), 1..50),
            cut in 1usize..20,
        ) {
            let mut whole = body((1, 1), &[(7, extension)]);
            let short = &whole[..whole.len() - cut.min(whole.len())];
            prop_assert!(Greeting::decode(short).is_err());
            whole.push(0);
            prop_assert!(Greeting::decode(&whole).is_err());
        }

        #[test]
        fn whatever_comes_is_no_reason_to_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Greeting::decode(&bytes);
            let _ = Greeting::decode(&[&MAGIC[..], &bytes].concat());
        }
    }
}
