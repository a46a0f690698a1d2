//! The file with the names of operators' own functions, one a line, by which shells complete command lines.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// The permissions of the file: it tells what minions can do, so that others than the master's user need not read it.
const MODE: u32 = 0o600;

/// The file, and what is in it.
#[derive(Debug)]
pub(super) struct NamesFile {
    path: PathBuf,
    /// The names in the file; none before it was written.
    written: Option<BTreeSet<String>>,
    /// Whether the last write failed; only the first failure is logged.
    is_failing: bool,
}

impl NamesFile {
    /// Creates the writer of a file, which is left as it is for now.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            written: None,
            is_failing: false,
        }
    }

    /// Writes these names, if they are others than those in the file. Blocks on the disk.
    pub(super) fn write(&mut self, names: BTreeSet<String>) {
        if self.written.as_ref() == Some(&names) || (self.written.is_none() && names.is_empty()) {
            return;
        }
        match replace(&self.path, &names) {
            Ok(()) => {
                self.written = Some(names);
                self.is_failing = false;
            }
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                tracing::warn!(
                    "{} cannot be written, so that completion does not know the functions of minions' own modules: {error}",
                    self.path.display()
                );
            }
            Err(_) => {}
        }
    }
}

fn replace(path: &Path, names: &BTreeSet<String>) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        saline_private_files::create_folder(folder)?;
    }
    let lines: String = names.iter().flat_map(|name| [name, "\n"]).collect();
    saline_private_files::replace(path, lines.as_bytes(), MODE)
}
