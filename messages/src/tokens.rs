//! The tokens by which minions are let in without a decision of an operator at that time, as operators make, list and revoke
//! them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{MasterTime, MinionId, OrderWarning};
use crate::random::{self, NoRandomness};

/// The public name of a token, shown as eight hexadecimal digits. Logs, the audit file and lists have the name; the value of
/// a token stands in none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TokenName(pub [u8; 4]);

impl TokenName {
    /// Makes a new name.
    ///
    /// # Errors
    /// When the operating system has no randomness to give.
    pub fn random() -> Result<Self, NoRandomness> {
        random::bytes().map(Self)
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text is not the name of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a token has eight hexadecimal digits; `saline-key --list-tokens` shows it")]
pub struct NotTokenName;

impl FromStr for TokenName {
    type Err = NotTokenName;

    fn from_str(text: &str) -> Result<Self, NotTokenName> {
        let is_name = text.len() == 8 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).map_err(|_| NotTokenName)?;
        is_name
            .then(|| Self(number.to_be_bytes()))
            .ok_or(NotTokenName)
    }
}

/// The reason why a master did not accept a key by the token that came with it. Only a peer that has the whole token is told
/// more than `Unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenRefusal {
    /// The master made no such token, or an operator revoked it, or it is long expired.
    Unknown,
    /// The time of the token is over.
    Expired,
    /// The token has no uses left, or this minion used it before.
    Used,
    /// The id of the minion does not match the token's glob.
    OtherId,
    /// The master cannot read or write its tokens now.
    Unavailable,
}

impl TokenRefusal {
    /// Returns what is wrong, as the end of a sentence that begins with the token.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unknown => "is not known to the master: it is mistyped, revoked or expired",
            Self::Expired => "has expired",
            Self::Used => "was used before",
            Self::OtherId => "is for other ids",
            Self::Unavailable => "could not be checked: the master's log says why",
        }
    }
}

/// A new token. The program that makes the token keeps its secret, and the master gets the digest alone; so a request that is
/// repeated makes one token, and no reply has a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewToken {
    /// The name of the token.
    pub name: TokenName,
    /// The SHA-256 that the channel computes of the secret, 32 bytes.
    pub digest: [u8; 32],
    /// A glob over the ids of the minions that the token lets in.
    pub minions: String,
    /// How long the token is valid, in milliseconds.
    pub valid_ms: u64,
    /// The number of minions that it lets in, from 1.
    pub uses: u32,
}

/// The longest time for which a token is valid, in milliseconds: 90 days.
pub const MAX_TOKEN_TIME: u64 = 90 * 86_400 * 1_000;

/// The largest number of minions that one token lets in.
pub const MAX_TOKEN_USES: u32 = 100_000;

/// A request about tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenRequest {
    /// Keeps a new token. Repeated, it changes nothing.
    Make(NewToken),
    /// Lists the tokens that have not expired.
    List,
    /// Forgets a token: it lets nobody in any more.
    Revoke(TokenName),
}

/// A token, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenEntry {
    /// The name of the token.
    pub name: TokenName,
    /// The glob over the ids of the minions that it lets in.
    pub minions: String,
    /// The time until which it is valid.
    pub until: MasterTime,
    /// The number of minions that it lets in.
    pub uses: u32,
    /// The number of minions that it has let in.
    pub used: u32,
    /// The minion that it let in last.
    pub last: Option<MinionId>,
}

/// The reply to a request about tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenReply {
    /// The tokens that were asked for: the new one, all of them, or the one that was revoked; none if there was none.
    pub tokens: Vec<TokenEntry>,
    /// The master's own identity, 32 bytes.
    pub master: [u8; 32],
    /// The warning for the operator.
    pub warnings: Vec<OrderWarning>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_eight_hexadecimal_digits() {
        let name = TokenName([0x3f, 0x9a, 0x00, 0x2c]);
        assert_eq!(name.to_string(), "3f9a002c");
        assert_eq!("3F9a002C".parse(), Ok(name));
        for wrong in [
            "",
            "3f9a002",
            "3f9a002c1",
            "+f9a002c",
            "3f9a002g",
            "3f9a00é",
        ] {
            assert_eq!(wrong.parse::<TokenName>(), Err(NotTokenName), "{wrong}");
        }
    }
}
