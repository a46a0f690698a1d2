//! The arguments of a run, bound to the parameters of its function.

use saline_data::Value;
use saline_messages::{Arguments, Jid};
use saline_targeting::{Target, TargetKind};

use super::error::RunnerError;
use super::function::Function;

/// The values of a function's parameters.
#[derive(Debug)]
pub(super) struct BoundArguments {
    fun: String,
    values: Vec<(&'static str, Value)>,
    /// The positional arguments beyond the parameters.
    more: Vec<Value>,
}

impl BoundArguments {
    /// Binds arguments to the parameters of the function `fun`.
    ///
    /// # Errors
    /// One line, when they do not fit.
    pub(super) fn bind(
        fun: &str,
        function: &Function,
        arguments: Arguments,
    ) -> Result<Self, String> {
        let parameters = function.parameters;
        let mut values: Vec<(&'static str, Value)> = Vec::new();
        let mut positional = arguments.positional.into_iter();
        for (parameter, value) in parameters.iter().zip(&mut positional) {
            values.push((*parameter, value));
        }
        let more: Vec<Value> = positional.collect();
        if !more.is_empty() && !function.more_positional {
            return Err(match parameters {
                [] => format!("{fun} takes no arguments"),
                _ => format!("{fun} takes at most {}", named(parameters)),
            });
        }
        for (name, value) in arguments.named {
            let Some(parameter) = parameters.iter().find(|parameter| **parameter == name) else {
                return Err(match parameters {
                    [] => format!("{fun} takes no arguments, and none that is called {name}"),
                    _ => format!(
                        "{fun}: no argument is called {name}; there are {}",
                        named(parameters)
                    ),
                });
            };
            if values.iter().any(|(given, _)| given == parameter) {
                return Err(format!("{fun}: {name} is given twice"));
            }
            values.push((*parameter, value));
        }
        values.retain(|(_, value)| *value != Value::Null);
        let is_missing = |name: &&&str| !values.iter().any(|(given, _)| given == *name);
        if let Some(missing) = parameters.iter().take(function.required).find(is_missing) {
            let all: Vec<String> = parameters[..function.required]
                .iter()
                .map(|name| name.to_uppercase())
                .collect();
            return Err(format!(
                "{fun} needs {missing}: saline-run {fun} {}",
                all.join(" ")
            ));
        }
        Ok(Self {
            fun: fun.to_owned(),
            values,
            more,
        })
    }

    /// Returns the value of a parameter; none when it was left out or is `None`.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        let given = self.values.iter().find(|(given, _)| *given == name);
        given.map(|(_, value)| value)
    }

    /// Returns a parameter as text; numbers are written out.
    ///
    /// # Errors
    /// When the value is something else.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, RunnerError> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        match text(value) {
            Some(text) => Ok(Some(text)),
            None => Err(self.wrong(name, "a text")),
        }
    }

    /// Returns a parameter as a truth value; false when it was left out.
    ///
    /// # Errors
    /// When the value is something else.
    pub(super) fn flag(&self, name: &str) -> Result<bool, RunnerError> {
        self.flag_or(name, false)
    }

    /// Returns a parameter as a truth value; `default` when it was left out.
    ///
    /// # Errors
    /// When the value is something else.
    pub(super) fn flag_or(&self, name: &str, default: bool) -> Result<bool, RunnerError> {
        match self.value(name) {
            None => Ok(default),
            Some(Value::Bool(yes)) => Ok(*yes),
            Some(_) => Err(self.wrong(name, "True or False")),
        }
    }

    /// Returns a parameter as a jid.
    ///
    /// # Errors
    /// When the value is none.
    pub(super) fn jid(&self, name: &str) -> Result<Jid, RunnerError> {
        let text = self.text(name)?.unwrap_or_default();
        Jid::parse(&text).map_err(|error| RunnerError::Arguments(error.to_string()))
    }

    /// Returns the target that the parameters `tgt` and `tgt_type` name: all minions when they are left out.
    ///
    /// # Errors
    /// When there is no such kind of target.
    pub(super) fn target(&self) -> Result<Target, RunnerError> {
        let expression = self.text("tgt")?.unwrap_or_else(|| "*".to_owned());
        let name = self.text("tgt_type")?;
        let name = name.as_deref().unwrap_or("glob");
        let kind = TargetKind::from_name(name).ok_or_else(|| {
            let names = TargetKind::ALL.map(TargetKind::name).join(", ");
            RunnerError::Arguments(format!(
                "{}: there is no tgt_type {name:?}; there are {names}",
                self.fun
            ))
        })?;
        Ok(Target { kind, expression })
    }

    /// Returns the positional arguments beyond the parameters, as texts.
    ///
    /// # Errors
    /// When one is something else.
    pub(super) fn more_texts(&self) -> Result<Vec<String>, RunnerError> {
        let texts = self.more.iter().map(text);
        let texts: Option<Vec<String>> = texts.collect();
        texts.ok_or_else(|| self.wrong("an argument", "a text"))
    }

    /// Returns the error of a value that the parameter does not take.
    pub(super) fn wrong(&self, name: &str, takes: &str) -> RunnerError {
        RunnerError::Arguments(format!("{}: {name} must be {takes}", self.fun))
    }
}

fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        _ => return None,
    })
}

fn named(parameters: &[&str]) -> String {
    match parameters {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}
