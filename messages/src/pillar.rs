//! What minions ask about their pillar. A minion has no way to name another one: whose pillar it is, its session says.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::transfer::{Part, TransferId};
use super::{DecodeError, MAX_ENVIRONMENT, decode, encode};
use saline_data::Packed;

/// The most bytes of an encoded [`MinionPillar`].
pub const MAX_PILLAR: usize = 16 * 1024 * 1024;

/// The most lines in [`MinionPillar::errors`].
pub const MAX_PILLAR_ERRORS: usize = 100;

/// A request of a minion, or of a caller beside it, about its pillar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PillarRequest {
    /// Has the pillar compiled again, and asks for its first part.
    Compile {
        /// The minion's `saltenv`; none for Salt's `base`.
        saltenv: Option<String>,
        /// The environment whose files alone make the pillar; none for all.
        pillarenv: Option<String>,
        /// The pillar that the minion has: the id of the whole that it received last.
        known: Option<TransferId>,
        /// The most bytes of the part.
        bytes: u32,
    },
    /// Asks for another part of the pillar that was compiled last.
    Part {
        /// The id of the whole, as the first part has it.
        transfer: TransferId,
        /// The place of the first byte.
        offset: u64,
        /// The most bytes of the part.
        bytes: u32,
    },
}

impl PillarRequest {
    /// Whether the names of environments are not above [`MAX_ENVIRONMENT`].
    pub fn is_within_bounds(&self) -> bool {
        match self {
            Self::Compile {
                saltenv, pillarenv, ..
            } => [saltenv, pillarenv]
                .into_iter()
                .flatten()
                .all(|name| name.len() <= MAX_ENVIRONMENT),
            Self::Part { .. } => true,
        }
    }
}

/// The reply to a [`PillarRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PillarReply {
    /// The reply to `Compile`: the pillar and its errors are those that the minion has.
    Unchanged,
    /// The reply to both. The whole is an encoded [`MinionPillar`] of at most [`MAX_PILLAR`] bytes.
    Part(Part),
    /// The reply to `Part` when the master does not have this pillar any more: have it compiled again.
    Changed,
    /// The request was not carried out.
    Refused(PillarRefusal),
}

/// The pillar of one minion.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinionPillar {
    /// The entries, a mapping: where there are errors, those of the last pillar that had none. None when the master knows
    /// no such pillar: the minion keeps the one that it has.
    pub entries: Option<Packed>,
    /// What went wrong, a line each, at most [`MAX_PILLAR_ERRORS`].
    pub errors: Vec<String>,
}

impl MinionPillar {
    /// Returns the bytes that travel in parts.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads the bytes of all parts.
    ///
    /// # Errors
    /// When they are no pillar.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}

impl fmt::Debug for MinionPillar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its values are secrets, and its errors may quote them.
        let bytes = self.entries.as_ref().map(|packed| packed.as_bytes().len());
        write!(f, "MinionPillar({bytes:?} B, {} errors)", self.errors.len())
    }
}

/// The reason why a request about a pillar was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PillarRefusal {
    /// `pillar_roots` has no such environment.
    NoEnvironment,
    /// The master cannot compile pillars, and its log says why.
    Failed,
}

impl fmt::Display for PillarRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoEnvironment => "the master has no such environment in pillar_roots",
            Self::Failed => "the master cannot compile it, and its log says why",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pillar_is_not_shown_by_mistake() {
        let pillar = MinionPillar {
            entries: Some(Packed::pack(&"secret".into())),
            errors: vec!["secret".to_owned()],
        };
        assert_eq!(format!("{pillar:?}"), "MinionPillar(Some(7) B, 1 errors)");
        assert_eq!(MinionPillar::from_bytes(&pillar.to_bytes()), Ok(pillar));
        assert!(MinionPillar::from_bytes(&[2]).is_err());
    }

    #[test]
    fn a_name_of_an_environment_has_a_bound() {
        let compile = |length| PillarRequest::Compile {
            saltenv: None,
            pillarenv: Some("x".repeat(length)),
            known: None,
            bytes: 1,
        };
        assert!(compile(MAX_ENVIRONMENT).is_within_bounds());
        assert!(!compile(MAX_ENVIRONMENT + 1).is_within_bounds());
    }
}
