//! A file in the home of a user, which root reads and writes. The user can change every part of the path meanwhile, so each is
//! opened below the one before, without following a link, and must belong to the user or to root.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fchmod, fchown, fstat, fsync, mkdirat, openat,
    renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};

use crate::accounts::Account;

/// The largest file, in bytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The mode bits that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// A file of a user.
#[derive(Debug)]
pub(super) struct UserFile {
    account: Account,
    path: PathBuf,
}

/// The state of a file when it was read.
#[derive(Debug)]
struct Found {
    bytes: Vec<u8>,
    status: Stat,
}

impl UserFile {
    /// Returns the file with this path below the home of the user, or with this absolute one. `%h` in it stands for the home, `%u` for the
    /// name, and `%%` for `%`, as in `sshd_config`.
    ///
    /// # Errors
    /// When the path cannot be one.
    pub(super) fn of(account: Account, config: &str) -> Result<Self, String> {
        let expanded = expand(config, &account);
        let path = Path::new(&account.home).join(expanded);
        let is_plain = path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !path.is_absolute() || !is_plain || path.file_name().is_none() || config.contains('\0') {
            return Err(format!("{} is not the path of a file", path.display()));
        }
        Ok(Self { account, path })
    }

    /// Returns the path, for people.
    pub(super) fn path(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Reads the file; none if there is none.
    ///
    /// # Errors
    /// When it cannot be read, and when it is not a file of the user.
    pub(super) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        match self.folder(false)? {
            Some((folder, name)) => Ok(self.read_in(&folder, name)?.map(|found| found.bytes)),
            None => Ok(None),
        }
    }

    /// Reads the file, has `edit` change it, and puts it in the place of the old one in one step. Missing folders in the home are created
    /// for the user (0700), and so is a missing file (0600). An old file keeps its owner and its mode. Fails if the file has changed meanwhile.
    ///
    /// # Errors
    /// When the file cannot be read or written, and when it is not a file of the user.
    pub(super) fn edit<T>(
        &self,
        edit: impl FnOnce(Option<&[u8]>) -> (Option<Vec<u8>>, T),
    ) -> io::Result<T> {
        let Some((folder, name)) = self.folder(true)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let before = self.read_in(&folder, name)?;
        let (after, done) = edit(before.as_ref().map(|found| &*found.bytes));
        if let Some(after) = after {
            self.replace(&folder, name, before.as_ref(), &after)?;
        }
        Ok(done)
    }

    /// Opens the folder of the file; none if there is none and it is not to be created.
    fn folder(&self, creates: bool) -> io::Result<Option<(OwnedFd, &OsStr)>> {
        let name = self.path.file_name().unwrap_or_default();
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        // The way to the home is the administrator's: it may have links. What is below it is the user's.
        let home = Path::new(&self.account.home);
        let (start, below) = match parent.strip_prefix(home) {
            Ok(below) if home.parent().is_some() => (home, below),
            _ => (Path::new("/"), parent.strip_prefix("/").unwrap_or(parent)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut here = match openat(CWD, start, flags, Mode::empty()) {
            Ok(here) => here,
            Err(Errno::NOENT) if !creates => return Ok(None),
            Err(error) => return Err(explained(start, error)),
        };
        self.check(&fstat(&here)?, start)?;
        let mut path = start.to_owned();
        for part in below.components() {
            path.push(part);
            let open = || {
                openat(
                    &here,
                    part.as_os_str(),
                    flags | OFlags::NOFOLLOW,
                    Mode::empty(),
                )
            };
            let next = match open() {
                Err(Errno::NOENT) if !creates => return Ok(None),
                Err(Errno::NOENT) if start == home => {
                    mkdirat(&here, part.as_os_str(), Mode::RWXU)?;
                    let made = open().map_err(|error| explained(&path, error))?;
                    self.give(&made)?;
                    made
                }
                other => other.map_err(|error| explained(&path, error))?,
            };
            self.check(&fstat(&next)?, &path)?;
            here = next;
        }
        Ok(Some((here, name)))
    }

    fn read_in(&self, folder: &OwnedFd, name: &OsStr) -> io::Result<Option<Found>> {
        // A pipe would keep the job waiting.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(folder, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(explained(&self.path, error)),
        };
        let status = fstat(&file)?;
        self.check(&status, &self.path)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            let path = self.path.display();
            return Err(io::Error::other(format!("{path} is not a regular file")));
        }
        let mut bytes = Vec::new();
        File::from(file)
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)?;
        match bytes.len() as u64 > MAX_FILE_BYTES {
            true => Err(io::Error::other(format!(
                "{} has more than 4 MiB",
                self.path.display()
            ))),
            false => Ok(Some(Found { bytes, status })),
        }
    }

    fn replace(
        &self,
        folder: &OwnedFd,
        name: &OsStr,
        before: Option<&Found>,
        after: &[u8],
    ) -> io::Result<()> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let written = OsString::from(format!(".saline-{digits}"));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(folder, &written, flags, Mode::RUSR | Mode::WUSR)?;
        let put = || {
            let mut file = File::from(file);
            file.write_all(after)?;
            // The owner first: a change of it takes some bits of the mode away.
            match before {
                Some(found) => fchown(
                    &file,
                    Some(Uid::from_raw(found.status.st_uid)),
                    Some(Gid::from_raw(found.status.st_gid)),
                )?,
                None => self.give(&file)?,
            }
            fchmod(&file, self.mode(before))?;
            fsync(&file)?;
            let now = self.read_in(folder, name)?;
            if now.map(|found| found.bytes).as_ref() != before.map(|found| &found.bytes) {
                let why = format!(
                    "{} was changed meanwhile: nothing is done",
                    self.path.display()
                );
                return Err(io::Error::other(why));
            }
            Ok(renameat(folder, &written, folder, name)?)
        };
        let done = put();
        if done.is_err() {
            // It is of no use to anybody.
            let _ = unlinkat(folder, &written, AtFlags::empty());
        }
        done
    }

    /// Returns the mode of the file: the old one; of a new one in the home, one for the user alone; elsewhere, one that lets the user read
    /// what root wrote.
    fn mode(&self, before: Option<&Found>) -> Mode {
        match before {
            Some(found) => Mode::from_raw_mode(found.status.st_mode & 0o777),
            None if self.path.starts_with(&self.account.home) => Mode::RUSR | Mode::WUSR,
            None => Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH,
        }
    }

    /// Gives a new file or folder in the home to the user.
    fn give(&self, file: impl AsFd) -> io::Result<()> {
        let is_in_home = self.path.starts_with(&self.account.home);
        if geteuid().is_root() && is_in_home {
            let (uid, gid) = (self.account.uid, self.account.gid);
            fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        Ok(())
    }

    /// Checks that a part of the path belongs to the user or to root, and that nobody else can change it.
    fn check(&self, status: &Stat, path: &Path) -> io::Result<()> {
        let owner = status.st_uid;
        let path = path.display();
        if owner != self.account.uid && owner != 0 {
            let name = &self.account.name;
            let why = format!("{path} belongs to user {owner}, and neither to {name} nor to root");
            return Err(io::Error::other(why));
        }
        // The own group of a user has no other members, as a rule.
        let others = match status.st_gid == self.account.gid || status.st_gid == 0 {
            true => OTHERS_WRITE & !0o020,
            false => OTHERS_WRITE,
        };
        if status.st_mode & others != 0 {
            let mode = status.st_mode & 0o7777;
            let why = format!("others can change {path} (mode {mode:o}): chmod go-w it");
            return Err(io::Error::other(why));
        }
        Ok(())
    }
}

fn explained(path: &Path, error: Errno) -> io::Error {
    let path = path.display();
    match error {
        Errno::LOOP => {
            io::Error::other(format!("{path} is a symbolic link, which is not followed"))
        }
        // A link in the place of a folder.
        Errno::NOTDIR => io::Error::other(format!(
            "{path} is not a folder, or a symbolic link, which is not followed"
        )),
        error => io::Error::new(
            io::Error::from(error).kind(),
            format!("cannot open {path}: {}", io::Error::from(error)),
        ),
    }
}

/// Puts the home and the name of the user in the place of what stands for them.
fn expand(config: &str, account: &Account) -> String {
    let mut expanded = String::new();
    let mut letters = config.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '%' => match letters.next() {
                Some('h') => expanded.push_str(&account.home),
                Some('u') => expanded.push_str(&account.name),
                Some('%') | None => expanded.push('%'),
                Some(other) => expanded.extend(['%', other]),
            },
            letter => expanded.push(letter),
        }
    }
    expanded
}
