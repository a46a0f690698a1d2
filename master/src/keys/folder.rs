//! One folder of public keys, a file each. Its name is an id, its content a key in PEM.
//!
//! Operators seed and copy these files by hand while a master runs, so nothing here remembers what
//! a file holds: it is read when it is asked for.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use saline_channel::{KeyError, PublicIdentity};
use saline_messages::{KeyEntry, KeyState, MinionId};
use saline_protocol::transport::Source;

/// The largest part of a file that is read. A key in PEM has 113 bytes; the rest is room for
/// comments.
const LARGEST_FILE: u64 = 16 * 1024;

/// How often it is noted that a pending or denied key is still presented.
const TOUCHED: Duration = Duration::from_secs(3_600);

/// The name of a file that is being written. It begins with a dot, so that it is no id.
const UNFINISHED: &str = ".unfinished";

/// The beginning of the line in the file of a pending key that names the source which presented the key.
const SOURCE: &str = "Presented-From: ";

/// The content of a file for an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// There is no file.
    Nothing,
    /// The file holds a key.
    Key([u8; 32]),
    /// The file exists and holds no key.
    NoKey,
}

/// How old the time of the last change of a file or a folder must be before it is trusted. File systems stamp
/// changes with a clock that may tick only every few milliseconds, and two changes within one tick look
/// like one.
pub(super) const AT_REST: Duration = Duration::from_secs(1);

/// The metadata of a file that change whenever it is written or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    size: u64,
    /// The time of the last change, which nobody can set: seconds and nanoseconds since 1970.
    changed: (i64, i64),
}

impl FileStamp {
    /// Whether the file was changed last at least `age` before `now`.
    pub(super) fn is_older_than(&self, now: SystemTime, age: Duration) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let seconds = u64::try_from(seconds).unwrap_or(0);
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or(0);
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        now.duration_since(changed).is_ok_and(|passed| passed > age)
    }
}

/// The largest number of names in a folder that are remembered as warned of.
const MAX_WARNED: usize = 1000;

/// A folder of keys.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The names of what is no key, as far as an operator was warned of them: once each, since the folder is looked
    /// at all the time.
    told: Mutex<HashSet<OsString>>,
}

impl Folder {
    /// Opens the folder; creates it with mode 0700 if it does not exist. One that others can read is closed to
    /// them, and one to which they could write is refused: its keys may not be those that were accepted.
    pub(super) fn open(path: PathBuf) -> Result<Self, KeyError> {
        let settle = || {
            saline_private_files::create_folder(&path)?;
            if fs::metadata(&path)?.permissions().mode() & 0o077 != 0 {
                fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            }
            absent_is_fine(fs::remove_file(path.join(UNFINISHED)))
        };
        settle().map_err(|error| io_error("open", &path, error))?;
        Ok(Self {
            path,
            told: Mutex::default(),
        })
    }

    /// Reads the key of `id`. Symbolic links are not followed, and only regular files are read.
    pub(super) fn read(&self, id: &MinionId) -> Result<Found, KeyError> {
        let path = self.path.join(id.as_str());
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) if is_link(&error) => {
                self.skip(&path, "it is a symbolic link, and not a key");
                return Ok(Found::NoKey);
            }
            // It must not stop what is asked about other minions.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let why =
                    "the master may not read it; chown it to the master's user, or delete it with";
                self.skip(&path, format_args!("{why} saline-key -d {id}"));
                return Ok(Found::NoKey);
            }
            Err(error) => return Err(io_error("read", &path, error)),
        };
        let text = read_text(file).map_err(|error| io_error("read", &path, error))?;
        match text.as_deref().map(PublicIdentity::from_pem) {
            Some(Ok(key)) => {
                self.told().remove(OsStr::new(id.as_str()));
                Ok(Found::Key(key.0))
            }
            _ => {
                self.skip(&path, "it holds no Ed25519 public key in PEM");
                Ok(Found::NoKey)
            }
        }
    }

    /// Says in the log why something in the folder is no key: as a warning once.
    fn skip(&self, path: &Path, why: impl fmt::Display) {
        let shown = path.display();
        let name = path.file_name().unwrap_or_default().to_owned();
        let mut told = self.told();
        if told.len() < MAX_WARNED && told.insert(name) {
            tracing::warn!("{shown} is skipped: {why}");
        } else {
            tracing::debug!("{shown} is skipped: {why}");
        }
    }

    fn told(&self) -> MutexGuard<'_, HashSet<OsString>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the key of `id`. The content is on the disk when this returns, and the name after
    /// [`sync`](Self::sync). Not for concurrent use.
    pub(super) fn write(&self, id: &MinionId, key: [u8; 32]) -> Result<(), KeyError> {
        self.write_text(id, &PublicIdentity(key).to_pem())
    }

    /// The same, with a line before the key that names the source that presented it.
    pub(super) fn write_from(
        &self,
        id: &MinionId,
        key: [u8; 32],
        source: Source,
    ) -> Result<(), KeyError> {
        let key = PublicIdentity(key).to_pem();
        self.write_text(id, &format!("{SOURCE}{source}\n{key}"))
    }

    /// Returns the source that the file of `id` names; none when it names none, or cannot be read.
    pub(super) fn source(&self, id: &MinionId) -> Option<Source> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(self.path.join(id.as_str()));
        let text = read_text(file.ok()?).ok()??;
        text.lines()
            .find_map(|line| line.strip_prefix(SOURCE)?.parse().ok())
    }

    fn write_text(&self, id: &MinionId, text: &str) -> Result<(), KeyError> {
        let path = self.path.join(id.as_str());
        let unfinished = self.path.join(UNFINISHED);
        let write = || {
            absent_is_fine(fs::remove_file(&unfinished))?;
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&unfinished)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|error| io_error("write", &path, error))
    }

    /// Deletes the key of `id`, or what stands in its place, if there is something. A folder is no key, and stays.
    pub(super) fn remove(&self, id: &MinionId) -> Result<(), KeyError> {
        let path = self.path.join(id.as_str());
        let removed = absent_is_fine(fs::remove_file(&path));
        removed.map_err(|error| io_error("remove", &path, error))
    }

    /// Makes the writes and deletions so far survive a power loss. A folder that was removed by hand has none.
    pub(super) fn sync(&self) -> Result<(), KeyError> {
        match File::open(&self.path).and_then(|folder| folder.sync_all()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            synced => synced.map_err(|error| io_error("write", &self.path, error)),
        }
    }

    /// Returns the keys of the folder in this state, by id. A file that holds no key, or that the master may not read, has
    /// [`NO_KEY`](KeyEntry::NO_KEY).
    pub(super) fn entries(&self, state: KeyState) -> Result<Vec<KeyEntry>, KeyError> {
        let mut ids = self.names()?;
        ids.sort_unstable();
        let mut entries = Vec::with_capacity(ids.len());
        for id in ids {
            let identity = match self.read(&id)? {
                Found::Key(identity) => identity,
                Found::NoKey => KeyEntry::NO_KEY,
                // It was removed meanwhile.
                Found::Nothing => continue,
            };
            entries.push(KeyEntry {
                id,
                state,
                identity,
            });
        }
        Ok(entries)
    }

    /// Returns the file names that are ids, in no order. A file may hold no key; folders are left out. A folder that
    /// was removed by hand holds nothing.
    pub(super) fn names(&self) -> Result<Vec<MinionId>, KeyError> {
        let read = || {
            let mut ids = Vec::new();
            let entries = match fs::read_dir(&self.path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ids),
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name();
                let text = name.to_string_lossy();
                match MinionId::parse(&text) {
                    // A file that is being written, or a file of the operator's.
                    _ if text.starts_with('.') => {}
                    _ if entry.file_type().is_ok_and(|kind| kind.is_dir()) => {
                        self.skip(&entry.path(), "it is a folder, and not a key");
                    }
                    Ok(id) => ids.push(id),
                    Err(error) => self.skip(
                        &entry.path(),
                        format_args!("its name is not a valid id: {error}"),
                    ),
                }
            }
            Ok(ids)
        };
        read().map_err(|error| io_error("read", &self.path, error))
    }

    /// Returns the time at which the file of `id` was written or [touched](Self::touch); none when there is
    /// none.
    pub(super) fn modified(&self, id: &MinionId) -> Result<Option<SystemTime>, KeyError> {
        let modified = self.metadata(id)?.map(|file| file.modified()).transpose();
        modified.map_err(|error| io_error("read", &self.path.join(id.as_str()), error))
    }

    /// Notes at `now` that the key of `id` is still presented, unless that was noted less than an hour before: sets the time of its file.
    pub(super) fn touch(&self, id: &MinionId, now: SystemTime) -> Result<(), KeyError> {
        let Some(modified) = self.modified(id)? else {
            return Ok(());
        };
        if now
            .duration_since(modified)
            .is_ok_and(|passed| passed < TOUCHED)
        {
            return Ok(());
        }
        let path = self.path.join(id.as_str());
        let touch = || {
            let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = OpenOptions::new()
                .write(true)
                .custom_flags(flags.bits().cast_signed())
                .open(&path)?;
            file.set_modified(now)
        };
        absent_is_fine(touch()).map_err(|error| io_error("write", &path, error))
    }

    /// Returns the stamp of the file of `id`; none when there is no regular file.
    pub(super) fn stamp(&self, id: &MinionId) -> Result<Option<FileStamp>, KeyError> {
        let file = self.metadata(id)?.filter(Metadata::is_file);
        Ok(file.map(|file| FileStamp {
            inode: file.ino(),
            size: file.len(),
            changed: (file.ctime(), file.ctime_nsec()),
        }))
    }

    /// Whether there is a file for `id`, or something else with its name. It may hold no key.
    pub(super) fn exists(&self, id: &MinionId) -> Result<bool, KeyError> {
        Ok(self.metadata(id)?.is_some())
    }

    /// Returns what the file system knows of the file of `id`, or of a link in its place; none when there is
    /// neither.
    fn metadata(&self, id: &MinionId) -> Result<Option<Metadata>, KeyError> {
        let path = self.path.join(id.as_str());
        match fs::symlink_metadata(&path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &path, error)),
        }
    }

    /// Returns the time of the folder's last change: a name was added, removed, or replaced. None when there is no
    /// folder any more.
    pub(super) fn changed(&self) -> Result<Option<SystemTime>, KeyError> {
        match fs::metadata(&self.path).and_then(|metadata| metadata.modified()) {
            Ok(changed) => Ok(Some(changed)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &self.path, error)),
        }
    }
}

/// Returns the text of a regular file of moderate size; none for anything else.
fn read_text(file: File) -> io::Result<Option<String>> {
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Ok(None);
    }
    Ok(String::from_utf8(bytes).ok())
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

fn absent_is_fine(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn io_error(what: &'static str, path: &Path, source: io::Error) -> KeyError {
    KeyError::Io {
        what,
        path: path.to_owned(),
        source,
    }
}
