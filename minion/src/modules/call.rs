//! One call of a function: its arguments, bound to its parameters, and its environment.

use std::time::Duration;

use saline_data::Value;
use saline_messages::Arguments;

use super::{Failure, Function, Modules};
use crate::executor::{JobControl, Woken};
use crate::host::Host;

/// One call of a function.
#[derive(Debug)]
pub struct Call<'a> {
    function: &'a Function,
    bound: Vec<Option<Value>>,
    /// Positional arguments beyond the parameters.
    pub more: Vec<Value>,
    /// Named arguments that are no parameters.
    pub named: Vec<(String, Value)>,
    /// The minion that the function runs on.
    pub host: &'a Host,
    /// The job that the function runs for.
    pub job: &'a JobControl,
    /// All functions of the minion.
    pub modules: &'a Modules,
}

impl<'a> Call<'a> {
    /// Binds `arguments` to the function's parameters, with Python's rules and error texts.
    ///
    /// # Errors
    /// When they do not fit.
    pub fn bind(
        function: &'a Function,
        arguments: Arguments,
        host: &'a Host,
        job: &'a JobControl,
        modules: &'a Modules,
    ) -> Result<Self, Failure> {
        let parameters = function.parameters;
        let mut bound: Vec<Option<Value>> = vec![None; parameters.len()];
        let given = arguments.positional.len();
        if given > parameters.len() && !function.more_positional {
            return Err(Failure::Arguments(too_many(function, given)));
        }
        let mut positional = arguments.positional.into_iter();
        for (place, value) in bound.iter_mut().zip(&mut positional) {
            *place = Some(value);
        }
        let more = positional.collect();
        let mut named = Vec::new();
        for (name, value) in arguments.named {
            match parameters.iter().position(|p| p.name == name) {
                Some(index) if bound[index].is_some() => {
                    return Err(Failure::Arguments(format!(
                        "{}() got multiple values for argument '{name}'",
                        function.name
                    )));
                }
                Some(index) => bound[index] = Some(value),
                None => named.push((name, value)),
            }
        }
        if !named.is_empty() && !function.more_named {
            let names: Vec<String> = named
                .iter()
                .map(|(name, value)| format!("{name}={}", shown(value)))
                .collect();
            return Err(Failure::Invocation(format!(
                "The following keyword arguments are not valid: {}{}",
                names.join(", "),
                taken_for_named(function, &bound, &named)
            )));
        }
        let missing: Vec<&str> = parameters
            .iter()
            .zip(&bound)
            .filter(|(parameter, value)| parameter.required && value.is_none())
            .map(|(parameter, _)| parameter.name)
            .collect();
        if !missing.is_empty() {
            return Err(Failure::Arguments(missing_text(function.name, &missing)));
        }
        Ok(Self {
            function,
            bound,
            more,
            named,
            host,
            job,
            modules,
        })
    }

    /// Waits for `duration`.
    ///
    /// # Errors
    /// When the minion stops or the job is ended before.
    pub fn wait(&self, duration: Duration) -> Result<(), Failure> {
        match self.job.wait(&self.host.stop, duration) {
            Ok(Woken::TimePassed) => Ok(()),
            Ok(Woken::Stopped) => Err(Failure::Interrupted),
            Ok(Woken::Ended(ending)) => Err(Failure::Ended(ending)),
            Err(error) => Err(Failure::Execution(format!(
                "cannot create an eventfd: {error}"
            ))),
        }
    }

    /// Returns the value of a parameter; none when it was left out or is `None`.
    pub fn value(&self, name: &str) -> Option<&Value> {
        let index = self
            .function
            .parameters
            .iter()
            .position(|p| p.name == name)?;
        self.bound[index]
            .as_ref()
            .filter(|value| **value != Value::Null)
    }

    /// Returns a parameter as text; numbers and truth values are written out.
    ///
    /// # Errors
    /// When the value is a list, a mapping or bytes.
    pub fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        self.value(name)
            .map(|value| scalar_text(value).ok_or_else(|| self.wrong(name, "a text", value)))
            .transpose()
    }

    /// Returns a parameter as a truth value.
    ///
    /// # Errors
    /// When the value has another type.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Failure> {
        self.value(name)
            .map(|value| {
                value
                    .as_bool()
                    .ok_or_else(|| self.wrong(name, "True or False", value))
            })
            .transpose()
    }

    /// Returns a parameter as a whole number.
    ///
    /// # Errors
    /// When the value has another type.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Failure> {
        self.value(name)
            .map(|value| {
                value
                    .as_i64()
                    .ok_or_else(|| self.wrong(name, "a whole number", value))
            })
            .transpose()
    }

    /// Returns a parameter as a time in seconds.
    ///
    /// # Errors
    /// When the value is not a number, is negative, or is too large for a duration.
    pub fn seconds(&self, name: &str) -> Result<Option<Duration>, Failure> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        #[allow(clippy::cast_precision_loss)]
        let seconds = match value {
            Value::Int(n) => Some(*n as f64),
            Value::Float(n) => Some(*n),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        seconds
            .and_then(|n| Duration::try_from_secs_f64(n).ok())
            .map(Some)
            .ok_or_else(|| self.wrong(name, "a number of seconds", value))
    }

    /// Returns the further positional arguments as text.
    ///
    /// # Errors
    /// When one of them is a list, a mapping or bytes.
    pub fn more_texts(&self) -> Result<Vec<String>, Failure> {
        self.more
            .iter()
            .map(|value| scalar_text(value).ok_or_else(|| self.wrong("argument", "a text", value)))
            .collect()
    }

    fn wrong(&self, name: &str, expected: &str, value: &Value) -> Failure {
        Failure::Arguments(format!(
            "{}() expects {expected} as '{name}', not {}",
            self.function.name,
            shown(value)
        ))
    }
}

/// Returns a hint when a command such as `FOO=bar make`, quoted or not, was taken for a named argument; empty otherwise.
fn taken_for_named(
    function: &Function,
    bound: &[Option<Value>],
    named: &[(String, Value)],
) -> String {
    match (function.parameters.first(), bound.first(), named.first()) {
        (Some(first), Some(None), Some((name, Value::Text(text)))) if first.required => {
            let first = first.name;
            let text: String = text.chars().take(60).collect();
            format!(". If this is the '{first}' itself, write {first}='{name}={text}'")
        }
        (Some(first), Some(Some(Value::Text(_))), Some((_, Value::Text(_)))) if first.required => {
            let first = first.name;
            format!(
                ". If this is a part of the '{first}', put the whole into quotes: {first}='...'"
            )
        }
        _ => String::new(),
    }
}

/// A value that is not nested, as text. A bare `true` on a command line is the command of that
/// name, so truth values are written in lower case.
pub fn scalar_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Text(text) => text.clone(),
        Value::Int(n) => n.to_string(),
        Value::UInt(n) => n.to_string(),
        Value::Float(n) => n.to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Null | Value::Bytes(_) | Value::List(_) | Value::Map(_) => return None,
    })
}

/// A value inside an error, shortened.
fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a mapping".to_owned(),
        Value::Bytes(_) => "bytes".to_owned(),
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        number => scalar_text(number).unwrap_or_default(),
    }
}

fn too_many(function: &Function, given: usize) -> String {
    let most = function.parameters.len();
    let least = function.parameters.iter().filter(|p| p.required).count();
    let range = if least == most {
        most.to_string()
    } else {
        format!("from {least} to {most}")
    };
    let plural = if least == 1 && most == 1 { "" } else { "s" };
    let were = if given == 1 { "was" } else { "were" };
    format!(
        "{}() takes {range} positional argument{plural} but {given} {were} given",
        function.name
    )
}

fn missing_text(function: &str, missing: &[&str]) -> String {
    let quoted: Vec<String> = missing.iter().map(|name| format!("'{name}'")).collect();
    let names = match quoted.as_slice() {
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [front @ .., last] => format!("{}, and {last}", front.join(", ")),
        [] => String::new(),
    };
    let plural = if missing.len() == 1 { "" } else { "s" };
    format!(
        "{function}() missing {} required positional argument{plural}: {names}",
        missing.len()
    )
}
