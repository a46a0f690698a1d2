//! A file that takes the place of another in one step: whoever opens the path sees the old contents or the new, never a part.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid, XattrFlags, fchmod, fchown, fgetxattr,
    flistxattr, fremovexattr, fsetxattr, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::place::{Existing, Place};

/// The access control list of a file. A new file gets one from its folder if that has a default.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// The largest list of extended attributes, and the largest value of one, in bytes; those of Linux.
const MOST_ATTRIBUTES: usize = 64 * 1024;

/// The most names that are tried for the temporary file.
const MOST_NAMES: usize = 64;

/// A temporary file in the folder of a place; removed unless it takes the place.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    place: &'a Place,
    name: String,
    pub file: File,
    is_placed: bool,
}

impl<'a> Replacement<'a> {
    /// Creates the temporary file. It is private if its `attributes` will be those of another, and else has the mode of
    /// every new file.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(super) fn create(place: &'a Place, is_private: bool) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(if is_private { 0o600 } else { 0o666 });
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MOST_NAMES {
            let name = temporary_name();
            match openat(&place.folder, &name, flags, mode) {
                Ok(file) => {
                    return Ok(Self {
                        place,
                        name,
                        file: file.into(),
                        is_placed: false,
                    });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Gives the file the owner, the mode and the extended attributes of another. Those of `security` are left to the
    /// system: labels follow from the path, and capabilities end with the contents that had them.
    ///
    /// # Errors
    /// When the system refuses one.
    pub(super) fn like(&self, other: impl AsFd, status: &Stat) -> io::Result<()> {
        let own = rustix::fs::fstat(&self.file)?;
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid) {
            let (user, group) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
            fchown(&self.file, Some(user), Some(group))?;
        }
        // After the owner: a change of that takes the bits for set-user-id away.
        fchmod(&self.file, Mode::from_raw_mode(status.st_mode & 0o7777))?;
        match fremovexattr(&self.file, ACCESS_LIST) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
        let mut list = vec![0; MOST_ATTRIBUTES];
        let length = match flistxattr(&other, &mut *list) {
            Ok(length) => length,
            Err(Errno::NOTSUP) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut value = vec![0; MOST_ATTRIBUTES];
        let names = list[..length].split(|byte| *byte == 0);
        for name in names.filter(|name| !name.is_empty() && !name.starts_with(b"security.")) {
            let length = fgetxattr(&other, name, &mut *value)?;
            fsetxattr(&self.file, name, &value[..length], XattrFlags::empty())?;
        }
        Ok(())
    }

    /// Writes the file to the disk and moves it to its place.
    ///
    /// # Errors
    /// When that fails, and when what it `replaces` is not there any more as it was, or something is there meanwhile.
    pub(super) fn place(mut self, replaces: Option<&Existing>) -> io::Result<()> {
        self.file.sync_all()?;
        let place = self.place;
        let changed =
            || io::Error::other("somebody changed it meanwhile: look at it and try again");
        match replaces {
            Some(existing) => {
                let now = statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW)?;
                if !is_same(&now, &existing.status) {
                    return Err(changed());
                }
                renameat(&place.folder, &self.name, &place.folder, &place.name)?;
            }
            None => {
                let flags = RenameFlags::NOREPLACE;
                let (from, to) = (&self.name, &place.name);
                match renameat_with(&place.folder, from, &place.folder, to, flags) {
                    Ok(()) => {}
                    Err(Errno::EXIST) => return Err(changed()),
                    // Some file systems cannot do this in one step.
                    Err(Errno::INVAL | Errno::NOSYS) => {
                        match statat(&place.folder, to, AtFlags::SYMLINK_NOFOLLOW) {
                            Err(Errno::NOENT) => renameat(&place.folder, from, &place.folder, to)?,
                            _ => return Err(changed()),
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.is_placed = true;
        sync_folder(place);
        Ok(())
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.is_placed
            && let Err(error) = unlinkat(&self.place.folder, &self.name, AtFlags::empty())
        {
            let folder = self.place.path.parent();
            tracing::warn!("cannot remove {} in {folder:?}: {error}", self.name);
        }
    }
}

/// Returns a name that no other thread of this process uses.
pub(super) fn temporary_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!(".saline-{}-{number}", std::process::id())
}

/// Whether a file is the one that was opened, with the contents and attributes of that time.
fn is_same(now: &Stat, then: &Stat) -> bool {
    let identity = |status: &Stat| (status.st_dev, status.st_ino, status.st_size);
    let changed = |status: &Stat| (status.st_ctime, status.st_ctime_nsec);
    identity(now) == identity(then) && changed(now) == changed(then)
}

/// Writes the names in the folder of a place to the disk. A folder that may not be read is left to the system.
pub(super) fn sync_folder(place: &Place) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(&place.folder, ".", flags, Mode::empty());
    if let Err(error) = folder.and_then(rustix::fs::fsync) {
        tracing::debug!(
            "cannot sync descriptor {}: {error}",
            place.folder.as_raw_fd()
        );
    }
}

/// Puts these bytes at a place, with the attributes of a file if one is given.
///
/// # Errors
/// When that fails; then the place is as it was.
pub(super) fn put(
    place: &Place,
    bytes: &[u8],
    attributes: Option<&Existing>,
    replaces: Option<&Existing>,
) -> io::Result<()> {
    let mut replacement = Replacement::create(place, attributes.is_some())?;
    replacement.file.write_all(bytes)?;
    if let Some(other) = attributes {
        replacement.like(&other.file, &other.status)?;
    }
    replacement.place(replaces)
}
