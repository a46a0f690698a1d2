//! Functions that search a file.

use std::io::{BufRead, BufReader, Read};

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};

use super::path::{AbsolutePath, failed};
use super::pattern::{Flags, compile};
use super::place::{LARGEST_FILE, Place};
use crate::JobContext;

/// The longest line that is searched whole, in bytes; the rest of a longer one is another line.
const LONGEST_LINE: u64 = 1024 * 1024;

/// The largest sum of the lines that are returned, in bytes.
const MOST_RETURNED: usize = 1024 * 1024;

/// An option of `grep`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GrepOption {
    IgnoreCase,
    Invert,
    Words,
    Fixed,
    Count,
    Numbers,
}

impl FromValue for GrepOption {
    const TAKES: &'static str = "one of -i, -v, -w, -F, -c and -n";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        Ok(match value.as_str() {
            Some("-i") => Self::IgnoreCase,
            Some("-v") => Self::Invert,
            Some("-w") => Self::Words,
            Some("-F") => Self::Fixed,
            Some("-c") => Self::Count,
            Some("-n") => Self::Numbers,
            _ => return Err(Mismatch::of::<Self>(&value)),
        })
    }
}

/// Searches the lines of a file with a regular expression, without a program. Returns a mapping of their `count` and of the
/// `lines`, and `cut: True` if not all of them are returned. The retcode is 1 where nothing matches.
///
/// path
///     The absolute path. A symbolic link is followed. Of a binary file, only the count is returned.
///
/// pattern
///     The regular expression. It has no look-around and no references to its own groups.
///
/// opts
///     Those of the program grep: `-i` ignores case, `-v` takes the lines that do not match, `-w` whole words, `-F` takes the
///     pattern as a plain text, `-c` only counts, `-n` puts the number of each line before it.
///
/// limit
///     The most lines that are returned. Their sum is at most 1 MiB.
///
/// CLI Example:
///
///     saline '*' file.grep /etc/passwd '^root:'
///     saline '*' file.grep /var/log/syslog 'out of memory' -- -i -n
#[function]
pub(super) fn grep(
    job: &JobContext<'_>,
    path: AbsolutePath,
    pattern: String,
    #[args] opts: Vec<GrepOption>,
    #[default(1000)] limit: u64,
) -> Result<crate::Outcome, Failure> {
    let has = |option| opts.contains(&option);
    let mut expression = match has(GrepOption::Fixed) {
        true => regex::escape(&pattern),
        false => pattern,
    };
    if has(GrepOption::Words) {
        expression = format!(r"\b(?:{expression})\b");
    }
    if has(GrepOption::IgnoreCase) {
        expression = format!("(?i:{expression})");
    }
    let regex = compile(&expression, Flags::NONE)?;
    let place = Place::followed(&path)?;
    let mut reader = BufReader::new(place.open_existing()?.file);
    let most = MOST_RETURNED.min(job.host.max_payload());
    let (mut count, mut number, mut size) = (0_u64, 0_u64, 0_usize);
    let (mut lines, mut is_cut, mut is_binary) = (Vec::new(), false, false);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line);
        if read.map_err(|why| failed("read", &path, why))? == 0 {
            break;
        }
        number += 1;
        if number % 1_000_000 == 0 {
            job.wait(std::time::Duration::ZERO)?;
        }
        is_binary |= super::diff::is_binary(&line);
        let text = super::lines::without_end(&line);
        if regex.is_match(text) == has(GrepOption::Invert) {
            continue;
        }
        count += 1;
        size += text.len();
        if count > limit || size > most {
            is_cut = true;
            continue;
        }
        let text = Value::from_output(text.to_vec());
        lines.push(match (has(GrepOption::Numbers), text) {
            (true, Value::Text(text)) => Value::from(format!("{number}:{text}")),
            (_, text) => text,
        });
    }
    let mut answer = vec![("count", Value::from(count))];
    if is_binary {
        answer.push(("binary", Value::Bool(true)));
    } else if !has(GrepOption::Count) {
        answer.push(("lines", Value::List(lines)));
        if is_cut {
            answer.push(("cut", Value::Bool(true)));
        }
    }
    Ok(crate::Outcome::new(
        Value::map(answer),
        i64::from(count == 0),
    ))
}

/// Returns whether a file contains a text.
///
/// path
///     The absolute path. A symbolic link is followed. A file of more than 64 MiB is refused.
///
/// text
///     The text, in which nothing has a meaning of its own.
///
/// CLI Example:
///
///     saline '*' file.contains /etc/crontab 'mymaintenance.sh'
#[function]
pub(super) fn contains(
    _job: &JobContext<'_>,
    path: AbsolutePath,
    text: String,
) -> Result<Value, Failure> {
    let place = Place::followed(&path)?;
    let contents = place.open_existing()?.read(&place.path, LARGEST_FILE)?;
    let regex = compile(&regex::escape(&text), Flags::NONE)?;
    Ok(Value::Bool(regex.is_match(&contents)))
}
