//! The X25519 key of Noise handshakes. An identity vouches for it, and the vouch says since when: a minion that
//! has seen a later one of its master refuses an earlier one, so that a master's stolen `noise.key` is of no use there once it
//! was replaced. `noise.pub` beside it keeps
//! the time, which a key of its own gets that is later than that of any key before it, whatever the clock says.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::UNIX_EPOCH;

use aws_lc_rs::agreement;
use zeroize::Zeroizing;

use super::{KeyError, key_file, pem};
use saline_messages::random;
use saline_protocol::transport::Clock;

const LABEL: &str = "PRIVATE KEY";

/// The file of a private key.
pub(super) const FILE: &str = "noise.key";

/// The file beside it with the public half and the time of issue.
const PUBLIC_FILE: &str = "noise.pub";
const PUBLIC_LABEL: &str = "PUBLIC KEY";

/// The name of the time of issue in files.
pub(super) const ISSUED: &str = "issued";

/// A static X25519 key pair. The private half is overwritten when it is dropped.
#[derive(Clone)]
pub struct NoiseKey {
    pub(super) private: Zeroizing<[u8; 32]>,
    public: [u8; 32],
    issued: u64,
}

impl NoiseKey {
    /// Creates a random key pair that is issued now.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate() -> Result<Self, KeyError> {
        Self::from_private(Zeroizing::new(random::bytes()?), now())
    }

    fn from_private(private: Zeroizing<[u8; 32]>, issued: u64) -> Result<Self, KeyError> {
        let public = public_key(&private).ok_or(KeyError::Malformed("an X25519 key"))?;
        Ok(Self {
            private,
            public,
            issued,
        })
    }

    /// Reads `folder/noise.key`, or creates it (0600). A key that `noise.pub` beside it does not know is issued now, or
    /// just after the one that it knows.
    ///
    /// # Errors
    /// When the folder or the file cannot be read or written, or holds something else.
    pub fn load_or_create(folder: &Path) -> Result<Self, KeyError> {
        let path = folder.join(FILE);
        key_file::create_private_folder(folder)?;
        let public_path = folder.join(PUBLIC_FILE);
        let before = Issued::read(&public_path);
        let issued = before
            .as_ref()
            .map_or_else(now, |before| before.time.saturating_add(1).max(now()));
        if let Some(private) = Self::read_private(&path)? {
            let mut key = Self::from_private(private, issued)?;
            match before.filter(|before| before.key == key.public) {
                Some(before) => key.issued = before.time,
                // On a full disk the daemon starts all the same, and issues the key again at the next start.
                None => drop(key.write_issued(&public_path)),
            }
            return Ok(key);
        }
        let key = Self::from_private(Zeroizing::new(random::bytes()?), issued)?;
        let text = pem::encode_private(LABEL, pem::X25519_PRIVATE_PREFIX, &key.private);
        // A crash after this leaves a key that the other file does not know.
        key_file::write(&path, &text, 0o600)?;
        key.write_issued(&public_path)?;
        Ok(key)
    }

    /// Reads the private half in the file `path`, if it is there.
    pub(super) fn read_private(path: &Path) -> Result<Option<Zeroizing<[u8; 32]>>, KeyError> {
        let Some(text) = key_file::read_private(path)? else {
            return Ok(None);
        };
        let private = pem::decode_private(LABEL, pem::X25519_PRIVATE_PREFIX, &text);
        private.map(Some).ok_or_else(|| KeyError::NotAKey {
            what: "an X25519 private key in PEM (PKCS #8)",
            path: path.to_owned(),
        })
    }

    /// Removes the private key in `folder`, if there is one. The time at which it was issued stays noted, so that the next
    /// key has a later one.
    pub(super) fn remove(folder: &Path) -> Result<(), KeyError> {
        let path = folder.join(FILE);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(KeyError::Io {
                what: "remove",
                path,
                source,
            }),
            // After this a loss of power does not bring the file back.
            _ => key_file::sync_folder(folder),
        }
    }

    fn write_issued(&self, path: &Path) -> Result<(), KeyError> {
        let key = pem::encode(PUBLIC_LABEL, pem::X25519_PUBLIC_PREFIX, &self.public);
        let text = key + &pem::number_line(ISSUED, self.issued);
        key_file::write(path, &text, 0o600)
    }

    /// Returns the public half.
    pub fn public(&self) -> [u8; 32] {
        self.public
    }

    /// Returns when the identity vouched for the key, in nanoseconds since 1970.
    pub fn issued(&self) -> u64 {
        self.issued
    }
}

/// The content of `noise.pub`.
struct Issued {
    key: [u8; 32],
    time: u64,
}

impl Issued {
    /// Reads the file; none if it is not there, or does not say since when its key is vouched for.
    fn read(path: &Path) -> Option<Self> {
        let text = key_file::read(path).ok()??;
        Some(Self {
            key: pem::decode(PUBLIC_LABEL, pem::X25519_PUBLIC_PREFIX, &text)?,
            time: pem::find_number(ISSUED, &text)?,
        })
    }
}

/// Returns the time now in nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let since = Clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_time_and_the_next_one_has_a_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let load = || NoiseKey::load_or_create(folder.path()).unwrap();
        let first = load();
        let again = load();
        assert_eq!((first.public, first.issued), (again.public, again.issued));

        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        let second = load();
        assert_ne!(second.public, first.public);
        assert!(second.issued > first.issued);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_older_key() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = NoiseKey::load_or_create(folder.path()).unwrap();
        first.issued = u64::MAX / 2;
        first
            .write_issued(&folder.path().join(PUBLIC_FILE))
            .unwrap();
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        let second = NoiseKey::load_or_create(folder.path()).unwrap();
        assert_eq!(second.issued, first.issued + 1);
    }

    #[test]
    fn a_key_that_was_put_in_place_by_hand_is_issued_anew() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = NoiseKey::load_or_create(folder.path()).unwrap();
        let stranger = NoiseKey::load_or_create(other.path()).unwrap();
        std::fs::copy(other.path().join(FILE), folder.path().join(FILE)).unwrap();
        let second = NoiseKey::load_or_create(folder.path()).unwrap();
        assert_eq!(second.public, stranger.public);
        assert!(second.issued > first.issued.max(stranger.issued));
        assert_eq!(
            NoiseKey::load_or_create(folder.path()).unwrap().issued,
            second.issued
        );
    }
}
