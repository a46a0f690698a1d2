//! Writes files that come in parts: those that minions hand in, and those of uploads.

use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::Path;

use saline_jailed_files::{InnerPath, NewFile, Root, StoreError};
use saline_messages::{FileRefusal, Part, TransferId};
use tokio_util::sync::CancellationToken;

use super::hashes::hash;

/// The name under which a file is written until it is complete begins with this.
pub(super) const TEMPORARY: &str = ".saline-push-";

/// Takes a part of a file below `folder`, and returns how many bytes of the file are there. The folder is made if it is not
/// there. Before a new file is begun, `make_room` is asked whether there is room for it; its second argument is the path that the
/// file has until it is complete. With `sync` a complete file is on the disk. Reading a complete file
/// once more, for its hash, ends when `cancel` is cancelled, and what has arrived stays.
///
/// # Errors
/// When the path is malformed, there is no room, the disk fails, or `cancel` is cancelled.
pub(super) fn take_part(
    folder: &Path,
    path: &InnerPath,
    part: &Part,
    sync: bool,
    cancel: &CancellationToken,
    make_room: impl FnOnce(&Root, &InnerPath) -> Result<(), FileRefusal>,
) -> Result<u64, FileRefusal> {
    saline_private_files::create_folder(folder).map_err(|error| failed(folder, &error))?;
    let root = Root::open(folder).map_err(|error| failed(folder, &error))?;
    let temporary = temporary_name(part.transfer);
    let own = beside(path, &temporary).ok_or(FileRefusal::BadPath)?;
    if part.offset == 0 || root.open_file(&own).is_err() {
        if is_there(&root, path, part, cancel) {
            return Ok(part.total);
        }
        if part.offset != 0 {
            // Nothing is made before there is room for it: the file starts over.
            return Ok(0);
        }
        make_room(&root, &own)?;
    }
    let mut new = match root.store(path, &temporary) {
        Ok(new) => new,
        Err(StoreError::NoName | StoreError::NoFolder(_)) => return Err(FileRefusal::BadPath),
        Err(error) => return Err(failed(folder, &error)),
    };
    match write(&mut new, part) {
        Ok(received) if received < part.total => Ok(received),
        Ok(_) => complete(&root, path, new, part, (&temporary, sync), cancel)
            .map_err(|error| failed(folder, &error)),
        Err(error) => {
            // A disk that is full gets its room back.
            let _ = new.discard();
            Err(failed(folder, &error))
        }
    }
}

/// Removes what there is of a file below `folder`: the file, and the parts of one of its transfers.
///
/// # Errors
/// When the disk fails.
pub(super) fn discard(
    folder: &Path,
    path: &InnerPath,
    transfer: TransferId,
) -> Result<(), FileRefusal> {
    let root = match Root::open(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        root => root.map_err(|error| failed(folder, &error))?,
    };
    let parts = beside(path, &temporary_name(transfer)).ok_or(FileRefusal::BadPath)?;
    let removed = root.remove(&parts).and_then(|()| root.remove(path));
    removed.map_err(|error| failed(folder, &error))
}

/// Returns the name under which a file is written until it is complete.
fn temporary_name(transfer: TransferId) -> String {
    format!("{TEMPORARY}{transfer:?}")
}

/// Returns the path of a file with this name in the same folder.
fn beside(path: &InnerPath, name: &str) -> Option<InnerPath> {
    let (folder, _) = path.split_name()?;
    folder.join(&InnerPath::parse(name).ok()?).ok()
}

/// Whether the file was completed by an earlier request whose answer got lost.
fn is_there(root: &Root, path: &InnerPath, part: &Part, cancel: &CancellationToken) -> bool {
    let stored = root
        .open_file(path)
        .ok()
        .filter(|file| file.version().size == part.total);
    stored.and_then(|file| hash(&file, || cancel.is_cancelled()).ok().flatten())
        == Some(part.transfer)
}

/// Writes a part where it belongs, and returns how many bytes are there. One that does not follow them changes nothing.
fn write(new: &mut NewFile, part: &Part) -> std::io::Result<u64> {
    let file = new.file();
    let length = file.metadata()?.len();
    if length > part.total {
        file.set_len(0)?;
        return Ok(0);
    }
    if length != part.offset {
        return Ok(length);
    }
    file.seek(SeekFrom::End(0))?;
    file.write_all(&part.bytes)?;
    Ok(length + part.bytes.len() as u64)
}

/// Gives a file that has all its bytes its name, if they are those that were announced. Otherwise it starts over.
fn complete(
    root: &Root,
    path: &InnerPath,
    new: NewFile,
    part: &Part,
    (temporary, sync): (&str, bool),
    cancel: &CancellationToken,
) -> Result<u64, Box<dyn std::error::Error>> {
    let (folder, _) = path.split_name().ok_or("the path has no name")?;
    let written = folder.join(&InnerPath::parse(temporary)?)?;
    if hash(&root.open_file(&written)?, || cancel.is_cancelled())? != Some(part.transfer) {
        new.discard()?;
        return Ok(0);
    }
    new.complete(0o600, sync)?;
    Ok(part.total)
}

/// Notes in the log why nothing is written below a folder.
pub(super) fn failed(folder: &Path, error: &dyn std::fmt::Display) -> FileRefusal {
    tracing::warn!("a file is not taken into {}: {error}", folder.display());
    FileRefusal::Failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_file_waits_for_a_master_that_does_not_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = InnerPath::parse("below/file").unwrap();
        let part = Part {
            transfer: TransferId::of(b"whole"),
            total: 5,
            offset: 0,
            bytes: b"whole".as_slice().into(),
        };
        let stops = CancellationToken::new();
        stops.cancel();
        let take = |part: &Part, cancel| {
            take_part(folder.path(), &path, part, false, cancel, |_, _| Ok(()))
        };
        assert_eq!(take(&part, &stops), Err(FileRefusal::Failed));
        let written = folder.path().join("below");
        let names = || std::fs::read_dir(&written).unwrap().count();
        assert_eq!(names(), 1);
        assert!(!written.join("file").exists());
        // The last part comes again: nothing is written twice.
        let last = Part {
            offset: 5,
            bytes: Vec::new().into(),
            ..part
        };
        assert_eq!(take(&last, &CancellationToken::new()), Ok(5));
        assert_eq!(std::fs::read(written.join("file")).unwrap(), b"whole");
        assert_eq!(names(), 1);
    }
}
