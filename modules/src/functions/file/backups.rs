//! Copies of files as they were, in `cachedir/file_backup`: under the path of the file, with the time behind its name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};
use saline_protocol::transport::Clock;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use super::answer::Answer;
use super::diff;
use super::path::{AbsolutePath, failed};
use super::place::{Existing, LARGEST_FILE, Place};
use super::replacement::put;
use crate::JobContext;

/// The time behind the name of a file, in UTC. Names in the order of the alphabet are in the order of time.
const TIME_SUFFIX: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");

/// Whether what is overwritten is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backup {
    /// It is not.
    None,
    /// A copy is kept on the minion.
    Minion,
}

impl FromValue for Backup {
    const TAKES: &'static str =
        "'minion' or False (a backup is kept on the minion, under cachedir)";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match &value {
            Value::Null | Value::Bool(false) => Ok(Self::None),
            Value::Bool(true) => Ok(Self::Minion),
            Value::Text(text) if text.is_empty() => Ok(Self::None),
            Value::Text(text) if text == "minion" => Ok(Self::Minion),
            _ => Err(Mismatch::of::<Self>(&value)),
        }
    }
}

/// A kept copy.
struct Kept {
    path: PathBuf,
    time: String,
}

/// Returns the folder and the beginning of the names of the copies of a file.
fn folder_of(cache_dir: &Path, file: &Path) -> (PathBuf, Vec<u8>) {
    let all = cache_dir.join("file_backup");
    let below = file.parent().unwrap_or(file);
    let below = below.strip_prefix("/").unwrap_or(below);
    let mut beginning = file.file_name().unwrap_or_default().as_bytes().to_vec();
    beginning.push(b'_');
    (all.join(below), beginning)
}

/// Keeps a copy of a file, with its owner and mode, in folders that only the minion's user can enter. Returns the path.
///
/// # Errors
/// When the copy cannot be written.
pub(super) fn keep(
    cache_dir: &Path,
    place: &Place,
    existing: &Existing,
    bytes: &[u8],
) -> Result<PathBuf, Failure> {
    let (folder, mut name) = folder_of(cache_dir, &place.canonical_path()?);
    let unkept = |why: &dyn std::fmt::Display| {
        failed(
            "keep a backup of",
            &place.path,
            format!("{}: {why}", folder.display()),
        )
    };
    let time = OffsetDateTime::from(Clock.wall())
        .format(TIME_SUFFIX)
        .map_err(|why| unkept(&why))?;
    name.extend_from_slice(time.as_bytes());
    saline_private_files::create_folder(&folder).map_err(|why| unkept(&why))?;
    let kept = folder.join(OsStr::from_bytes(&name));
    put(&Place::of(&kept)?, bytes, Some(existing), None).map_err(|why| unkept(&why))?;
    Ok(kept)
}

/// Returns the copies of a file, the newest first.
fn kept(cache_dir: &Path, path: &AbsolutePath) -> Result<Vec<Kept>, Failure> {
    // The file, or even its folder, may be gone.
    let file = match Place::followed(path) {
        Ok(place) => place.canonical_path()?,
        Err(_) => path.to_path_buf(),
    };
    let (folder, beginning) = folder_of(cache_dir, &file);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", &folder, error)),
    };
    let mut found: Vec<Kept> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let time = str::from_utf8(name.as_bytes().strip_prefix(&*beginning)?).ok()?;
            PrimitiveDateTime::parse(time, TIME_SUFFIX).ok()?;
            Some(Kept {
                path: entry.path(),
                time: time.to_owned(),
            })
        })
        .collect();
    found.sort_by(|one, other| other.time.cmp(&one.time));
    Ok(found)
}

fn chosen(cache_dir: &Path, path: &AbsolutePath, number: u64) -> Result<Kept, Failure> {
    let all = kept(cache_dir, path)?;
    let count = all.len();
    let one = usize::try_from(number)
        .ok()
        .and_then(|n| all.into_iter().nth(n));
    one.ok_or_else(|| {
        Failure::Execution(format!(
            "there is no backup {number} of {path}: there are {count} (file.list_backups {path})"
        ))
    })
}

/// Lists the backups of a file: a mapping of their numbers, from 0 for the newest, to their time (UTC), path and size.
///
/// path
///     The path of the file, which need not exist any more.
///
/// limit
///     The most backups that are listed.
///
/// CLI Example:
///
///     saline '*' file.list_backups /etc/hosts
///     saline '*' file.list_backups /etc/hosts limit=3
#[function]
pub(super) fn list_backups(
    job: &JobContext<'_>,
    path: AbsolutePath,
    limit: Option<u64>,
) -> Result<Value, Failure> {
    let most = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let all = kept(&job.host.cache_dir, &path)?;
    let listed = all.iter().take(most).enumerate().map(|(number, kept)| {
        let size = std::fs::symlink_metadata(&kept.path).map_or(0, |found| found.len());
        let entry = Value::map([
            ("Backup Time", Value::from(kept.time.as_str())),
            ("Location", Value::from(kept.path.display().to_string())),
            ("Size", Value::from(size)),
        ]);
        (number.to_string(), entry)
    });
    Ok(Value::map(listed))
}

/// Puts a file back as it was, with its owner and mode. What is there now becomes a backup itself.
///
/// path
///     The path of the file.
///
/// backup_id
///     The number of the backup, as `file.list_backups` tells it.
///
/// test
///     `True` only tells what would change.
///
/// CLI Example:
///
///     saline '*' file.restore_backup /etc/hosts 0
#[function(changes)]
pub(super) fn restore_backup(
    job: &JobContext<'_>,
    path: AbsolutePath,
    backup_id: u64,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let from = chosen(&job.host.cache_dir, &path, backup_id)?;
    let mut old = Place::of(&from.path)?.open_existing()?;
    let after = old.read(&from.path, LARGEST_FILE)?;
    let place = Place::followed(&path)?;
    let mut existing = place.open()?;
    let before = match &mut existing {
        Some(existing) => Some(existing.read(&place.path, LARGEST_FILE)?),
        None => None,
    };
    let attributes = |one: &Existing| {
        let status = &one.status;
        (status.st_mode, status.st_uid, status.st_gid)
    };
    let is_changed = before.as_ref() != Some(&after)
        || existing.as_ref().map(attributes) != Some(attributes(&old));
    let mut answer = Answer::new(is_changed, test);
    if is_changed {
        answer.add(
            "diff",
            diff::unified(&place.path, before.as_deref(), &after),
        );
    }
    if is_changed && !test {
        if let (Some(existing), Some(before)) = (&existing, &before) {
            let kept = keep(&job.host.cache_dir, &place, existing, before)?;
            answer.add("backup", kept.display().to_string());
        }
        put(&place, &after, Some(&old), existing.as_ref())
            .map_err(|why| failed("write", &place.path, why))?;
    }
    Ok(answer.into_value())
}

/// Removes a backup of a file.
///
/// path
///     The path of the file.
///
/// backup_id
///     The number of the backup, as `file.list_backups` tells it.
///
/// test
///     `True` only tells what would be removed.
///
/// CLI Example:
///
///     saline '*' file.delete_backup /etc/hosts 0
#[function(changes)]
pub(super) fn delete_backup(
    job: &JobContext<'_>,
    path: AbsolutePath,
    backup_id: u64,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let kept = chosen(&job.host.cache_dir, &path, backup_id)?;
    if !test {
        std::fs::remove_file(&kept.path).map_err(|why| failed("remove", &kept.path, why))?;
    }
    let mut answer = Answer::new(true, test);
    answer.add("removed", kept.path.display().to_string());
    Ok(answer.into_value())
}
