//! Placeholders: what stands in rendered text for data until the YAML was parsed.
//!
//! Data can hold any text, and YAML gives a meaning to much of it. So the text that is parsed has a word in the place of
//! each piece of data that YAML might take for more than a word, and the data is put in once the structure is known. The
//! word cannot be foretold: its 128 random bits are new in each rendering.

use std::borrow::Cow;
use std::collections::HashSet;

use saline_data::yaml::{Content, Key, MAX_TEXT, Node, YamlError};

/// The form in which a piece of data is written where its placeholder is only a part of a scalar. A placeholder that is all of a
/// scalar gives way to the data itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The data as it is.
    Text,
    /// With the escapes of a text in JSON: the placeholder stands between double quotes.
    DoubleQuoted,
    /// With `'` twice: the placeholder stands between single quotes.
    SingleQuoted,
}

/// The data behind the placeholders of one rendering.
#[derive(Debug, Default)]
pub(crate) struct Placeholders {
    prefix: String,
    /// Whether each text has one, also a word.
    words_too: bool,
    entries: Vec<(Form, String)>,
    bytes: usize,
}

/// The end of a placeholder's number.
const END: char = 'x';

/// The reason why there are no placeholders.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceholderError {
    /// There is too much data.
    #[error("more than {MAX_TEXT} bytes of data are printed")]
    TooMuch,
    /// The system has no randomness.
    #[error("the system has no randomness")]
    NoRandomness,
}

impl Placeholders {
    /// Begins another rendering: earlier placeholders mean nothing any more. With `words_too` every text has a placeholder,
    /// so that data shows wherever it stands.
    ///
    /// # Errors
    /// `NoRandomness`.
    pub fn renew(&mut self, words_too: bool) -> Result<(), PlaceholderError> {
        self.words_too = words_too;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| PlaceholderError::NoRandomness)?;
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        self.prefix = format!("saline{digits}n");
        self.forget();
        Ok(())
    }

    /// Forgets the data, so that the same template writes the same placeholders again.
    pub fn forget(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// Returns a placeholder for a text.
    ///
    /// # Errors
    /// `TooMuch`.
    pub fn put(&mut self, text: &str, form: Form) -> Result<String, PlaceholderError> {
        self.bytes += text.len();
        if self.bytes > MAX_TEXT {
            return Err(PlaceholderError::TooMuch);
        }
        let number = self.entries.len();
        self.entries.push((form, text.to_owned()));
        Ok(format!("{}{number}{END}", self.prefix))
    }

    /// Whether a text is written as it is.
    pub fn writes_plain(&self, text: &str) -> bool {
        !self.words_too && is_word(text)
    }

    /// Returns the text with data in the place of all placeholders.
    pub fn replace<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.entries.is_empty() || !text.contains(&self.prefix) {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut parts = text.split(&self.prefix);
        out.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let found = part.split_once(END).and_then(|(number, rest)| {
                let entry = self.entries.get(number.parse::<usize>().ok()?)?;
                Some((entry, rest))
            });
            let Some(((form, data), rest)) = found else {
                out.push_str(&self.prefix);
                out.push_str(part);
                continue;
            };
            let is_all = out.is_empty() && rest.is_empty() && text.starts_with(&self.prefix);
            match form {
                _ if is_all => out.push_str(data),
                Form::Text => out.push_str(data),
                Form::DoubleQuoted => push_escaped(&mut out, data),
                Form::SingleQuoted => out.push_str(&data.replace('\'', "''")),
            }
            out.push_str(rest);
        }
        Cow::Owned(out)
    }

    /// Returns an upper bound of the length in bytes of what [`replace`](Self::replace) makes of a text.
    pub fn replaced_len(&self, text: &str) -> usize {
        let numbers = text.split(&self.prefix).skip(1);
        let added = numbers.filter_map(|part| {
            let (number, _) = part.split_once(END)?;
            let (form, data) = self.entries.get(number.parse::<usize>().ok()?)?;
            // An escape has at most six bytes.
            Some(match form {
                Form::Text => data.len(),
                Form::DoubleQuoted | Form::SingleQuoted => data.len() * 6,
            })
        });
        match self.entries.is_empty() {
            true => text.len(),
            false => added.fold(text.len(), usize::saturating_add),
        }
    }

    /// Whether there are none so far.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a text holds a placeholder.
    pub fn is_in(&self, text: &str) -> bool {
        !self.entries.is_empty() && text.contains(&self.prefix)
    }

    /// Returns the parsed document with data in the place of placeholders.
    ///
    /// # Errors
    /// When two keys of a mapping are the same then, and when the document holds more than [`MAX_TEXT`] bytes of data.
    pub fn put_in(&self, node: Node) -> Result<Node, YamlError> {
        self.put_in_within(node, &mut MAX_TEXT.clone())
    }

    fn put_in_within(&self, node: Node, left: &mut usize) -> Result<Node, YamlError> {
        let position = node.position;
        let text = |text: String, left: &mut usize| {
            if !self.is_in(&text) {
                return Ok(text);
            }
            let replaced = self.replace(&text).into_owned();
            *left = left.checked_sub(replaced.len()).ok_or_else(|| {
                position.error(format!(
                    "more than {MAX_TEXT} bytes of data, aliases followed"
                ))
            })?;
            Ok(replaced)
        };
        let content = match node.content {
            Content::Scalar(saline_data::Value::Text(scalar)) => {
                Content::Scalar(saline_data::Value::Text(text(scalar, left)?))
            }
            Content::Scalar(value) => Content::Scalar(value),
            Content::List(nodes) => {
                let nodes = nodes.into_iter();
                Content::List(
                    nodes
                        .map(|node| self.put_in_within(node, left))
                        .collect::<Result<_, _>>()?,
                )
            }
            Content::Map(entries) => {
                let mut names = HashSet::with_capacity(entries.len());
                let mut read = Vec::with_capacity(entries.len());
                for (key, node) in entries {
                    let name = text(key.name, left)?;
                    if !names.insert(name.clone()) {
                        let message = format!("{name:?} occurs twice once data is put in");
                        return Err(key.position.error(message));
                    }
                    let position = key.position;
                    read.push((Key { position, name }, self.put_in_within(node, left)?));
                }
                Content::Map(read)
            }
        };
        Ok(Node { position, content })
    }
}

/// The key of a pillar that names other files.
pub(crate) const INCLUDE: &str = "include";

/// Whether YAML takes a text for one word, wherever it stands. [`INCLUDE`] is none: it means more as a key.
pub(crate) fn is_word(text: &str) -> bool {
    if text == INCLUDE {
        return false;
    }
    let mut bytes = text.bytes();
    let is_first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    bytes.next().is_some_and(is_first)
        && bytes.all(|byte| is_first(byte) || b".@/+-".contains(&byte))
}

/// Writes a text as it stands between the quotes of JSON, which YAML reads too.
fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // As escapes of JSON they have four digits each.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
}
