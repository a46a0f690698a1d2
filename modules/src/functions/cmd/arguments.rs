//! The types of the parameters of commands.

use std::fmt;

use saline_data::Value;
use saline_functions::{FromValue, Mismatch};

use crate::command::split;

/// A command as an operator typed it.
pub(super) enum CommandLine {
    /// One line, which a shell reads or which is split into words.
    Line(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

impl FromValue for CommandLine {
    const TAKES: &'static str = "a text, or a list of texts and numbers";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            list @ Value::List(_) => Vec::from_value(list).map(Self::Words),
            other => String::from_value(other).map(Self::Line),
        }
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => f.write_str(line),
            Self::Words(words) => f.write_str(&words.join(" ")),
        }
    }
}

/// A umask: an octal number. As in Salt, 0 is refused: it would let everybody write to new files.
#[derive(Clone, Copy)]
pub(super) struct Umask(pub u32);

impl FromValue for Umask {
    const TAKES: &'static str = "an octal number from 1 to 777";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let text = String::from_value(value)?;
        match u32::from_str_radix(&text, 8) {
            Ok(mask @ 1..=0o777) => Ok(Self(mask)),
            _ => Err(Mismatch::of::<Self>(&text.into())),
        }
    }
}

/// Changes of the environment: a name without a value is removed.
#[derive(Clone, Default)]
pub(super) struct Environment(pub Vec<(String, Option<String>)>);

impl FromValue for Environment {
    const TAKES: &'static str = "a mapping, or a list of NAME=value";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let parts = match value {
            Value::List(parts) => parts,
            one => vec![one],
        };
        let mut variables = Vec::new();
        for part in parts {
            match part {
                Value::Map(entries) => {
                    for (name, value) in entries {
                        variables.push((name, Option::from_value(value)?));
                    }
                }
                part => {
                    let pair = part.as_str().and_then(|text| text.split_once('='));
                    let (name, value) = pair.ok_or_else(|| Mismatch::of::<Self>(&part))?;
                    variables.push((name.to_owned(), Some(value.to_owned())));
                }
            }
        }
        for (name, value) in &variables {
            let is_bad = name.is_empty() || name.contains(['=', '\0']);
            if is_bad || value.as_ref().is_some_and(|value| value.contains('\0')) {
                let found = Value::from(name.as_str());
                return Err(Mismatch::new("variables that can be set", &found));
            }
        }
        Ok(Self(variables))
    }
}

impl Environment {
    /// Whether a variable of the locale is set or removed.
    pub(super) fn has_locale(&self) -> bool {
        let mut names = self.0.iter().map(|(name, _)| name.as_str());
        names.any(|name| name == "LANG" || name == "LANGUAGE" || name.starts_with("LC_"))
    }
}

/// The arguments of a script: a list, or a line that is split into words as a shell does.
#[derive(Debug, Clone, Default)]
pub(super) struct Words(pub Vec<String>);

impl FromValue for Words {
    const TAKES: &'static str = "a line of words, or a list of texts and numbers";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            list @ Value::List(_) => Vec::from_value(list).map(Self),
            Value::Text(line) => match split(&line) {
                Ok(words) => Ok(Self(words)),
                Err(error) => Err(Mismatch::new(format!("words ({error})"), &line.into())),
            },
            number => String::from_value(number).map(|word| Self(vec![word])),
        }
    }
}

/// Some values: a list, or a text with commas between them.
#[derive(Debug, Clone)]
pub(super) struct AnyOf<T>(pub Vec<T>);

impl<T: FromValue + std::str::FromStr> FromValue for AnyOf<T> {
    const TAKES: &'static str = "a list, or a text with commas between its parts";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::List(values) => {
                let values = values.into_iter().map(T::from_value);
                values.collect::<Result<_, _>>().map(Self)
            }
            Value::Text(text) => {
                let parts = text.split(',').map(|part| part.trim().parse().ok());
                let parts: Option<Vec<T>> = parts.collect();
                parts
                    .map(Self)
                    .ok_or_else(|| Mismatch::new(T::TAKES, &text.into()))
            }
            one => T::from_value(one).map(|one| Self(vec![one])),
        }
    }
}
