//! `file.replace`: replaces what a regular expression finds.

use regex::bytes::Regex;
use saline_data::Value;
use saline_functions::{Failure, function};

use super::answer::Answer;
use super::backups::Backup;
use super::edit::Edit;
use super::lines::{end_last, end_of, split, text_of, with_ends, without_end};
use super::path::{AbsolutePath, failed};
use super::pattern::{Flags, Replacement, compile};
use super::place::{LARGEST_FILE, Place};
use crate::JobContext;

/// Replaces what a regular expression finds in a file.
///
/// path
///     The absolute path. A symbolic link is followed. A binary file is refused.
///
/// pattern
///     The regular expression. It has no look-around and no references to its own groups.
///
/// repl
///     The text in place of a match: `\1` and `\g<name>` are its groups.
///
/// count
///     The most matches that are replaced; 0 for all.
///
/// flags
///     `IGNORECASE`, `MULTILINE`, `DOTALL`, `VERBOSE`: a name, a list of names, or the sum of Python's numbers. The default, 8,
///     is `MULTILINE`: `^` and `$` match at the ends of lines.
///
/// append_if_not_found, prepend_if_not_found
///     `True` adds a line at the end or the beginning where nothing matches and the line is not there.
///
/// not_found_content
///     That line; `repl` as it is without it.
///
/// backup
///     `minion` keeps the old contents on the minion, under `cachedir` (`file.list_backups`).
///
/// dry_run, test
///     `True` only tells what would change.
///
/// search_only
///     `True` changes nothing and returns whether the expression matches.
///
/// show_changes
///     `False` leaves the diff out of the answer.
///
/// ignore_if_missing
///     `True` changes nothing, and does not fail, where the file is missing.
///
/// backslash_literal
///     `True` takes `repl` as it is.
///
/// CLI Example:
///
///     saline '*' file.replace /etc/ssh/sshd_config '^#?PermitRootLogin .*' 'PermitRootLogin no' append_if_not_found=True
///     saline '*' file.replace /etc/hosts '10\.0\.0\.(\d+)' '10.0.1.\1' backup=minion test=True
#[function(changes)]
#[allow(clippy::too_many_arguments, reason = "each is an option of operators")]
pub(super) fn replace(
    job: &JobContext<'_>,
    path: AbsolutePath,
    pattern: String,
    repl: String,
    #[default(0)] count: u64,
    #[default(8)] flags: Flags,
    #[default(false)] append_if_not_found: bool,
    #[default(false)] prepend_if_not_found: bool,
    not_found_content: Option<String>,
    #[default(None)] backup: Backup,
    #[default(false)] dry_run: bool,
    #[default(false)] search_only: bool,
    #[default(true)] show_changes: bool,
    #[default(false)] ignore_if_missing: bool,
    #[default(false)] backslash_literal: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    if append_if_not_found && prepend_if_not_found {
        return Err(Failure::Invocation(
            "append_if_not_found and prepend_if_not_found are not given together".to_owned(),
        ));
    }
    let regex = compile(&pattern, flags)?;
    let replacement = match backslash_literal {
        true => Replacement::literal(&repl),
        false => Replacement::parse(&repl, &regex)?,
    };
    let place = Place::followed(&path)?;
    if ignore_if_missing && place.status()?.is_none() {
        return Ok(match search_only {
            true => Value::Bool(false),
            false => Answer::new(false, test || dry_run).into_value(),
        });
    }
    if search_only {
        let contents = place.open_existing()?.read(&place.path, LARGEST_FILE)?;
        return Ok(Value::Bool(regex.is_match(&contents)));
    }
    let edit = Edit {
        path: &path,
        backup,
        show_changes,
        test: test || dry_run,
    };
    edit.apply(job, |before| {
        let text = text_of(&path, before)?;
        let replaced = replaced(&path, text, &regex, &replacement, count)?;
        let line = not_found_content.as_ref().unwrap_or(&repl);
        Ok(match replaced {
            Some(replaced) => replaced,
            None if append_if_not_found => added(text, line, Side::End),
            None if prepend_if_not_found => added(text, line, Side::Beginning),
            None => text.to_vec(),
        })
    })
}

/// Returns the text with the first `count` matches replaced; none if nothing matches.
fn replaced(
    path: &AbsolutePath,
    text: &[u8],
    regex: &Regex,
    replacement: &Replacement,
    count: u64,
) -> Result<Option<Vec<u8>>, Failure> {
    let most = match count {
        0 => usize::MAX,
        count => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let mut result = Vec::with_capacity(text.len());
    let mut end = None;
    for found in regex.captures_iter(text).take(most) {
        let Some(whole) = found.get(0) else { continue };
        result.extend_from_slice(&text[end.unwrap_or(0)..whole.start()]);
        replacement.add_to(&mut result, &found);
        end = Some(whole.end());
        if result.len() as u64 > LARGEST_FILE {
            let why = format!("it would have more than {LARGEST_FILE} bytes");
            return Err(failed("write", path, why));
        }
    }
    Ok(end.map(|end| {
        result.extend_from_slice(&text[end..]);
        result
    }))
}

/// Where a line is added.
enum Side {
    Beginning,
    End,
}

/// Returns the text with a line that it lacks.
fn added(text: &[u8], line: &str, side: Side) -> Vec<u8> {
    let end = end_of(text);
    let wanted = with_ends(line, end);
    let lines: Vec<&[u8]> = split(text).into_iter().map(without_end).collect();
    let wanted_lines: Vec<&[u8]> = split(&wanted).into_iter().map(without_end).collect();
    let has = wanted_lines.is_empty()
        || lines
            .windows(wanted_lines.len())
            .any(|found| found == wanted_lines);
    match side {
        _ if has => text.to_vec(),
        Side::Beginning => [&wanted, text].concat(),
        Side::End => {
            let mut text = text.to_vec();
            end_last(&mut text, end);
            text.extend_from_slice(&wanted);
            text
        }
    }
}
