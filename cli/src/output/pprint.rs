//! Salt's pprint outputter: Python's `repr`, broken into lines where it is wider than a terminal.
//!
//! Python breaks long texts as well; here a text stays whole, so that it can be searched for.

use saline_data::Value;

use super::raw;
use saline_data::{json, python};

/// The width in characters.
const WIDTH: usize = 80;

/// Formats `data` with mappings in the order of their keys, without the last newline.
pub(crate) fn render(data: &Value) -> String {
    let mut out = String::new();
    write(&json::sorted(data), 0, 0, &mut out);
    out
}

/// Writes a value that begins at `column`, and after which `after` more characters stand in its line.
fn write(value: &Value, column: usize, after: usize, out: &mut String) {
    let width = WIDTH.saturating_sub(column + after);
    if let Some(line) = raw::render_within(value, width) {
        out.push_str(&line);
        return;
    }
    match value {
        Value::Map(entries) => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                let key = python::repr_text(key);
                begin(index, column + 1, out);
                out.push_str(&key);
                out.push_str(": ");
                let column = column + 1 + key.chars().count() + 2;
                write(value, column, after_entry(index, entries.len(), after), out);
            }
            out.push('}');
        }
        Value::List(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                begin(index, column + 1, out);
                write(
                    value,
                    column + 1,
                    after_entry(index, values.len(), after),
                    out,
                );
            }
            out.push(']');
        }
        scalar => out.push_str(&raw::render(scalar)),
    }
}

/// Begins an entry: every one but the first stands in a line of its own.
fn begin(index: usize, column: usize, out: &mut String) {
    if index > 0 {
        out.push_str(",\n");
        out.extend(std::iter::repeat_n(' ', column));
    }
}

/// Returns how many characters stand after an entry in its line: a comma, or all the closing brackets.
fn after_entry(index: usize, entries: usize, after: usize) -> usize {
    if index + 1 == entries { after + 1 } else { 1 }
}
