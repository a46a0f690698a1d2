//! Resolves a path beneath a folder by a walk: as `openat2` with `RESOLVE_BENEATH` does, for systems without it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

/// The most links on the way, as Linux has it.
const MAX_LINKS: usize = 40;

/// Opens what a path beneath `root` names.
pub(crate) fn open_beneath(
    root: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let mut walk = Walk {
        root,
        inside: Vec::new(),
        links: 0,
    };
    // What is left to walk, the next component last.
    let mut left: Vec<Vec<u8>> = Vec::new();
    push_components(&mut left, path.as_bytes());
    while let Some(component) = left.pop() {
        match component.as_slice() {
            b"." => {}
            // Back to a folder that is held open; not above the root.
            b".." => drop(walk.inside.pop().ok_or(Errno::XDEV)?),
            _ => match walk.enter(&component)? {
                Entered::Folder(folder) => walk.inside.push(folder),
                Entered::Link(target) => {
                    walk.links += 1;
                    if walk.links > MAX_LINKS {
                        return Err(Errno::LOOP);
                    }
                    if target.first() == Some(&b'/') {
                        return Err(Errno::XDEV);
                    }
                    push_components(&mut left, &target);
                }
                Entered::Other if left.is_empty() => return walk.open(&component, flags),
                Entered::Other => return Err(Errno::NOTDIR),
            },
        }
    }
    // A folder: opened again, with the flags that were asked for.
    openat(walk.here(), ".", flags | OFlags::CLOEXEC, Mode::empty())
}

/// The folders from the root to the place where a walk is.
struct Walk<'a> {
    root: BorrowedFd<'a>,
    inside: Vec<OwnedFd>,
    links: usize,
}

enum Entered {
    Folder(OwnedFd),
    Link(Vec<u8>),
    Other,
}

impl Walk<'_> {
    fn here(&self) -> BorrowedFd<'_> {
        self.inside.last().map_or(self.root, AsFd::as_fd)
    }

    /// Looks at a component of the folder, and opens it if it is a folder too. Nothing else is opened.
    fn enter(&self, name: &[u8]) -> Result<Entered, Errno> {
        let found = statat(self.here(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => {
                let target = readlinkat(self.here(), name, Vec::new())?;
                Ok(Entered::Link(target.into_bytes()))
            }
            FileType::Directory => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                Ok(Entered::Folder(openat(
                    self.here(),
                    name,
                    flags,
                    Mode::empty(),
                )?))
            }
            _ => Ok(Entered::Other),
        }
    }

    /// Opens the last component, which was no link when it was looked at: one that has become a link is refused.
    fn open(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(self.here(), name, flags, Mode::empty())?;
        // With `PATH` the link itself would have been opened.
        match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
            FileType::Symlink => Err(Errno::LOOP),
            _ => Ok(opened),
        }
    }
}

/// Puts the components of a path before what is left. A path that ends with a slash names a folder.
fn push_components(left: &mut Vec<Vec<u8>>, path: &[u8]) {
    if path.ends_with(b"/") {
        left.push(b".".to_vec());
    }
    let components = path.split(|byte| *byte == b'/').rev();
    let components = components.filter(|component| !component.is_empty());
    left.extend(components.map(<[u8]>::to_vec));
}
