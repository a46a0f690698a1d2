//! A file that holds some space on the disk, so that a store whose disk is full can still be opened: SQLite
//! needs a little to read a file, and old jobs can be pruned then.

use std::fs;
use std::path::Path;

/// The size of the file in bytes: room for what SQLite keeps beside each of the files.
const SIZE: usize = 2 * 1024 * 1024;

/// The name of the file.
const NAME: &str = "reserve";

/// Makes the file if it is missing and there is room.
pub(crate) fn keep(folder: &Path) {
    let path = folder.join(NAME);
    if path.exists() {
        return;
    }
    // With bytes in it, so that it takes the space.
    let kept = saline_private_files::write(&path, &vec![0x5a; SIZE])
        .and_then(|()| fs::File::open(&path)?.sync_all());
    if let Err(error) = kept {
        tracing::debug!(%error, "no space is reserved for the job store");
        // The store needs the space of an incomplete file.
        let _ = fs::remove_file(&path);
    }
}

/// Deletes the file. Returns whether it was there.
pub(crate) fn give_up(folder: &Path) -> bool {
    fs::remove_file(folder.join(NAME)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_takes_its_space_until_it_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        keep(folder.path());
        keep(folder.path());
        let file = folder.path().join(NAME);
        assert_eq!(fs::metadata(&file).unwrap().len(), SIZE as u64);
        assert!(give_up(folder.path()) && !give_up(folder.path()));
        keep(&folder.path().join("nowhere"));
    }
}
