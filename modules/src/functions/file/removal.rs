//! `file.remove`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, unlinkat};
use saline_data::Value;
use saline_functions::{Failure, function};

use super::answer::Answer;
use super::backups::{self, Backup};
use super::path::{AbsolutePath, failed};
use super::place::{LARGEST_FILE, Place, file_type};
use super::replacement::sync_folder;
use super::status::type_name;
use crate::JobContext;

/// The paths without which no machine works.
const NEVER_REMOVED: [&str; 33] = [
    "/",
    "/bin",
    "/boot",
    "/boot/efi",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/run",
    "/var/tmp",
];

/// Removes a file, a symbolic link (not what it leads to), or a folder with all that is in it. A path without which the
/// machine does not work, such as `/` or `/usr`, is refused, and so is a folder in which something is mounted.
///
/// path
///     The absolute path. Where there is nothing, nothing changes.
///
/// backup
///     `minion` keeps the contents of a regular file on the minion, under `cachedir` (`file.list_backups`).
///
/// test
///     `True` only tells what would be removed.
///
/// CLI Example:
///
///     saline '*' file.remove /var/cache/app
#[function(changes)]
pub(super) fn remove(
    job: &JobContext<'_>,
    path: AbsolutePath,
    #[default(None)] backup: Backup,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let place = match rustix::fs::lstat(&path as &Path) {
        Err(rustix::io::Errno::NOENT) => return Ok(Answer::new(false, test).into_value()),
        _ => Place::of(&path)?,
    };
    let Some(status) = place.status()? else {
        return Ok(Answer::new(false, test).into_value());
    };
    let canonical = place.canonical_path()?;
    let is_folder = file_type(&status) == FileType::Directory;
    refuse_vital(&path, &canonical, &job.host.cache_dir)?;
    if is_folder {
        refuse_mounts(&path, &canonical)?;
    }
    let mut answer = Answer::new(true, test);
    answer.add("type", type_name(&status));
    if test {
        return Ok(answer.into_value());
    }
    if backup == Backup::Minion && file_type(&status) == FileType::RegularFile {
        let mut existing = place.open_existing()?;
        let bytes = existing.read(&place.path, LARGEST_FILE)?;
        let kept = backups::keep(&job.host.cache_dir, &place, &existing, &bytes)?;
        answer.add("backup", kept.display().to_string());
    }
    match is_folder {
        true => remove_folder(job, &path, &canonical)?,
        false => unlinkat(&place.folder, &place.name, AtFlags::empty())
            .map_err(|why| failed("remove", &path, why))?,
    }
    sync_folder(&place);
    Ok(answer.into_value())
}

/// Removes a folder, unless it is one that is refused.
///
/// # Errors
/// When it is refused, or something in it cannot be removed.
pub(super) fn remove_folder(
    job: &JobContext<'_>,
    path: &AbsolutePath,
    canonical: &Path,
) -> Result<(), Failure> {
    refuse_vital(path, canonical, &job.host.cache_dir)?;
    refuse_mounts(path, canonical)?;
    // It follows no link, even one that is put there meanwhile.
    std::fs::remove_dir_all(canonical).map_err(|why| failed("remove", path, why))
}

/// Refuses what the machine or the minion needs, and the folders above the minion's own.
fn refuse_vital(path: &AbsolutePath, canonical: &Path, cache_dir: &Path) -> Result<(), Failure> {
    let vital = NEVER_REMOVED
        .iter()
        .any(|vital| canonical == Path::new(vital));
    if vital {
        return Err(failed(
            "remove",
            path,
            "the machine does not work without it",
        ));
    }
    let own = std::fs::canonicalize(cache_dir).unwrap_or_else(|_| cache_dir.to_owned());
    if own.starts_with(canonical) {
        return Err(failed(
            "remove",
            path,
            "the minion keeps its own files in it (cachedir)",
        ));
    }
    Ok(())
}

/// Refuses a folder that is a file system's, or has one in it.
fn refuse_mounts(path: &AbsolutePath, canonical: &Path) -> Result<(), Failure> {
    let mounts = std::fs::read("/proc/self/mountinfo")
        .map_err(|why| failed("read", "/proc/self/mountinfo", why))?;
    for line in mounts.split(|byte| *byte == b'\n') {
        let Some(mounted) = line.split(|byte| *byte == b' ').nth(4).map(unescaped) else {
            continue;
        };
        if mounted.starts_with(canonical) {
            let why = format!(
                "a file system is mounted at {}: unmount it",
                mounted.display()
            );
            return Err(failed("remove", path, why));
        }
    }
    Ok(())
}

/// Returns a path as the kernel writes it there: white space and backslashes are a backslash and three octal digits.
fn unescaped(mut text: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    while let Some((first, rest)) = text.split_first() {
        let octal = rest.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        let byte = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, byte) {
            (b'\\', Some(byte)) => {
                path.push(byte);
                text = &rest[3..];
            }
            _ => {
                path.push(*first);
                text = rest;
            }
        }
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_read_as_the_kernel_writes_it() {
        assert_eq!(unescaped(b"/mnt/a\\040b\\134c"), Path::new("/mnt/a b\\c"));
        assert_eq!(unescaped(b"/mnt/a\\04"), Path::new("/mnt/a\\04"));
    }

    #[test]
    fn what_the_machine_needs_is_refused() {
        let text = |text: &str| {
            use saline_functions::FromValue;
            AbsolutePath::from_value(text.into()).unwrap()
        };
        for vital in NEVER_REMOVED {
            assert!(
                refuse_vital(&text(vital), Path::new(vital), Path::new("/none")).is_err(),
                "{vital}"
            );
        }
        let own = tempfile::tempdir().unwrap();
        let above = std::fs::canonicalize(own.path().parent().unwrap()).unwrap();
        assert!(refuse_vital(&text("/x"), &above, own.path()).is_err());
        assert!(refuse_vital(&text("/x"), Path::new("/srv/x"), own.path()).is_ok());
    }
}
