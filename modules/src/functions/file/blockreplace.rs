//! `file.blockreplace`: replaces the lines between two markers.

use saline_data::Value;
use saline_functions::{Failure, function};

use super::backups::Backup;
use super::edit::Edit;
use super::lines::{end_last, end_of, split, text_of, with_ends, without_end};
use super::path::{AbsolutePath, failed};
use super::pattern::{Flags, compile};
use crate::JobContext;

/// Where a block goes that is not there.
enum Missing {
    Refused,
    Appended,
    Prepended,
    /// Before or after the first line that matches.
    Beside(regex::bytes::Regex, Side),
}

#[derive(Clone, Copy)]
enum Side {
    Before,
    After,
}

/// Replaces the lines between two markers in a file; the lines with the markers stay. Each such block gets the content.
///
/// path
///     The absolute path. A symbolic link is followed. A binary file is refused.
///
/// marker_start, marker_end
///     Texts in the line before and in the line after the block.
///
/// content
///     The lines of the block. They must not contain a marker.
///
/// append_if_not_found, prepend_if_not_found
///     `True` adds the markers and the block at the end or at the beginning of the file where they are missing.
///
/// backup
///     `minion` keeps the old contents on the minion, under `cachedir` (`file.list_backups`).
///
/// dry_run, test
///     `True` only tells what would change.
///
/// show_changes
///     `False` leaves the diff out of the answer.
///
/// append_newline
///     `True` puts an empty line behind the content. The content always ends with the end of a line.
///
/// insert_before_match, insert_after_match
///     A regular expression: where the markers are missing, they and the block are added beside the first line that matches.
///
/// CLI Example:
///
///     saline '*' file.blockreplace /etc/hosts '# BEGIN cluster' '# END cluster' '10.0.0.1 db' append_if_not_found=True
#[function(changes)]
#[allow(clippy::too_many_arguments, reason = "each is an option of operators")]
pub(super) fn blockreplace(
    job: &JobContext<'_>,
    path: AbsolutePath,
    #[default("#-- start managed zone --")] marker_start: String,
    #[default("#-- end managed zone --")] marker_end: String,
    #[default("")] content: String,
    #[default(false)] append_if_not_found: bool,
    #[default(false)] prepend_if_not_found: bool,
    #[default(None)] backup: Backup,
    #[default(false)] dry_run: bool,
    #[default(true)] show_changes: bool,
    #[default(false)] append_newline: bool,
    insert_before_match: Option<String>,
    insert_after_match: Option<String>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let invalid = |why: &str| Err(Failure::Invocation(why.to_owned()));
    let markers = [&marker_start, &marker_end];
    if markers
        .iter()
        .any(|marker| marker.is_empty() || marker.contains(['\n', '\0']))
    {
        return invalid("a marker is a text in one line, and not empty");
    }
    if markers.iter().any(|marker| content.contains(*marker)) {
        return invalid(
            "the content contains a marker, so that the block could not be found again",
        );
    }
    if content.contains('\0') {
        return invalid("the content has null bytes");
    }
    let places = [
        append_if_not_found,
        prepend_if_not_found,
        insert_before_match.is_some(),
        insert_after_match.is_some(),
    ];
    if places.iter().filter(|given| **given).count() > 1 {
        return invalid(
            "a missing block goes to a single place: give append_if_not_found or prepend_if_not_found or one of the matches, not several",
        );
    }
    let missing = match (&insert_before_match, &insert_after_match) {
        (Some(pattern), _) => Missing::Beside(compile(pattern, Flags::NONE)?, Side::Before),
        (_, Some(pattern)) => Missing::Beside(compile(pattern, Flags::NONE)?, Side::After),
        _ if append_if_not_found => Missing::Appended,
        _ if prepend_if_not_found => Missing::Prepended,
        _ => Missing::Refused,
    };
    let edit = Edit {
        path: &path,
        backup,
        show_changes,
        test: test || dry_run,
    };
    edit.apply(job, |before| {
        let text = text_of(&path, before)?;
        let end = end_of(text);
        let mut block = with_ends(&content, end);
        if append_newline {
            block.extend_from_slice(end);
        }
        match replaced(text, &marker_start, &marker_end, &block, end) {
            Ok(Some(replaced)) => Ok(replaced),
            Ok(None) => {
                let block = [
                    &with_ends(&marker_start, end),
                    &block,
                    &with_ends(&marker_end, end),
                ];
                inserted(text, &block.map(Vec::as_slice).concat(), end, &missing)
                    .map_err(|why| failed("edit", &path, why))
            }
            Err(why) => Err(failed("edit", &path, why)),
        }
    })
}

pub(super) fn contains(line: &[u8], marker: &str) -> bool {
    line.windows(marker.len())
        .any(|part| part == marker.as_bytes())
}

/// Returns the text with the contents of its blocks replaced; none if it has no block.
fn replaced(
    text: &[u8],
    marker_start: &str,
    marker_end: &str,
    block: &[u8],
    end: &[u8],
) -> Result<Option<Vec<u8>>, String> {
    let mut result = Vec::with_capacity(text.len() + block.len());
    let mut started = None;
    let mut is_found = false;
    for (number, line) in split(text).into_iter().enumerate() {
        let number = number + 1;
        match started {
            Some(_) if contains(line, marker_end) => {
                result.extend_from_slice(line);
                started = None;
            }
            Some(_) => {}
            None if contains(line, marker_start) => {
                result.extend_from_slice(line);
                end_last(&mut result, end);
                result.extend_from_slice(block);
                started = Some(number);
                is_found = true;
            }
            None if contains(line, marker_end) => {
                return Err(format!(
                    "line {number} has the end marker {marker_end:?}, and no line before it the start marker {marker_start:?}"
                ));
            }
            None => result.extend_from_slice(line),
        }
    }
    match started {
        Some(number) => Err(format!(
            "the block that starts in line {number} has no end marker {marker_end:?}"
        )),
        None => Ok(is_found.then_some(result)),
    }
}

/// Returns the text with a block that it lacks.
fn inserted(text: &[u8], block: &[u8], end: &[u8], missing: &Missing) -> Result<Vec<u8>, String> {
    match missing {
        Missing::Refused => Err(
            "it has no line with the start marker (append_if_not_found=True adds the block)"
                .to_owned(),
        ),
        Missing::Prepended => Ok([block, text].concat()),
        Missing::Appended => {
            let mut text = text.to_vec();
            end_last(&mut text, end);
            text.extend_from_slice(block);
            Ok(text)
        }
        Missing::Beside(pattern, side) => {
            let lines = split(text);
            let found = lines
                .iter()
                .position(|line| pattern.is_match(without_end(line)));
            let Some(found) = found else {
                return Err(format!("no line matches {:?}", pattern.as_str()));
            };
            let at = match side {
                Side::Before => found,
                Side::After => found + 1,
            };
            let mut text = lines[..at].concat();
            end_last(&mut text, end);
            text.extend_from_slice(block);
            text.extend_from_slice(&lines[at..].concat());
            Ok(text)
        }
    }
}
