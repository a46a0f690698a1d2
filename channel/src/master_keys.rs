//! The public keys of a master, and which master is trusted.
//!
//! `identity.pub` and `master.pub` hold two PEM blocks: the Ed25519 identity and, after the first contact, the
//! X25519 key that lets a session begin in one round trip. A file that an operator seeded may hold the first block
//! alone. Lines after the blocks say since when the identity vouches for the X25519 key, and, at a minion, which
//! identities it took the place of.

use std::path::Path;

use super::identity::plain_fingerprint;
use super::noise_key::ISSUED;
use super::{KeyError, MAX_SUCCESSORS, NoiseKey, PublicIdentity, key_file, pem};

const LABEL: &str = "PUBLIC KEY";

/// The name of the line with the fingerprint of a predecessor.
const PREDECESSOR: &str = "predecessor";

/// A master's public keys: `pki_dir/master.pub` at a minion, `identity.pub` at the master itself.
/// The file holds two PEM blocks: the identity (Ed25519) and, once it is known, the Noise key
/// (X25519), which lets a session begin in one round trip. A file seeded by an operator may hold
/// the identity alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterKeys {
    /// The master's identity.
    pub identity: PublicIdentity,
    /// The master's Noise key, if it is known.
    pub noise: Option<[u8; 32]>,
    /// When the identity vouched for it, in nanoseconds since 1970: the latest such time that was seen, 0 if none was.
    pub issued: u64,
    /// The fingerprints of the identities that the master had before, as far as they are known, at most
    /// [`MAX_SUCCESSORS`] of them.
    pub predecessors: Vec<String>,
}

impl MasterKeys {
    /// Returns the keys of a master with this identity and this Noise key.
    pub fn of(identity: PublicIdentity, noise: &NoiseKey) -> Self {
        Self {
            identity,
            noise: Some(noise.public()),
            issued: noise.issued(),
            predecessors: Vec::new(),
        }
    }

    /// Returns the keys of a master of which the identity alone is known.
    pub fn identity_alone(identity: PublicIdentity) -> Self {
        Self {
            identity,
            noise: None,
            issued: 0,
            predecessors: Vec::new(),
        }
    }

    /// Whether the master had the identity with this fingerprint before it had the present one; case and colons are
    /// ignored.
    pub fn had_fingerprint(&self, finger: &str) -> bool {
        let mut before = self.predecessors.iter();
        before.any(|known| plain_fingerprint(known) == plain_fingerprint(finger))
    }

    /// Notes further identities that the master had before.
    #[must_use]
    pub(super) fn with_predecessors(mut self, further: impl IntoIterator<Item = String>) -> Self {
        for finger in further {
            if !self.had_fingerprint(&finger) {
                self.predecessors.push(finger);
            }
        }
        let excess = self.predecessors.len().saturating_sub(MAX_SUCCESSORS);
        self.predecessors.drain(..excess);
        self
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
        let keys = Self {
            identity,
            noise: pem::decode(LABEL, pem::X25519_PUBLIC_PREFIX, &text),
            issued: pem::find_number(ISSUED, &text).unwrap_or(0),
            predecessors: Vec::new(),
        };
        Ok(Some(keys.with_predecessors(predecessors(&text))))
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
        for finger in &self.predecessors {
            text += &format!("{PREDECESSOR}: {finger}\n");
        }
        if let Some(folder) = path.parent() {
            key_file::create_private_folder(folder)?;
        }
        key_file::write(path, &text, 0o644)
    }
}

/// Returns the fingerprints of predecessors in the text of a file.
fn predecessors(text: &str) -> impl Iterator<Item = String> {
    let named = text.lines().filter_map(|line| line.split_once(": "));
    let fingers = named
        .filter(|(name, finger)| *name == PREDECESSOR && PublicIdentity::is_fingerprint(finger));
    fingers.map(|(_, finger)| finger.trim().to_owned())
}

/// The trusted master.
#[derive(Debug, Clone)]
pub enum MasterTrust {
    /// The master with these keys.
    Pinned(MasterKeys),
    /// The master that took the place of the one with the known keys, if it has a fingerprint.
    Successor {
        /// The keys that are known.
        known: MasterKeys,
        /// The configured `master_finger`.
        finger: String,
    },
    /// The first master that answers; with a fingerprint, the first that has it.
    FirstUse {
        /// The configured `master_finger`.
        finger: Option<String>,
    },
}

impl MasterTrust {
    /// Returns the fingerprint that the master must have, if it must have one.
    pub fn fingerprint(&self) -> Option<String> {
        match self {
            Self::Pinned(known) => Some(known.identity.fingerprint()),
            Self::Successor { finger, .. } => Some(finger.clone()),
            Self::FirstUse { finger } => finger.clone(),
        }
    }
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
        let finger = |number| PublicIdentity([number; 32]).fingerprint();
        for keys in [
            MasterKeys::of(identity, &NoiseKey::generate().unwrap()),
            MasterKeys::identity_alone(identity),
            MasterKeys::identity_alone(identity).with_predecessors((0..3).map(finger)),
        ] {
            keys.write(&path).unwrap();
            assert_eq!(MasterKeys::read(&path).unwrap(), Some(keys));
        }
    }

    #[test]
    fn predecessors_are_bounded_and_the_newest_stay() {
        let finger = |number| PublicIdentity([number; 32]).fingerprint();
        let identity = Identity::generate().unwrap().public();
        let keys = MasterKeys::identity_alone(identity).with_predecessors((0..20).map(finger));
        assert_eq!(keys.predecessors.len(), MAX_SUCCESSORS);
        assert!(keys.had_fingerprint(&finger(19).to_uppercase().replace(':', "")));
        assert!(!keys.had_fingerprint(&finger(0)));
        let again = keys.clone().with_predecessors([finger(19)]);
        assert_eq!(again, keys, "each is noted once");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.pub");
        let lines: String = (0..100)
            .map(|n| format!("predecessor: {}\n", finger(n)))
            .collect();
        let text = identity.to_pem() + &lines + "predecessor: nonsense\n";
        std::fs::write(&path, text).unwrap();
        let read = MasterKeys::read(&path).unwrap().unwrap();
        assert_eq!(read.predecessors, (92..100).map(finger).collect::<Vec<_>>());
    }
}
