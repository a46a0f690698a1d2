//! Salt's nested outputter, the default.

use saline_data::Value;
use saline_data::printable::escape_line;

use super::colour::{Colour, Style};
use super::text_lines::text_lines;
use saline_data::python;

/// `data` as Salt's nested outputter writes it, without the last newline. `failed` colours names
/// red, as Salt does for a retcode other than 0.
///
/// A minion must not control the operator's terminal, nor write what stands as another minion's answer:
/// every line of a value is indented, a key is one line, and what is not printable is escaped. Bytes
/// that are not UTF-8 reach a file as they are, and a terminal escaped.
pub(crate) fn render(data: &Value, style: Style, failed: bool) -> Vec<u8> {
    let mut nested = Nested {
        style,
        failed,
        out: Vec::new(),
    };
    nested.display(data, 0, "");
    // Salt strips its output, so trailing empty lines do not show.
    let end = nested
        .out
        .iter()
        .rposition(|b| !b.is_ascii_whitespace())
        .map_or(0, |at| at + 1);
    nested.out.truncate(end);
    nested.out
}

struct Nested {
    style: Style,
    failed: bool,
    out: Vec<u8>,
}

impl Nested {
    fn line(&mut self, indent: usize, colour: Colour, prefix: &str, text: &[u8], suffix: &str) {
        self.out.resize(self.out.len() + indent, b' ');
        for part in [
            self.style.begin(colour).as_bytes(),
            prefix.as_bytes(),
            text,
            self.style.end().as_bytes(),
            suffix.as_bytes(),
            b"\n",
        ] {
            self.out.extend_from_slice(part);
        }
    }

    fn display(&mut self, value: &Value, indent: usize, prefix: &str) {
        let scalar = match value {
            Value::Null => "None".to_owned(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Int(number) => number.to_string(),
            Value::UInt(number) => number.to_string(),
            Value::Float(number) => python::repr_float(*number),
            Value::Text(_) | Value::Bytes(_) => return self.text(value, indent, prefix),
            Value::List(values) => return self.list(values, indent),
            Value::Map(entries) => return self.map(entries, indent, prefix),
        };
        self.line(indent, Colour::LightYellow, prefix, scalar.as_bytes(), "");
    }

    fn text(&mut self, value: &Value, indent: usize, prefix: &str) {
        let lines = text_lines(value, self.style).unwrap_or_default();
        // A large text is not moved again and again while it is written.
        let beside = indent + prefix.len() + 1;
        let length: usize = lines.iter().map(|line| line.len() + beside).sum();
        self.out.reserve(length);
        for (number, line) in lines.into_iter().enumerate() {
            self.text_line(number, &line, indent, prefix);
        }
    }

    fn text_line(&mut self, number: usize, line: &[u8], indent: usize, prefix: &str) {
        let blank = " ".repeat(prefix.len());
        let prefix = if number == 0 { prefix } else { &blank };
        self.line(indent, Colour::Green, prefix, line, "");
    }

    fn list(&mut self, values: &[Value], indent: usize) {
        let colour = if self.failed {
            Colour::Red
        } else {
            Colour::Green
        };
        for value in values {
            match value {
                Value::List(_) => {
                    self.line(indent, colour, "", b"|_", "");
                    self.display(value, indent + 2, "- ");
                }
                Value::Map(_) => {
                    self.line(indent, colour, "", b"|_", "");
                    self.display(value, indent + 2, "");
                }
                value => self.display(value, indent, "- "),
            }
        }
    }

    fn map(&mut self, entries: &[(String, Value)], indent: usize, prefix: &str) {
        let colour = if self.failed {
            Colour::Red
        } else {
            Colour::Cyan
        };
        if indent > 0 {
            self.line(indent, colour, "", b"----------", "");
        }
        let mut entries: Vec<&(String, Value)> = entries.iter().collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        for (key, value) in entries {
            let key = escape_line(key);
            self.line(indent, colour, prefix, key.as_bytes(), ":");
            self.display(value, indent + 4, "");
        }
    }
}
