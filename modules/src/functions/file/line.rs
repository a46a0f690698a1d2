//! `file.line`: changes single lines.

use regex::bytes::Regex;
use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};

use super::backups::Backup;
use super::edit::Edit;
use super::lines::{end_last, end_of, split, text_of, without_end};
use super::path::{AbsolutePath, failed};
use super::pattern::{Flags, compile};
use crate::JobContext;

/// What is done with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Ensure,
    Insert,
    Replace,
    Delete,
}

impl FromValue for Mode {
    const TAKES: &'static str = "ensure, insert, replace or delete";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        Ok(match value.as_str() {
            Some("ensure") => Self::Ensure,
            Some("insert") => Self::Insert,
            Some("replace") => Self::Replace,
            Some("delete") => Self::Delete,
            _ => return Err(Mismatch::of::<Self>(&value)),
        })
    }
}

/// An end of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    Start,
    End,
}

impl FromValue for Location {
    const TAKES: &'static str = "start or end";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        Ok(match value.as_str() {
            Some("start") => Self::Start,
            Some("end") => Self::End,
            _ => return Err(Mismatch::of::<Self>(&value)),
        })
    }
}

/// Where a line goes.
enum Position {
    At(Location),
    Before(Regex),
    After(Regex),
    /// After the first expression, before the second.
    Between(Regex, Regex),
}

/// Changes single lines of a file: has a line there (`ensure`), adds one (`insert`), or replaces or deletes those that match.
///
/// path
///     The absolute path. A symbolic link is followed. A binary file is refused.
///
/// content
///     The line. `delete` needs none if `match` is given.
///
/// match
///     A regular expression for the lines that `replace` and `delete` are about. Without it they are about lines that contain
///     `content`.
///
/// mode
///     `ensure` adds the line unless the file has it. `insert` adds it unless it stands at that very place. `replace` and
///     `delete` change every line that matches; where none does, nothing changes.
///
/// location
///     `start` or `end`: where `ensure` and `insert` add the line.
///
/// before, after
///     Regular expressions, each of which matches one line: where `ensure` and `insert` add the line instead.
///
/// show_changes
///     `False` leaves the diff out of the answer.
///
/// backup
///     `minion` keeps the old contents on the minion, under `cachedir` (`file.list_backups`).
///
/// indent
///     `True` gives the line the white space before the line that it replaces or stands beside.
///
/// test
///     `True` only tells what would change.
///
/// CLI Example:
///
///     saline '*' file.line /etc/fstab content='tmpfs /tmp tmpfs nosuid 0 0' mode=ensure location=end
///     saline '*' file.line /etc/default/app match='^DEBUG=' mode=delete
#[function(changes)]
#[allow(clippy::too_many_arguments, reason = "each is an option of operators")]
pub(super) fn line(
    job: &JobContext<'_>,
    path: AbsolutePath,
    content: Option<String>,
    r#match: Option<String>,
    mode: Option<Mode>,
    location: Option<Location>,
    before: Option<String>,
    after: Option<String>,
    #[default(true)] show_changes: bool,
    #[default(None)] backup: Backup,
    #[default(true)] indent: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let invalid = |why: &str| Failure::Invocation(why.to_owned());
    if content
        .as_ref()
        .is_some_and(|line| line.contains(['\n', '\r', '\0']))
    {
        return Err(invalid("the content is one line"));
    }
    let Some(mode) = mode else {
        return Err(invalid(
            "a mode is given: ensure, insert, replace or delete",
        ));
    };
    let content_of = || {
        let given = content.as_deref().filter(|line| !line.is_empty());
        given.ok_or_else(|| invalid("this mode needs a content"))
    };
    let matching = || match (&r#match, &content) {
        (Some(pattern), _) => compile(pattern, Flags::NONE),
        (None, Some(content)) if !content.is_empty() => {
            compile(&regex::escape(content), Flags::NONE)
        }
        _ => Err(invalid("this mode needs a match or a content")),
    };
    let edit = Edit {
        path: &path,
        backup,
        show_changes,
        test,
    };
    edit.apply(job, |contents| {
        let text = text_of(&path, contents)?;
        match mode {
            Mode::Delete => {
                let matching = matching()?;
                let kept = split(text).into_iter();
                let kept = kept.filter(|line| !matching.is_match(without_end(line)));
                Ok(kept.collect::<Vec<_>>().concat())
            }
            Mode::Replace => Ok(replaced(text, &matching()?, content_of()?, indent)),
            Mode::Ensure | Mode::Insert => {
                let position = match (location, &before, &after) {
                    (Some(location), None, None) => Position::At(location),
                    (None, Some(before), None) => Position::Before(compile(before, Flags::NONE)?),
                    (None, None, Some(after)) => Position::After(compile(after, Flags::NONE)?),
                    (None, Some(before), Some(after)) => {
                        let before = compile(before, Flags::NONE)?;
                        Position::Between(compile(after, Flags::NONE)?, before)
                    }
                    _ => return Err(invalid("this mode needs a location, or before and after")),
                };
                added(text, content_of()?, &position, mode, indent)
                    .map_err(|why| failed("edit", &path, why))
            }
        }
    })
}

/// Returns the white space at the beginning of a line.
fn indentation(line: &[u8]) -> &[u8] {
    let blank = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    &line[..blank.count()]
}

fn replaced(text: &[u8], matching: &Regex, content: &str, indent: bool) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    for whole in split(text) {
        let line = without_end(whole);
        if matching.is_match(line) {
            result.extend_from_slice(&indented(content, line, indent));
            result.extend_from_slice(&whole[line.len()..]);
        } else {
            result.extend_from_slice(whole);
        }
    }
    result
}

/// Returns the content with the white space of another line before it.
fn indented(content: &str, other: &[u8], indent: bool) -> Vec<u8> {
    match indent {
        true => [indentation(other), content.trim_start().as_bytes()].concat(),
        false => content.as_bytes().to_vec(),
    }
}

fn added(
    text: &[u8],
    content: &str,
    position: &Position,
    mode: Mode,
    indent: bool,
) -> Result<Vec<u8>, String> {
    let lines = split(text);
    let is_it = |line: &[u8]| match indent {
        true => without_end(line).trim_ascii_start() == content.trim_start().as_bytes(),
        false => without_end(line) == content.as_bytes(),
    };
    let (at, beside) = match position {
        Position::At(Location::Start) => (0, None),
        Position::At(Location::End) => (lines.len(), None),
        Position::Before(pattern) => {
            let found = only(&lines, pattern)?;
            (found, Some(found))
        }
        Position::After(pattern) => {
            let found = only(&lines, pattern)?;
            (found + 1, Some(found))
        }
        Position::Between(after, before) => {
            let (from, to) = (only(&lines, after)?, only(&lines, before)?);
            if to <= from {
                return Err(format!(
                    "the line that matches {:?} does not stand after the one that matches {:?}",
                    before.as_str(),
                    after.as_str()
                ));
            }
            (from + 1, Some(from))
        }
    };
    let is_there = match (mode, position) {
        (Mode::Ensure, Position::Between(_, before)) => {
            let to = only(&lines, before)?;
            lines[at..to].iter().any(|line| is_it(line))
        }
        (Mode::Ensure, _) => lines.iter().any(|line| is_it(line)),
        // It stands there already, on the side of the position where it would be added.
        (_, Position::At(Location::Start) | Position::After(_) | Position::Between(..)) => {
            lines.get(at).is_some_and(|line| is_it(line))
        }
        _ => at > 0 && is_it(lines[at - 1]),
    };
    if is_there {
        return Ok(text.to_vec());
    }
    let end = end_of(text);
    let mut result = lines[..at].concat();
    end_last(&mut result, end);
    let other = beside.map_or(&b""[..], |number| lines[number]);
    // At an end of the file there is no line to follow.
    result.extend_from_slice(&indented(content, other, indent && beside.is_some()));
    result.extend_from_slice(end);
    result.extend_from_slice(&lines[at..].concat());
    Ok(result)
}

/// Returns the number of the only line that matches.
fn only(lines: &[&[u8]], pattern: &Regex) -> Result<usize, String> {
    let mut found = lines.iter().enumerate();
    let mut next = || {
        let found = found.find(|(_, line)| pattern.is_match(without_end(line)));
        found.map(|(number, _)| number)
    };
    let pattern = pattern.as_str();
    match (next(), next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(format!("no line matches {pattern:?}")),
        (Some(_), Some(_)) => Err(format!(
            "several lines match {pattern:?}, and one is wanted"
        )),
    }
}
