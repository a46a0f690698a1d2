//! The jail: the one way in which Saline opens a file whose path came from a peer, an event or a template.
//!
//! A [`Root`] is a folder that the configuration names. An [`InnerPath`] is a path below one, checked when it is made: it
//! has no `..`, no NUL, and is not absolute. Opening one never leads out of the root, whatever links lie on the way, and
//! also while somebody moves files and puts links in their places: Linux resolves the path beneath the folder (`openat2`),
//! and where it cannot, a [walk](self#the-walk) does, component by component.
//!
//! - **Links that stay beneath the root are followed.** A link that is absolute or leads out is refused, even when it
//!   leads back in.
//! - **Regular files alone are opened for reading**, and opening never waits: a pipe, a socket or a device is refused
//!   before it is opened.
//! - Names that are not UTF-8 cannot be asked for, and are not listed.
//! - A path may cross into another file system that is mounted beneath the root.
//!
//! Files are written into a root through [`Root::store`], which follows no link at all.
//!
//! # The walk
//!
//! Sandboxes such as gVisor and some containers have no `openat2`. There every component is opened in the folder before
//! it, without following links; a link's text is resolved in the same way, and `..` in it goes back to a folder that is
//! held open, never above the root. Tests hold the walk to the answers of `openat2`.

mod error;
mod inner_path;
mod listing;
mod resolve;
mod root;
mod store;
#[cfg(test)]
mod tests;
mod walk;

pub use error::{OpenError, OtherKind, StoreError};
pub use inner_path::{InnerPath, MAX_COMPONENT, MAX_PATH, PathError};
pub use listing::{Entry, EntryKind, Listing, ListingLimits, TooLarge};
pub use root::{FileVersion, JailedFile, Root};
pub use store::NewFile;
