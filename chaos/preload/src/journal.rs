//! The journal: what writes replace, and which of them are synced.
//!
//! A record is a kind (`w`rite, `s`ync begins, sync `e`nded), five numbers and the replaced bytes: the
//! file's device and inode, the offset (or the number of the sync), the file's length before, and the
//! count of the bytes. It is appended in one write, so that a kill leaves it whole or without effect.

use std::ffi::{OsString, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{off_t, size_t};

/// Where to write, and about which files.
struct Journal {
    fd: c_int,
    folder: PathBuf,
}

/// The number of the last sync that began, in this process.
static SYNCS: AtomicU64 = AtomicU64::new(0);

fn journal() -> Option<&'static Journal> {
    static JOURNAL: OnceLock<Option<Journal>> = OnceLock::new();
    JOURNAL.get_or_init(open).as_ref()
}

fn open() -> Option<Journal> {
    let folder = PathBuf::from(std::env::var_os("SALINE_CHAOS_JOURNAL_FOLDER")?);
    let path: OsString = std::env::var_os("SALINE_CHAOS_JOURNAL")?;
    let path = std::ffi::CString::new(path.as_bytes()).ok()?;
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: the path is a string that ends with a zero.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    // The real path, as the descriptors of files tell theirs.
    let folder = folder.canonicalize().unwrap_or(folder);
    (fd >= 0).then_some(Journal { fd, folder })
}

/// A file whose writes are journaled.
struct Watched {
    journal: &'static Journal,
    device: u64,
    inode: u64,
    length: u64,
}

/// Returns the file of a descriptor, if its writes are journaled.
fn watched(fd: c_int) -> Option<Watched> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` has room for what fstat writes, and is read only when it has succeeded.
    let status = unsafe {
        if libc::fstat(fd, status.as_mut_ptr()) != 0 {
            return None;
        }
        status.assume_init()
    };
    // Before anything that allocates: pipes and sockets are written to in the child of a fork too.
    if status.st_mode & libc::S_IFMT != libc::S_IFREG {
        return None;
    }
    let journal = journal()?;
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    path.starts_with(&journal.folder).then_some(Watched {
        journal,
        device: status.st_dev,
        inode: status.st_ino,
        length: u64::try_from(status.st_size).unwrap_or(0),
    })
}

impl Watched {
    fn append(&self, kind: u8, offset: u64, content: &[u8]) {
        let mut record = Vec::with_capacity(37 + content.len());
        record.push(kind);
        for number in [self.device, self.inode, offset, self.length] {
            record.extend_from_slice(&number.to_le_bytes());
        }
        record.extend_from_slice(&(content.len() as u32).to_le_bytes());
        record.extend_from_slice(content);
        // SAFETY: the pointer and the length are those of the record.
        unsafe {
            libc::syscall(
                libc::SYS_write,
                self.journal.fd,
                record.as_ptr(),
                record.len(),
            );
        }
    }

    /// Appends what the file has in a range, before that changes.
    fn append_content(&self, fd: c_int, offset: u64, count: u64) {
        let end = offset.saturating_add(count).min(self.length);
        let size = usize::try_from(end.saturating_sub(offset)).unwrap_or(0);
        let mut content = vec![0_u8; size];
        let read = match size {
            0 => 0,
            _ => self.read(fd, &mut content, offset),
        };
        content.truncate(read);
        self.append(b'w', offset, &content);
    }

    /// Reads through a descriptor of its own when the caller's is only for writing.
    fn read(&self, fd: c_int, content: &mut [u8], offset: u64) -> usize {
        let at = offset as off_t;
        // SAFETY: the pointer and the length are those of `content`.
        let read = unsafe { libc::pread(fd, content.as_mut_ptr().cast(), content.len(), at) };
        if let Ok(read) = usize::try_from(read) {
            return read;
        }
        let file = std::fs::File::open(format!("/proc/self/fd/{fd}"));
        let read =
            file.and_then(|file| std::os::unix::fs::FileExt::read_at(&file, content, offset));
        read.unwrap_or(0)
    }
}

/// Journals what a write of `count` bytes replaces: at `offset`, or where the descriptor stands.
pub(crate) fn before_write(fd: c_int, offset: Option<off_t>, count: size_t) {
    let Some(file) = watched(fd) else { return };
    // SAFETY: these ask about a descriptor and change nothing.
    let (flags, position) = unsafe {
        (
            libc::fcntl(fd, libc::F_GETFL),
            libc::lseek(fd, 0, libc::SEEK_CUR),
        )
    };
    let offset = match offset {
        Some(offset) => u64::try_from(offset).unwrap_or(0),
        None if flags & libc::O_APPEND != 0 => file.length,
        None => u64::try_from(position).unwrap_or(0),
    };
    file.append_content(fd, offset, count as u64);
}

/// Journals what a new length cuts off.
pub(crate) fn before_truncate(fd: c_int, length: off_t) {
    let Some(file) = watched(fd) else { return };
    let length = u64::try_from(length).unwrap_or(0);
    file.append_content(fd, length, file.length.saturating_sub(length));
}

/// Syncs, and journals that everything that was written before is on the disk if that succeeded.
pub(crate) fn around_sync(fd: c_int, sync: impl FnOnce() -> c_int) -> c_int {
    let Some(file) = watched(fd) else {
        return sync();
    };
    let number = SYNCS.fetch_add(1, Ordering::Relaxed);
    file.append(b's', number, &[]);
    let result = sync();
    if result == 0 {
        file.append(b'e', number, &[]);
    }
    result
}
