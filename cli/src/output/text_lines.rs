//! The lines of a text that a minion returned, as every output for people prints them.

use std::borrow::Cow;

use saline_data::Value;
use saline_data::printable::escape_lines;

use super::Style;
use saline_data::python;

/// Returns the lines of a text, or of bytes; none for other values. What would command a terminal is
/// escaped. Bytes that are not UTF-8 reach a file as they are, and a terminal escaped.
pub(crate) fn text_lines(value: &Value, style: Style) -> Option<Vec<Cow<'_, [u8]>>> {
    match value {
        Value::Text(text) => Some(lines_of_text(text)),
        Value::Bytes(bytes) => Some(match std::str::from_utf8(bytes) {
            Ok(text) => lines_of_text(text),
            Err(_) => lines_of_bytes(bytes, style),
        }),
        _ => None,
    }
}

fn lines_of_text(text: &str) -> Vec<Cow<'_, [u8]>> {
    let lines = python::split_lines(text).into_iter();
    // No line end is left in them.
    let lines = lines.map(|line| match escape_lines(line) {
        Cow::Borrowed(line) => Cow::Borrowed(line.as_bytes()),
        Cow::Owned(line) => Cow::Owned(line.into_bytes()),
    });
    lines.collect()
}

fn lines_of_bytes(bytes: &[u8], style: Style) -> Vec<Cow<'_, [u8]>> {
    let lines = python::split_byte_lines(bytes).into_iter();
    let lines = lines.map(|line| match style.terminal {
        true => Cow::Owned(escape_bytes(line).into_bytes()),
        false => Cow::Borrowed(line),
    });
    lines.collect()
}

/// Returns bytes that are almost text for a terminal: those that are not text are written `\xff`.
fn escape_bytes(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(&escape_lines(chunk.valid()));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}
