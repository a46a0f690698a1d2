//! The greeting: the versions that each side speaks, and the limits that it sets.
//!
//! The body of a greeting is `"saline", lowest version u8, highest version u8, ping u32 (ms), largest
//! payload u64, count of extensions u8`, and each extension `number u16, length u16, bytes`. An
//! extension whose number a peer does not know is skipped.
//!
//! | number | said by | bytes |
//! |---|---|---|
//! | 1 | clients that want to be told when they are admitted | |
//! | 2 | servers with limits before admission | `largest payload u64, filters u32` |
//!
//! Bytes of an extension beyond these are left to later versions.

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
/// The extension of a client that wants to be told when it is admitted.
const HEARS_ADMISSION: u16 = 1;
/// The extension of a server that limits clients until they are admitted.
const BEFORE_ADMISSION: u16 = 2;

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

/// The limits of a server for a client that it has not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BeforeAdmission {
    /// The largest payload of a request, in bytes.
    pub(crate) max_message: usize,
    /// The most filters of all subscriptions together.
    pub(crate) filters: usize,
}

/// The greeting of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) versions: Versions,
    /// How often it wants to hear something.
    pub(crate) ping: Duration,
    /// The largest payload that it takes, in bytes.
    pub(crate) max_message: usize,
    /// A client that wants to be told when it is admitted.
    pub(crate) hears_admission: bool,
    /// The limits of a server until it has admitted the client, if they are tighter.
    pub(crate) before_admission: Option<BeforeAdmission>,
}

impl Greeting {
    /// Returns what an end says that has nothing to say of admission.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            versions: VERSIONS,
            ping: limits.ping_interval,
            max_message: limits.max_message,
            hears_admission: false,
            before_admission: None,
        }
    }

    /// Returns what a client with these limits says.
    pub(crate) fn of_client(limits: &Limits) -> Self {
        Self {
            hears_admission: true,
            ..Self::new(limits)
        }
    }

    /// Returns what a server with these limits says.
    pub(crate) fn of_server(limits: &Limits) -> Self {
        let before_admission = limits.admission.as_ref().map(|admission| BeforeAdmission {
            max_message: admission.max_message,
            filters: admission.subscriptions,
        });
        Self {
            before_admission,
            ..Self::new(limits)
        }
    }

    /// Returns the whole frame.
    pub(crate) fn encode(self) -> Vec<u8> {
        let (mut extensions, mut count) = (Vec::new(), 0);
        let mut extend = |number: u16, fields: &[&[u8]]| {
            let length = fields.iter().map(|field| field.len()).sum::<usize>();
            extensions.extend_from_slice(&number.to_le_bytes());
            extensions.extend_from_slice(&(length as u16).to_le_bytes());
            extensions.extend(fields.iter().copied().flatten());
            count += 1;
        };
        if self.hears_admission {
            extend(HEARS_ADMISSION, &[]);
        }
        if let Some(before) = self.before_admission {
            let filters = u32::try_from(before.filters).unwrap_or(u32::MAX);
            let largest = (before.max_message as u64).to_le_bytes();
            extend(BEFORE_ADMISSION, &[&largest, &filters.to_le_bytes()]);
        }
        let length = SHORTEST + extensions.len();
        let mut bytes = Vec::with_capacity(HEADER + length);
        bytes.extend_from_slice(&header(FrameKind::Greeting, length));
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[self.versions.lowest, self.versions.highest]);
        let ping = u32::try_from(self.ping.as_millis()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&ping.to_le_bytes());
        bytes.extend_from_slice(&(self.max_message as u64).to_le_bytes());
        bytes.push(count);
        bytes.append(&mut extensions);
        bytes
    }

    /// Reads the body of a greeting.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Violation> {
        let mut rest = body
            .strip_prefix(MAGIC)
            .filter(|rest| rest.len() >= SHORTEST - MAGIC.len())
            .ok_or(Violation("its greeting is none of Saline's"))?;
        let mut greeting = Self {
            versions: Versions {
                lowest: rest.get_u8(),
                highest: rest.get_u8(),
            },
            ping: Duration::from_millis(rest.get_u32_le().into()),
            max_message: usize::try_from(rest.get_u64_le()).unwrap_or(usize::MAX),
            hears_admission: false,
            before_admission: None,
        };
        let extensions = rest.get_u8();
        for _ in 0..extensions {
            let extension = split_extension(rest);
            let (number, body, behind) =
                extension.ok_or(Violation("an extension that is cut off"))?;
            match number {
                HEARS_ADMISSION => greeting.hears_admission = true,
                BEFORE_ADMISSION => greeting.before_admission = Some(before_admission(body)?),
                _ => {}
            }
            rest = behind;
        }
        match rest.is_empty() {
            true => Ok(greeting),
            false => Err(Violation("a greeting that is too long")),
        }
    }
}

/// Returns the number and the bytes of the extension at the front of `bytes`, and what stands behind.
fn split_extension(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (body, behind) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    Some((u16::from_le_bytes(*number), body, behind))
}

fn before_admission(mut body: &[u8]) -> Result<BeforeAdmission, Violation> {
    if body.len() < 8 + 4 {
        return Err(Violation("limits before admission that are too short"));
    }
    Ok(BeforeAdmission {
        max_message: usize::try_from(body.get_u64_le()).unwrap_or(usize::MAX),
        filters: usize::try_from(body.get_u32_le()).unwrap_or(usize::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use saline_protocol::transport::AdmissionLimits;

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
        assert_eq!(Greeting::of_server(&limits), greeting);
    }

    #[test]
    fn admission_is_spoken_of_in_extensions() {
        let mut limits = Limits::default();
        let client = Greeting::of_client(&limits);
        assert!(client.hears_admission && client.before_admission.is_none());
        assert_eq!(client.encode()[HEADER + SHORTEST..], [1, 0, 0, 0]);
        assert_eq!(Greeting::decode(&client.encode()[HEADER..]), Ok(client));

        let mut admission = AdmissionLimits::default();
        (admission.max_message, admission.subscriptions) = (0x1234, 7);
        limits.admission = Some(admission);
        let server = Greeting::of_server(&limits);
        let filters = 7;
        let max_message = 0x1234;
        let before = BeforeAdmission {
            max_message,
            filters,
        };
        assert_eq!(server.before_admission, Some(before));
        let bytes = server.encode();
        assert_eq!(
            bytes[HEADER + SHORTEST..],
            [2, 0, 12, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]
        );
        assert_eq!(Greeting::decode(&bytes[HEADER..]), Ok(server));
    }

    #[test]
    fn limits_before_admission_are_read_as_a_whole_or_not_at_all() {
        let longer = body((1, 1), &[(2, vec![1; 20])]);
        let greeting = Greeting::decode(&longer).unwrap();
        assert!(greeting.before_admission.is_some());
        assert!(Greeting::decode(&body((1, 1), &[(2, vec![1; 11])])).is_err());
    }

    proptest! {
        #[test]
        fn extensions_of_a_newer_peer_are_skipped(
            extensions in prop::collection::vec((3u16.., prop::collection::vec(any::<u8>(), 0..50)), 0..9),
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
