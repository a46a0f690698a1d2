//! A folder beneath which files are opened.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;

use crate::inner_path::InnerPath;
use crate::resolve::open_beneath;
use crate::{OpenError, OtherKind};

/// A folder beneath which files are opened. It is held open: what is moved into its place later is another root.
#[derive(Debug)]
pub struct Root {
    pub(crate) folder: OwnedFd,
    path: PathBuf,
}

/// A regular file that was opened for reading beneath a root.
#[derive(Debug)]
pub struct JailedFile {
    file: File,
    version: FileVersion,
    mode: u32,
}

/// Tells one state of a file from a later one: a file that is written or replaced has another version, but for a write
/// in the same tick of the kernel's clock (a few milliseconds).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// The number of the file system.
    pub device: u64,
    /// The number of the file in it.
    pub inode: u64,
    /// The length in bytes.
    pub size: u64,
    /// When the content changed last: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// When the content, the name or the permissions changed last.
    pub changed: (i64, i64),
}

/// A file that changed so shortly before it was read may have changed once more in the same tick of the clock of its file
/// system, without another version. Two seconds: FAT has no finer times.
const SETTLES: Duration = Duration::from_secs(2);

impl FileVersion {
    /// Whether a change of the file after `read` surely gives it another version.
    pub fn is_settled(&self, read: SystemTime) -> bool {
        let since_1970 = read
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let settled_at = (since_1970.saturating_sub(SETTLES).as_secs()).cast_signed();
        // Somebody set a time in the future: a later write sets another one.
        let is_set = self.modified.0 > since_1970.as_secs().cast_signed();
        self.changed.0 < settled_at && (is_set || self.modified.0 < settled_at)
    }
}

impl Root {
    /// Opens a folder that the configuration names. Links on the way to it are followed.
    ///
    /// # Errors
    /// When it is no folder, or cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            folder: open(path, flags, Mode::empty())?,
            path: path.to_owned(),
        })
    }

    /// Returns the path that it was opened by, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file. Never waits: a pipe, a socket or a device is refused without being opened.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_file(&self, path: &InnerPath) -> Result<JailedFile, OpenError> {
        let found = open_beneath(&self.folder, path.as_str(), OFlags::PATH)?;
        let seen = fstat(&found)?;
        require(&seen, FileType::RegularFile)?;
        // Somebody may have put a pipe in its place since, and opening one must not wait.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = open_beneath(&self.folder, path.as_str(), flags)?;
        let opened = fstat(&file)?;
        require(&opened, FileType::RegularFile)?;
        JailedFile::of(File::from(file))
    }

    /// Reads a whole file of at most `most` bytes.
    ///
    /// # Errors
    /// As [`open_file`](Self::open_file); `Io` with `FileTooLarge` when the file has more.
    pub fn read(&self, path: &InnerPath, most: usize) -> Result<Vec<u8>, OpenError> {
        let file = self.open_file(path)?;
        let limit = u64::try_from(most).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        // One more, so that a file that grows meanwhile shows.
        let mut limited = file.file.take(limit.saturating_add(1));
        limited.read_to_end(&mut bytes)?;
        if bytes.len() > most {
            let why = format!("it has more than {most} bytes");
            return Err(OpenError::Io(io::Error::new(
                io::ErrorKind::FileTooLarge,
                why,
            )));
        }
        Ok(bytes)
    }

    /// Whether the path names a folder.
    ///
    /// # Errors
    /// See [`OpenError`]; `NotFound` when there is nothing.
    pub fn is_folder(&self, path: &InnerPath) -> Result<bool, OpenError> {
        let found = open_beneath(&self.folder, path.as_str(), OFlags::PATH)?;
        Ok(FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::Directory)
    }

    /// Opens a folder for listing.
    pub(crate) fn open_folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        open_beneath(&self.folder, path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Looks at what a path names, through links.
    pub(crate) fn look_at(&self, path: &str) -> Result<Stat, Errno> {
        fstat(&open_beneath(&self.folder, path, OFlags::PATH)?)
    }
}

fn require(found: &Stat, wanted: FileType) -> Result<(), OpenError> {
    match FileType::from_raw_mode(found.st_mode) {
        kind if kind == wanted => Ok(()),
        kind => Err(OpenError::OtherKind(OtherKind::of(kind))),
    }
}

impl JailedFile {
    fn of(file: File) -> Result<Self, OpenError> {
        let (version, mode) = seen_at(&file)?;
        Ok(Self {
            file,
            version,
            mode,
        })
    }

    /// Returns the version that the file had when it was opened.
    pub fn version(&self) -> FileVersion {
        self.version
    }

    /// Returns the permissions that the file had when it was opened, without its type.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Returns the version that the file has now. It differs when the file was written since it was opened; that another
    /// file took its place does not show.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn version_now(&self) -> io::Result<FileVersion> {
        seen_at(&self.file).map(|(version, _)| version)
    }

    /// Fills `buffer` from `offset` on, as far as the file goes, and returns how many bytes there were.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self
                .file
                .read_at(&mut buffer[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

fn seen_at(file: &File) -> io::Result<(FileVersion, u32)> {
    let seen = file.metadata()?;
    let version = FileVersion {
        device: seen.dev(),
        inode: seen.ino(),
        size: seen.len(),
        modified: (seen.mtime(), seen.mtime_nsec()),
        changed: (seen.ctime(), seen.ctime_nsec()),
    };
    Ok((version, seen.mode() & 0o7777))
}
