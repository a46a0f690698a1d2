//! The audit file on the disk.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How many older files are kept.
pub(super) const KEPT_FILES: u32 = 5;

/// The largest number of bytes that [`tail`] reads.
const MAX_TAIL: u64 = 16 * 1024 * 1024;

/// The audit file. Every call blocks on the disk.
#[derive(Debug)]
pub(crate) struct AuditFile {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: Arc<AppendedFile>,
    /// The length up to the last whole line.
    length: u64,
    /// Device and inode: another file may be put at the path.
    id: (u64, u64),
}

/// An open file to which lines were appended. It is synced while more are.
#[derive(Debug)]
pub(crate) struct AppendedFile {
    file: File,
    /// Why a sync failed. The next one would not tell of what that one lost, so there is none, and nothing more is appended.
    lost: Mutex<Option<(io::ErrorKind, String)>>,
}

impl AppendedFile {
    /// Syncs what was appended.
    ///
    /// # Errors
    /// When the disk fails, or did: what was appended may not be there after a loss of power.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // Held meanwhile: of two syncs at once only one is told of a failure.
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((kind, text)) = &*lost {
            return Err(io::Error::new(*kind, text.clone()));
        }
        match self.file.sync_data() {
            // A device has nothing to sync.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                Ok(())
            }
            Err(error) => {
                *lost = Some((error.kind(), error.to_string()));
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Makes the next sync fail, and all after it.
    #[cfg(test)]
    pub(super) fn lose(&self) {
        let lost = (io::ErrorKind::Other, "the disk is gone".to_owned());
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(lost);
    }

    /// Returns whether a sync has failed. It does not wait for one that is under way.
    fn has_lost(&self) -> bool {
        self.lost.try_lock().is_ok_and(|lost| lost.is_some())
    }
}

impl AuditFile {
    /// Names the file; it is opened with the first line.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// Appends whole lines, all of them or none, and returns the file to sync. A file that would become larger than
    /// `max_bytes` is set aside before.
    ///
    /// # Errors
    /// When the file cannot be opened, set aside or written.
    pub(crate) fn append(&mut self, lines: &[u8], max_bytes: u64) -> io::Result<Arc<AppendedFile>> {
        let mut open = self.take_open()?;
        let added = lines.len() as u64;
        if open.length > 0 && open.length + added > max_bytes {
            open.file.sync()?;
            self.rotate()?;
            open = open_at(&self.path)?;
        }
        let mut file = &open.file.file;
        if let Err(error) = file.write_all(lines) {
            // The beginning of a line is no line. If this fails too, the next opening ends it.
            let _ = file.set_len(open.length);
            return Err(error);
        }
        open.length += added;
        let appended = Arc::clone(&open.file);
        self.open = Some(open);
        Ok(appended)
    }

    /// Returns the open file, if it is still the one at the path.
    fn take_open(&mut self) -> io::Result<Open> {
        if let Some(open) = self.open.take()
            && !open.file.has_lost()
            && fs::symlink_metadata(&self.path).is_ok_and(|found| id(&found) == open.id)
        {
            return Ok(open);
        }
        open_at(&self.path)
    }

    /// Sets the file aside, and removes the oldest one.
    fn rotate(&self) -> io::Result<()> {
        for number in (1..KEPT_FILES).rev() {
            rename(&older(&self.path, number), &older(&self.path, number + 1))?;
        }
        rename(&self.path, &older(&self.path, 1))?;
        sync_folder(&self.path)
    }
}

fn id(found: &fs::Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn open_at(path: &Path) -> io::Result<Open> {
    let folder = path.parent().filter(|parent| !parent.exists());
    if let Some(folder) = folder {
        saline_private_files::create_folder(folder)?;
    }
    let is_new = !path.exists();
    let mut options = saline_private_files::options();
    options.read(true).append(true).create(true);
    let mut file = saline_private_files::open(path, &options)?;
    let found = file.metadata()?;
    let mut length = 0;
    if found.is_file() {
        close_to_others(path, &file, &found)?;
        length = found.len();
        if is_new {
            sync_folder(path)?;
        }
        if length > 0 {
            file.seek(SeekFrom::Start(length - 1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                length += 1;
            }
        }
    }
    Ok(Open {
        id: id(&found),
        file: Arc::new(AppendedFile {
            file,
            lost: Mutex::new(None),
        }),
        length,
    })
}

/// Gives a file that others can read the mode 0600.
fn close_to_others(path: &Path, file: &File, found: &fs::Metadata) -> io::Result<()> {
    let Some(mode) = saline_private_files::mode_for_others(found) else {
        return Ok(());
    };
    let closed = file.set_permissions(fs::Permissions::from_mode(0o600));
    closed.map_err(|error| {
        let why = format!("others can read it (mode {mode:o}): chmod 600 it ({error})");
        io::Error::new(error.kind(), why)
    })?;
    tracing::warn!(
        "others could read the audit file {} (mode {mode:o}): its mode is 600 now",
        path.display()
    );
    Ok(())
}

/// Returns the path of an older file; 1 is the last one.
pub(super) fn older(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Returns the last lines of the file at `path`, the oldest first. If it has too few, those of the one before it come
/// first.
///
/// # Errors
/// When a file cannot be read, is a link, or others can write to it.
pub(super) fn tail(path: &Path, most: usize) -> io::Result<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    let older = (1..=KEPT_FILES).map(|number| older(path, number));
    let mut options = saline_private_files::options();
    options.read(true);
    for path in std::iter::once(path.to_owned()).chain(older) {
        if lines.len() >= most {
            break;
        }
        let mut file = match saline_private_files::open(&path, &options) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let length = file.metadata()?.len();
        let from = length.saturating_sub(MAX_TAIL);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(MAX_TAIL).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        // The first line may have been cut.
        let own = text.lines().skip(usize::from(from > 0));
        let mut own: Vec<String> = own.map(str::to_owned).collect();
        own.append(&mut lines);
        lines = own;
    }
    lines.drain(..lines.len().saturating_sub(most));
    Ok(lines)
}

/// Returns an error with the file that it is about.
pub(crate) fn explain(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
