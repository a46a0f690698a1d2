//! Files and folders for this process's user alone: made with mode 0600 and 0700, opened without following
//! links, and not trusted when somebody else could have changed them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Pid;

/// The mode bits that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// The mode bits that let others do anything.
const OTHERS: u32 = 0o077;

/// The mode bit of a folder in which only the owner of a file may rename or remove it.
const STICKY: u32 = 0o1000;

/// Returns options that create a file with mode 0600, and refuse a symbolic link in its place.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .mode(0o600)
        // A pipe in its place, which is refused, must not make the opening wait.
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

/// Opens the file with these options, which are those of [`options`] and more. A file in which somebody
/// else could write, or that is neither a regular file nor a device such as `/dev/null`, is refused.
///
/// # Errors
/// When the file cannot be opened, or is refused; the error says what to do.
pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let file = options.open(path).map_err(|error| {
        match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            true => io::Error::new(
                error.kind(),
                "it is a symbolic link, which is not followed: put the file itself there",
            ),
            false => error,
        }
    })?;
    let found = file.metadata()?;
    // What was written to a device such as /dev/null cannot be read or changed there.
    if found.file_type().is_char_device() {
        return Ok(file);
    }
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file: remove it"));
    }
    refuse_others(&found, "it")?;
    Ok(file)
}

/// Writes a file (0600): what it had before is gone.
///
/// # Errors
/// As [`open`], or when the file cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_pieces(path, &[bytes])
}

/// Writes a file as [`write()`] does, of bytes that come in pieces.
///
/// # Errors
/// As [`write()`].
pub fn write_pieces(path: &Path, pieces: &[&[u8]]) -> io::Result<()> {
    let mut options = options();
    // Nothing is cut off before the file is known to be ours.
    let mut file = open(path, options.write(true).create(true).truncate(false))?;
    file.set_len(0)?;
    pieces.iter().try_for_each(|piece| file.write_all(piece))
}

/// Puts a file with these bytes and this mode in the place of `path`, in one step: after a crash there is the old file or the
/// new one. The new one is on the disk before it is put there; its name is after the folder was synced.
///
/// # Errors
/// When the file cannot be written; the old one stays.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let unfinished = path.with_file_name(unfinished_name(path.file_name().unwrap_or_default()));
    let attempt = || {
        // What an earlier process with this number left; without it the file is made below.
        let _ = fs::remove_file(&unfinished);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    };
    attempt().inspect_err(|_| {
        // On a full disk it is empty, and the next attempt may be another process's.
        let _ = fs::remove_file(&unfinished);
    })
}

/// Creates a folder and its missing parents (0700). A folder that exists and in which somebody else could
/// put files is refused.
///
/// # Errors
/// When the folder cannot be created, or is refused; the error says what to do.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    check_folder(path)
}

/// Checks that nobody else could put files into a folder.
///
/// # Errors
/// When the folder is not there, or is refused; the error says what to do.
pub fn check_folder(path: &Path) -> io::Result<()> {
    refuse_others(&fs::metadata(path)?, "the folder")
}

/// Returns the name of the file that this process writes and puts in the place of `name` then.
pub fn unfinished_name(name: &OsStr) -> OsString {
    let mut unfinished = name.to_owned();
    unfinished.push(format!(".{}.new", std::process::id()));
    unfinished
}

/// Removes the files of [`unfinished_name`] in a folder that processes left which were killed while they wrote. To be called before
/// this process writes there: what has its own number is of an earlier process.
pub fn remove_unfinished(folder: &Path) {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    for file in files {
        let is_left = writer_of(&file.file_name()).is_some_and(|pid| {
            pid.as_raw_pid().cast_unsigned() == std::process::id()
                || rustix::process::test_kill_process(pid) == Err(Errno::SRCH)
        });
        if is_left {
            // One that is gone already, or cannot be removed, does no harm.
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Returns the process that writes, or wrote, an unfinished file of this name.
fn writer_of(name: &OsStr) -> Option<Pid> {
    let (_, pid) = name.to_str()?.strip_suffix(".new")?.rsplit_once('.')?;
    Pid::from_raw(pid.parse().ok().filter(|pid| *pid > 0)?)
}

/// Returns whether somebody else could put other files in the place of those in the folder.
///
/// # Errors
/// When the folder cannot be read.
pub fn is_open_to_others(folder: &Path) -> io::Result<bool> {
    let found = fs::metadata(folder)?;
    Ok(!is_ours(found.uid()) || (found.mode() & OTHERS_WRITE != 0 && found.mode() & STICKY == 0))
}

/// How far others can change a file or a folder that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changeable {
    /// Every user of this machine can: it has this mode.
    ByAll(u32),
    /// The file belongs to this user, who is neither root nor this process's user.
    ByOwner(u32),
}

/// Returns how far others can change a file or a folder; none when only root, this process's user and a group
/// can. In a folder with the sticky bit nobody can rename or remove the files of others.
pub fn changeable(found: &Metadata) -> Option<Changeable> {
    let mode = found.mode() & 0o7777;
    let is_guarded = found.is_dir() && mode & STICKY != 0;
    if mode & 0o002 != 0 && !is_guarded {
        Some(Changeable::ByAll(mode))
    } else if !is_ours(found.uid()) {
        Some(Changeable::ByOwner(found.uid()))
    } else {
        None
    }
}

/// Returns the mode of a file, without its kind, if others may read or change it.
pub fn mode_for_others(found: &Metadata) -> Option<u32> {
    let mode = found.mode() & 0o7777;
    (mode & OTHERS != 0).then_some(mode)
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn is_ours(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

fn refuse_others(found: &Metadata, what: &str) -> io::Result<()> {
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    let why = if !is_ours(owner) {
        format!("{what} belongs to user {owner}: chown it to the user that runs this, or remove it")
    } else if mode & OTHERS_WRITE != 0 {
        format!(
            "others can write to {what} (mode {mode:o}): look at what is in it, and chmod go-w it"
        )
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        (folder, path)
    }

    #[test]
    fn what_is_made_is_private() {
        let (folder, path) = place();
        write(&path, b"first and long").unwrap();
        write(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(mode(&path), 0o600);
        let deep = folder.path().join("a/b");
        create_folder(&deep).unwrap();
        assert_eq!((mode(&deep), mode(deep.parent().unwrap())), (0o700, 0o700));
    }

    #[test]
    fn a_link_is_not_followed() {
        let (folder, path) = place();
        let target = folder.path().join("target");
        fs::write(&target, "precious").unwrap();
        symlink(&target, &path).unwrap();
        let error = write(&path, b"x").unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(fs::read(&target).unwrap(), b"precious");
    }

    #[test]
    fn unfinished_files_of_processes_that_are_gone_are_removed() {
        let (folder, _) = place();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let gone = ended.id();
        ended.wait().unwrap();
        let own = unfinished_name(OsStr::new("identity.pub"));
        let gone = format!("identity.key.{gone}.new");
        let alive = format!("identity.key.{}.new", std::os::unix::process::parent_id());
        let others = ["identity.key", "a.new", "0.new", "web.0.new", "web.-1.new"];
        let mut kept: Vec<_> = others.map(OsString::from).to_vec();
        kept.push(alive.into());
        for name in kept.iter().chain([&own, &gone.into()]) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        remove_unfinished(folder.path());
        let left = fs::read_dir(folder.path()).unwrap();
        let mut left: Vec<_> = left.map(|file| file.unwrap().file_name()).collect();
        left.sort();
        kept.sort();
        assert_eq!(left, kept);
    }

    #[test]
    fn what_others_could_have_changed_is_refused() {
        let (folder, path) = place();
        fs::write(&path, "planted").unwrap();
        set_mode(&path, 0o622);
        let error = write(&path, b"x").unwrap_err().to_string();
        assert!(
            error.contains("chmod go-w") && error.contains("622"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"planted");

        let inside = folder.path().join("folder");
        fs::create_dir(&inside).unwrap();
        for (bits, refused, replaceable) in [
            (0o755, false, false),
            (0o770, true, true),
            (0o707, true, true),
            (0o1777, true, false),
        ] {
            set_mode(&inside, bits);
            let created = create_folder(&inside);
            assert_eq!(created.is_err(), refused, "{bits:o}: {created:?}");
            assert_eq!(is_open_to_others(&inside).unwrap(), replaceable, "{bits:o}");
        }
        let pipe = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe"), pipe).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        for other in ["folder", "socket", "pipe"] {
            assert!(write(&folder.path().join(other), b"x").is_err(), "{other}");
        }
    }

    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        // Only root can give a file away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (folder, path) = place();
        fs::write(&path, "planted").unwrap();
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        let error = write(&path, b"x").unwrap_err().to_string();
        assert!(error.contains("user 12345"), "{error}");
        std::os::unix::fs::chown(folder.path(), Some(12_345), None).unwrap();
        let error = create_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("user 12345"), "{error}");
        assert!(is_open_to_others(folder.path()).unwrap());
    }
}
