//! The hashes of files that were read lately.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use saline_jailed_files::{FileVersion, JailedFile};
use saline_messages::{TransferDigest, TransferId};

/// The most files in each of the two generations; each takes about 150 bytes.
const MAX_IN_GENERATION: usize = 32 * 1024;

/// Bytes that are read at a time.
const BUFFER: usize = 256 * 1024;

/// The hash of a version of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownHash {
    version: FileVersion,
    pub(super) hash: TransferId,
    /// Whether the file had not changed for a while when it was read, so that a later change shows in its version.
    is_settled: bool,
}

/// The hashes of files, by device and inode. When the young generation is full, it becomes the old one, and the old one
/// is forgotten: what is asked for again comes back into the young one.
#[derive(Debug, Default)]
pub(super) struct Hashes(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<(u64, u64), KnownHash>,
    old: HashMap<(u64, u64), KnownHash>,
}

impl Hashes {
    /// Returns the hash of this version of a file, if it is known.
    pub(super) fn of(&self, version: &FileVersion) -> Option<KnownHash> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (version.device, version.inode);
        let known = match generations.young.get(&key) {
            Some(known) => *known,
            None => {
                let known = generations.old.remove(&key)?;
                generations.insert(key, known);
                known
            }
        };
        (known.version == *version).then_some(known)
    }

    /// Notes the hash of a version of a file that was read from `began` on.
    pub(super) fn note(&self, version: FileVersion, hash: TransferId, began: SystemTime) {
        let known = KnownHash {
            version,
            hash,
            is_settled: version.is_settled(began),
        };
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert((version.device, version.inode), known);
    }

    pub(super) fn forget(&self) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *generations = Generations::default();
    }
}

impl Generations {
    fn insert(&mut self, key: (u64, u64), known: KnownHash) {
        if self.young.len() >= MAX_IN_GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, known);
    }
}

impl KnownHash {
    /// Whether the file surely has this hash as long as it has this version.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }
}

/// Reads a file to its end and returns its hash; none when it has another length than it had when it was opened.
///
/// # Errors
/// When the file cannot be read, and once `is_given_up` says so: a large file takes minutes.
pub(super) fn hash(
    file: &JailedFile,
    is_given_up: impl Fn() -> bool,
) -> io::Result<Option<TransferId>> {
    let size = file.version().size;
    let mut digest = TransferDigest::default();
    let mut buffer = vec![0; BUFFER.min(usize::try_from(size).unwrap_or(BUFFER).max(1))];
    let mut offset = 0;
    loop {
        if is_given_up() {
            return Err(io::Error::other("its hash was given up"));
        }
        let read = file.read_at(&mut buffer, offset)?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
        offset += read as u64;
        if offset > size {
            return Ok(None);
        }
    }
    let is_same = offset == size && file.version_now()? == file.version();
    Ok(is_same.then(|| digest.id()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn version(inode: u64) -> FileVersion {
        FileVersion {
            device: 1,
            inode,
            size: 3,
            modified: (100, 0),
            changed: (100, 0),
        }
    }

    #[test]
    fn a_hash_is_that_of_one_version() {
        let hashes = Hashes::default();
        let hash = TransferId::of(b"one");
        let late = SystemTime::UNIX_EPOCH + Duration::from_secs(200);
        hashes.note(version(1), hash, late);
        assert_eq!(hashes.of(&version(1)).unwrap().hash, hash);
        assert!(hashes.of(&version(1)).unwrap().is_settled());
        for changed in [
            FileVersion {
                size: 4,
                ..version(1)
            },
            FileVersion {
                modified: (100, 1),
                ..version(1)
            },
            FileVersion {
                changed: (101, 0),
                ..version(1)
            },
            FileVersion {
                device: 2,
                ..version(1)
            },
            version(2),
        ] {
            assert!(hashes.of(&changed).is_none(), "{changed:?}");
        }
        let at_once = SystemTime::UNIX_EPOCH + Duration::from_secs(101);
        hashes.note(version(1), hash, at_once);
        assert!(!hashes.of(&version(1)).unwrap().is_settled());
    }

    #[test]
    fn the_memory_of_hashes_is_bounded_and_what_is_asked_for_stays() {
        let hashes = Hashes::default();
        let hash = TransferId::of(b"one");
        let now = SystemTime::UNIX_EPOCH;
        for inode in 0..5 * MAX_IN_GENERATION as u64 {
            hashes.note(version(inode), hash, now);
            assert!(hashes.of(&version(0)).is_some(), "forgotten at {inode}");
        }
        let generations = hashes.0.lock().unwrap();
        assert!(
            generations.young.len() <= MAX_IN_GENERATION
                && generations.old.len() <= MAX_IN_GENERATION
        );
    }
}
