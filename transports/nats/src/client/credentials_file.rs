//! Files of credentials (`.creds`): the JWT of a user and the seed of its key, each between two lines of dashes.

use zeroize::Zeroizing;

/// The parts of a file of credentials.
pub(crate) struct CredentialsFile {
    pub(crate) jwt: String,
    pub(crate) seed: Zeroizing<String>,
}

impl CredentialsFile {
    /// Reads the text of such a file: the first block is the JWT, the second one the seed.
    ///
    /// # Errors
    /// With what is missing.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut blocks = Vec::new();
        let mut inside = None;
        for line in text.lines().map(str::trim) {
            if line.starts_with("---") {
                match inside.take() {
                    Some(block) => blocks.push(block),
                    None => inside = Some(Zeroizing::new(String::new())),
                }
            } else if let Some(block) = &mut inside {
                block.push_str(line);
            }
        }
        let mut blocks = blocks.into_iter();
        let is_missing = |block: &Zeroizing<String>| block.is_empty();
        let jwt = blocks.next().filter(|block| !is_missing(block));
        let jwt = jwt.ok_or("it has no block with the JWT of a user")?;
        let seed = blocks.next().filter(|block| !is_missing(block));
        let seed = seed.ok_or("it has no block with the seed of the user's nkey")?;
        Ok(Self {
            jwt: jwt.as_str().to_owned(),
            seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "-----BEGIN NATS USER JWT-----
eyJ0.eyJu.c2ln
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.
NKEYs are sensitive and should be treated as secrets.

-----BEGIN USER NKEY SEED-----
SUAB
------END USER NKEY SEED------

*************************************************************
";

    #[test]
    fn both_parts_are_found() {
        for text in [FILE.to_owned(), FILE.replace('\n', "\r\n")] {
            let file = CredentialsFile::parse(&text).unwrap();
            assert_eq!(
                (file.jwt.as_str(), file.seed.as_str()),
                ("eyJ0.eyJu.c2ln", "SUAB")
            );
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let refused = |text: &str| CredentialsFile::parse(text).err().unwrap();
        assert!(refused("").contains("JWT"));
        assert!(refused("-----\n-----\n").contains("JWT"));
        let (jwt, _) = FILE.split_once("-----BEGIN USER").unwrap();
        assert!(refused(jwt).contains("seed"));
        assert!(refused(&FILE.replace("SUAB", "")).contains("seed"));
    }
}
