//! A name in an opened folder. What a function does to it cannot be led elsewhere by somebody who exchanges a folder of
//! the path meanwhile, and no symbolic link is followed unseen.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;
use saline_functions::Failure;

use super::path::failed;

/// The largest file that is read whole, in bytes.
pub(super) const LARGEST_FILE: u64 = 64 * 1024 * 1024;

/// The most symbolic links that are followed one after another, as in Linux.
const MOST_LINKS: usize = 40;

/// A folder in which everybody may write, and only owners may rename or remove files.
const SHARED_FOLDER: u32 = 0o1002;

/// A name in an opened folder.
#[derive(Debug)]
pub(super) struct Place {
    pub folder: OwnedFd,
    pub name: OsString,
    /// The path as it is shown.
    pub path: PathBuf,
}

/// A regular file that was there when it was opened.
#[derive(Debug)]
pub(super) struct Existing {
    pub file: File,
    pub status: Stat,
}

/// Returns the type of a file.
pub(super) fn file_type(status: &Stat) -> FileType {
    FileType::from_raw_mode(status.st_mode)
}

/// Opens a folder, as a place to start from.
fn open_folder(from: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(from, path, flags, Mode::empty())
}

impl Place {
    /// Opens the folder of a path. A link at its end is not followed.
    ///
    /// # Errors
    /// When the folder cannot be opened.
    pub(super) fn of(path: &Path) -> Result<Self, Failure> {
        Self::from(CWD, path, path).map_err(|why| failed("find the folder of", path, why))
    }

    /// Opens the folder of what a path means after the links at its end. As Linux does for most systems
    /// (`fs.protected_symlinks`), it follows no link of somebody else in a folder that everybody shares, such as `/tmp`.
    ///
    /// # Errors
    /// When a folder cannot be opened, and when a link must not be followed.
    pub(super) fn followed(path: &Path) -> Result<Self, Failure> {
        let mut place = Self::of(path)?;
        for _ in 0..MOST_LINKS {
            match place.status()? {
                Some(status) if file_type(&status) == FileType::Symlink => {
                    place.refuse_foreign_link(&status)?;
                    let why = |error: Errno| failed("follow the link", &place.path, error);
                    let target = readlinkat(&place.folder, &place.name, Vec::new()).map_err(why)?;
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    let shown = match place.path.parent() {
                        Some(folder) => folder.join(&target),
                        None => target.clone(),
                    };
                    place = Self::from(&place.folder, &target, &shown).map_err(why)?;
                }
                _ => return Ok(place),
            }
        }
        Err(failed("follow", path, "it leads through too many links"))
    }

    fn from(start: impl AsFd, path: &Path, shown: &Path) -> Result<Self, Errno> {
        // What ends in `/` or `..` is a folder, and has no name of its own in another.
        let (folder, name) = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => (folder, name),
            _ => (path, OsStr::new(".")),
        };
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        Ok(Self {
            folder: open_folder(start, folder)?,
            name: name.to_owned(),
            path: shown.to_owned(),
        })
    }

    fn refuse_foreign_link(&self, link: &Stat) -> Result<(), Failure> {
        let why = |error: Errno| failed("look at the folder of", &self.path, error);
        let folder = statat(&self.folder, "", AtFlags::EMPTY_PATH).map_err(why)?;
        let own = rustix::process::geteuid().as_raw();
        let is_shared = folder.st_mode & SHARED_FOLDER == SHARED_FOLDER;
        if is_shared && link.st_uid != own && link.st_uid != folder.st_uid {
            return Err(failed(
                "follow the link",
                &self.path,
                "it belongs to somebody else, in a folder where everybody may put one",
            ));
        }
        Ok(())
    }

    /// Returns what is there, a link itself; none if nothing is.
    ///
    /// # Errors
    /// When it cannot be found out.
    pub(super) fn status(&self) -> Result<Option<Stat>, Failure> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(status)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(failed("look at", &self.path, error)),
        }
    }

    /// Opens the regular file; none if there is nothing.
    ///
    /// # Errors
    /// When it is something else, or cannot be opened.
    pub(super) fn open(&self) -> Result<Option<Existing>, Failure> {
        // A device or a pipe may do something when it is opened, so it is looked at before.
        let Some(status) = self.status()? else {
            return Ok(None);
        };
        self.refuse_other_types(&status)?;
        let why = |error: Errno| failed("open", &self.path, error);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.folder, &self.name, flags, Mode::empty()).map_err(why)?;
        let status = rustix::fs::fstat(&file).map_err(why)?;
        self.refuse_other_types(&status)?;
        Ok(Some(Existing {
            file: file.into(),
            status,
        }))
    }

    /// Opens the regular file.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is nothing.
    pub(super) fn open_existing(&self) -> Result<Existing, Failure> {
        self.open()?
            .ok_or_else(|| failed("open", &self.path, Errno::NOENT))
    }

    fn refuse_other_types(&self, status: &Stat) -> Result<(), Failure> {
        let what = match file_type(status) {
            FileType::RegularFile => return Ok(()),
            FileType::Directory => "a folder",
            FileType::Symlink => "a symbolic link",
            FileType::Fifo => "a pipe",
            FileType::Socket => "a socket",
            _ => "a device",
        };
        let why = format!("it is {what}, and this function takes regular files only");
        Err(failed("open", &self.path, why))
    }

    /// Returns the path of this place without links and without `..`.
    ///
    /// # Errors
    /// When the folder is gone.
    pub(super) fn canonical_path(&self) -> Result<PathBuf, Failure> {
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&self.folder);
        let folder = std::fs::read_link(format!("/proc/self/fd/{descriptor}"))
            .map_err(|why| failed("find the folder of", &self.path, why))?;
        Ok(match self.name == "." {
            true => folder,
            false => folder.join(&self.name),
        })
    }
}

impl Existing {
    /// Reads the file whole.
    ///
    /// # Errors
    /// When it has more than `most` bytes, or cannot be read.
    pub(super) fn read(&mut self, path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        // The size is that of the opening: the file may grow.
        let mut bounded = (&mut self.file).take(most.saturating_add(1));
        if u64::try_from(self.status.st_size).unwrap_or(0) <= most {
            bounded
                .read_to_end(&mut bytes)
                .map_err(|why| failed("read", path, why))?;
        }
        if bytes.len() as u64 > most || self.status.st_size as u64 > most {
            let why = format!("it has more than the {most} bytes that are read at once");
            return Err(failed("read", path, why));
        }
        Ok(bytes)
    }
}
