//! Lists what lies beneath a root.

use std::cmp::Ordering;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use crate::{InnerPath, MAX_PATH, OpenError, Root};

/// Folders that nest deeper are not listed. Each on the way is held open.
const MAX_DEPTH: usize = 64;

/// The bounds of a listing.
#[derive(Debug, Clone, Copy)]
pub struct ListingLimits {
    /// The most files and folders.
    pub entries: usize,
    /// The most bytes of all their paths.
    pub bytes: usize,
}

/// There is more than the limits of a listing allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are more files and folders than {0}")]
pub struct TooLarge(pub usize);

/// The kind of an entry of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file, or a link to one beneath the root.
    File,
    /// A folder, or a link to one beneath the root.
    Folder,
    /// A folder in which nothing is listed.
    EmptyFolder,
}

/// A file or a folder of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The path beneath the root.
    pub path: &'a str,
    /// Whether it is a file or a folder.
    pub kind: EntryKind,
    /// Whether a link leads to it.
    pub is_link: bool,
}

/// The files and folders beneath a root, in the order of their components. All paths are one text, so that a million of
/// them takes no more than their bytes and twelve each.
#[derive(Debug, Default)]
pub struct Listing {
    text: String,
    entries: Vec<Packed>,
    /// How many were left out: names that are not UTF-8, links that lead out, special files, what nests too deep, and
    /// folders that cannot be read.
    pub skipped: usize,
    /// The path of the first of those, with other characters in the place of what is not UTF-8.
    pub first_skipped: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Packed {
    /// The end of the path in the text. It begins where the one before ends.
    end: u32,
    kind: EntryKind,
    is_link: bool,
}

impl Listing {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Packed>()
    }

    /// Returns an entry by its number; none behind the last.
    pub fn get(&self, at: usize) -> Option<Entry<'_>> {
        let packed = self.entries.get(at)?;
        let begin = match at {
            0 => 0,
            at => self.entries[at - 1].end as usize,
        };
        Some(Entry {
            path: &self.text[begin..packed.end as usize],
            kind: packed.kind,
            is_link: packed.is_link,
        })
    }

    /// Returns the entries behind a path, or all of them.
    pub fn after<'a>(&'a self, path: Option<&str>) -> impl Iterator<Item = Entry<'a>> {
        let first = path.map_or(0, |path| self.behind(path));
        (first..self.len()).filter_map(|at| self.get(at))
    }

    /// Finds the first entry behind a path.
    fn behind(&self, path: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle) {
                Some(entry) if in_order(entry.path, path) != Ordering::Greater => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Notes that something is left out.
    fn skip(&mut self, path: &str) {
        self.skipped += 1;
        if self.first_skipped.is_none() {
            self.first_skipped = Some(path.to_owned());
        }
    }

    fn push(
        &mut self,
        path: &str,
        kind: EntryKind,
        is_link: bool,
        limits: ListingLimits,
    ) -> Result<(), TooLarge> {
        let end = self.text.len() + path.len();
        if self.len() >= limits.entries || end > limits.bytes.min(u32::MAX as usize) {
            return Err(TooLarge(self.len()));
        }
        self.text.push_str(path);
        self.entries.push(Packed {
            // Checked above.
            end: end as u32,
            kind,
            is_link,
        });
        Ok(())
    }
}

/// Compares paths component by component, so that a folder comes right before what is in it.
fn in_order(a: &str, b: &str) -> Ordering {
    a.split('/').cmp(b.split('/'))
}

/// A folder on the way to the place where a listing is.
struct Level {
    folder: OwnedFd,
    /// The device and the inode of the folder: links that lead back to it are not followed.
    place: (u64, u64),
    /// The names in it that are left, the next one last.
    names: Vec<String>,
    /// The length of the folder's path.
    path: usize,
    /// The number of the folder's own entry; none of the folder that is listed.
    entry: Option<usize>,
}

impl Root {
    /// Lists all files and folders below a folder, of which `keep` says that they are wanted; it is asked with the
    /// path beneath the root. Links are followed where they stay beneath the root, but for those that lead back to a
    /// folder that they lie in.
    ///
    /// # Errors
    /// When the folder cannot be opened. The inner result is an error when there is too much.
    pub fn list(
        &self,
        below: &InnerPath,
        limits: ListingLimits,
        mut keep: impl FnMut(&str) -> bool,
    ) -> Result<Result<Listing, TooLarge>, OpenError> {
        let mut listing = Listing::default();
        let mut path = below.as_str().to_owned();
        let first = self.open_folder(&path)?;
        let mut levels = vec![level(first, &path, None, &mut listing)?];
        loop {
            let depth = levels.len();
            let Some(level_now) = levels.last_mut() else {
                break;
            };
            path.truncate(level_now.path);
            let Some(name) = level_now.names.pop() else {
                if let Some(at) = level_now.entry
                    && at + 1 == listing.len()
                {
                    listing.entries[at].kind = EntryKind::EmptyFolder;
                }
                levels.pop();
                continue;
            };
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(&name);
            if path.len() > MAX_PATH || !keep(&path) {
                continue;
            }
            let Some((is_folder, is_link)) = self.judge(&levels[depth - 1].folder, &name, &path)
            else {
                listing.skip(&path);
                continue;
            };
            let kind = match is_folder {
                true => EntryKind::Folder,
                false => EntryKind::File,
            };
            if let Err(error) = listing.push(&path, kind, is_link, limits) {
                return Ok(Err(error));
            }
            if !is_folder {
                continue;
            }
            let opened = self.enter(&levels[depth - 1].folder, &name, &path, is_link);
            let entry = listing.len() - 1;
            let next = opened.and_then(|folder| level(folder, &path, Some(entry), &mut listing));
            match next {
                Ok(next) if depth < MAX_DEPTH && levels.iter().all(|l| l.place != next.place) => {
                    levels.push(next);
                }
                _ => listing.skip(&path),
            }
        }
        listing.text.shrink_to_fit();
        listing.entries.shrink_to_fit();
        Ok(Ok(listing))
    }

    /// Tells whether a name is that of a folder, and whether that of a link; none when it is to be left out.
    fn judge(&self, folder: &OwnedFd, name: &str, path: &str) -> Option<(bool, bool)> {
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let (found, is_link) = match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => (self.look_at(path).ok()?, true),
            _ => (found, false),
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => Some((true, is_link)),
            FileType::RegularFile => Some((false, is_link)),
            _ => None,
        }
    }

    fn enter(
        &self,
        folder: &OwnedFd,
        name: &str,
        path: &str,
        is_link: bool,
    ) -> Result<OwnedFd, Errno> {
        if is_link {
            return self.open_folder(path);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(folder.as_fd(), name, flags, Mode::empty())
    }
}

/// Reads the names in a folder, and sorts them.
fn level(
    folder: OwnedFd,
    path: &str,
    entry: Option<usize>,
    listing: &mut Listing,
) -> Result<Level, Errno> {
    let seen = fstat(&folder)?;
    let mut names = Vec::new();
    for found in Dir::read_from(&folder)? {
        let found = found?;
        match found.file_name().to_str() {
            Ok("." | "..") => {}
            Ok(name) => names.push(name.to_owned()),
            Err(_) => {
                let name = found.file_name().to_string_lossy();
                match path {
                    "" => listing.skip(&name),
                    folder => listing.skip(&format!("{folder}/{name}")),
                }
            }
        }
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Level {
        folder,
        place: (seen.st_dev, seen.st_ino),
        names,
        path: path.len(),
        entry,
    })
}
