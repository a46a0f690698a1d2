//! The functions that a minion says it can run, by which the master refuses a job whose function none of its minions can know.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{DecodeError, decode, encode};

/// The largest size of the functions of a minion, in bytes.
pub const MAX_FUNCTIONS_BYTES: usize = 128 * 1024;

/// The longest name in a report, in bytes.
const MAX_NAME: usize = 256;

/// The functions of a minion: first their digest alone, and all of them if the master asks for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionsReport {
    /// The [digest](Self::digest_of) of the encoded functions.
    pub digest: [u8; 32],
    /// The encoded [`MinionFunctions`], at most [`MAX_FUNCTIONS_BYTES`] bytes.
    pub functions: Option<Vec<u8>>,
}

impl FunctionsReport {
    /// Returns the SHA-256 of encoded functions.
    pub fn digest_of(functions: &[u8]) -> [u8; 32] {
        let mut digest = [0; 32];
        let computed = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, functions);
        // Both have 32 bytes.
        digest.copy_from_slice(computed.as_ref());
        digest
    }
}

/// The reason why a master does not take the functions of a minion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FunctionsError {
    /// They have too many bytes.
    #[error("they have {0} bytes, and at most {MAX_FUNCTIONS_BYTES} are taken")]
    TooLarge(usize),
    /// They cannot be decoded.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// A name is too long, or has other characters than names of functions have.
    #[error("{0:?} cannot be the name of a function or of a module")]
    Name(String),
}

/// The functions that a minion can run. Minions with the same functions report the same bytes, so that a master keeps them once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinionFunctions {
    /// The functions that the minion was built with, by their full names, also those that its machine lacks something for: the
    /// minion itself says what is missing.
    pub built_in: BTreeSet<String>,
    /// The functions of operators' own modules, by their full names, as far as these have described them.
    pub own: BTreeSet<String>,
    /// The own modules that have not described their functions: each may have any.
    pub undescribed: BTreeSet<String>,
    /// Whether further own modules may be there at any time, without the minion's knowledge: operators put them into a folder.
    pub may_grow: bool,
}

impl MinionFunctions {
    /// Encodes the functions.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes functions.
    ///
    /// # Errors
    /// When they are too large or malformed, or when a name could not be shown to operators and passed to their shells.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FunctionsError> {
        // Before anything is allocated for them.
        if bytes.len() > MAX_FUNCTIONS_BYTES {
            return Err(FunctionsError::TooLarge(bytes.len()));
        }
        let functions: Self = decode(bytes)?;
        let sets = [&functions.built_in, &functions.own, &functions.undescribed];
        let wrong = sets.into_iter().flatten().find(|name| !is_plain_name(name));
        if let Some(name) = wrong {
            return Err(FunctionsError::Name(name.chars().take(MAX_NAME).collect()));
        }
        Ok(functions)
    }

    /// Whether the minion may know the function with this full name.
    pub fn may_know(&self, fun: &str) -> bool {
        if self.built_in.contains(fun) || self.own.contains(fun) {
            return true;
        }
        let Some((module, _)) = fun.split_once('.') else {
            return false;
        };
        // No own module has the name of one that is built in.
        self.undescribed.contains(module) || (self.may_grow && !self.is_built_in(module))
    }

    /// Returns the full names of the functions that are known.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.built_in.iter().chain(&self.own).map(String::as_str)
    }

    fn is_built_in(&self, module: &str) -> bool {
        let from = format!("{module}.");
        let mut behind = self.built_in.range(from.clone()..);
        behind.next().is_some_and(|name| name.starts_with(&from))
    }
}

/// Whether a name can be that of a function or of a module: it can be shown to operators, and passed to a shell that completes it.
pub fn is_plain_name(name: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_known)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn functions() -> MinionFunctions {
        MinionFunctions {
            built_in: set(&["test.ping", "test.sleep", "testing.a"]),
            own: set(&["vhosts.enable"]),
            undescribed: set(&["backups"]),
            may_grow: false,
        }
    }

    #[test]
    fn a_function_is_unknown_only_where_no_module_can_have_it() {
        let known = |functions: &MinionFunctions, all: &[&str]| {
            let known = all.iter().filter(|fun| functions.may_know(fun));
            known.copied().collect::<Vec<_>>().join(" ")
        };
        let asked = [
            "test.ping",
            "test.pnig",
            "testing.ping",
            "tes.ping",
            "vhosts.enable",
            "vhosts.disable",
            "backups.run",
            "backups",
            "other.run",
            "ping",
            "",
            ".",
        ];
        let mut functions = functions();
        assert_eq!(
            known(&functions, &asked),
            "test.ping vhosts.enable backups.run"
        );
        functions.may_grow = true;
        assert_eq!(
            known(&functions, &asked),
            "test.ping tes.ping vhosts.enable vhosts.disable backups.run other.run ."
        );
        assert!(!MinionFunctions::default().may_know("test.ping"));
    }

    #[test]
    fn only_plain_names_of_some_bytes_are_taken() {
        let bytes = functions().to_bytes();
        assert_eq!(MinionFunctions::from_bytes(&bytes), Ok(functions()));
        for name in [
            "",
            "a b",
            "a\n",
            "a,b",
            "ä",
            "\u{1b}[1m",
            "$(id)",
            &"a".repeat(257),
        ] {
            let mut functions = functions();
            functions.own.insert(name.to_owned());
            let error = MinionFunctions::from_bytes(&functions.to_bytes()).unwrap_err();
            assert!(
                matches!(error, FunctionsError::Name(_)),
                "{name:?}: {error}"
            );
            functions.own.remove(name);
            functions.undescribed.insert(name.to_owned());
            let error = MinionFunctions::from_bytes(&functions.to_bytes()).unwrap_err();
            assert!(
                matches!(error, FunctionsError::Name(_)),
                "{name:?}: {error}"
            );
        }
        let many = |count: usize| MinionFunctions {
            built_in: (0..count).map(|n| format!("{n:0127}")).collect(),
            ..MinionFunctions::default()
        };
        assert!(MinionFunctions::from_bytes(&many(1000).to_bytes()).is_ok());
        assert_eq!(
            MinionFunctions::from_bytes(&many(1024).to_bytes()),
            Err(FunctionsError::TooLarge(1024 * 128 + 5))
        );
    }

    proptest! {
        #[test]
        fn what_is_reported_arrives(
            built_in in prop::collection::btree_set("[a-z]{1,4}\\.[a-z_]{1,4}", 0..20),
            own in prop::collection::btree_set("[a-z]{1,4}\\.[a-z_]{1,4}", 0..5),
            undescribed in prop::collection::btree_set("[a-z]{1,4}", 0..5),
            may_grow: bool,
        ) {
            let functions = MinionFunctions { built_in, own, undescribed, may_grow };
            let bytes = functions.to_bytes();
            let report = FunctionsReport {
                digest: FunctionsReport::digest_of(&bytes),
                functions: Some(bytes.clone()),
            };
            let arrived: FunctionsReport = decode(&encode(&report)).unwrap();
            prop_assert_eq!(&arrived, &report);
            prop_assert_eq!(MinionFunctions::from_bytes(&bytes), Ok(functions.clone()));
            prop_assert!(functions.names().all(|name| functions.may_know(name)));
            let mut other = functions.clone();
            other.may_grow = !may_grow;
            prop_assert_ne!(FunctionsReport::digest_of(&other.to_bytes()), report.digest);
        }

        #[test]
        fn bytes_of_a_peer_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), fun: String) {
            if let Ok(functions) = MinionFunctions::from_bytes(&bytes) {
                functions.may_know(&fun);
            }
        }
    }
}
