//! The lines of a text that is edited.

use saline_functions::Failure;

use super::diff::is_binary;
use super::path::{AbsolutePath, failed};

/// Returns the contents of a text file.
///
/// # Errors
/// When there is no file, and when it is binary.
pub(super) fn text_of<'a>(
    path: &AbsolutePath,
    contents: Option<&'a [u8]>,
) -> Result<&'a [u8], Failure> {
    match contents {
        None => Err(failed("edit", path, "there is no such file")),
        Some(contents) if is_binary(contents) => Err(failed(
            "edit",
            path,
            "it is a binary file (it has null bytes)",
        )),
        Some(contents) => Ok(contents),
    }
}

/// Returns the lines with their ends; the last may have none.
pub(super) fn split(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns a line without its end.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns how the lines of a text end: as the first does.
pub(super) fn end_of(text: &[u8]) -> &'static [u8] {
    match text.iter().position(|byte| *byte == b'\n') {
        Some(at) if at > 0 && text[at - 1] == b'\r' => b"\r\n",
        _ => b"\n",
    }
}

/// Ends the last line of a text if it is not.
pub(super) fn end_last(text: &mut Vec<u8>, end: &[u8]) {
    if text.last().is_some_and(|last| *last != b'\n') {
        text.extend_from_slice(end);
    }
}

/// Returns the lines of `content`, each with the end `end`.
pub(super) fn with_ends(content: &str, end: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in content.lines() {
        text.extend_from_slice(line.as_bytes());
        text.extend_from_slice(end);
    }
    text
}
