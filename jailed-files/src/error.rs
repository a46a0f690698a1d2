//! The reasons why a path below a root was not opened.

use std::fmt;
use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;

/// The reason why a file below a root was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such file.
    #[error("there is no such file")]
    NotFound,
    /// A link on the way is absolute, or leads out of the root.
    #[error("a link on the way leads out of the root, and is not followed")]
    LeadsOut,
    /// More than 40 links are on the way, or they form a circle.
    #[error("there are too many links on the way")]
    TooManyLinks,
    /// The path leads to something else than what was asked for.
    #[error("it is {0}")]
    OtherKind(OtherKind),
    /// The system refused it.
    #[error(transparent)]
    Io(io::Error),
}

/// The kind of what stands in the place of a regular file or of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherKind {
    /// A regular file, where a folder was wanted.
    File,
    /// A folder, where a file was wanted.
    Folder,
    /// A named pipe, a socket or a device.
    Special,
}

impl fmt::Display for OtherKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a file, and no folder",
            Self::Folder => "a folder, and no file",
            Self::Special => "neither a file nor a folder",
        })
    }
}

impl OtherKind {
    pub(crate) fn of(found: FileType) -> Self {
        match found {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            _ => Self::Special,
        }
    }
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        match errno {
            // A component that is a file has nothing below it.
            Errno::NOENT | Errno::NOTDIR => Self::NotFound,
            Errno::XDEV => Self::LeadsOut,
            Errno::LOOP => Self::TooManyLinks,
            errno => Self::Io(errno.into()),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The reason why a file was not stored below a root.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The path is that of the root itself.
    #[error("the path has no file name")]
    NoName,
    /// Something on the way is no folder; links are not followed.
    #[error("{0} is not a folder")]
    NoFolder(String),
    /// The system refused it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for StoreError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}
