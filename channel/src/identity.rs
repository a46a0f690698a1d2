//! The identity of a master, a minion or an operator: one Ed25519 key.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use zeroize::Zeroizing;

use super::{KeyError, NoiseKey, key_file, pem};
use saline_messages::random;

const PUBLIC_LABEL: &str = "PUBLIC KEY";
const PRIVATE_LABEL: &str = "PRIVATE KEY";

/// The public half of an identity. Key stores hold it, and fingerprints identify it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicIdentity(pub [u8; 32]);

impl PublicIdentity {
    /// Returns the SHA-256 of the key, as `saline-key -f` prints it and `master_finger` takes it.
    pub fn fingerprint(&self) -> String {
        let hash = digest(&SHA256, &self.0);
        let pairs: Vec<String> = hash.as_ref().iter().map(|b| format!("{b:02x}")).collect();
        pairs.join(":")
    }

    /// Whether `finger` is this key's fingerprint; case and colons are ignored.
    pub fn has_fingerprint(&self, finger: &str) -> bool {
        plain_fingerprint(finger) == plain_fingerprint(&self.fingerprint())
    }

    /// Whether `text` is the whole fingerprint of a key; case and colons are ignored.
    pub fn is_fingerprint(text: &str) -> bool {
        let plain = plain_fingerprint(text);
        plain.len() == 64 && plain.bytes().all(|digit| digit.is_ascii_hexdigit())
    }

    /// Returns a PEM block (`PUBLIC KEY`, RFC 8410).
    pub fn to_pem(&self) -> String {
        pem::encode(PUBLIC_LABEL, pem::PUBLIC_PREFIX, &self.0)
    }

    /// Reads the first Ed25519 public key in `text`.
    ///
    /// # Errors
    /// When `text` holds no such key.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        pem::decode(PUBLIC_LABEL, pem::PUBLIC_PREFIX, text)
            .map(Self)
            .ok_or(KeyError::Malformed("an Ed25519 public key in PEM"))
    }

    /// Whether `signature` was made by this identity over `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0)
            .verify(message, signature)
            .is_ok()
    }
}

impl fmt::Debug for PublicIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}

/// Returns a fingerprint in lower case, without colons.
pub(super) fn plain_fingerprint(text: &str) -> String {
    text.trim().replace(':', "").to_ascii_lowercase()
}

/// The name of the file that holds a private key.
pub(super) const FILE: &str = "identity.key";

/// The file of the public key beside it.
pub(super) const PUBLIC_FILE: &str = "identity.pub";

/// Returns the error of a file that is not there.
fn missing(path: &Path) -> KeyError {
    KeyError::Io {
        what: "read",
        path: path.to_owned(),
        source: std::io::Error::new(ErrorKind::NotFound, "there is no such file"),
    }
}

/// An identity with its private key, which is overwritten when it is dropped.
pub struct Identity {
    pub(super) seed: Zeroizing<[u8; 32]>,
    pair: Ed25519KeyPair,
}

impl Identity {
    /// Creates a random identity.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate() -> Result<Self, KeyError> {
        Self::from_seed(Zeroizing::new(random::bytes()?))
    }

    fn from_seed(seed: Zeroizing<[u8; 32]>) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed)
            .map_err(|_| KeyError::Malformed("an Ed25519 seed"))?;
        Ok(Self { seed, pair })
    }

    /// Reads `folder/identity.key`, or creates it (0600) and `identity.pub` beside it.
    ///
    /// # Errors
    /// When the folder or a file in it cannot be read or written, or holds something else, and when `identity.pub` is there
    /// without the private key.
    pub fn load_or_create(folder: &Path) -> Result<Self, KeyError> {
        key_file::create_private_folder(folder)?;
        let public = folder.join(PUBLIC_FILE);
        if let Some(identity) = Self::read_in(folder)? {
            if public.symlink_metadata().is_err() {
                // A crash was between the two. On a full disk the daemon starts all the same.
                let _ = key_file::write(&public, &identity.public().to_pem(), 0o644);
            }
            return Ok(identity);
        }
        let identity = Self::generate()?;
        // A Noise key that is there belonged to another identity, and peers that know it would take this identity for that one.
        NoiseKey::remove(folder)?;
        // In this order: a crash in between leaves the private key.
        identity.write(&folder.join(FILE), 0o600)?;
        key_file::write(&public, &identity.public().to_pem(), 0o644)?;
        Ok(identity)
    }

    /// Reads `folder/identity.key`.
    ///
    /// # Errors
    /// As [`read`](Self::read), and when `identity.pub` is there without the private key.
    pub fn load(folder: &Path) -> Result<Self, KeyError> {
        Self::read_in(folder)?.ok_or_else(|| missing(&folder.join(FILE)))
    }

    /// Reads `folder/identity.key`, if it is there.
    pub(super) fn read_in(folder: &Path) -> Result<Option<Self>, KeyError> {
        let path = folder.join(FILE);
        let found = Self::read_optional(&path)?;
        match found.is_none() && folder.join(PUBLIC_FILE).symlink_metadata().is_ok() {
            true => Err(KeyError::Lost { path }),
            false => Ok(found),
        }
    }

    /// Reads a private key.
    ///
    /// # Errors
    /// When the file is not there, cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        Self::read_optional(path)?.ok_or_else(|| missing(path))
    }

    /// Reads a private key, if the file is there.
    pub(super) fn read_optional(path: &Path) -> Result<Option<Self>, KeyError> {
        let Some(text) = key_file::read_private(path)? else {
            return Ok(None);
        };
        let seed =
            pem::decode_private(PRIVATE_LABEL, pem::PRIVATE_PREFIX, &text).ok_or_else(|| {
                KeyError::NotAKey {
                    what: "an Ed25519 private key in PEM (PKCS #8)",
                    path: path.to_owned(),
                }
            })?;
        Self::from_seed(seed).map(Some)
    }

    /// Writes the private key with this mode.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path, mode: u32) -> Result<(), KeyError> {
        key_file::write(
            path,
            &pem::encode_private(PRIVATE_LABEL, pem::PRIVATE_PREFIX, &self.seed),
            mode,
        )
    }

    /// Returns the public half.
    pub fn public(&self) -> PublicIdentity {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        PublicIdentity(key)
    }

    /// Signs `message`; the signature has 64 bytes.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({:?})", self.public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_survives_its_file_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("pki");
        let identity = Identity::load_or_create(&folder).unwrap();
        let again = Identity::load_or_create(&folder).unwrap();
        assert_eq!(identity.public(), again.public());
        assert!(
            again
                .public()
                .verifies(b"message", &identity.sign(b"message"))
        );
        assert!(
            !again
                .public()
                .verifies(b"other", &identity.sign(b"message"))
        );
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.join("identity.key")), 0o600);
        assert_eq!(mode(&folder), 0o700);
    }

    #[test]
    fn a_public_key_survives_pem() {
        let public = Identity::generate().unwrap().public();
        assert_eq!(PublicIdentity::from_pem(&public.to_pem()).unwrap(), public);
        assert!(PublicIdentity::from_pem("-----BEGIN PUBLIC KEY-----\nAAAA\n").is_err());
        let plain = public.fingerprint().to_uppercase().replace(':', "");
        assert!(public.has_fingerprint(&plain));
        assert!(PublicIdentity::is_fingerprint(&plain));
        assert!(PublicIdentity::is_fingerprint(&public.fingerprint()));
        for other in ["", "web1", &plain[1..], &format!("{plain}0")] {
            assert!(!PublicIdentity::is_fingerprint(other), "{other}");
        }
    }

    #[test]
    fn a_private_key_that_was_lost_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::load_or_create(folder.path()).unwrap();
        let private = folder.path().join("identity.key");
        let kept = folder.path().join("kept");
        std::fs::rename(&private, &kept).unwrap();
        let error = Identity::load_or_create(folder.path()).unwrap_err();
        assert!(matches!(error, KeyError::Lost { .. }), "{error}");
        assert!(!private.exists());
        std::fs::rename(&kept, &private).unwrap();
        let public = folder.path().join("identity.pub");
        std::fs::remove_file(&public).unwrap();
        let again = Identity::load_or_create(folder.path()).unwrap();
        assert_eq!(again.public(), identity.public());
        assert!(public.exists(), "so that the next loss is noticed");
    }

    #[test]
    fn a_file_that_holds_something_else_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("identity.key"), "nonsense").unwrap();
        let error = Identity::load_or_create(folder.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("identity.key"), "{error}");
    }
}
