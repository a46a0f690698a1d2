//! `file`: files and folders of the minion's machine.
//!
//! Paths are absolute. A file that is changed is written beside itself and moved to its place (`replacement.rs`), so it is
//! never seen half written, and it keeps its owner, mode and extended attributes. Folders are opened and names taken in
//! them (`place.rs`), so that nobody who may write in one of them leads a function elsewhere.

mod answer;
mod backups;
mod blockreplace;
mod contents;
mod copy;
mod delivered;
mod diff;
mod edit;
mod find;
mod folders;
mod grep;
mod line;
mod lines;
mod links;
mod ownership;
mod path;
mod pattern;
mod place;
mod removal;
mod rename;
mod replace;
mod replacement;
mod status;

use crate::Functions;
pub(super) use delivered::deliver;

pub(super) const FUNCTIONS: Functions = &[
    &status::ACCESS,
    &contents::APPEND,
    &blockreplace::BLOCKREPLACE,
    &ownership::CHOWN,
    &grep::CONTAINS,
    &copy::COPY,
    &backups::DELETE_BACKUP,
    &status::DIRECTORY_EXISTS,
    &status::FILE_EXISTS,
    &find::FIND,
    &status::GET_HASH,
    &status::GET_MODE,
    &grep::GREP,
    &links::IS_LINK,
    &line::LINE,
    &backups::LIST_BACKUPS,
    &folders::MAKEDIRS,
    &folders::MKDIR,
    &contents::PREPEND,
    &contents::READ,
    &links::READLINK,
    &removal::REMOVE,
    &rename::RENAME,
    &replace::REPLACE,
    &backups::RESTORE_BACKUP,
    &ownership::SET_MODE,
    &status::STATS,
    &links::SYMLINK,
    &contents::TAIL,
    &contents::TOUCH,
    &contents::WRITE,
];
