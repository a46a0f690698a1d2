//! Files that cannot be read because of what is in them: which errors say so, and where such a file goes.

use std::path::{Path, PathBuf};
use std::{fs, io};

use rusqlite::ErrorCode;

use super::StoreError;
use super::set_aside::rename_with_log;

/// The end of the name of a file that was set aside.
const ENDING: &str = "damaged";

/// Whether a file cannot be read because of what is in it, or because the disk does not give it back.
pub(crate) fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Corrupt { .. } => true,
        StoreError::UnreadableFile { source, .. } => is_damage(source),
        StoreError::Open { source, .. } | StoreError::Database(source) => matches!(
            source.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure)
        ),
        _ => false,
    }
}

/// Gives a file and its log other names, which end with `.damaged`. Returns that of the file. The caller has closed it.
///
/// # Errors
/// When a file cannot be renamed.
pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    rename_with_log(path, ENDING)
}

/// Whether a file of this folder was set aside and is still there.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn holds_one(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        if entry?.path().extension().is_some_and(|end| end == ENDING) {
            return Ok(true);
        }
    }
    Ok(false)
}
