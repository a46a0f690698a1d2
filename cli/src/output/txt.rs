//! Salt's txt outputter: each line of each minion's return after the minion's name.

use saline_data::Value;
use saline_data::printable::escape_line;

use super::text_lines::text_lines;
use super::{Style, raw};

/// Formats `data`, without the last newline. A value that is no text is one line, as Python prints it.
pub(crate) fn render(data: &Value, style: Style) -> Vec<u8> {
    let mut out = Vec::new();
    let mut line = |name: &str, text: &[u8]| {
        for part in [name.as_bytes(), text, b"\n"] {
            out.extend_from_slice(part);
        }
    };
    let mut value_lines = |name: &str, value: &Value| match text_lines(value, style) {
        // Also of an empty text the reader learns which minion returned it.
        Some(lines) if lines.is_empty() && !name.is_empty() => line(name, b""),
        Some(lines) => lines.iter().for_each(|text| line(name, text)),
        None => line(name, raw::render(value).as_bytes()),
    };
    match data {
        Value::Map(entries) => {
            for (name, value) in entries {
                value_lines(&format!("{}: ", escape_line(name)), value);
            }
        }
        value => value_lines("", value),
    }
    out.pop();
    out
}
