//! Copies the store while it is in use.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::partitions::Connections;
use super::{JobStore, StoreError, schema};

/// The end of the name of a copy that is not finished.
const UNFINISHED: &str = "unfinished";

/// A copy of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    /// The folder of the copy, named by the time like a jid. In the place of the store's folder it is a
    /// store.
    pub folder: PathBuf,
    /// The number of files in it.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl JobStore {
    /// Copies the store into a new folder (0700) beside its own one, below `backups`. What was committed
    /// before the call is in it.
    ///
    /// # Errors
    /// When a file cannot be read or written. What was copied so far is deleted by the next call.
    ///
    /// # Cancel safety
    /// A copy that was begun is finished.
    pub async fn back_up(&self) -> Result<BackedUp, StoreError> {
        let backups = self.settings.folder.with_file_name("backups");
        let name = self.next_jid().to_string();
        self.upkeep
            .call(move |connections| copy(connections, &backups, &name))
            .await
    }
}

fn copy(connections: &mut Connections, backups: &Path, name: &str) -> Result<BackedUp, StoreError> {
    let folder = backups.join(name);
    let unfinished = folder.with_extension(UNFINISHED);
    begin(backups, &unfinished).map_err(|error| StoreError::io(backups, error))?;
    let mut done = BackedUp {
        folder,
        files: 0,
        bytes: 0,
    };
    for start in connections.partitions().all() {
        let path = connections.partitions().path(start);
        let to = unfinished.join(path.file_name().unwrap_or_default());
        match connections.of(start) {
            // It was pruned meanwhile.
            Err(StoreError::Removed) => continue,
            connection => schema::copy_into(connection?, &to)?,
        }
        done.files += 1;
        done.bytes += fs::metadata(&to).map_or(0, |file| file.len());
    }
    let sync = |folder: &Path| fs::File::open(folder)?.sync_all();
    sync(&unfinished)
        .and_then(|()| fs::rename(&unfinished, &done.folder))
        .and_then(|()| sync(backups))
        .map_err(|error| StoreError::io(&unfinished, error))?;
    Ok(done)
}

/// Creates the folder of a copy, and deletes copies that were not finished.
fn begin(backups: &Path, unfinished: &Path) -> std::io::Result<()> {
    let mut private = DirBuilder::new();
    private.mode(0o700).recursive(true).create(backups)?;
    for entry in fs::read_dir(backups)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == UNFINISHED) {
            fs::remove_dir_all(path)?;
        }
    }
    private.create(unfinished)
}
