//! Functions that tell what a path is.

use std::io::Read;
use std::time::Duration;

use aws_lc_rs::digest;
use rustix::fs::{Access, AtFlags, CWD, FileType, Stat, accessat};
use rustix::io::Errno;
use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};

use super::ownership::{group_name, shown_mode, user_name};
use super::path::{AbsolutePath, failed};
use super::place::{Place, file_type};
use crate::JobContext;

/// The bytes of a file that are hashed before the job looks whether it was ended.
const HASHED_AT_ONCE: usize = 64 * 1024 * 1024;

/// A way to hash a file.
#[derive(Clone, Copy)]
pub(super) struct HashType(&'static digest::Algorithm);

impl FromValue for HashType {
    const TAKES: &'static str =
        "one of sha1, sha224, sha256, sha384, sha512, sha3_256, sha3_384 and sha3_512";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        Ok(Self(match value.as_str() {
            Some("sha1") => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Some("sha224") => &digest::SHA224,
            Some("sha256") => &digest::SHA256,
            Some("sha384") => &digest::SHA384,
            Some("sha512") => &digest::SHA512,
            Some("sha3_256") => &digest::SHA3_256,
            Some("sha3_384") => &digest::SHA3_384,
            Some("sha3_512") => &digest::SHA3_512,
            _ => return Err(Mismatch::of::<Self>(&value)),
        }))
    }
}

/// Returns what a path is, after the links at its end or before.
pub(super) fn status_of(path: &AbsolutePath, follow_symlinks: bool) -> Result<Stat, Failure> {
    let status = match follow_symlinks {
        true => rustix::fs::stat(path.as_ref() as &std::path::Path),
        false => rustix::fs::lstat(path.as_ref() as &std::path::Path),
    };
    status.map_err(|why| failed("look at", path, why))
}

/// Returns the name of a type of file, as Salt has it.
pub(super) fn type_name(status: &Stat) -> &'static str {
    match file_type(status) {
        FileType::RegularFile => "file",
        FileType::Directory => "dir",
        FileType::Symlink => "link",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "char",
        FileType::BlockDevice => "block",
        FileType::Unknown => "unknown",
    }
}

/// Returns whether a path is there, and of a type after the links at its end.
///
/// # Errors
/// When it cannot be found out, such as in a folder that may not be entered.
fn is(path: &AbsolutePath, wanted: FileType) -> Result<bool, Failure> {
    match rustix::fs::stat(path.as_ref() as &std::path::Path) {
        Ok(status) => Ok(file_type(&status) == wanted),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(failed("look at", path, error)),
    }
}

/// Returns whether a path is a regular file. Symbolic links are followed.
///
/// CLI Example:
///
///     saline '*' file.file_exists /etc/machine-id
#[function]
pub(super) fn file_exists(_job: &JobContext<'_>, path: AbsolutePath) -> Result<Value, Failure> {
    is(&path, FileType::RegularFile).map(Value::Bool)
}

/// Returns whether a path is a folder. Symbolic links are followed.
///
/// CLI Example:
///
///     saline '*' file.directory_exists /srv/data
#[function]
pub(super) fn directory_exists(
    _job: &JobContext<'_>,
    path: AbsolutePath,
) -> Result<Value, Failure> {
    is(&path, FileType::Directory).map(Value::Bool)
}

/// A kind of access.
#[derive(Clone, Copy)]
pub(super) struct AccessMode(Access);

impl FromValue for AccessMode {
    const TAKES: &'static str = "f (exists), r, w or x";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        Ok(Self(match value.as_str() {
            Some("f") => Access::EXISTS,
            Some("r") => Access::READ_OK,
            Some("w") => Access::WRITE_OK,
            Some("x") => Access::EXEC_OK,
            _ => return Err(Mismatch::of::<Self>(&value)),
        }))
    }
}

/// Returns whether the minion may use a file in a way. Symbolic links are followed.
///
/// path
///     The absolute path.
///
/// mode
///     `f` asks whether it exists, `r` whether it can be read, `w` whether it can be written, `x` whether it can be run or
///     entered.
///
/// CLI Example:
///
///     saline '*' file.access /usr/local/bin/deploy x
#[function]
pub(super) fn access(
    _job: &JobContext<'_>,
    path: AbsolutePath,
    mode: AccessMode,
) -> Result<Value, Failure> {
    match accessat(
        CWD,
        path.as_ref() as &std::path::Path,
        mode.0,
        AtFlags::EACCESS,
    ) {
        Ok(()) => Ok(Value::Bool(true)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::ROFS | Errno::PERM) => {
            Ok(Value::Bool(false))
        }
        Err(error) => Err(failed("look at", &path, error)),
    }
}

/// Returns what the system knows of a file: `type`, `mode`, `user`, `group`, `uid`, `gid`, `size` in bytes, `inode`, `target` (the
/// path), and `atime`, `mtime` and `ctime` in seconds since 1970.
///
/// path
///     The absolute path.
///
/// hash_type
///     Adds the hash of a regular file as `sum`; those of `file.get_hash`.
///
/// follow_symlinks
///     `False` tells of a symbolic link itself.
///
/// CLI Example:
///
///     saline '*' file.stats /etc/shadow
///     saline '*' file.stats /etc/hosts hash_type=sha256
#[function]
pub(super) fn stats(
    job: &JobContext<'_>,
    path: AbsolutePath,
    hash_type: Option<HashType>,
    #[default(true)] follow_symlinks: bool,
) -> Result<Value, Failure> {
    let status = status_of(&path, follow_symlinks)?;
    let seconds = |seconds: i64, nanoseconds: u64| {
        Value::Float(Duration::from_nanos(nanoseconds).as_secs_f64() + seconds as f64)
    };
    let mut entries = vec![
        ("inode", Value::from(status.st_ino)),
        ("uid", Value::from(u64::from(status.st_uid))),
        ("gid", Value::from(u64::from(status.st_gid))),
        ("group", Value::from(group_name(status.st_gid))),
        ("user", Value::from(user_name(status.st_uid))),
        ("atime", seconds(status.st_atime, status.st_atime_nsec)),
        ("mtime", seconds(status.st_mtime, status.st_mtime_nsec)),
        ("ctime", seconds(status.st_ctime, status.st_ctime_nsec)),
        ("size", Value::from(status.st_size)),
        ("mode", Value::from(shown_mode(&status))),
        ("type", Value::from(type_name(&status))),
        ("target", Value::from(path.to_string())),
    ];
    if let Some(hash_type) = hash_type
        && file_type(&status) == FileType::RegularFile
    {
        entries.push(("sum", Value::from(hash(job, &path, hash_type)?)));
    }
    Ok(Value::map(entries))
}

/// Returns the hash of a regular file, in hexadecimal digits.
///
/// path
///     The absolute path. A symbolic link is followed.
///
/// form
///     `sha256`, `sha1`, `sha224`, `sha384`, `sha512`, `sha3_256`, `sha3_384` or `sha3_512`.
///
/// CLI Example:
///
///     saline '*' file.get_hash /usr/bin/sudo
///     saline '*' file.get_hash /usr/bin/sudo sha512
#[function]
pub(super) fn get_hash(
    job: &JobContext<'_>,
    path: AbsolutePath,
    #[default("sha256")] form: HashType,
) -> Result<Value, Failure> {
    hash(job, &path, form).map(Value::from)
}

fn hash(job: &JobContext<'_>, path: &AbsolutePath, form: HashType) -> Result<String, Failure> {
    let place = Place::followed(path)?;
    let mut existing = place.open_existing()?;
    let mut context = digest::Context::new(form.0);
    let mut buffer = vec![0; 256 * 1024];
    let mut hashed = 0;
    loop {
        let read = existing.file.read(&mut buffer);
        let read = read.map_err(|why| failed("read", &place.path, why))?;
        if read == 0 {
            break;
        }
        context.update(&buffer[..read]);
        hashed += read;
        if hashed >= HASHED_AT_ONCE {
            hashed = 0;
            job.wait(Duration::ZERO)?;
        }
    }
    let hash = context.finish();
    Ok(hash
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Returns the mode of a file or folder, an octal number of four digits.
///
/// path
///     The absolute path.
///
/// follow_symlinks
///     `False` returns the mode of a symbolic link itself.
///
/// CLI Example:
///
///     saline '*' file.get_mode /etc/shadow
#[function]
pub(super) fn get_mode(
    _job: &JobContext<'_>,
    path: AbsolutePath,
    #[default(true)] follow_symlinks: bool,
) -> Result<Value, Failure> {
    Ok(shown_mode(&status_of(&path, follow_symlinks)?).into())
}
