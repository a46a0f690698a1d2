//! `--hash-password`: the hash of a password for the master's file of users.

use std::io;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher};
use saline_messages::random;

use crate::screen::Screen;
use crate::{exit, password};

/// Reads a password and prints its hash. Returns the exit code.
///
/// # Errors
/// When the output cannot be written.
pub(super) fn hash_password(screen: &mut Screen<'_>) -> io::Result<u8> {
    let asked = match password::is_typed() {
        false => password::ask(""),
        true => password::ask("password: ").and_then(|first| {
            match password::ask("the same password again: ")? == first {
                true => Ok(first),
                false => Err(io::Error::other("the two passwords differ")),
            }
        }),
    };
    let hashed = match asked {
        Ok(password) if password.is_empty() => Err("the password is empty".to_owned()),
        Ok(password) => hash(&password),
        Err(error) => Err(format!("cannot read the password: {error}")),
    };
    match hashed {
        Ok(hash) => {
            screen.line(hash)?;
            Ok(exit::GOOD)
        }
        Err(line) => {
            screen.note(format!("ERROR: {line}"));
            Ok(exit::FAILED)
        }
    }
}

fn hash(password: &str) -> Result<String, String> {
    let salt: [u8; 16] = random::bytes().map_err(|error| error.to_string())?;
    let hashed: Result<PasswordHash, _> =
        Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
    let hashed = hashed.map_err(|error| error.to_string())?;
    Ok(hashed.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_argon2id_and_has_a_salt_of_its_own() {
        let [first, second] = [hash("x").unwrap(), hash("x").unwrap()];
        assert!(
            first.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{first}"
        );
        assert_ne!(first, second);
    }
}
