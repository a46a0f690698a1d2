//! A token that lets a minion in: its text, what of it travels, and what the master keeps.
//!
//! The text has three parts: the public name of the token, its secret, and the fingerprint of the master that made it. So a
//! minion that has never met its master recognises it by the token, and gives the secret to no other.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::constant_time;
use aws_lc_rs::digest::{SHA256, digest};
use saline_messages::TokenName;
use saline_messages::random::{self, NoRandomness};
use zeroize::Zeroizing;

use super::PublicIdentity;

/// The length of a secret in bytes.
const SECRET: usize = 16;

/// The length of a name in bytes.
const NAME: usize = 4;

/// The name and the secret of a token, as a minion presents them to a master.
#[derive(Clone)]
pub struct PresentedToken {
    /// The name, by which logs and lists call the token; it is no secret.
    pub name: TokenName,
    secret: Zeroizing<[u8; SECRET]>,
}

impl PresentedToken {
    /// Makes a new token.
    ///
    /// # Errors
    /// When the operating system has no randomness to give.
    pub fn random() -> Result<Self, NoRandomness> {
        let mut secret = Zeroizing::new([0; SECRET]);
        random::fill(&mut *secret)?;
        Ok(Self {
            name: TokenName::random()?,
            secret,
        })
    }

    /// Returns the digest that a master keeps in the place of the token.
    pub fn digest(&self) -> [u8; 32] {
        let (label, name) = (b"saline/1 token".as_slice(), self.name.0.as_slice());
        let secret = Zeroizing::new([label, name, self.secret.as_slice()].concat());
        let mut bytes = [0; 32];
        // Both have 32 bytes.
        bytes.copy_from_slice(digest(&SHA256, &secret).as_ref());
        bytes
    }

    /// Whether a master that keeps `digest` made this token. Takes the same time whatever differs.
    pub fn has_digest(&self, digest: &[u8]) -> bool {
        constant_time::verify_slices_are_equal(&self.digest(), digest).is_ok()
    }

    /// Returns the bytes that travel inside of a handshake.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [self.name.0.as_slice(), self.secret.as_slice()].concat()
    }

    /// Reads the bytes that came inside of a handshake; none when they are no token.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (name, secret) = bytes.split_first_chunk::<NAME>()?;
        Some(Self {
            name: TokenName(*name),
            secret: Zeroizing::new(secret.try_into().ok()?),
        })
    }
}

/// Shows the name of the token, and not its secret.
impl fmt::Debug for PresentedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PresentedToken({})", self.name)
    }
}

/// A token and the master that made it.
#[derive(Debug, Clone)]
pub struct Token {
    presented: PresentedToken,
    /// The fingerprint of the master's identity, in lower case and without colons.
    master: String,
}

/// A text is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it holds no token as `saline-key --make-token` prints it")]
pub struct NotToken;

impl Token {
    /// Puts the token of a master together.
    pub fn of(presented: PresentedToken, master: PublicIdentity) -> Self {
        Self {
            presented,
            master: super::identity::plain_fingerprint(&master.fingerprint()),
        }
    }

    /// Returns the name of the token.
    pub fn name(&self) -> TokenName {
        self.presented.name
    }

    /// Returns the fingerprint of the master that made the token, without colons.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// Returns the secret part for a master with one of these identities; none when it is not the one that made the token.
    pub(crate) fn for_master<'i>(
        &self,
        mut identities: impl Iterator<Item = &'i PublicIdentity>,
    ) -> Option<&PresentedToken> {
        let is_its = identities.any(|identity| identity.has_fingerprint(&self.master));
        is_its.then_some(&self.presented)
    }

    /// Returns the text that an operator gives to a minion. It is secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        let (name, master) = (self.presented.name, &self.master);
        // Room for all of it, so that no part of the secret is left behind when the text grows.
        let mut text = Zeroizing::new(String::with_capacity(128));
        text.push_str(&name.to_string());
        text.push('-');
        for byte in *self.presented.secret {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
            }
        }
        text.push('-');
        text.push_str(master);
        text
    }
}

impl FromStr for Token {
    type Err = NotToken;

    fn from_str(text: &str) -> Result<Self, NotToken> {
        let mut parts = text.trim().split('-');
        let (Some(name), Some(secret), Some(master), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotToken);
        };
        let name: TokenName = name.parse().map_err(|_| NotToken)?;
        let is_secret = secret.len() == 2 * SECRET && secret.bytes().all(|d| d.is_ascii_hexdigit());
        if !is_secret || !PublicIdentity::is_fingerprint(master) {
            return Err(NotToken);
        }
        let number = u128::from_str_radix(secret, 16).map_err(|_| NotToken)?;
        Ok(Self {
            presented: PresentedToken {
                name,
                secret: Zeroizing::new(number.to_be_bytes()),
            },
            master: super::identity::plain_fingerprint(master),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Identity;

    fn token() -> (Token, PublicIdentity) {
        let master = Identity::generate().unwrap().public();
        let token = Token::of(PresentedToken::random().unwrap(), master);
        (token, master)
    }

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let (token, master) = token();
        let text = token.to_text();
        assert_eq!(text.len(), 8 + 1 + 32 + 1 + 64);
        for written in [text.to_string(), format!("  {}\n", text.to_uppercase())] {
            let read: Token = written.parse().unwrap();
            assert_eq!(read.name(), token.name());
            assert!(read.presented.has_digest(&token.presented.digest()));
            assert!(read.for_master([master].iter()).is_some());
        }
    }

    #[test]
    fn the_secret_is_for_its_master_alone_and_shown_nowhere() {
        let (token, master) = token();
        let other = Identity::generate().unwrap().public();
        assert!(token.for_master([other].iter()).is_none());
        assert!(token.for_master([other, master].iter()).is_some());
        let text = token.to_text();
        let secret = text.split('-').nth(1).unwrap();
        assert!(!format!("{token:?} {:?}", token.presented).contains(secret));
    }

    #[test]
    fn one_other_digit_is_another_token() {
        let (token, _) = token();
        let text = token.to_text();
        for at in 0..41 {
            let mut other: Vec<char> = text.chars().collect();
            if other[at] == '-' {
                continue;
            }
            other[at] = if other[at] == '0' { '1' } else { '0' };
            let other: Token = other.into_iter().collect::<String>().parse().unwrap();
            let known = token.presented.digest();
            assert!(!other.presented.has_digest(&known), "digit {at}");
        }
        assert!(!token.presented.has_digest(&[]));
    }

    proptest! {
        #[test]
        fn any_text_and_any_bytes_are_read_or_refused(
            text in "[0-9a-f-]{0,120}|.{0,120}",
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let _ = text.parse::<Token>();
            let read = PresentedToken::from_bytes(&bytes);
            prop_assert_eq!(read.is_some(), bytes.len() == NAME + SECRET);
            prop_assert_eq!(read.map(|read| read.to_bytes()), (bytes.len() == 20).then_some(bytes));
        }
    }
}
