//! `file.copy`, of a file or of a folder with all that is in it.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, statat};
use rustix::io::Errno;
use saline_data::Value;
use saline_functions::{Failure, function};

use super::answer::Answer;
use super::backups::{self, Backup};
use super::diff;
use super::ownership::Attributes;
use super::path::{AbsolutePath, failed};
use super::place::{Existing, LARGEST_FILE, Place, file_type};
use super::removal::remove_folder;
use super::replacement::{Replacement, sync_folder};
use crate::JobContext;

/// The largest file whose diff is made, in bytes.
const MOST_COMPARED: u64 = 1024 * 1024;

/// The most folders inside each other that are copied.
const MOST_DEPTH: usize = 128;

/// Copies a file, or with `recurse` a folder. The copy has the owner, the mode and the extended attributes of the original.
///
/// src
///     The absolute path of the original. A symbolic link is followed; those in a folder are copied as links.
///
/// dst
///     The absolute path of the copy itself. Links at the end of it are followed for a file, not for a folder.
///
/// recurse
///     `True` copies a folder. What the copy has beside it stays.
///
/// remove_existing
///     `True` removes the folder `dst` before a folder is copied there.
///
/// backup
///     `minion` keeps a file that is overwritten on the minion, under `cachedir` (`file.list_backups`). It does not for folders.
///
/// test
///     `True` only tells what would change.
///
/// CLI Example:
///
///     saline '*' file.copy /etc/app.conf /etc/app.conf.orig
///     saline '*' file.copy /srv/app /srv/app-copy recurse=True
#[function(changes)]
pub(super) fn copy(
    job: &JobContext<'_>,
    src: AbsolutePath,
    dst: AbsolutePath,
    #[default(false)] recurse: bool,
    #[default(false)] remove_existing: bool,
    #[default(None)] backup: Backup,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let from = Place::followed(&src)?;
    let status = from
        .status()?
        .ok_or_else(|| failed("copy", &src, "there is no such file"))?;
    match file_type(&status) {
        FileType::Directory if recurse => copy_tree(job, &from, &dst, remove_existing, test),
        FileType::Directory => Err(failed(
            "copy",
            &src,
            "it is a folder (recurse=True copies folders)",
        )),
        _ => copy_one(job, &from, &dst, backup, test),
    }
}

fn copy_one(
    job: &JobContext<'_>,
    from: &Place,
    dst: &AbsolutePath,
    backup: Backup,
    test: bool,
) -> Result<Value, Failure> {
    let mut original = from.open_existing()?;
    let to = Place::followed(dst)?;
    let mut existing = to.open()?;
    let is_changed = match &mut existing {
        Some(existing) => {
            !is_same(&mut original, existing).map_err(|why| failed("read", dst, why))?
        }
        None => true,
    };
    let mut answer = Answer::new(is_changed, test);
    if !is_changed {
        return Ok(answer.into_value());
    }
    let size = |one: &Existing| u64::try_from(one.status.st_size).unwrap_or(0);
    if size(&original) <= MOST_COMPARED && existing.as_ref().map_or(0, size) <= MOST_COMPARED {
        let before = match &mut existing {
            Some(existing) => Some(existing.read(&to.path, LARGEST_FILE)?),
            None => None,
        };
        let after = original.read(&from.path, LARGEST_FILE)?;
        answer.add("diff", diff::unified(&to.path, before.as_deref(), &after));
        for file in [Some(&mut original), existing.as_mut()]
            .into_iter()
            .flatten()
        {
            rewind(file).map_err(|why| failed("read", dst, why))?;
        }
    }
    if test {
        return Ok(answer.into_value());
    }
    if let (Backup::Minion, Some(existing)) = (backup, &mut existing) {
        let bytes = existing.read(&to.path, LARGEST_FILE)?;
        let kept = backups::keep(&job.host.cache_dir, &to, existing, &bytes)?;
        answer.add("backup", kept.display().to_string());
    }
    transfer(&mut original, &to, existing.as_ref())
        .map_err(|why| failed("write", &to.path, why))?;
    Ok(answer.into_value())
}

fn rewind(file: &mut Existing) -> std::io::Result<()> {
    std::io::Seek::rewind(&mut file.file)
}

/// Whether two files have the same contents, owner and mode. Both are at their beginning before and after.
fn is_same(one: &mut Existing, other: &mut Existing) -> std::io::Result<bool> {
    let attributes = |file: &Existing| {
        let status = &file.status;
        (status.st_size, status.st_mode, status.st_uid, status.st_gid)
    };
    if attributes(one) != attributes(other) {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 128 * 1024], vec![0; 128 * 1024]);
    let is_same = loop {
        let read = one.file.read(&mut left)?;
        if read == 0 {
            break other.file.read(&mut right)? == 0;
        }
        match other.file.read_exact(&mut right[..read]) {
            Ok(()) if left[..read] == right[..read] => {}
            Ok(()) => break false,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break false,
            Err(error) => return Err(error),
        }
    };
    rewind(one)?;
    rewind(other)?;
    Ok(is_same)
}

/// Copies a file from its beginning to a place.
fn transfer(
    original: &mut Existing,
    to: &Place,
    replaces: Option<&Existing>,
) -> std::io::Result<()> {
    let mut replacement = Replacement::create(to, true)?;
    std::io::copy(&mut original.file, &mut replacement.file)?;
    replacement.like(&original.file, &original.status)?;
    replacement.place(replaces)
}

fn copy_tree(
    job: &JobContext<'_>,
    from: &Place,
    dst: &AbsolutePath,
    remove_existing: bool,
    test: bool,
) -> Result<Value, Failure> {
    let to = Place::of(dst)?;
    let (original, copy) = (from.canonical_path()?, to.canonical_path()?);
    if copy.starts_with(&original) {
        return Err(failed(
            "copy",
            &from.path,
            "the copy would be in the folder itself",
        ));
    }
    let existing = to.status()?.map(|status| file_type(&status));
    let removes = remove_existing && existing == Some(FileType::Directory);
    let mut answer = Answer::new(true, test);
    if removes {
        answer.add("removed", dst.to_string());
    }
    if !test {
        if removes {
            remove_folder(job, dst, &copy)?;
        }
        let mut copied = Copied { job, files: 0 };
        copied.folder(from, &to, 0)?;
        sync_folder(&to);
        answer.add("files", copied.files);
    }
    Ok(answer.into_value())
}

/// A copy of a folder under way.
struct Copied<'a> {
    job: &'a JobContext<'a>,
    /// The number of files and links that were copied.
    files: u64,
}

fn opened(place: &Place) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&place.folder, &place.name, flags, Mode::empty())
}

/// Returns the place of a name in a folder.
fn within(folder: &OwnedFd, path: &Path, name: &std::ffi::OsStr) -> Result<Place, Failure> {
    Ok(Place {
        folder: folder
            .try_clone()
            .map_err(|why| failed("open", path, why))?,
        name: name.to_owned(),
        path: path.join(name),
    })
}

impl Copied<'_> {
    fn folder(&mut self, from: &Place, to: &Place, depth: usize) -> Result<(), Failure> {
        if depth > MOST_DEPTH {
            let why = format!("it has more than {MOST_DEPTH} folders inside each other");
            return Err(failed("copy", &from.path, why));
        }
        self.job.wait(Duration::ZERO)?;
        let read = |why| failed("read", &from.path, why);
        let write = |why| failed("write", &to.path, why);
        let source = opened(from).map_err(read)?;
        let status = fstat(&source).map_err(read)?;
        let is_new = match mkdirat(&to.folder, &to.name, Mode::from_raw_mode(0o700)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(write(error)),
        };
        let target = opened(to).map_err(write)?;
        for entry in Dir::read_from(&source).map_err(read)? {
            let entry = entry.map_err(read)?;
            let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let (one, other) = (
                within(&source, &from.path, name)?,
                within(&target, &to.path, name)?,
            );
            let status = statat(&source, name, AtFlags::SYMLINK_NOFOLLOW).map_err(read)?;
            match file_type(&status) {
                FileType::Directory => self.folder(&one, &other, depth + 1)?,
                FileType::Symlink => self.link(&one, &other)?,
                _ => {
                    let existing = other.open()?;
                    transfer(&mut one.open_existing()?, &other, existing.as_ref())
                        .map_err(|why| failed("write", &other.path, why))?;
                    self.files += 1;
                }
            }
        }
        if is_new {
            let copy = Attributes::of(to)?;
            copy.set_owner(Some(status.st_uid), Some(status.st_gid))
                .and_then(|()| copy.set_mode(status.st_mode & 0o7777))
                .map_err(write)?;
        }
        Ok(())
    }

    fn link(&mut self, from: &Place, to: &Place) -> Result<(), Failure> {
        let target = |place: &Place| rustix::fs::readlinkat(&place.folder, &place.name, Vec::new());
        let original = target(from).map_err(|why| failed("read", &from.path, why))?;
        match rustix::fs::symlinkat(&original, &to.folder, &to.name) {
            Ok(()) => {}
            Err(Errno::EXIST) if target(to) == Ok(original) => {}
            Err(error) => return Err(failed("write", &to.path, error)),
        }
        self.files += 1;
        Ok(())
    }
}
