//! The return of a job process, and the places where it may be.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;

use saline_data::Packed;
use serde::{Deserialize, Serialize};

use super::folder::JobFolder;
use super::log_lines::LogLine;
use super::versioned::{self, FormatError};
use crate::Modules;
use crate::executables::DescribedFile;

/// The largest return that is left below `sock_dir`, which is in memory, in bytes. Larger ones go to the disk, if that has room.
const MAX_IN_RUN_FOLDER: usize = 1024 * 1024;

/// The largest file of a return that is read, in bytes. A return is no larger than a message, and its log is small.
const MAX_RETURN: u64 = 4 * 1024 * 1024 * 1024;

/// The return of a job process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// The retcode.
    pub retcode: i64,
    /// The return, no larger than the minion can send.
    pub payload: Packed,
    /// What the function logged.
    pub(super) log: Vec<LogLine>,
    /// How the executable of the function described itself, if the minion did not know.
    pub(super) described: Option<DescribedFile>,
}

/// The place at which a job process left its return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// In a file.
    InFile,
    /// In the memory that the process got its call in: no file could be written.
    InMemory,
}

impl JobResult {
    /// Has the minion know what the process learnt of an executable.
    pub fn teach(&self, modules: &Modules) {
        if let Some(described) = &self.described {
            modules.executables.learn(described.clone());
        }
    }

    /// Writes what the function logged to the log of this process.
    pub fn log(&self, jid: &saline_messages::Jid) {
        self.log.iter().for_each(|line| line.log(jid));
    }

    /// Leaves the return in the folder of the job or on the disk, a large one on the disk first, or at last in `memory`.
    ///
    /// # Errors
    /// When none of them takes it.
    pub(super) fn leave(&self, folder: &JobFolder, mut memory: &File) -> io::Result<Left> {
        let bytes = versioned::encode(self);
        let in_folder = || put(&folder.result(), &bytes);
        let on_disk = || {
            let path = folder.large_result();
            let made = path.parent().map(saline_private_files::create_folder);
            made.unwrap_or(Ok(())).and_then(|()| put(path, &bytes))
        };
        let left = match bytes.len() <= MAX_IN_RUN_FOLDER {
            true => in_folder().or_else(|_| on_disk()),
            false => on_disk().or_else(|_| in_folder()),
        };
        if left.is_ok() {
            return Ok(Left::InFile);
        }
        memory.set_len(0)?;
        memory.rewind()?;
        memory.write_all(&bytes)?;
        Ok(Left::InMemory)
    }

    /// Reads the return that a process left in a file. Returns none if there is none.
    ///
    /// # Errors
    /// When the file is not understood.
    pub(super) fn find(folder: &JobFolder) -> Result<Option<Self>, FormatError> {
        for path in [folder.result().as_path(), folder.large_result()] {
            let mut options = saline_private_files::options();
            match saline_private_files::open(path, options.read(true)) {
                Ok(file) => return versioned::read_file(&file, MAX_RETURN).map(Some),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Reads the return that a process left in memory.
    ///
    /// # Errors
    /// When it is not understood.
    pub(super) fn from_memory(mut memory: &File) -> Result<Self, FormatError> {
        memory.rewind()?;
        versioned::read(memory, MAX_RETURN)
    }
}

/// Writes a file, which is there whole or not at all.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default();
    let unfinished = path.with_file_name(saline_private_files::unfinished_name(name));
    let written = saline_private_files::write(&unfinished, bytes)
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // What is there fills the file system, and is of no use.
        let _ = fs::remove_file(&unfinished);
    }
    written
}
