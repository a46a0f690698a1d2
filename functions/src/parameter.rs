//! The parameters of a function.

use std::borrow::Cow;

use saline_data::Value;

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name, as in `name=value`.
    pub name: Cow<'static, str>,
    /// The values that it takes, such as `a whole number`.
    pub takes: Cow<'static, str>,
    /// Whether its value is shown to nobody.
    pub secret: bool,
    /// Whether it must be given, and its default.
    pub kind: ParameterKind,
}

/// Whether a parameter must be given.
#[derive(Debug, Clone, PartialEq)]
pub enum ParameterKind {
    /// It must be given.
    Required,
    /// It may be left out, and has this value then.
    Optional(Literal),
    /// It takes the positional arguments beyond the other parameters.
    Args,
    /// It takes the `name=value` arguments whose names are those of no other parameter.
    Kwargs,
}

/// The default of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// Salt's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(Cow<'static, str>),
}

impl Literal {
    /// Returns the value.
    pub fn to_value(&self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Bool(yes) => Value::Bool(*yes),
            Self::Int(number) => Value::Int(*number),
            Self::Float(number) => Value::Float(*number),
            Self::Text(text) => Value::from(&**text),
        }
    }
}
