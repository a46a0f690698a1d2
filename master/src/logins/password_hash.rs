//! The hashes of passwords: Argon2id, written as `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`.

use std::fmt;

use argon2::password_hash::phc;
use argon2::{Argon2, Params, PasswordHasher, PasswordVerifier};

/// The largest memory that a hash may take, in KiB: a mistake in the file of users must not take that of the machine.
const MAX_MEMORY: u32 = 256 * 1024;

/// The most passes that a hash may take.
const MAX_PASSES: u32 = 64;

/// The most lanes that a hash may have.
const MAX_LANES: u32 = 16;

/// The longest hash, in bytes.
const MAX_LENGTH: usize = 512;

/// The reason why a text is not the hash of a password. It does not have the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidHash {
    /// It is not of Argon2id, or malformed.
    #[error("it is not a hash that begins with $argon2id$")]
    Malformed,
    /// It would take too long, or too much memory.
    #[error(
        "it takes more than {} MiB, {MAX_PASSES} passes or {MAX_LANES} lanes",
        MAX_MEMORY / 1024
    )]
    TooExpensive,
}

/// The hash of a password. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct PasswordHash(phc::PasswordHash);

impl PasswordHash {
    /// Hashes a password with a new salt.
    #[cfg(test)]
    pub(crate) fn new(password: &str) -> Self {
        Self::salted(password, saline_messages::random::bytes().unwrap())
    }

    /// Returns a hash that no password has to match, for users that do not exist.
    pub(crate) fn of_nobody() -> Self {
        Self::salted("", [0; 16])
    }

    fn salted(password: &str, salt: [u8; 16]) -> Self {
        let hashed = Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
        // The default parameters are valid, and so is a salt of 16 bytes; a password has at most 4 GiB.
        Self(hashed.expect("Argon2 hashes every text"))
    }

    /// Reads a hash.
    ///
    /// # Errors
    /// When it is malformed, or takes too much to check.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidHash> {
        if text.len() > MAX_LENGTH || !text.starts_with("$argon2id$") {
            return Err(InvalidHash::Malformed);
        }
        let hash = phc::PasswordHash::new(text).map_err(|_| InvalidHash::Malformed)?;
        if hash.salt.is_none() || hash.hash.is_none() {
            return Err(InvalidHash::Malformed);
        }
        let params = Params::try_from(&hash).map_err(|_| InvalidHash::Malformed)?;
        let is_bounded = params.m_cost() <= MAX_MEMORY
            && params.t_cost() <= MAX_PASSES
            && params.p_cost() <= MAX_LANES;
        match is_bounded {
            true => Ok(Self(hash)),
            false => Err(InvalidHash::TooExpensive),
        }
    }

    /// Returns a number in proportion to the time that a check takes: the blocks of memory that it fills, over all passes.
    pub(crate) fn cost(&self) -> u64 {
        let params = Params::try_from(&self.0);
        // A hash that was read has valid ones.
        params.map_or(0, |params| {
            u64::from(params.m_cost()) * u64::from(params.t_cost())
        })
    }

    /// Whether this is the hash of the password. Takes some hundredths of a second, so call it where that may block.
    pub(crate) fn matches(&self, password: &str) -> bool {
        let verified = Argon2::default().verify_password(password.as_bytes(), &self.0);
        verified.is_ok()
    }
}

impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hash_is_read_as_it_is_written_and_matches_its_password_alone() {
        let hash = PasswordHash::new("correct horse");
        let written = hash.to_string();
        assert!(
            written.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{written}"
        );
        let read = PasswordHash::parse(&written).unwrap();
        assert!(read.matches("correct horse"));
        assert!(!read.matches("correct horse ") && !read.matches(""));
        assert_ne!(PasswordHash::new("correct horse").to_string(), written);
        assert_eq!(format!("{read:?}"), "PasswordHash(…)");
    }

    #[test]
    fn a_hash_that_takes_too_much_or_is_of_another_kind_is_refused() {
        let good = PasswordHash::of_nobody().to_string();
        for (text, error) in [
            (
                good.replace("m=19456", "m=4000000"),
                InvalidHash::TooExpensive,
            ),
            (good.replace("t=2", "t=1000"), InvalidHash::TooExpensive),
            (good.replace("p=1", "p=99"), InvalidHash::TooExpensive),
            (good.replace("argon2id", "argon2i"), InvalidHash::Malformed),
            ("$6$salt$hash".to_owned(), InvalidHash::Malformed),
            ("hunter2".to_owned(), InvalidHash::Malformed),
            (
                "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
                InvalidHash::Malformed,
            ),
        ] {
            assert_eq!(PasswordHash::parse(&text).unwrap_err(), error, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in ".{0,80}", tail in "[$a-zA-Z0-9=,+/]{0,100}") {
            let _ = PasswordHash::parse(&text);
            let _ = PasswordHash::parse(&format!("$argon2id${tail}"));
            let _ = PasswordHash::parse(&format!("$argon2id$v=19$m=8,t=1,p=1${tail}"));
        }
    }
}
