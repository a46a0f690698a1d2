//! Salt's yaml outputter: YAML that any parser reads back as the same values.
//!
//! A text stands without quotes only if no version of YAML takes it for something else. Text of several
//! lines is a literal block, so that it can be read. Bytes that are not UTF-8 are `!!binary`, which
//! loses nothing. Of two entries with the same name the last one is written, since a mapping of YAML
//! cannot hold both.

use std::collections::HashMap;

use crate::Value;
use crate::printable::is_printable;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::python;

/// The indentation of a mapping inside a mapping, unless another was asked for.
const INDENT: usize = 2;

/// The longest key that stands before its colon; a parser need not look further than 1024 characters.
const LONGEST_KEY: usize = 128;

/// Words that one version of YAML or another reads as something other than text, in lower case.
const WORDS: [&str; 13] = [
    "y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf", "infinity",
];

/// Formats `data`, without the last newline. A negative `indent` puts everything into one line.
pub fn write(data: &Value, indent: Option<i32>) -> Vec<u8> {
    let mut yaml = Yaml {
        out: String::new(),
        indent: INDENT,
    };
    match indent.map(usize::try_from) {
        Some(Err(_)) => yaml.flow(data),
        Some(Ok(indent)) => {
            // A mapping has to stand deeper than the one that holds it.
            yaml.indent = indent.max(1);
            yaml.block(data, 0, Position::Top);
        }
        None => yaml.block(data, 0, Position::Top),
    }
    yaml.out.truncate(yaml.out.trim_end_matches('\n').len());
    yaml.out.into_bytes()
}

/// The place at which a value begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// The beginning of the document.
    Top,
    /// After the colon of a key that stands at the indentation.
    AfterKey,
    /// At the indentation, after the dash of a list or the colon of a long key.
    AfterDash,
}

struct Yaml {
    out: String,
    indent: usize,
}

impl Yaml {
    /// Writes a value and a newline.
    fn block(&mut self, value: &Value, column: usize, place: Position) {
        match value {
            Value::Map(entries) if !entries.is_empty() => {
                let column = match place {
                    Position::AfterKey => {
                        self.out.push('\n');
                        column + self.indent
                    }
                    _ => column,
                };
                self.map(entries, column, place != Position::AfterKey);
            }
            Value::List(values) if !values.is_empty() => {
                if place == Position::AfterKey {
                    self.out.push('\n');
                }
                self.list(values, column, place != Position::AfterKey);
            }
            value => {
                if place == Position::AfterKey {
                    self.out.push(' ');
                }
                match literal(value) {
                    Some((lines, chomping)) => {
                        let column = match place {
                            Position::AfterDash => column,
                            _ => column + self.indent,
                        };
                        self.literal(lines, chomping, column);
                    }
                    None => {
                        self.scalar(value);
                        self.out.push('\n');
                    }
                }
            }
        }
    }

    fn map(&mut self, entries: &[(String, Value)], column: usize, first_is_placed: bool) {
        for (index, (key, value)) in distinct(entries).into_iter().enumerate() {
            if index > 0 || !first_is_placed {
                self.spaces(column);
            }
            let key = scalar_text(key);
            if key.len() <= LONGEST_KEY {
                self.out.push_str(&key);
                self.out.push(':');
                self.block(value, column, Position::AfterKey);
            } else {
                self.out.push_str(&format!("? {key}\n"));
                self.spaces(column);
                self.out.push_str(": ");
                self.block(value, column + 2, Position::AfterDash);
            }
        }
    }

    fn list(&mut self, values: &[Value], column: usize, first_is_placed: bool) {
        for (index, value) in values.iter().enumerate() {
            if index > 0 || !first_is_placed {
                self.spaces(column);
            }
            self.out.push_str("- ");
            self.block(value, column + 2, Position::AfterDash);
        }
    }

    fn literal(&mut self, lines: &str, chomping: &str, column: usize) {
        self.out.push('|');
        self.out.push_str(chomping);
        self.out.push('\n');
        for line in lines.split('\n') {
            if !line.is_empty() {
                self.spaces(column);
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
    }

    /// Writes a value into the line.
    fn flow(&mut self, value: &Value) {
        match value {
            Value::Map(entries) => {
                self.out.push('{');
                for (index, (key, value)) in distinct(entries).into_iter().enumerate() {
                    let before = if index > 0 { ", " } else { "" };
                    let key = scalar_text(key);
                    let question = if key.len() > LONGEST_KEY { "? " } else { "" };
                    self.out.push_str(&format!("{before}{question}{key}: "));
                    self.flow(value);
                }
                self.out.push('}');
            }
            Value::List(values) => {
                self.out.push('[');
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    self.flow(value);
                }
                self.out.push(']');
            }
            value => self.scalar(value),
        }
    }

    fn scalar(&mut self, value: &Value) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Value::Int(number) => self.out.push_str(&number.to_string()),
            Value::UInt(number) => self.out.push_str(&number.to_string()),
            Value::Float(number) => self.out.push_str(&float(*number)),
            Value::Text(text) => self.out.push_str(&scalar_text(text)),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => self.out.push_str(&scalar_text(text)),
                Err(_) => {
                    let encoded = STANDARD.encode(bytes);
                    self.out.push_str(&format!("!!binary \"{encoded}\""));
                }
            },
            Value::List(_) => self.out.push_str("[]"),
            Value::Map(_) => self.out.push_str("{}"),
        }
    }

    fn spaces(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }
}

/// Returns the entries with distinct keys: the last one of each, in the order of the first.
fn distinct(entries: &[(String, Value)]) -> Vec<(&str, &Value)> {
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
    let mut distinct: Vec<(&str, &Value)> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        match places.get(key.as_str()) {
            Some(place) => distinct[*place].1 = value,
            None => {
                places.insert(key, distinct.len());
                distinct.push((key, value));
            }
        }
    }
    distinct
}

/// Returns a float as YAML 1.1 reads it: an exponent needs a point before it.
fn float(number: f64) -> String {
    let python = python::repr_float(number);
    match python.as_str() {
        "nan" => ".nan".to_owned(),
        "inf" => ".inf".to_owned(),
        "-inf" => "-.inf".to_owned(),
        text if text.contains('e') && !text.contains('.') => text.replace('e', ".0e"),
        text => text.to_owned(),
    }
}

/// Returns the lines of a text that can be a literal block, and the block's chomping indicator.
fn literal(value: &Value) -> Option<(&str, &'static str)> {
    let text = match value {
        Value::Text(text) => text.as_str(),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok()?,
        _ => return None,
    };
    let (lines, chomping) = match text.strip_suffix('\n') {
        Some(lines) => (lines, ""),
        None => (text, "-"),
    };
    // The first line tells the indentation, and a blank line may be taken for a part of it.
    let is_literal = text.contains('\n')
        && !lines.is_empty()
        && !lines.ends_with('\n')
        && !lines.starts_with(|c: char| c.is_whitespace())
        && lines
            .chars()
            .all(|c| matches!(c, '\n' | '\t') || is_plain(c))
        && lines
            .split('\n')
            .all(|line| line.is_empty() || !line.trim().is_empty());
    is_literal.then_some((lines, chomping))
}

/// Whether a character may stand in YAML as it is.
fn is_plain(c: char) -> bool {
    is_printable(c) && !matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns a text in one line: without quotes if it is taken for nothing else.
fn scalar_text(text: &str) -> String {
    if stands_without_quotes(text) {
        text.to_owned()
    } else if text.chars().all(is_plain) {
        format!("'{}'", text.replace('\'', "''"))
    } else {
        escaped(text)
    }
}

fn stands_without_quotes(text: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || "_./-+@= ()".contains(c);
    text.starts_with(|c: char| c.is_alphabetic() || "_/".contains(c))
        && !text.ends_with(' ')
        && text != "="
        && text.chars().all(|c| inner(c) && is_plain(c))
        && !WORDS.contains(&text.to_lowercase().as_str())
}

/// Returns a text in double quotes, with YAML's escapes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    out.push('"');
    for c in text.chars() {
        match (c, u32::from(c)) {
            ('\n', _) => out.push_str("\\n"),
            ('\t', _) => out.push_str("\\t"),
            ('\r', _) => out.push_str("\\r"),
            ('"' | '\\', _) => out.extend(['\\', c]),
            (c, _) if is_plain(c) => out.push(c),
            (_, code @ ..=0xff) => out.push_str(&format!("\\x{code:02x}")),
            (_, code @ ..=0xffff) => out.push_str(&format!("\\u{code:04x}")),
            (_, code) => out.push_str(&format!("\\U{code:08x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary::values;

    /// Returns what a parser gives back: bytes that are text are written as text.
    fn readable(value: &Value) -> Value {
        match value {
            Value::UInt(number) => i64::try_from(*number).map_or(Value::UInt(*number), Value::Int),
            Value::Float(number) if number.is_nan() => "a NaN, which equals nothing".into(),
            Value::Bytes(bytes) => Value::from_output(bytes.clone()),
            Value::List(values) => Value::List(values.iter().map(readable).collect()),
            Value::Map(entries) => Value::Map(
                distinct(entries)
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), readable(value)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    #[test]
    fn text_that_looks_like_something_else_is_quoted() {
        let words = [
            "yes",
            "No",
            "on",
            "null",
            "~",
            "",
            " a",
            "a ",
            "1",
            "1e3",
            "0o17",
            "0x1f",
            "1_000",
            "12:30",
            "2026-07-21",
            "-1",
            ".5",
            ".inf",
            "y",
            "=",
            "<<",
            "- a",
            "a: b",
            "a #b",
            "#a",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "|",
            ">",
            "[a",
            "{a",
            "it's",
            "\"a\"",
            "a,b",
            "---",
            "...",
            "?",
            "None",
            "TRUE",
            "a\tb",
        ];
        for word in words {
            let shown = scalar_text(word);
            assert!(shown.starts_with(['\'', '"']), "{shown}");
            assert_eq!(super::super::parse(&shown).unwrap(), word.into());
        }
        for word in [
            "web1",
            "/etc/hosts",
            "Debian GNU/Linux (12)",
            "_x",
            "é",
            "a-b",
        ] {
            assert_eq!(scalar_text(word), word);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn what_was_returned_is_read_back(
            value in values(),
            indent in prop_oneof![Just(None), (-1i32..6).prop_map(Some)],
        ) {
            let value = readable(&value);
            let shown = String::from_utf8(write(&value, indent)).unwrap();
            if indent == Some(-1) {
                prop_assert!(!shown.contains('\n'), "{shown}");
            }
            let read = super::super::parse(&shown);
            prop_assert_eq!(read, Ok(value), "{}", shown);
        }
    }
}
