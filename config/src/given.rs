//! The value that a file gives to an option, and the kinds of values that options take.

use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use saline_data::nearest;
use saline_data::yaml::{self, Content, Node, Position, YamlError};
use saline_data::{Value, time_span};

use crate::byte_size;

/// The longest time that an option takes: fifty years, so that no clock overflows.
pub(crate) const LONGEST: Duration = Duration::from_secs(50 * 365 * 86_400);

/// The shortest time above zero that an option takes.
const MIN_TIME: Duration = Duration::from_millis(1);

/// A value in a file, with its context.
pub(crate) struct Given<'a> {
    pub name: &'a str,
    pub node: &'a Node,
    /// The transports of this program; none when it does not know them.
    pub schemes: &'a [&'a str],
    /// Takes what the operator is warned of.
    pub warnings: &'a RefCell<Vec<YamlError>>,
    /// Whether the error that is returned has nothing of the value, and is shown also where the value is a secret.
    pub hides_the_value: &'a Cell<bool>,
}

impl<'a> Given<'a> {
    /// Returns an entry of the value, by the name that errors have of it.
    pub fn entry<'b>(&self, name: &'b str, node: &'b Node) -> Given<'b>
    where
        'a: 'b,
    {
        Given {
            name,
            node,
            ..*self
        }
    }

    /// Returns an error about the whole value.
    pub fn wrong(&self, takes: &str) -> YamlError {
        self.wrong_at(self.node, takes)
    }

    fn wrong_at(&self, node: &Node, takes: &str) -> YamlError {
        let shown = describe(node);
        self.error(node, format!("takes {takes}, not {shown}"))
    }

    /// Returns an error about the whole value, with its own words after the option's name.
    pub fn refuse(&self, message: impl std::fmt::Display) -> YamlError {
        self.error(self.node, message)
    }

    /// Returns an error about a part of the value.
    pub fn refuse_at(&self, node: &Node, message: impl std::fmt::Display) -> YamlError {
        self.error(node, message)
    }

    /// Returns an error about a part of the value that has nothing of a secret: it is shown as it is.
    pub fn refuse_openly(&self, position: Position, message: impl std::fmt::Display) -> YamlError {
        self.hides_the_value.set(true);
        position.error(format!("option {:?} {message}", self.name))
    }

    /// Warns of the whole value.
    pub fn warn(&self, message: impl std::fmt::Display) {
        self.warnings.borrow_mut().push(self.refuse(message));
    }

    fn error(&self, node: &Node, message: impl std::fmt::Display) -> YamlError {
        node.position
            .error(format!("option {:?} {message}", self.name))
    }

    fn scalar(&self) -> Option<&'a Value> {
        match &self.node.content {
            Content::Scalar(value) => Some(value),
            _ => None,
        }
    }

    fn is_unset(&self) -> bool {
        match self.scalar() {
            Some(Value::Null) => true,
            Some(Value::Text(text)) => text.is_empty(),
            _ => false,
        }
    }

    /// Returns none for no or empty text, otherwise the result of `read`.
    pub fn optional<T>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, YamlError>,
    ) -> Result<Option<T>, YamlError> {
        if self.is_unset() {
            return Ok(None);
        }
        read(self).map(Some)
    }

    fn text_at(&self, node: &'a Node, what: &str) -> Result<&'a str, YamlError> {
        match &node.content {
            Content::Scalar(Value::Text(text)) if !text.trim().is_empty() => Ok(text),
            Content::Scalar(Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_)) => {
                let takes = format!("{what} (in quotes when it looks like something else)");
                Err(self.wrong_at(node, &takes))
            }
            _ => Err(self.wrong_at(node, what)),
        }
    }

    /// Returns text that is not empty.
    pub fn text(&self, what: &str) -> Result<&'a str, YamlError> {
        self.text_at(self.node, what)
    }

    /// Returns one text or a list of them, each `check`ed. At least one.
    pub fn texts<T>(
        &self,
        what: &str,
        check: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, YamlError> {
        let nodes = match &self.node.content {
            Content::List(nodes) if !nodes.is_empty() => nodes.as_slice(),
            Content::List(_) => return Err(self.wrong(what)),
            _ => std::slice::from_ref(self.node),
        };
        let read = |node| {
            let text = self.text_at(node, what)?;
            check(text).map_err(|why| self.error(node, why))
        };
        nodes.iter().map(read).collect()
    }

    /// Returns the result of `check` for a text.
    pub fn checked<T>(
        &self,
        what: &str,
        check: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, YamlError> {
        check(self.text(what)?).map_err(|why| self.error(self.node, why))
    }

    /// Returns a truth value.
    pub fn flag(&self) -> Result<bool, YamlError> {
        match self.scalar() {
            Some(Value::Bool(value)) => Ok(*value),
            _ => Err(self.wrong("True or False")),
        }
    }

    /// Returns the number, also when it stands in quotes, as templates often write it.
    fn number(&self) -> Option<Value> {
        match self.scalar()? {
            Value::Text(text) => Some(yaml::resolve(text)),
            other => Some(other.clone()),
        }
    }

    /// Returns a whole number.
    pub fn whole<T>(&self, range: RangeInclusive<i64>, what: &str) -> Result<T, YamlError>
    where
        T: TryFrom<i64>,
    {
        let number = self.number().and_then(|value| value.as_i64());
        number
            .filter(|number| range.contains(number))
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| self.wrong(what))
    }

    /// Returns a number of bytes, which may have a unit, such as `10G`.
    pub fn bytes<T>(&self, range: RangeInclusive<i64>, what: &str) -> Result<T, YamlError>
    where
        T: TryFrom<i64>,
    {
        match self.number() {
            Some(Value::Text(text)) => byte_size::parse(&text)
                .filter(|size| range.contains(size))
                .and_then(|size| T::try_from(size).ok())
                .ok_or_else(|| self.wrong(&format!("{what} (64K, 10M and 10G are sizes too)"))),
            _ => self.whole(range, what),
        }
    }

    /// Returns a port; 0 asks the system for a free one.
    pub fn port(&self) -> Result<u16, YamlError> {
        self.whole(0..=65_535, "a port from 0 (any free one) to 65535")
    }

    /// Returns seconds above zero, or from zero on.
    pub fn seconds(&self, zero: bool) -> Result<Duration, YamlError> {
        self.time((1.0, "seconds"), zero, MIN_TIME)
    }

    /// Returns seconds, at least `shortest`.
    pub fn seconds_at_least(&self, shortest: Duration) -> Result<Duration, YamlError> {
        self.time((1.0, "seconds"), false, shortest)
    }

    /// Returns a time in milliseconds, at least 1.
    pub fn milliseconds(&self) -> Result<Duration, YamlError> {
        self.time((1e-3, "milliseconds"), false, MIN_TIME)
    }

    /// Reads a time in a unit of so many seconds.
    fn time(
        &self,
        (seconds, unit): (f64, &str),
        zero: bool,
        shortest: Duration,
    ) -> Result<Duration, YamlError> {
        let number = match self.number() {
            Some(Value::Int(n)) => Some(n as f64),
            Some(Value::UInt(n)) => Some(n as f64),
            Some(Value::Float(n)) => Some(n),
            _ => None,
        };
        let time = match self.number() {
            // With a unit, or it would be a number.
            Some(Value::Text(text)) => time_span::parse(&text),
            _ => number.and_then(|number| Duration::try_from_secs_f64(number * seconds).ok()),
        };
        time.filter(|time| (*time <= LONGEST && *time >= shortest) || (zero && time.is_zero()))
            .ok_or_else(|| {
                let shortest = shortest.as_secs_f64() / seconds;
                let zero = if zero { "0, or " } else { "" };
                self.wrong(&format!(
                    "a number of {unit}, or a time such as 90s, 15m or 1d: {zero}from {shortest} to fifty years"
                ))
            })
    }

    /// Returns a path on this machine.
    pub fn path(&self) -> Result<PathBuf, YamlError> {
        self.checked("a path", |text| {
            if text.contains("://") {
                Err(format!("takes a path, not a URL such as {text:?}"))
            } else if text.contains('\0') {
                Err("takes a path, and this holds a NUL".to_owned())
            } else {
                Ok(PathBuf::from(text))
            }
        })
    }

    /// Returns the name of a known transport.
    pub fn scheme(&self, text: &str) -> Result<String, String> {
        if self.schemes.is_empty() || self.schemes.contains(&text) {
            return Ok(text.to_owned());
        }
        let known = self.schemes.join(", ");
        let hint = nearest(text, self.schemes.iter().copied())
            .map(|near| format!("did you mean {near:?}? "))
            .unwrap_or_default();
        Err(format!(
            "names no transport: {text:?}; {hint}known are: {known}"
        ))
    }
}

/// Describes a value for an error: its type, and at most its beginning.
fn describe(node: &Node) -> String {
    match &node.content {
        Content::List(nodes) if nodes.is_empty() => "an empty list".to_owned(),
        Content::List(_) => "a list".to_owned(),
        Content::Map(_) => "a mapping".to_owned(),
        Content::Scalar(value) => match value {
            Value::Null => "nothing".to_owned(),
            Value::Text(text) if text.is_empty() => "an empty text".to_owned(),
            Value::Text(text) if text.chars().count() > 40 => {
                let beginning: String = text.chars().take(40).collect();
                format!("the text {beginning:?}…")
            }
            Value::Text(text) => format!("the text {text:?}"),
            other => yaml::as_key(other.clone()),
        },
    }
}
