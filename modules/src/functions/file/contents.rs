//! Functions that read a file, or add to it.

use std::io::{Read, Seek, SeekFrom};

use rustix::fs::Timespec;
use saline_data::Value;
use saline_functions::{Failure, function};
use saline_protocol::transport::Clock;

use super::answer::Answer;
use super::backups::Backup;
use super::edit::Edit;
use super::path::{AbsolutePath, Texts, failed};
use super::place::{LARGEST_FILE, Place};
use super::replacement::put;
use crate::JobContext;

/// The most bytes at the end of a file that `tail` reads.
const MOST_TAIL: u64 = 1024 * 1024;

/// Returns the lines that were given, each with its end.
fn joined(lines: Vec<String>, args: Option<Texts>) -> Result<Vec<u8>, Failure> {
    let lines = match args {
        Some(_) if !lines.is_empty() => {
            return Err(Failure::Invocation(
                "the lines are given by position or as args=, not both".to_owned(),
            ));
        }
        Some(Texts(args)) => args,
        None => lines,
    };
    Ok(lines
        .into_iter()
        .flat_map(|line| (line + "\n").into_bytes())
        .collect())
}

/// Writes a file with these lines and nothing else. Without lines it becomes empty. A file that exists keeps its owner, mode and
/// extended attributes; the folder must exist.
///
/// path
///     The absolute path. A symbolic link is followed.
///
/// lines
///     The lines, each an argument. They can be given as `args`, a text or a list, too.
///
/// backup
///     `minion` keeps the old contents on the minion, under `cachedir` (`file.list_backups`).
///
/// show_changes
///     `False` leaves the diff out of the answer.
///
/// test
///     `True` only tells what would change.
///
/// CLI Example:
///
///     saline '*' file.write /etc/motd 'Welcome' 'Maintenance on Friday'
///     saline '*' file.write /etc/motd args='[one, two]' backup=minion test=True
#[function(changes)]
pub(super) fn write(
    job: &JobContext<'_>,
    path: AbsolutePath,
    #[args] lines: Vec<String>,
    args: Option<Texts>,
    #[default(None)] backup: Backup,
    #[default(true)] show_changes: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let contents = joined(lines, args)?;
    Edit {
        path: &path,
        backup,
        show_changes,
        test,
    }
    .apply(job, |_| Ok(contents))
}

/// Appends lines to a file. A file whose last line has no end gets that first; one that is missing is created.
///
/// The parameters are those of `file.write`.
///
/// CLI Example:
///
///     saline '*' file.append /etc/motd 'The last line'
#[function(changes)]
pub(super) fn append(
    job: &JobContext<'_>,
    path: AbsolutePath,
    #[args] lines: Vec<String>,
    args: Option<Texts>,
    #[default(None)] backup: Backup,
    #[default(true)] show_changes: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let added = joined(lines, args)?;
    Edit {
        path: &path,
        backup,
        show_changes,
        test,
    }
    .apply(job, |before| {
        let mut contents = before.unwrap_or_default().to_vec();
        if !added.is_empty() && contents.last().is_some_and(|last| *last != b'\n') {
            contents.push(b'\n');
        }
        contents.extend_from_slice(&added);
        Ok(contents)
    })
}

/// Puts lines before those of a file. One that is missing is created.
///
/// The parameters are those of `file.write`.
///
/// CLI Example:
///
///     saline '*' file.prepend /etc/motd 'The first line'
#[function(changes)]
pub(super) fn prepend(
    job: &JobContext<'_>,
    path: AbsolutePath,
    #[args] lines: Vec<String>,
    args: Option<Texts>,
    #[default(None)] backup: Backup,
    #[default(true)] show_changes: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let mut contents = joined(lines, args)?;
    Edit {
        path: &path,
        backup,
        show_changes,
        test,
    }
    .apply(job, |before| {
        contents.extend_from_slice(before.unwrap_or_default());
        Ok(contents)
    })
}

/// Creates an empty file, or sets the times of one that exists.
///
/// name
///     The absolute path. A symbolic link is followed.
///
/// atime, mtime
///     The times of the last access and of the last change, in seconds since 1970; now without them.
///
/// test
///     `True` only tells what would change.
///
/// CLI Example:
///
///     saline '*' file.touch /var/lib/app/restart
#[function(changes)]
pub(super) fn touch(
    _job: &JobContext<'_>,
    name: AbsolutePath,
    atime: Option<i64>,
    mtime: Option<i64>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let place = Place::followed(&name)?;
    let existing = place.open()?;
    let mut answer = Answer::new(true, test);
    answer.add("created", Value::Bool(existing.is_none()));
    if test {
        return Ok(answer.into_value());
    }
    let file = match existing {
        Some(existing) => existing,
        None => {
            put(&place, b"", None, None).map_err(|why| failed("create", &place.path, why))?;
            place.open_existing()?
        }
    };
    let now = Clock
        .wall()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let at = |seconds: Option<i64>| match seconds {
        Some(seconds) => Timespec {
            tv_sec: seconds,
            tv_nsec: 0,
        },
        None => Timespec {
            tv_sec: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(now.subsec_nanos()),
        },
    };
    let times = rustix::fs::Timestamps {
        last_access: at(atime),
        last_modification: at(mtime),
    };
    rustix::fs::futimens(&file.file, &times)
        .map_err(|why| failed("set the times of", &place.path, why))?;
    Ok(answer.into_value())
}

/// Returns the contents of a file: a text, or bytes where they are not UTF-8. A file that is larger than a return, or
/// than 64 MiB, is refused.
///
/// path
///     The absolute path. A symbolic link is followed.
///
/// binary
///     `True` returns bytes in any case.
///
/// CLI Example:
///
///     saline '*' file.read /etc/os-release
#[function]
pub(super) fn read(
    job: &JobContext<'_>,
    path: AbsolutePath,
    #[default(false)] binary: bool,
) -> Result<Value, Failure> {
    let place = Place::followed(&path)?;
    let most = LARGEST_FILE.min(job.host.max_payload() as u64);
    let bytes = place.open_existing()?.read(&place.path, most)?;
    Ok(match binary {
        true => Value::Bytes(bytes),
        false => Value::from_output(bytes),
    })
}

/// Returns the last lines of a file. Of a longer text, the last MiB is returned.
///
/// path
///     The absolute path. A symbolic link is followed.
///
/// lines
///     The number of lines.
///
/// CLI Example:
///
///     saline '*' file.tail /var/log/syslog
///     saline '*' file.tail /var/log/syslog 100
#[function]
pub(super) fn tail(
    job: &JobContext<'_>,
    path: AbsolutePath,
    #[default(10)] lines: u64,
) -> Result<Value, Failure> {
    let place = Place::followed(&path)?;
    let mut existing = place.open_existing()?;
    let why = |why| failed("read", &place.path, why);
    let most = MOST_TAIL.min(job.host.max_payload() as u64);
    let length = existing.file.seek(SeekFrom::End(0)).map_err(why)?;
    let start = length.saturating_sub(most);
    existing.file.seek(SeekFrom::Start(start)).map_err(why)?;
    let mut bytes = Vec::new();
    existing
        .file
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(why)?;
    // The end of the last line ends no line before it.
    let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let ends = text
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'\n');
    let before = match lines {
        0 => return Ok(Value::from("")),
        lines => ends
            .map(|(at, _)| at)
            .nth(usize::try_from(lines - 1).unwrap_or(usize::MAX)),
    };
    let from = before.map_or(0, |end| end + 1);
    Ok(Value::from_output(text[from..].to_vec()))
}
