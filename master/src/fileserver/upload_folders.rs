//! The folders of uploads on the disk, `cachedir/uploads/ID`.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use saline_jailed_files::{InnerPath, ListingLimits, Root};
use saline_messages::{FileRefusal, MAX_UPLOADED_FILES, UploadId};
use saline_protocol::transport::Clock;

/// The bytes that all uploads may have.
pub(super) const MAX_BYTES: u64 = 8 * 1024 * 1024 * 1024;

/// How long an upload is kept that nobody removes.
const UPLOAD_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// What one upload may have on the disk, to count it: its files, and one that is not complete.
const LISTING_LIMITS: ListingLimits = ListingLimits {
    entries: MAX_UPLOADED_FILES as usize + 16,
    bytes: 1024 * 1024,
};

/// Returns the path below the folder of uploads of a file that a minion names; none unless it is `ID/NUMBER`.
pub(super) fn path(text: &str) -> Result<InnerPath, FileRefusal> {
    let (id, number) = text.split_once('/').ok_or(FileRefusal::NoFile)?;
    let id = UploadId::parse(id).ok_or(FileRefusal::NoFile)?;
    let number: u32 = number.parse().map_err(|_| FileRefusal::NoFile)?;
    InnerPath::parse(&format!("{}/{number}", id.to_text())).map_err(|_| FileRefusal::NoFile)
}

/// Returns the folders of uploads that are there, with the time when something was added last.
pub(super) fn folders(folder: &Path) -> io::Result<Vec<(UploadId, std::time::SystemTime)>> {
    let found = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    let mut uploads = Vec::new();
    for entry in found {
        let entry = entry?;
        let Some(id) = entry.file_name().to_str().and_then(UploadId::parse) else {
            continue;
        };
        // One that is removed meanwhile is gone.
        if let Ok(modified) = entry.metadata().and_then(|found| found.modified()) {
            uploads.push((id, modified));
        }
    }
    Ok(uploads)
}

/// Returns the bytes that each upload takes: those that were announced, and of one of an earlier start those that are there.
pub(super) fn taken(
    folder: &Path,
    announced: HashMap<UploadId, u64>,
) -> io::Result<HashMap<UploadId, u64>> {
    let mut taken = announced;
    for (id, _) in folders(folder)? {
        if taken.contains_key(&id) {
            continue;
        }
        let root = Root::open(&folder.join(id.to_text()))?;
        let listed = root
            .list(&InnerPath::root(), LISTING_LIMITS, |_| true)
            .map_err(io::Error::other)?;
        let bytes = match listed {
            Ok(listed) => {
                let paths = listed
                    .after(None)
                    .filter_map(|entry| InnerPath::parse(entry.path).ok());
                let files = paths.filter_map(|path| root.open_file(&path).ok());
                files.map(|file| file.version().size).sum()
            }
            // Not one of ours: it takes all room until it is gone.
            Err(_) => MAX_BYTES,
        };
        taken.insert(id, bytes);
    }
    Ok(taken)
}

/// Removes old uploads, and returns them.
pub(super) fn remove_expired(folder: &Path) -> io::Result<Vec<UploadId>> {
    let now = Clock.wall();
    let mut removed = Vec::new();
    for (id, modified) in folders(folder)? {
        if now
            .duration_since(modified)
            .is_ok_and(|age| age > UPLOAD_LIFETIME)
        {
            remove(folder, &id.to_text())?;
            removed.push(id);
        }
    }
    Ok(removed)
}

/// Removes the folder of an upload; one that is not there is removed already.
pub(super) fn remove(folder: &Path, name: &str) -> io::Result<()> {
    let root = match Root::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        root => root?,
    };
    let path = InnerPath::parse(name).map_err(io::Error::other)?;
    root.remove_folder(&path).map_err(io::Error::other)
}
