//! The path on the minion to which a file of the master goes.

use std::path::{Path, PathBuf};

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch};

/// An absolute path on the minion: that of a file, or of a folder when it ends with a slash or is one.
#[derive(Debug, Clone)]
pub(super) struct Destination(String);

impl FromValue for Destination {
    const TAKES: &'static str = "an absolute path without ..";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            // Rules of operators match this text, so it is where the file goes.
            Value::Text(text)
                if text.starts_with('/')
                    && !text.contains('\0')
                    && text.split('/').all(|part| part != "..") =>
            {
                Ok(Self(text))
            }
            other => Err(Mismatch::of::<Self>(&other)),
        }
    }
}

impl Destination {
    /// Returns the path of a file with this name.
    pub(super) fn of_file(&self, name: &str) -> PathBuf {
        let path = Path::new(&self.0);
        match self.0.ends_with('/') || path.is_dir() {
            true => path.join(name),
            false => path.to_owned(),
        }
    }

    /// Returns the path as that of a folder.
    pub(super) fn as_folder(&self) -> &Path {
        Path::new(&self.0)
    }
}

/// Returns a path as the text of a return.
pub(super) fn shown(path: &Path) -> Value {
    Value::from(path.display().to_string())
}

/// Opens a file of the minion for reading; never waits for a pipe.
pub(super) fn open(path: &Path) -> Result<std::fs::File, Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let failed = |why: &dyn std::fmt::Display| {
        Failure::Execution(format!("cannot read {}: {why}", path.display()))
    };
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path).map_err(|why| failed(&why))?;
    let found = file.metadata().map_err(|why| failed(&why))?;
    match found.is_file() {
        true => Ok(file),
        false => Err(failed(&"it is not a regular file")),
    }
}
