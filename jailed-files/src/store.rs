//! Writes files beneath a root. No link is followed: what is stored there, Saline stored itself.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fchmod, fstat, fsync, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use crate::{InnerPath, Root, StoreError};

/// How deep the folders nest that are removed: each level holds a descriptor open.
const MAX_REMOVED_DEPTH: usize = 128;

/// A file that is being written beneath a root, under a temporary name until it is [complete](Self::complete).
#[derive(Debug)]
pub struct NewFile {
    folder: OwnedFd,
    file: File,
    temporary: String,
    name: String,
}

impl Root {
    /// Opens a file under the name `temporary` in the folder of `path`, to write it and give it its name then. Missing
    /// folders are made (0700), and the file has mode 0600. What an earlier process wrote under the temporary name is
    /// kept.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn store(&self, path: &InnerPath, temporary: &str) -> Result<NewFile, StoreError> {
        let (folder, name) = path.split_name().ok_or(StoreError::NoName)?;
        let temporary = InnerPath::parse(temporary).map_err(|_| StoreError::NoName)?;
        if temporary.components().count() != 1 {
            return Err(StoreError::NoName);
        }
        let folder = self.make_folder(&folder)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(&folder, temporary.as_str(), flags | OFlags::CLOEXEC, mode)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("something else than a file is in its place").into());
        }
        Ok(NewFile {
            folder,
            file: File::from(file),
            temporary: temporary.as_str().to_owned(),
            name: name.to_owned(),
        })
    }

    /// Makes a folder (0700) with its missing parents, and opens it.
    fn make_folder(&self, path: &InnerPath) -> Result<OwnedFd, StoreError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = self.folder.as_fd().try_clone_to_owned()?;
        for component in path.components() {
            match mkdirat(&folder, component, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            folder = match openat(&folder, component, flags, Mode::empty()) {
                Ok(folder) => folder,
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    return Err(StoreError::NoFolder(component.to_owned()));
                }
                Err(errno) => return Err(errno.into()),
            };
        }
        Ok(folder)
    }

    /// Removes a file; one that is not there is removed already. A link is removed itself.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn remove(&self, path: &InnerPath) -> Result<(), StoreError> {
        let (folder, name) = path.split_name().ok_or(StoreError::NoName)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let folder = match crate::resolve::open_beneath(&self.folder, folder.as_str(), flags) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        match unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes a folder with everything below it; one that is not there is removed already. Links below it are removed
    /// themselves, and what they lead to stays.
    ///
    /// # Errors
    /// When it is no folder, nests deeper than 128 folders, or the system refuses it. A part of it may be gone then.
    pub fn remove_folder(&self, path: &InnerPath) -> Result<(), StoreError> {
        let (above, name) = path.split_name().ok_or(StoreError::NoName)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let above = match crate::resolve::open_beneath(&self.folder, above.as_str(), flags) {
            Ok(above) => above,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let name = CString::new(name).map_err(|_| StoreError::NoName)?;
        Ok(remove_below(&above, &name, MAX_REMOVED_DEPTH)?)
    }
}

/// Removes the folder with this name, and what is below it.
fn remove_below(above: &OwnedFd, name: &CStr, depth: usize) -> io::Result<()> {
    let left = depth
        .checked_sub(1)
        .ok_or_else(|| io::Error::other("its folders nest too deep to be removed"))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat(above, name, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        match unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => remove_below(&folder, name, left)?,
            Err(errno) => return Err(errno.into()),
        }
    }
    match unlinkat(above, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

impl NewFile {
    /// Returns the file, to be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its permissions and its name, in the place of what has it. With `sync` both are on the disk then.
    ///
    /// # Errors
    /// When the system refuses it; the temporary file is still there.
    pub fn complete(self, mode: u32, sync: bool) -> io::Result<()> {
        fchmod(&self.file, Mode::from_raw_mode(mode & 0o7777))?;
        if sync {
            fsync(&self.file)?;
        }
        renameat(&self.folder, &self.temporary, &self.folder, &self.name)?;
        if sync {
            let folder = openat(
                &self.folder,
                ".",
                OFlags::RDONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            fsync(&folder)?;
        }
        Ok(())
    }

    /// Removes the temporary file.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn discard(self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.temporary, AtFlags::empty())?)
    }
}
