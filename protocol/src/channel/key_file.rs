//! Key files: private ones have mode 0600 from the moment they exist, and no file is ever partly
//! written.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::KeyError;

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Io { what, path, source }
}

/// Creates `path` and its missing parents with mode 0700.
///
/// # Errors
/// When a folder cannot be created.
pub fn create_private_folder(path: &Path) -> Result<(), KeyError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(io_error("create", path))
}

/// Writes `text` to `path` with this mode, through a temporary file beside it.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, text: &str, mode: u32) -> Result<(), KeyError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(name);
    let attempt = || {
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    attempt().map_err(io_error("write", path))
}

/// Reads `path`; returns none if there is no such file.
///
/// # Errors
/// When the file cannot be read.
pub fn read(path: &Path) -> Result<Option<String>, KeyError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}
