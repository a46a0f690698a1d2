//! The X25519 key of Noise handshakes. An identity vouches for it.

use std::fmt;
use std::path::Path;

use aws_lc_rs::agreement;
use zeroize::Zeroizing;

use super::{KeyError, key_file, pem};
use saline_messages::random;

const LABEL: &str = "PRIVATE KEY";

/// A static X25519 key pair. The private half is overwritten when it is dropped.
#[derive(Clone)]
pub struct NoiseKey {
    pub(super) private: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl NoiseKey {
    /// Creates a random key pair.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate() -> Result<Self, KeyError> {
        Self::from_private(Zeroizing::new(random::bytes()?))
    }

    fn from_private(private: Zeroizing<[u8; 32]>) -> Result<Self, KeyError> {
        let public = public_key(&private).ok_or(KeyError::Malformed("an X25519 key"))?;
        Ok(Self { private, public })
    }

    /// Reads `folder/noise.key`, or creates it (0600).
    ///
    /// # Errors
    /// When the folder or the file cannot be read or written, or holds something else.
    pub fn load_or_create(folder: &Path) -> Result<Self, KeyError> {
        let path = folder.join("noise.key");
        key_file::create_private_folder(folder)?;
        if let Some(text) = key_file::read_private(&path)? {
            let private = pem::decode_private(LABEL, pem::X25519_PRIVATE_PREFIX, &text);
            return Self::from_private(private.ok_or(KeyError::NotAKey {
                what: "an X25519 private key in PEM (PKCS #8)",
                path,
            })?);
        }
        let key = Self::generate()?;
        let text = pem::encode_private(LABEL, pem::X25519_PRIVATE_PREFIX, &key.private);
        key_file::write(&path, &text, 0o600)?;
        Ok(key)
    }

    /// Returns the public half.
    pub fn public(&self) -> [u8; 32] {
        self.public
    }
}

/// Returns the public half of a private key, if it is one.
fn public_key(private: &[u8; 32]) -> Option<[u8; 32]> {
    let key = agreement::PrivateKey::from_private_key(&agreement::X25519, private).ok()?;
    key.compute_public_key().ok()?.as_ref().try_into().ok()
}

impl fmt::Debug for NoiseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoiseKey")
    }
}
