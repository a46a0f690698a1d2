//! The types of parameters.

use std::borrow::Cow;
use std::time::Duration;

use saline_data::Value;
use saline_messages::Jid;
use saline_targeting::{Glob, TargetKind};

use crate::shown::shown;

/// A mapping of names to values, in the order in which it was written.
pub type Mapping = Vec<(String, Value)>;

/// A type that a parameter can have.
pub trait FromValue: Sized {
    /// The values that the type takes, such as `a whole number`.
    const TAKES: &'static str;

    /// Whether values of the type are shown to nobody.
    const SECRET: bool = false;

    /// Converts a value. Never panics, whatever an operator passes.
    ///
    /// # Errors
    /// When the type does not take the value.
    fn from_value(value: Value) -> Result<Self, Mismatch>;
}

/// A value that a type does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// What the type takes.
    pub expected: Cow<'static, str>,
    /// The value, shortened.
    pub found: String,
}

impl Mismatch {
    /// Creates the error of a value that is not what was expected.
    pub fn new(expected: impl Into<Cow<'static, str>>, found: &Value) -> Self {
        Self {
            expected: expected.into(),
            found: shown(found),
        }
    }

    /// Creates the error of a secret value that is not what the type `T` takes. What a type says that it expected may
    /// quote the value, so that is left out too.
    pub(crate) fn of_hidden<T: FromValue>() -> Self {
        Self {
            expected: T::TAKES.into(),
            found: "what was given".to_owned(),
        }
    }

    /// Creates the error of a value that is not what the type `T` takes.
    pub fn of<T: FromValue>(found: &Value) -> Self {
        Self::new(T::TAKES, found)
    }
}

impl FromValue for Value {
    const TAKES: &'static str = "any value";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        Ok(value)
    }
}

impl FromValue for String {
    const TAKES: &'static str = "a text";

    /// Numbers are written out. So are truth values, in lower case: a bare `true` on a command line is the command of
    /// that name.
    fn from_value(value: Value) -> Result<Self, Mismatch> {
        Ok(match value {
            Value::Text(text) => text,
            Value::Int(number) => number.to_string(),
            Value::UInt(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Bool(yes) => yes.to_string(),
            other => return Err(Mismatch::of::<Self>(&other)),
        })
    }
}

impl FromValue for bool {
    const TAKES: &'static str = "True or False";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        value.as_bool().ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

impl FromValue for i64 {
    const TAKES: &'static str = "a whole number";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        value.as_i64().ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

impl FromValue for u64 {
    const TAKES: &'static str = "a whole number of at least 0";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::UInt(number) => Ok(number),
            Value::Int(number) if number >= 0 => Ok(number.unsigned_abs()),
            other => Err(Mismatch::of::<Self>(&other)),
        }
    }
}

impl FromValue for f64 {
    const TAKES: &'static str = "a number";

    #[allow(clippy::cast_precision_loss, reason = "a number of an operator")]
    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::Int(number) => Ok(number as f64),
            Value::UInt(number) => Ok(number as f64),
            Value::Float(number) => Ok(number),
            other => Err(Mismatch::of::<Self>(&other)),
        }
    }
}

impl FromValue for Duration {
    const TAKES: &'static str = "a number of seconds";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let seconds = match &value {
            Value::Text(text) => text.trim().parse().ok(),
            number => f64::from_value(number.clone()).ok(),
        };
        seconds
            .and_then(|seconds| Self::try_from_secs_f64(seconds).ok())
            .ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const TAKES: &'static str = T::TAKES;
    const SECRET: bool = T::SECRET;

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    const TAKES: &'static str = "a list";
    const SECRET: bool = T::SECRET;

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let Value::List(values) = value else {
            let expected = format!("a list, each element {}", T::TAKES);
            return Err(Mismatch::new(expected, &value));
        };
        let element = |value| {
            T::from_value(value).map_err(|mismatch| Mismatch {
                expected: format!("a list, each element {}", mismatch.expected).into(),
                found: format!("one with {}", mismatch.found),
            })
        };
        values.into_iter().map(element).collect()
    }
}

impl FromValue for Mapping {
    const TAKES: &'static str = "a mapping such as '{key: value}'";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::Map(entries) => Ok(entries),
            other => Err(Mismatch::of::<Self>(&other)),
        }
    }
}

impl FromValue for Jid {
    const TAKES: &'static str = "a jid of twenty digits";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let text = value.as_str().and_then(|text| Self::parse(text).ok());
        text.ok_or_else(|| Mismatch::of::<Self>(&value))
    }
}

impl FromValue for TargetKind {
    const TAKES: &'static str = "a kind of target";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let kind = value.as_str().and_then(Self::from_name);
        kind.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Mismatch::new(format!("one of {names}"), &value)
        })
    }
}

impl FromValue for Glob {
    const TAKES: &'static str = "a glob";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let text = String::from_value(value).map_err(|mismatch| Mismatch {
            expected: Self::TAKES.into(),
            ..mismatch
        })?;
        Self::compile(&text)
            .map_err(|error| Mismatch::new(format!("a glob ({error})"), &Value::from(text)))
    }
}
