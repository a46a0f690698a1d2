//! The return of a job process, and the places where it may be.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;

use bytes::Bytes;
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
#[derive(Debug, Clone, PartialEq)]
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

/// What stands in front of the return, which may be large and is therefore not part of a message.
#[derive(Serialize, Deserialize)]
struct Head<'r> {
    retcode: i64,
    log: Cow<'r, [LogLine]>,
    described: Cow<'r, Option<DescribedFile>>,
    /// The length of the return in bytes.
    length: u64,
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
        let payload = self.payload.as_bytes();
        let head = versioned::encode(&Head {
            retcode: self.retcode,
            log: Cow::Borrowed(&self.log),
            described: Cow::Borrowed(&self.described),
            length: payload.len() as u64,
        });
        let in_folder = || put(&folder.result(), [&head, payload]);
        let on_disk = || {
            let path = folder.large_result();
            let made = path.parent().map(saline_private_files::create_folder);
            made.unwrap_or(Ok(()))
                .and_then(|()| put(path, [&head, payload]))
        };
        let left = match head.len() + payload.len() <= MAX_IN_RUN_FOLDER {
            true => in_folder().or_else(|_| on_disk()),
            false => on_disk().or_else(|_| in_folder()),
        };
        if left.is_ok() {
            return Ok(Left::InFile);
        }
        memory.set_len(0)?;
        memory.rewind()?;
        memory.write_all(&head)?;
        memory.write_all(payload)?;
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
                Ok(file) => return Self::read(&file).map(Some),
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
        Self::read(memory)
    }

    fn read(file: &File) -> Result<Self, FormatError> {
        let length = file.metadata()?.len();
        Self::decode(versioned::read_bytes(file, length, MAX_RETURN)?)
    }

    /// Decodes what a process left.
    ///
    /// # Errors
    /// When it is not understood.
    pub(super) fn decode(bytes: Vec<u8>) -> Result<Self, FormatError> {
        let (head, payload): (Head<'_>, _) = versioned::split(&bytes)?;
        if payload.len() as u64 != head.length {
            return Err(FormatError::Damaged);
        }
        // The minion keeps the payload until the master has it. A slice keeps the whole file in memory, with the log of the job, so
        // that a payload that is the smaller part of it is copied.
        let (length, begin) = (payload.len(), bytes.len() - payload.len());
        let payload = match bytes.capacity() - length <= length / 2 {
            true => Bytes::from(bytes).slice(begin..),
            false => Bytes::copy_from_slice(payload),
        };
        Ok(Self {
            retcode: head.retcode,
            log: head.log.into_owned(),
            described: head.described.into_owned(),
            payload: Packed::from_bytes(payload),
        })
    }
}

/// Writes a file of these pieces, which is there whole or not at all.
fn put(path: &Path, pieces: [&[u8]; 2]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default();
    let unfinished = path.with_file_name(saline_private_files::unfinished_name(name));
    let written = saline_private_files::write_pieces(&unfinished, &pieces)
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // What is there fills the file system, and is of no use.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use saline_data::Value;

    use super::*;

    /// Leaves a return with this payload in the folder of a job.
    fn left(payload: &str) -> (tempfile::TempDir, JobFolder, JobResult) {
        let root = tempfile::tempdir().unwrap();
        let folders = crate::job_process::JobFolders::below(root.path(), root.path());
        let folder = folders
            .create(saline_messages::StartId([1; 16]), 1)
            .unwrap();
        let result = JobResult {
            retcode: 3,
            payload: Packed::pack(&Value::from(payload)),
            log: Vec::new(),
            described: None,
        };
        let memory = tempfile::tempfile().unwrap();
        assert_eq!(result.leave(&folder, &memory).unwrap(), Left::InFile);
        (root, folder, result)
    }

    #[test]
    fn a_return_that_is_cut_or_goes_on_is_not_understood() {
        let (_root, folder, result) = left("a text");
        let bytes = fs::read(folder.result()).unwrap();
        assert_eq!(JobResult::decode(bytes.clone()).unwrap(), result);
        for cut in 0..bytes.len() {
            assert!(JobResult::decode(bytes[..cut].to_vec()).is_err(), "{cut}");
        }
        assert!(JobResult::decode([&bytes, &[0][..]].concat()).is_err());
    }

    #[test]
    fn a_return_keeps_nothing_else_in_memory() {
        for size in [10, 1_000_000] {
            let (_root, folder, _) = left(&"x".repeat(size));
            let found = JobResult::find(&folder).unwrap().unwrap();
            let length = found.payload.as_bytes().len();
            let kept = Vec::from(found.payload.into_bytes()).capacity();
            assert!(kept - length < length, "{kept} for {length}");
        }
    }
}
