//! The mine: values that minions leave with the master for other minions. Whose values a request changes, and who asks, its
//! session says; no request names a minion for that.

use std::fmt;

use saline_data::{Packed, Value};
use saline_targeting::Target;
use serde::{Deserialize, Serialize};

use super::{MinionId, PARTS_FROM, encode, transfer::TransferId};

/// The most entries of one minion.
pub const MAX_MINE_ENTRIES: usize = 256;

/// The most bytes of all entries of one minion.
pub const MAX_MINE_BYTES: usize = 1024 * 1024;

/// The most bytes of the value of one entry: it travels in one message.
pub const MAX_MINE_VALUE_BYTES: usize = PARTS_FROM;

/// The longest name of an entry, in bytes.
pub const MAX_MINE_NAME_BYTES: usize = 256;

/// The longest target of a request or of an entry, in bytes.
pub const MAX_MINE_TARGET_BYTES: usize = 64 * 1024;

/// The longest `allow_tgt` of an entry, in bytes.
pub const MAX_MINE_ALLOWED_BYTES: usize = 4096;

/// The most functions of which one request asks.
pub const MAX_MINE_FUNCTIONS: usize = 64;

/// A value that a minion leaves with the master, under a name of its own.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MineEntry {
    /// The name: that of the function, or an alias.
    pub name: String,
    /// The value, of at most [`MAX_MINE_VALUE_BYTES`] bytes.
    pub value: Packed,
    /// The minions that may get it; none for all.
    pub allowed: Option<Target>,
}

impl MineEntry {
    /// Returns the SHA-256 of the entry, by which a master knows that it has it.
    pub fn digest(&self) -> [u8; 32] {
        TransferId::of(&encode(self)).0
    }

    /// Returns how many bytes the entry takes of those of its minion.
    pub fn size(&self) -> usize {
        let allowed = self.allowed.as_ref();
        let allowed = allowed.map_or(0, |target| target.expression.len());
        self.name.len() + self.value.as_bytes().len() + allowed
    }

    /// Whether the name, the value and the target are within their bounds.
    pub fn is_within_bounds(&self) -> bool {
        let allowed = self.allowed.as_ref();
        is_mine_name(&self.name)
            && self.value.as_bytes().len() <= MAX_MINE_VALUE_BYTES
            && allowed.is_none_or(|target| target.expression.len() <= MAX_MINE_ALLOWED_BYTES)
    }
}

impl fmt::Debug for MineEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value may be for some minions alone.
        let bytes = self.value.as_bytes().len();
        write!(f, "MineEntry({:?}, {bytes} B)", self.name)
    }
}

/// Whether this may be the name of an entry: it is not empty, not above [`MAX_MINE_NAME_BYTES`], and has neither commas, which stand
/// between names, nor control characters.
pub fn is_mine_name(name: &str) -> bool {
    (1..=MAX_MINE_NAME_BYTES).contains(&name.len())
        && !name.chars().any(|c| c == ',' || c.is_control())
}

/// Returns the names that an argument `fun` of Salt's `mine.get` has, one, several with commas between them or a list, and whether it
/// names one by itself.
///
/// # Errors
/// One line, when these are no names of entries, or more than [`MAX_MINE_FUNCTIONS`].
pub fn mine_names(fun: &Value) -> Result<(Vec<String>, bool), String> {
    let names: Option<(Vec<String>, bool)> = match fun {
        Value::Text(text) => {
            let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
            let is_one = names.len() == 1;
            Some((names, is_one))
        }
        Value::List(names) => {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned));
            names.collect::<Option<_>>().map(|names| (names, false))
        }
        _ => None,
    };
    names
        .filter(|(names, _)| {
            (1..=MAX_MINE_FUNCTIONS).contains(&names.len())
                && names.iter().all(|name| is_mine_name(name))
        })
        .ok_or_else(|| {
            format!(
                "fun takes the name of a function or of an alias, or at most {MAX_MINE_FUNCTIONS} of them"
            )
        })
}

/// A request of a minion, or of a caller beside it, about the mine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MineRequest {
    /// Tells the names and digests of entries that the minion has now, so that it sends only those that the master lacks.
    Offer {
        /// The entries, at most [`MAX_MINE_ENTRIES`].
        entries: Vec<(String, [u8; 32])>,
        /// Whether the master forgets the minion's other entries.
        forget_others: bool,
    },
    /// Leaves entries with the master, in the place of those with the same names.
    Store(Vec<MineEntry>),
    /// Has the master forget the minion's entry with this name.
    Delete(String),
    /// Has the master forget all entries of the minion.
    Flush,
    /// Asks for entries of minions.
    Get {
        /// The minions.
        target: Target,
        /// The names of the entries, at most [`MAX_MINE_FUNCTIONS`].
        functions: Vec<String>,
        /// The last entry of the page before, as [`FoundEntry`] has it; none for the first page.
        after: Option<(u32, MinionId)>,
        /// The most bytes of the page, but for a single larger entry.
        bytes: u32,
    },
}

impl MineRequest {
    /// Whether names, targets and numbers of entries are within their bounds.
    pub fn is_within_bounds(&self) -> bool {
        match self {
            Self::Offer { entries, .. } => {
                entries.len() <= MAX_MINE_ENTRIES
                    && entries.iter().all(|(name, _)| is_mine_name(name))
            }
            Self::Store(entries) => {
                entries.len() <= MAX_MINE_ENTRIES && entries.iter().all(MineEntry::is_within_bounds)
            }
            Self::Delete(name) => is_mine_name(name),
            Self::Flush => true,
            Self::Get {
                target, functions, ..
            } => {
                target.expression.len() <= MAX_MINE_TARGET_BYTES
                    && functions.len() <= MAX_MINE_FUNCTIONS
                    && functions.iter().all(|name| is_mine_name(name))
            }
        }
    }

    /// Returns the bytes of the entries that the request leaves with the master.
    pub fn stored_bytes(&self) -> usize {
        match self {
            Self::Store(entries) => entries.iter().map(MineEntry::size).sum(),
            _ => 0,
        }
    }
}

/// The reply to a [`MineRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MineReply {
    /// The request was carried out, and is on the master's disk.
    Done,
    /// The reply to `Offer`: the numbers, in the request, of the entries that the master lacks.
    Wanted(Vec<u32>),
    /// The reply to `Get`.
    Found(MinePage),
    /// The request was not carried out.
    Refused(MineRefusal),
}

/// A page of entries of minions, in the order of the functions and then of the ids.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinePage {
    /// The entries.
    pub entries: Vec<FoundEntry>,
    /// Whether more may follow the last of these.
    pub more: bool,
}

/// An entry of a minion, as another one gets it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundEntry {
    /// The number of the function in the request.
    pub function: u32,
    /// The minion whose entry it is.
    pub minion: MinionId,
    /// The value that the minion left.
    pub value: Packed,
}

impl fmt::Debug for MinePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "MinePage({} entries, more: {})",
            self.entries.len(),
            self.more
        )
    }
}

impl fmt::Debug for FoundEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value may be for some minions alone.
        write!(f, "FoundEntry({}, {})", self.function, self.minion)
    }
}

/// The reason why a request about the mine was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MineRefusal {
    /// The minion's entries would be more than [`MAX_MINE_ENTRIES`], or larger than [`MAX_MINE_BYTES`].
    NoRoom,
    /// The `allow_tgt` of an entry cannot be used, for this reason.
    Allowed {
        /// The name of the entry.
        name: String,
        /// The reason, in one line.
        why: String,
    },
    /// The target cannot be used, for this reason.
    Target(String),
    /// The rules of the master (`mine_get`) let the minion get none of these functions.
    NotAllowed,
    /// The master has no accepted key of the minion any more.
    NoKey,
    /// The master cannot read or write the mine, and its log says why.
    Failed,
}

impl fmt::Display for MineRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom => write!(
                f,
                "the mine takes {MAX_MINE_ENTRIES} entries and {MAX_MINE_BYTES} bytes of one minion: mine.delete or mine.flush \
                 make room"
            ),
            Self::Allowed { name, why } => write!(f, "allow_tgt of {name} cannot be used: {why}"),
            Self::Target(why) => f.write_str(why),
            Self::NotAllowed => f.write_str(
                "mine_get in the master's configuration lets this minion get none of these functions",
            ),
            Self::NoKey => f.write_str(
                "the master has no accepted key of this minion any more: accept it with saline-key",
            ),
            Self::Failed => {
                f.write_str("the master cannot read or write the mine, and its log says why")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;
    use proptest::prelude::*;
    use saline_targeting::TargetKind;

    fn entry(name: &str, bytes: usize) -> MineEntry {
        MineEntry {
            name: name.to_owned(),
            value: Packed::from_bytes(vec![1; bytes]),
            allowed: None,
        }
    }

    #[test]
    fn an_entry_has_bounds() {
        let longest = "x".repeat(MAX_MINE_NAME_BYTES);
        for name in ["network.ip_addrs", "ip list", longest.as_str()] {
            assert!(
                entry(name, MAX_MINE_VALUE_BYTES).is_within_bounds(),
                "{name}"
            );
        }
        for name in ["", "a,b", "a\n", &(longest + "x")] {
            assert!(!entry(name, 1).is_within_bounds(), "{name}");
        }
        assert!(!entry("a", MAX_MINE_VALUE_BYTES + 1).is_within_bounds());
        let mut allowed = entry("a", 1);
        allowed.allowed = Some(Target::glob("x".repeat(MAX_MINE_ALLOWED_BYTES + 1)));
        assert!(!allowed.is_within_bounds());
    }

    #[test]
    fn a_request_has_bounds() {
        let get = |functions: usize, target: usize| MineRequest::Get {
            target: Target::glob("x".repeat(target)),
            functions: vec!["a".to_owned(); functions],
            after: None,
            bytes: 1,
        };
        assert!(get(MAX_MINE_FUNCTIONS, MAX_MINE_TARGET_BYTES).is_within_bounds());
        assert!(!get(MAX_MINE_FUNCTIONS + 1, 1).is_within_bounds());
        assert!(!get(1, MAX_MINE_TARGET_BYTES + 1).is_within_bounds());
        let offer = |count| MineRequest::Offer {
            entries: vec![("a".to_owned(), [0; 32]); count],
            forget_others: false,
        };
        assert!(offer(MAX_MINE_ENTRIES).is_within_bounds());
        assert!(!offer(MAX_MINE_ENTRIES + 1).is_within_bounds());
        assert!(!MineRequest::Store(vec![entry("", 1)]).is_within_bounds());
        let many = vec![entry("a", 1); MAX_MINE_ENTRIES + 1];
        assert!(!MineRequest::Store(many).is_within_bounds());
    }

    #[test]
    fn values_are_not_shown_by_mistake() {
        let stored = MineRequest::Store(vec![MineEntry {
            name: "a".to_owned(),
            value: Packed::pack(&"hunter2".into()),
            allowed: None,
        }]);
        let page = MinePage {
            entries: vec![FoundEntry {
                function: 0,
                minion: MinionId::parse("m1").unwrap(),
                value: Packed::pack(&"hunter2".into()),
            }],
            more: false,
        };
        let shown = format!("{stored:?} {page:?} {:?}", page.entries);
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn an_entry_that_differs_has_another_digest() {
        let mut other = entry("a", 1);
        let digest = other.digest();
        assert_eq!(entry("a", 1).digest(), digest);
        other.allowed = Some(Target {
            kind: TargetKind::Glob,
            expression: "web*".to_owned(),
        });
        assert_ne!(other.digest(), digest);
        assert_ne!(entry("a", 2).digest(), digest);
        assert_ne!(entry("b", 1).digest(), digest);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_cleanly(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = decode::<MineRequest>(&bytes) {
                // What is within bounds stays the same when it is sent on.
                let _ = request.is_within_bounds();
                prop_assert_eq!(decode::<MineRequest>(&encode(&request)), Ok(request));
            }
            if let Ok(reply) = decode::<MineReply>(&bytes) {
                prop_assert_eq!(decode::<MineReply>(&encode(&reply)), Ok(reply));
            }
        }
    }
}
