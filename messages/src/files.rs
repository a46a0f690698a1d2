//! The requests of minions about files: those that the master serves, and those that minions hand in.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::transfer::{Part, TransferId};

/// The most bytes of the name of an environment.
pub const MAX_ENVIRONMENT: usize = 255;

/// A request of a minion about files. Paths are relative, below the roots of an environment; the master opens none that
/// leads out of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileRequest {
    /// Asks for the names of the environments that the minion may read.
    Environments,
    /// Asks for a page of the files and folders below a folder of an environment.
    List {
        /// The name of the environment.
        environment: String,
        /// The folder; empty for all.
        below: String,
        /// Returns only what comes behind this path: the next page.
        after: Option<String>,
        /// The most bytes of the page.
        bytes: u64,
    },
    /// Asks for the length, the permissions and the hash of a file.
    Look(FilePlace),
    /// Asks for a part of a file.
    Part {
        /// The file.
        place: FilePlace,
        /// What the file was when it was looked at.
        transfer: TransferId,
        /// The place of the first byte.
        offset: u64,
        /// The most bytes of the part.
        bytes: u32,
    },
    /// Hands in a part of a file of the minion. With the last part the master stores it.
    Push {
        /// The path below the minion's folder on the master.
        path: String,
        /// The bytes, and their place in the file.
        part: Part,
    },
}

/// The place of a file: an environment and a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePlace {
    /// The name of the environment.
    pub environment: String,
    /// The path below its roots.
    pub path: String,
}

/// The reply to a [`FileRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileReply {
    /// The reply to `Environments`.
    Environments(Vec<String>),
    /// The reply to `List`.
    Listed(FilesPage),
    /// The reply to `Look`.
    Seen(SeenFile),
    /// The reply to `Part`.
    Part(Part),
    /// The reply to `Part` when the file is another than it was: look at it again.
    Changed,
    /// The reply to `Push`: the master has this many bytes of the file, from its beginning. The next part begins there;
    /// all bytes means that it is stored.
    Received(u64),
    /// The request was not carried out, and another one like it will not be either.
    Refused(FileRefusal),
}

/// The size, the mode and the hash of a file when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    /// The length in bytes.
    pub size: u64,
    /// The permissions, as `chmod` takes them.
    pub mode: u32,
    /// The SHA-256 of the content.
    pub transfer: TransferId,
}

/// Files and folders, in the order of the components of their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesPage {
    /// The files and folders.
    pub entries: Vec<FileEntry>,
    /// Whether more may follow the last of these.
    pub more: bool,
}

/// A file or a folder of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The path below the roots.
    pub path: String,
    /// Whether it is a file or a folder.
    pub kind: FileKind,
    /// Whether a link leads to it.
    pub is_link: bool,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A folder with nothing in it.
    EmptyFolder,
}

/// The reason why a request about files was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileRefusal {
    /// There is no such environment, or the minion may not read it: the master does not tell which.
    NoEnvironment,
    /// There is no such file, or it is not a regular file.
    NoFile,
    /// The path is malformed, absolute or leads out of the roots.
    BadPath,
    /// The file is larger than the master serves or takes.
    TooLarge,
    /// There are more files than the master lists.
    TooMany,
    /// The master cannot read or write it, and its log says why.
    Failed,
    /// The master takes no files of minions: `file_recv` is not set.
    NotTaken,
    /// The files that the minion has handed in take all the room that the master has for them.
    NoRoom,
}

impl fmt::Display for FileRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoEnvironment => {
                "the master has no such environment, or this minion may not read it"
            }
            Self::NoFile => "the master has no such file",
            Self::BadPath => "the path is absolute, malformed, or leads out of the roots",
            Self::TooLarge => "the file is larger than the master allows",
            Self::TooMany => "there are more files than the master lists: name a folder with fewer",
            Self::Failed => "the master cannot read or write it, and its log says why",
            Self::NotTaken => {
                "the master takes no files of minions: set `file_recv: True` in its configuration"
            }
            Self::NoRoom => {
                "what this minion has handed in takes all the room that the master has for it: remove some of it there, in \
                 cachedir/minions/ID/files, or raise file_recv_max_size"
            }
        })
    }
}
