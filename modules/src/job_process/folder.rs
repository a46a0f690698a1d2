//! The folder of a job that runs in a process of its own, and the lock that the process holds.
//!
//! The process locks the file `job` in it before it runs anything, and the system gives the lock back when the process has
//! ended, however it ends. The lock is one of `fcntl(2)`, so that the system also tells which process holds it: nothing that
//! was written down, and may have been given to another process since, is believed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, Pid, fcntl_getlk};
use saline_messages::StartId;
use serde::{Deserialize, Serialize};

use super::JobRecord;
use super::versioned::{self, FormatError};

/// The name of the file with the record, which the process of the job locks.
const RECORD: &str = "job";

/// The name of an empty file that is there until the process begins the job. What is removed, and not created, needs no room.
const NOT_BEGUN: &str = "not_begun";

/// The largest record that is read, in bytes.
const MAX_RECORD: u64 = 1024 * 1024;

/// The folders of all jobs of a minion.
#[derive(Debug, Clone)]
pub struct JobFolders {
    /// Below `sock_dir`, which a restart of the machine empties.
    run: PathBuf,
    /// Below `state_dir`, for large returns.
    state: PathBuf,
}

impl JobFolders {
    /// Returns the folders of a minion with these `sock_dir` and `state_dir`.
    pub fn below(sock_dir: &Path, state_dir: &Path) -> Self {
        Self {
            run: sock_dir.join("jobs"),
            state: state_dir.join("jobs"),
        }
    }

    /// Returns the folder of all folders of jobs.
    pub(super) fn run(&self) -> &Path {
        &self.run
    }

    /// Returns the folder of large returns.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// Creates the folder of the job with this number of this start of a minion.
    ///
    /// # Errors
    /// When it cannot be created, or somebody else could change the folder above it.
    pub(super) fn create(&self, start: StartId, number: u64) -> io::Result<JobFolder> {
        saline_private_files::create_folder(&self.run)?;
        let start: String = start.0[..8].iter().map(|b| format!("{b:02x}")).collect();
        let folder = self.named(&format!("{start}-{number}"));
        saline_private_files::create_folder(&folder.path)?;
        Ok(folder)
    }

    /// Returns the folder of this name.
    pub(super) fn named(&self, name: &str) -> JobFolder {
        JobFolder {
            path: self.run.join(name),
            large_result: self.state.join(format!("{name}.return")),
        }
    }
}

/// The folder of one job. Its name is made of numbers of the minion.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct JobFolder {
    path: PathBuf,
    large_result: PathBuf,
}

/// The holder of the lock of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// This process holds the lock.
    Process(Pid),
    /// A process that is not seen from here holds it, in another namespace of processes.
    Unseen,
    /// Nobody holds the lock.
    Nobody,
}

impl JobFolder {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a return that is small.
    pub(super) fn result(&self) -> PathBuf {
        self.path.join("return")
    }

    /// Returns the path of a return that is large, or that the folder did not take.
    pub(super) fn large_result(&self) -> &Path {
        &self.large_result
    }

    /// Returns the path of the socket that signals go through.
    pub(super) fn control(&self) -> PathBuf {
        self.path.join("control")
    }

    /// Returns the device and the number of the folder.
    ///
    /// # Errors
    /// When the folder is gone.
    pub(super) fn identity(&self) -> io::Result<(u64, u64)> {
        let found = fs::symlink_metadata(&self.path)?;
        Ok((found.dev(), found.ino()))
    }

    /// Writes the record of the job.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write_record(&self, record: &JobRecord) -> io::Result<()> {
        let unfinished = self.path.join("job.new");
        let mut options = saline_private_files::options();
        let options = options.write(true).create_new(true);
        saline_private_files::open(&self.path.join(NOT_BEGUN), options)?;
        let mut file = saline_private_files::open(&unfinished, options)?;
        file.write_all(&versioned::encode(record))?;
        fs::rename(&unfinished, self.path.join(RECORD))
    }

    /// Opens the record. The lock of this process on it, if it has one, is given back when the file is closed.
    ///
    /// # Errors
    /// When there is none, or somebody else could have written it.
    pub(super) fn open_record(&self) -> io::Result<File> {
        saline_private_files::check_folder(&self.path)?;
        let mut options: OpenOptions = saline_private_files::options();
        saline_private_files::open(&self.path.join(RECORD), options.read(true).write(true))
    }

    /// Reads the record.
    ///
    /// # Errors
    /// When it is of another version, or damaged.
    pub(super) fn read_record(file: &File) -> Result<JobRecord, FormatError> {
        versioned::read(file, MAX_RECORD)
    }

    /// Locks the record for this process, which is to run the job. Returns none when the job was given up meanwhile.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn claim(&self) -> io::Result<Option<File>> {
        let file = match self.open_record() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        // A minion that gave the job up has removed the record while it held the lock.
        let is_ours = try_lock(&file) && file.metadata()?.nlink() > 0;
        Ok(is_ours.then_some(file))
    }

    /// Notes that the process which has claimed the job begins it now.
    ///
    /// # Errors
    /// When that cannot be noted.
    pub(super) fn begin(&self) -> io::Result<()> {
        match fs::remove_file(self.path.join(NOT_BEGUN)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether the job has certainly not begun, and will not once it was [given up](Self::give_up).
    pub(super) fn is_not_begun(&self) -> bool {
        self.path.join(NOT_BEGUN).symlink_metadata().is_ok()
    }

    /// Gives the job up, unless a process runs it: no process will. Returns the process that runs it.
    ///
    /// # Errors
    /// When the record cannot be removed.
    pub(super) fn give_up(&self, record: &File) -> io::Result<Holder> {
        if !try_lock(record) {
            return holder(record);
        }
        // The process that left a return has ended, and no other comes: a minion that ends before the spool has the
        // return leaves it for the next one.
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        if !is_there(&self.result()) && !is_there(&self.large_result) {
            fs::remove_file(self.path.join(RECORD))?;
        }
        Ok(Holder::Nobody)
    }

    /// Keeps what is in the folder for the operator, where no minion looks. Returns where.
    pub(super) fn set_aside(&self) -> PathBuf {
        let mut aside = self.path.clone().into_os_string();
        aside.push(".aside");
        let aside = PathBuf::from(aside);
        match fs::rename(&self.path, &aside) {
            Ok(()) => aside,
            Err(_) => self.path.clone(),
        }
    }

    /// Removes everything of the job.
    pub(super) fn remove(&self) {
        let gone = fs::remove_dir_all(&self.path);
        let _ = fs::remove_file(&self.large_result);
        if let Err(error) = gone
            && error.kind() != io::ErrorKind::NotFound
        {
            // The next start finds that the spool has the return, and tries again.
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn try_lock(file: &File) -> bool {
    fcntl_lock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Returns the process that holds the lock of a record.
///
/// # Errors
/// When the system does not tell.
pub(super) fn holder(record: &File) -> io::Result<Holder> {
    let wanted = Flock::from(FlockType::WriteLock);
    Ok(match fcntl_getlk(record, &wanted)? {
        None => Holder::Nobody,
        Some(held) => held.pid.map_or(Holder::Unseen, Holder::Process),
    })
}
