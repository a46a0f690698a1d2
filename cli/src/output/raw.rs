//! Salt's raw outputter: Python's `repr`.

use saline_protocol::message::Value;

use super::python;

/// Formats `data` as Python's `repr` does. Bytes that are not text become a bytes literal, so that
/// nothing is lost.
pub(crate) fn render(data: &Value) -> String {
    let mut out = String::new();
    write(data, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
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
                write(value, out);
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
                write(value, out);
            }
            out.push('}');
        }
    }
}
