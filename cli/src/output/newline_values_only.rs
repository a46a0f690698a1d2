//! Salt's newline_values_only outputter: the values alone, a line each.

use saline_data::Value;

use super::text_lines::text_lines;
use super::{Style, raw};

/// Formats the values of `data`, without the last newline: lists and mappings are taken apart, and names
/// are left out.
pub(crate) fn render(data: &Value, style: Style) -> Vec<u8> {
    let mut out = Vec::new();
    write(data, style, &mut out);
    out.pop();
    out
}

fn write(value: &Value, style: Style, out: &mut Vec<u8>) {
    match value {
        Value::Map(entries) => entries
            .iter()
            .for_each(|(_, value)| write(value, style, out)),
        Value::List(values) => values.iter().for_each(|value| write(value, style, out)),
        value => {
            let lines = text_lines(value, style);
            for line in lines.unwrap_or_else(|| vec![raw::render(value).into_bytes().into()]) {
                out.extend_from_slice(&line);
                out.push(b'\n');
            }
        }
    }
}
