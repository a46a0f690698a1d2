//! A loss of power: what a daemon wrote and did not sync is taken back, with the journal of the preloaded
//! library.
//!
//! Contents of files are taken back to the last sync. Names are not: a file that was created, renamed or
//! deleted stays so, which is what a file system may do, and the harder case for a file that is renamed
//! into place before its content is synced.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The variable with the folder whose writes the preloaded library journals.
pub(crate) const FOLDER: &str = "SALINE_CHAOS_JOURNAL_FOLDER";

/// The variable with the file of the journal.
pub(crate) const JOURNAL: &str = "SALINE_CHAOS_JOURNAL";

/// The file of the preloaded library, beside this program or among the dependencies of its build.
const LIBRARY: &str = "libsaline_chaos_preload.so";

/// The bytes of a record before its content.
const HEADER: usize = 37;

/// Returns the path of the preloaded library.
///
/// # Errors
/// Why there is none.
pub(crate) fn preload_library() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let candidates = [
        folder.join(LIBRARY),
        folder.join("deps").join(LIBRARY),
        // Tests of this crate run from the folder of the dependencies.
        folder.with_file_name(LIBRARY),
    ];
    let found = candidates.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| format!("{LIBRARY} is not in {}", folder.display()))
}

/// A file, by the numbers that it keeps when it is renamed.
type FileId = (u64, u64);

/// What restores a part of a file.
#[derive(Debug, PartialEq, Eq)]
struct Undo {
    offset: u64,
    /// The length of the file before.
    length: u64,
    content: Vec<u8>,
}

/// The unsynced writes of each file, in their order.
type Pending = HashMap<FileId, Vec<Undo>>;

/// Takes every unsynced write below `folder` back, and empties the journal. Returns how many writes those
/// were.
///
/// # Errors
/// When the journal or a file cannot be read or written.
pub(crate) fn drop_unsynced(journal: &Path, folder: &Path) -> io::Result<usize> {
    let bytes = match fs::read(journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        read => read?,
    };
    let mut pending = pending(&bytes);
    let mut dropped = 0;
    restore_below(folder, &mut pending, &mut dropped)?;
    fs::write(journal, [])?;
    Ok(dropped)
}

/// Takes what is synced out of the journal of a daemon that does not run, so that it does not grow with
/// everything that was ever written.
///
/// # Errors
/// When the journal cannot be read or written.
pub(crate) fn forget_synced(journal: &Path) -> io::Result<()> {
    let bytes = match fs::read(journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let mut kept = Vec::new();
    for ((device, inode), undos) in pending(&bytes) {
        for undo in undos {
            kept.push(b'w');
            for number in [device, inode, undo.offset, undo.length] {
                kept.extend_from_slice(&number.to_le_bytes());
            }
            // It came from four bytes.
            kept.extend_from_slice(&(undo.content.len() as u32).to_le_bytes());
            kept.extend_from_slice(&undo.content);
        }
    }
    fs::write(journal, kept)
}

fn restore_below(folder: &Path, pending: &mut Pending, dropped: &mut usize) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            restore_below(&entry.path(), pending, dropped)?;
        } else if let Some(undos) = pending.remove(&(metadata.dev(), metadata.ino())) {
            let file = OpenOptions::new().write(true).open(entry.path())?;
            for undo in undos.iter().rev() {
                file.write_all_at(&undo.content, undo.offset)?;
                file.set_len(undo.length)?;
                *dropped += 1;
            }
        }
    }
    Ok(())
}

/// Reads what is not synced out of a journal. A record that is not whole ends it: its write did not
/// happen.
fn pending(mut journal: &[u8]) -> Pending {
    let mut pending = Pending::new();
    // For each sync that began, how many writes it covers.
    let mut syncs: HashMap<(FileId, u64), usize> = HashMap::new();
    let mut synced: HashMap<FileId, usize> = HashMap::new();
    while let Some((header, rest)) = journal.split_at_checked(HEADER) {
        let number = |at: usize| {
            let bytes = header
                .get(at..at + 8)
                .and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let file = (number(1), number(9));
        let size = u32::from_le_bytes([header[33], header[34], header[35], header[36]]);
        let Some((content, rest)) = rest.split_at_checked(size as usize) else {
            break;
        };
        journal = rest;
        let already = synced.get(&file).copied().unwrap_or(0);
        let writes = pending.entry(file).or_default();
        match header[0] {
            b'w' => writes.push(Undo {
                offset: number(17),
                length: number(25),
                content: content.to_vec(),
            }),
            b's' => {
                syncs.insert((file, number(17)), already + writes.len());
            }
            b'e' => {
                if let Some(covers) = syncs.remove(&(file, number(17))) {
                    let now = covers.saturating_sub(already).min(writes.len());
                    writes.drain(..now);
                    synced.insert(file, already + now);
                }
            }
            _ => break,
        }
    }
    pending
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, file: FileId, offset: u64, length: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind];
        for number in [file.0, file.1, offset, length] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(content);
        bytes
    }

    #[test]
    fn writes_after_the_last_finished_sync_are_pending() {
        let file = (1, 2);
        let journal = [
            record(b'w', file, 0, 0, b""),
            record(b's', file, 7, 0, b""),
            record(b'w', file, 4, 4, b""),
            record(b'e', file, 7, 0, b""),
            record(b's', file, 8, 0, b""),
            record(b'w', file, 0, 8, b"old"),
        ]
        .concat();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        fs::write(&path, &journal).unwrap();
        forget_synced(&path).unwrap();
        let kept = fs::read(&path).unwrap();
        assert!(kept.len() < journal.len());
        assert_eq!(pending(&kept), pending(&journal));
        let offsets: Vec<_> = pending(&journal)[&file].iter().map(|u| u.offset).collect();
        assert_eq!(offsets, [4, 0]);
        // Half a record is no write.
        let cut = &journal[..journal.len() - 1];
        assert_eq!(pending(cut)[&file].len(), 1);
    }

    #[test]
    fn an_unsynced_write_and_growth_are_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"abcdefgh").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let file = (metadata.dev(), metadata.ino());
        let journal = folder.path().join("journal");
        // "abcdxx" was synced; then "xx" became "ef", and "gh" was appended.
        let records = [
            record(b'w', file, 4, 6, b"xx"),
            record(b'w', file, 6, 6, b""),
        ]
        .concat();
        fs::write(&journal, records).unwrap();
        assert_eq!(drop_unsynced(&journal, folder.path()).unwrap(), 2);
        assert_eq!(fs::read(&path).unwrap(), b"abcdxx");
        assert_eq!(drop_unsynced(&journal, folder.path()).unwrap(), 0);
    }

    #[test]
    fn a_preloaded_program_loses_what_it_did_not_sync() {
        let Ok(library) = preload_library() else {
            // The library is built with the whole workspace, not with this crate's tests alone.
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        let script =
            "printf synced > data/a; sync data/a; printf ' lost' >> data/a; printf new > data/b";
        let status = std::process::Command::new("/bin/sh")
            .args(["-c", script])
            .current_dir(folder.path())
            .env("LD_PRELOAD", library)
            .env(FOLDER, &data)
            .env(JOURNAL, &journal)
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(fs::read(data.join("a")).unwrap(), b"synced lost");
        drop_unsynced(&journal, &data).unwrap();
        assert_eq!(fs::read(data.join("a")).unwrap(), b"synced");
        assert_eq!(fs::read(data.join("b")).unwrap(), b"");
    }
}
