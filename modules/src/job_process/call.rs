//! The call of a function, as a job process gets it: in a file in memory, because it has the values of secrets.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::PathBuf;

use saline_data::Packed;
use saline_exec::Launcher;
use saline_messages::{ArgumentPlace, MinionId, PackedArguments};
use serde::{Deserialize, Serialize};

use super::JobRecord;
use super::folder::JobFolder;
use super::versioned::{self, FormatError};
use crate::Prepared;
use crate::executables::DescribedFile;

/// The call of a function, and what it may use of its minion.
#[derive(Serialize, Deserialize)]
pub(crate) struct Call {
    /// The folder of the job.
    pub(super) folder: JobFolder,
    /// The job.
    pub(super) job: JobRecord,
    /// The arguments with the values of the secret ones.
    pub(super) arguments: PackedArguments,
    /// The places of the secret ones.
    pub(super) hidden: Vec<ArgumentPlace>,
    /// What the minion has prepared for its functions.
    pub(super) prepared: Prepared,
    /// The id of the minion.
    pub(super) id: MinionId,
    /// The grains of the minion.
    pub(super) grains: Packed,
    /// The folders of executables that are modules.
    pub(super) module_dirs: Vec<PathBuf>,
    /// How the executable of the function described itself, if the minion knows.
    pub(super) described: Option<DescribedFile>,
    /// The minion's `cachedir`.
    pub(super) cache_dir: PathBuf,
    /// Starts the commands.
    pub(super) launcher: Launcher,
    /// The largest message of the minion, in bytes.
    pub(super) max_message: usize,
    /// The largest file of the output of a command, in bytes.
    pub(super) output_file_size: u64,
}

impl Call {
    /// Writes the call to a file in memory.
    ///
    /// # Errors
    /// When the system has no memory or no descriptor left.
    pub(super) fn to_memory(&self) -> io::Result<File> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::memfd_create("saline-job", flags)?);
        file.write_all(&versioned::encode(self))?;
        file.rewind()?;
        Ok(file)
    }

    /// Reads a call, and empties the file.
    ///
    /// # Errors
    /// When the file is none of [`to_memory`](Self::to_memory).
    pub(super) fn from_memory(file: &File) -> Result<Self, FormatError> {
        let call = versioned::read(file, u64::MAX)?;
        file.set_len(0)?;
        Ok(call)
    }
}
