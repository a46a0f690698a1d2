//! The public keys of a master, and which master is trusted.
//!
//! `identity.pub` and `master.pub` hold two PEM blocks: the Ed25519 identity and, after the first contact, the
//! X25519 key that lets a session begin in one round trip. A file that an operator seeded may hold the first block
//! alone. A line after the blocks says since when the identity vouches for the X25519 key.

use std::path::Path;

use super::noise_key::ISSUED;
use super::{KeyError, NoiseKey, PublicIdentity, key_file, pem};

const LABEL: &str = "PUBLIC KEY";

/// A master's public keys: `pki_dir/master.pub` at a minion, `identity.pub` at the master itself.
/// The file holds two PEM blocks: the identity (Ed25519) and, once it is known, the Noise key
/// (X25519), which lets a session begin in one round trip. A file seeded by an operator may hold
/// the identity alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MasterKeys {
    /// The master's identity.
    pub identity: PublicIdentity,
    /// The master's Noise key, if it is known.
    pub noise: Option<[u8; 32]>,
    /// When the identity vouched for it, in nanoseconds since 1970: the latest such time that was seen, 0 if none was.
    pub issued: u64,
}

impl MasterKeys {
    /// Returns the keys of a master with this identity and this Noise key.
    pub fn of(identity: PublicIdentity, noise: &NoiseKey) -> Self {
        Self {
            identity,
            noise: Some(noise.public()),
            issued: noise.issued(),
        }
    }

    /// Returns the keys of a master of which the identity alone is known.
    pub fn identity_alone(identity: PublicIdentity) -> Self {
        Self {
            identity,
            noise: None,
            issued: 0,
        }
    }

    /// Reads `path`; returns none if there is no such file.
    ///
    /// # Errors
    /// When the file cannot be read, or holds no identity.
    pub fn read(path: &Path) -> Result<Option<Self>, KeyError> {
        let Some(text) = key_file::read(path)? else {
            return Ok(None);
        };
        let identity = PublicIdentity::from_pem(&text).map_err(|_| KeyError::NotAKey {
            what: "an Ed25519 public key in PEM",
            path: path.to_owned(),
        })?;
        Ok(Some(Self {
            identity,
            noise: pem::decode(LABEL, pem::X25519_PUBLIC_PREFIX, &text),
            issued: pem::find_number(ISSUED, &text).unwrap_or(0),
        }))
    }

    /// Writes `path` (0644).
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        let mut text = self.identity.to_pem();
        if let Some(noise) = &self.noise {
            text += &pem::encode(LABEL, pem::X25519_PUBLIC_PREFIX, noise);
        }
        if self.issued > 0 {
            text += &pem::number_line(ISSUED, self.issued);
        }
        if let Some(folder) = path.parent() {
            key_file::create_private_folder(folder)?;
        }
        key_file::write(path, &text, 0o644)
    }
}

/// The trusted master.
#[derive(Debug, Clone)]
pub enum MasterTrust {
    /// The master with these keys.
    Pinned(MasterKeys),
    /// The first master that answers; with a fingerprint, the first that has it.
    FirstUse {
        /// The configured `master_finger`.
        finger: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, NoiseKey};

    #[test]
    fn both_keys_survive_the_file_and_the_second_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pki/master.pub");
        assert_eq!(MasterKeys::read(&path).unwrap(), None);
        let identity = Identity::generate().unwrap().public();
        for keys in [
            MasterKeys::of(identity, &NoiseKey::generate().unwrap()),
            MasterKeys::identity_alone(identity),
        ] {
            keys.write(&path).unwrap();
            assert_eq!(MasterKeys::read(&path).unwrap(), Some(keys));
        }
    }
}
