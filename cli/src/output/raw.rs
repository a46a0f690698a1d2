//! Salt's raw outputter: Python's `repr`.

use saline_data::Value;

use saline_data::python;

/// Formats `data` as Python's `repr` does. Bytes that are not text become a bytes literal, so that
/// nothing is lost.
pub(crate) fn render(data: &Value) -> String {
    let mut out = String::new();
    write(data, usize::MAX, &mut out);
    out
}

/// Formats `data` if that takes at most `width` characters. What is longer is not formatted to its end.
pub(crate) fn render_within(data: &Value, width: usize) -> Option<String> {
    let mut out = String::new();
    // A character has at most four bytes.
    let complete = write(data, width.saturating_mul(4), &mut out);
    (complete && out.chars().count() <= width).then_some(out)
}

/// Writes a value, and gives up when that takes more than `most` bytes. Returns whether it was written.
fn write(value: &Value, most: usize, out: &mut String) -> bool {
    let written = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    if out.len().saturating_add(written) > most {
        return false;
    }
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::UInt(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&python::repr_float(*number)),
        Value::Text(text) => out.push_str(&python::repr_text(text)),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => out.push_str(&python::repr_text(text)),
            Err(_) => out.push_str(&python::repr_bytes(bytes)),
        },
        Value::List(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                if !write(value, most, out) {
                    return false;
                }
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                out.push_str(&python::repr_text(key));
                out.push_str(": ");
                if !write(value, most, out) {
                    return false;
                }
            }
            out.push('}');
        }
    }
    true
}
