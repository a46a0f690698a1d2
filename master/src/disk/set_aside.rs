//! Renames a file of a store so that no start opens it, for an operator to look at.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Renames a file and its write-ahead log, so that their names end with a dot and `ending`. Returns the new path of the file.
/// The caller has closed the file.
///
/// # Errors
/// When a file cannot be renamed.
pub(crate) fn rename_with_log(path: &Path, ending: &str) -> io::Result<PathBuf> {
    let with = |suffix: &str| {
        let mut name = OsString::from(path);
        name.push(suffix);
        PathBuf::from(name)
    };
    for log in ["-wal", "-shm"] {
        match fs::rename(with(log), with(&format!(".{ending}{log}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let aside = with(&format!(".{ending}"));
    fs::rename(path, &aside)?;
    Ok(aside)
}
