//! `file.find`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::bytes::Regex;
use rustix::fs::{FileType, Stat, lstat};
use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};
use saline_protocol::transport::Clock;
use saline_targeting::Glob;

use super::ownership::{Group, User};
use super::path::{AbsolutePath, failed};
use super::pattern::{Flags, compile};
use super::place::file_type;
use crate::JobContext;

/// The most files that are looked at.
const MOST_VISITED: u64 = 2_000_000;

/// Files between two looks at whether the job was ended.
const VISITED_AT_ONCE: u64 = 4096;

/// The largest sum of the paths that are returned, in bytes.
const MOST_RETURNED: usize = 4 * 1024 * 1024;

/// Types of files, a letter each.
#[derive(Clone)]
pub(super) struct Types(Vec<FileType>);

impl FromValue for Types {
    const TAKES: &'static str =
        "letters of f (file), d (folder), l (link), p (pipe), s (socket), c and b (devices)";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let letters = value.as_str().unwrap_or_default();
        let types: Option<Vec<FileType>> = letters
            .chars()
            .map(|letter| {
                Some(match letter {
                    'f' => FileType::RegularFile,
                    'd' => FileType::Directory,
                    'l' => FileType::Symlink,
                    'p' => FileType::Fifo,
                    's' => FileType::Socket,
                    'c' => FileType::CharacterDevice,
                    'b' => FileType::BlockDevice,
                    _ => return None,
                })
            })
            .collect();
        let types = types.filter(|types| !types.is_empty());
        types.map(Self).ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

/// A range of numbers, with both ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range(u64, u64);

/// Reads a number with a unit, `+` before it for that or more, `-` for that or less.
fn range(text: &str, units: &[(char, u64)], default: u64) -> Option<(char, u64, u64)> {
    let (sign, number) = match text.chars().next()? {
        sign @ ('+' | '-') => (sign, &text[1..]),
        _ => (' ', text),
    };
    let last = number.chars().last()?.to_ascii_lowercase();
    let unit = units.iter().find(|(letter, _)| *letter == last);
    let (number, unit) = match unit {
        Some((_, unit)) => (&number[..number.len() - 1], *unit),
        None => (number, default),
    };
    let number: u64 = number.parse().ok()?;
    Some((sign, number.checked_mul(unit)?, unit))
}

/// A range of sizes in bytes.
#[derive(Clone, Copy)]
pub(super) struct Size(Range);

impl FromValue for Size {
    const TAKES: &'static str = "a size such as +10m (at least), -4k (at most) or 0";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let units = [
            ('b', 1),
            ('k', 1 << 10),
            ('m', 1 << 20),
            ('g', 1 << 30),
            ('t', 1 << 40),
        ];
        let text = String::from_value(value)?;
        match range(&text, &units, 1) {
            Some(('+', size, _)) => Ok(Self(Range(size, u64::MAX))),
            Some(('-', size, _)) => Ok(Self(Range(0, size))),
            Some((_, size, unit)) => Ok(Self(Range(size, size.saturating_add(unit - 1)))),
            None => Err(Mismatch::of::<Self>(&text.into())),
        }
    }
}

/// A range of ages in seconds.
#[derive(Clone, Copy)]
pub(super) struct Age(Range);

impl FromValue for Age {
    const TAKES: &'static str = "a time such as +7d (longer ago) or -1h (since then)";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let units = [
            ('s', 1),
            ('m', 60),
            ('h', 3600),
            ('d', 86400),
            ('w', 604_800),
        ];
        let text = String::from_value(value)?;
        match range(&text, &units, 86400) {
            Some(('-', age, _)) => Ok(Self(Range(0, age))),
            Some((_, age, _)) => Ok(Self(Range(age, u64::MAX))),
            None => Err(Mismatch::of::<Self>(&text.into())),
        }
    }
}

/// Finds files below a folder. Returns a mapping with their `paths` in the order of the folders, `unreadable: N` if N folders
/// could not be read, and `cut: True` if more were found than are returned, or more than two million files are there. Symbolic
/// links are not followed.
///
/// path
///     The absolute path where the search begins.
///
/// name, iname
///     A glob for the name; `iname` ignores case.
///
/// regex, iregex
///     A regular expression that matches the whole path or a part of it.
///
/// type
///     Letters of `f` (file), `d` (folder), `l` (link), `p` (pipe), `s` (socket), `c` and `b` (devices).
///
/// user, group
///     The owner, by name or number.
///
/// size
///     `+10m` for at least 10 MiB, `-4k` for at most 4 KiB, `0` for empty. Units are b, k, m, g and t.
///
/// mtime
///     `+7d` for changed at least seven days ago, `-1h` for changed within the last hour. Units are s, m, h, d and w.
///
/// maxdepth, mindepth
///     How far below `path`, which itself is 0.
///
/// limit
///     The most paths that are returned. Their sum is at most 4 MiB.
///
/// CLI Example:
///
///     saline '*' file.find /var/log type=f name='*.log' size=+100m
///     saline '*' file.find /etc mtime=-1d limit=100
#[function]
#[allow(clippy::too_many_arguments, reason = "each is an option of operators")]
pub(super) fn find(
    job: &JobContext<'_>,
    path: AbsolutePath,
    name: Option<Glob>,
    iname: Option<String>,
    regex: Option<String>,
    iregex: Option<String>,
    r#type: Option<Types>,
    user: Option<User>,
    group: Option<Group>,
    size: Option<Size>,
    mtime: Option<Age>,
    maxdepth: Option<u64>,
    #[default(0)] mindepth: u64,
    #[default(10_000)] limit: u64,
) -> Result<Value, Failure> {
    let iname = iname.map(|glob| Glob::from_value(glob.to_lowercase().into()));
    let iname = iname.transpose().map_err(|mismatch| {
        Failure::Invocation(format!("find takes {} as 'iname'", mismatch.expected))
    })?;
    let ignoring = Flags::from_value("IGNORECASE".into()).unwrap_or(Flags::NONE);
    let compiled = |pattern: Option<String>, flags| match pattern {
        Some(pattern) => compile(&pattern, flags).map(Some),
        None => Ok(None),
    };
    let wanted = Wanted {
        name,
        iname,
        regex: compiled(regex, Flags::NONE)?,
        iregex: compiled(iregex, ignoring)?,
        types: r#type,
        user,
        group,
        size,
        age: mtime,
        now: Clock
            .wall()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default(),
    };
    let most = MOST_RETURNED.min(job.host.max_payload());
    let maxdepth = maxdepth.unwrap_or(u64::MAX);
    let (mut paths, mut size, mut visited, mut unreadable) = (Vec::new(), 0, 0_u64, 0_u64);
    let mut is_cut = false;
    let first = lstat(&path as &Path).map_err(|why| failed("find", &path, why))?;
    // The last is looked at next.
    let mut waiting: Vec<(PathBuf, u64, Stat)> = vec![(path.to_path_buf(), 0, first)];
    while let Some((path, depth, status)) = waiting.pop() {
        visited += 1;
        if visited > MOST_VISITED {
            is_cut = true;
            break;
        }
        if visited % VISITED_AT_ONCE == 0 {
            job.wait(Duration::ZERO)?;
        }
        if depth >= mindepth && wanted.is_met(&path, &status) {
            size += path.as_os_str().len();
            if paths.len() as u64 >= limit || size > most {
                is_cut = true;
                break;
            }
            paths.push(Value::from_output(path.as_os_str().as_bytes().to_vec()));
        }
        if file_type(&status) != FileType::Directory || depth >= maxdepth {
            continue;
        }
        let Ok(entries) = std::fs::read_dir(&path) else {
            unreadable += 1;
            continue;
        };
        let room = usize::try_from(MOST_VISITED).unwrap_or(usize::MAX) - waiting.len();
        let mut below: Vec<PathBuf> = entries.flatten().map(|one| one.path()).take(room).collect();
        below.sort_unstable_by(|one, other| other.cmp(one));
        // What is gone meanwhile is not there.
        waiting.extend(
            below
                .into_iter()
                .filter_map(|path| Some((lstat(&path).ok()?, path)))
                .map(|(status, path)| (path, depth + 1, status)),
        );
    }
    let mut answer = vec![("paths", Value::List(paths))];
    if unreadable > 0 {
        answer.push(("unreadable", Value::from(unreadable)));
    }
    if is_cut {
        answer.push(("cut", Value::Bool(true)));
    }
    Ok(Value::map(answer))
}

/// The conditions that a file meets to be found.
struct Wanted {
    name: Option<Glob>,
    iname: Option<Glob>,
    regex: Option<Regex>,
    iregex: Option<Regex>,
    types: Option<Types>,
    user: Option<User>,
    group: Option<Group>,
    size: Option<Size>,
    age: Option<Age>,
    /// The time since 1970.
    now: Duration,
}

impl Wanted {
    fn is_met(&self, path: &Path, status: &Stat) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let within = |range: Range, number: u64| (range.0..=range.1).contains(&number);
        let matches = |regex: &Regex| regex.is_match(path.as_os_str().as_bytes());
        let changed = u64::try_from(status.st_mtime).unwrap_or(0);
        let age = self.now.as_secs().saturating_sub(changed);
        let size = u64::try_from(status.st_size).unwrap_or(0);
        let kind = file_type(status);
        self.name.as_ref().is_none_or(|glob| glob.matches(&name))
            && self
                .iname
                .as_ref()
                .is_none_or(|glob| glob.matches(&name.to_lowercase()))
            && self.regex.as_ref().is_none_or(matches)
            && self.iregex.as_ref().is_none_or(matches)
            && self
                .types
                .as_ref()
                .is_none_or(|types| types.0.contains(&kind))
            && self.user.is_none_or(|user| user.0 == status.st_uid)
            && self.group.is_none_or(|group| group.0 == status.st_gid)
            && self.size.is_none_or(|wanted| within(wanted.0, size))
            && self.age.is_none_or(|wanted| within(wanted.0, age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_are_ranges() {
        let size = |text: &str| Size::from_value(text.into()).map(|size| size.0).ok();
        assert_eq!(size("+10k"), Some(Range(10240, u64::MAX)));
        assert_eq!(size("-10"), Some(Range(0, 10)));
        assert_eq!(size("2k"), Some(Range(2048, 3071)));
        assert_eq!(size("0"), Some(Range(0, 0)));
        for wrong in ["", "+", "k", "1x", "99999999999t", "+-1", "1é"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
        let age = |text: &str| Age::from_value(text.into()).map(|age| age.0).ok();
        assert_eq!(age("-1h"), Some(Range(0, 3600)));
        assert_eq!(age("+2"), Some(Range(172_800, u64::MAX)));
    }
}
