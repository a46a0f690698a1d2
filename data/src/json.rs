//! Salt's json outputter: four spaces deep, UTF-8 as it is, but for characters that would command a
//! terminal.
//!
//! What JSON cannot say: bytes that are not UTF-8 are the text of Python's `repr` of them (`b'\xff'`), which loses nothing, and a float
//! that is not a number or not finite is `null`.

use crate::Value;
use crate::printable::is_printable;
use crate::python;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Formats `data` over several lines, `indent` spaces deep and 4 by default, without the last newline; a
/// negative `indent` puts everything into one line.
pub fn pretty(data: &Value, indent: Option<i32>) -> Vec<u8> {
    let Ok(indent) = usize::try_from(indent.unwrap_or(4)) else {
        return line(data);
    };
    let spaces = " ".repeat(indent);
    write(
        &to_json(data),
        PrettyFormatter::with_indent(spaces.as_bytes()),
    )
}

/// Formats `data` in one line, with Python's spacing.
pub fn line(data: &Value) -> Vec<u8> {
    write(&to_json(data), Spaced)
}

/// Reads one value.
///
/// # Errors
/// When the bytes are not one value of JSON, or nest deeper than 128 levels.
pub fn read(json: &[u8]) -> Result<Value, JsonError> {
    serde_json::from_slice(json).map_err(JsonError)
}

/// The reason why bytes are not JSON.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct JsonError(serde_json::Error);

/// Returns `data` with every mapping in the order of its keys.
pub fn sorted(data: &Value) -> Value {
    match data {
        Value::Map(entries) => {
            let mut entries: Vec<(String, Value)> = entries
                .iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Map(entries)
        }
        Value::List(values) => Value::List(values.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

fn write<F: Formatter>(json: &serde_json::Value, formatter: F) -> Vec<u8> {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, formatter);
    // Writing to memory does not fail, and the keys are texts.
    let _ = json.serialize(&mut serializer);
    escape(out)
}

/// Escapes what JSON itself leaves as it is and a terminal obeys: DEL, C1 and the characters that change
/// the direction of writing. They stand in texts only, so this changes nothing for who reads the JSON.
fn escape(json: Vec<u8>) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&json) else {
        return json;
    };
    let stays = |c: char| c == '\n' || is_printable(c);
    if text.chars().all(stays) {
        return json;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match stays(c) {
            true => out.push(c),
            false => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    out.into_bytes()
}

fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::UInt(value) => (*value).into(),
        // `null` for numbers that are not finite.
        Value::Float(value) => serde_json::Number::from_f64(*value).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => python::repr_bytes(bytes).into(),
        },
        Value::List(values) => values.iter().map(to_json).collect(),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone(), to_json(value)))
            .collect(),
    }
}

/// A formatter with Python's spacing: `{"a": 1, "b": [1, 2]}`.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()>
    where
        W: ?Sized + std::io::Write,
    {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()>
    where
        W: ?Sized + std::io::Write,
    {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W>(&mut self, writer: &mut W) -> std::io::Result<()>
    where
        W: ?Sized + std::io::Write,
    {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::values;
    use proptest::prelude::*;

    #[test]
    fn bytes_that_are_no_text_lose_nothing() {
        let said = line(&Value::Bytes(b"a\xff\n".to_vec()));
        assert_eq!(said, br#""b'a\\xff\\n'""#);
        assert_eq!(line(&Value::Bytes(b"a".to_vec())), br#""a""#);
    }

    proptest! {
        #[test]
        fn whatever_is_returned_the_json_is_valid(value in values()) {
            let pretty: serde_json::Value = serde_json::from_slice(&pretty(&value, None)).unwrap();
            let line = line(&value);
            prop_assert!(!line.contains(&b'\n'));
            prop_assert_eq!(pretty, serde_json::from_slice::<serde_json::Value>(&line).unwrap());
            let ordered = super::pretty(&sorted(&value), Some(0));
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&ordered).is_ok());
        }

        #[test]
        fn what_was_read_is_written_the_same(value in values()) {
            let once = read(&line(&value)).unwrap();
            prop_assert_eq!(&read(&line(&once)).unwrap(), &once);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = read(&bytes);
        }
    }
}
