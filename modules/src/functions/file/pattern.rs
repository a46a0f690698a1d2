//! Regular expressions and their replacements, written as in Python.

use regex::bytes::{Captures, Regex, RegexBuilder};
use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch};

/// The flags of a regular expression, by Python's names and numbers.
const FLAGS: [(&str, i64); 5] = [
    ("IGNORECASE", 2),
    ("MULTILINE", 8),
    ("DOTALL", 16),
    ("UNICODE", 32),
    ("VERBOSE", 64),
];

/// The flags of a regular expression: a name, a list of names, or the sum of their numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flags(i64);

impl FromValue for Flags {
    const TAKES: &'static str =
        "flags: names of IGNORECASE, MULTILINE, DOTALL, UNICODE and VERBOSE, or their sum";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let known: i64 = FLAGS.iter().map(|(_, bit)| bit).sum();
        let mut bits = 0;
        let one = match &value {
            Value::List(flags) => flags.as_slice(),
            one => std::slice::from_ref(one),
        };
        for flag in one {
            let named = |name: &str| FLAGS.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
            bits |= match flag {
                Value::Int(sum) if sum & !known == 0 => *sum,
                Value::Text(name) => named(name).ok_or_else(|| Mismatch::of::<Self>(&value))?.1,
                _ => return Err(Mismatch::of::<Self>(&value)),
            };
        }
        Ok(Self(bits))
    }
}

impl Flags {
    /// No flag.
    pub(super) const NONE: Self = Self(0);

    fn has(self, name: &str) -> bool {
        FLAGS
            .iter()
            .any(|(own, bit)| *own == name && self.0 & bit != 0)
    }
}

/// Compiles a regular expression. It takes time in proportion to the text, whatever the text is, and has no look-around.
///
/// # Errors
/// When it is malformed or too large.
pub(super) fn compile(pattern: &str, flags: Flags) -> Result<Regex, Failure> {
    RegexBuilder::new(pattern)
        .case_insensitive(flags.has("IGNORECASE"))
        .multi_line(flags.has("MULTILINE"))
        .dot_matches_new_line(flags.has("DOTALL"))
        .ignore_whitespace(flags.has("VERBOSE"))
        .build()
        .map_err(|error| {
            let text = error.to_string();
            // Above its last line, the error draws the place.
            let last = text.lines().last().unwrap_or_default();
            Failure::Invocation(format!(
                "the regular expression {pattern:?} is not understood: {}",
                last.trim_start_matches("error: ")
            ))
        })
}

/// A part of a replacement.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Group(usize),
}

/// The text that a match is replaced with.
#[derive(Debug)]
pub(super) struct Replacement(Vec<Part>);

impl Replacement {
    /// Creates a replacement in which nothing has a meaning of its own.
    pub(super) fn literal(text: &str) -> Self {
        Self(vec![Part::Text(text.as_bytes().to_vec())])
    }

    /// Reads a replacement: `\1` and `\g<name>` are groups of the match, `\n`, `\r` and `\t` white space, `\\` a backslash.
    ///
    /// # Errors
    /// When the expression has no such group, and when another letter or nothing follows a backslash.
    pub(super) fn parse(text: &str, regex: &Regex) -> Result<Self, Failure> {
        let mistake = |what: String| {
            Err(Failure::Invocation(format!(
                "the replacement {text:?} {what}; backslash_literal=True takes it as it is"
            )))
        };
        let mut parts = vec![];
        let mut plain = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '\\' {
                plain.push(c);
                continue;
            }
            let group = match chars.next() {
                Some('n') => {
                    plain.push('\n');
                    continue;
                }
                Some('r') => {
                    plain.push('\r');
                    continue;
                }
                Some('t') => {
                    plain.push('\t');
                    continue;
                }
                Some(c) if !c.is_ascii_alphanumeric() => {
                    // As in Python, a backslash before a sign other than itself is kept.
                    if c != '\\' {
                        plain.push('\\');
                    }
                    plain.push(c);
                    continue;
                }
                Some(digit @ '0'..='9') => {
                    let second = chars.next_if(char::is_ascii_digit);
                    [Some(digit), second].into_iter().flatten().collect()
                }
                Some('g') if chars.peek() == Some(&'<') => {
                    chars.next();
                    let name: String = chars.by_ref().take_while(|c| *c != '>').collect();
                    name
                }
                Some(c) => return mistake(format!("has '\\{c}', which means nothing")),
                None => return mistake("ends with a backslash".to_owned()),
            };
            let number = match group.parse() {
                Ok(number) => Some(number),
                Err(_) => regex.capture_names().position(|name| name == Some(&group)),
            };
            let Some(number) = number.filter(|number| *number < regex.captures_len()) else {
                return mistake(format!(
                    "names the group {group:?}, which the pattern lacks"
                ));
            };
            parts.push(Part::Text(std::mem::take(&mut plain).into_bytes()));
            parts.push(Part::Group(number));
        }
        parts.push(Part::Text(plain.into_bytes()));
        Ok(Self(parts))
    }

    /// Adds the replacement of a match to `text`.
    pub(super) fn add_to(&self, text: &mut Vec<u8>, found: &Captures<'_>) {
        for part in &self.0 {
            text.extend_from_slice(match part {
                Part::Text(plain) => plain,
                Part::Group(number) => found.get(*number).map_or(&[], |group| group.as_bytes()),
            });
        }
    }
}
