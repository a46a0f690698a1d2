//! What an executable prints for `--describe`.

use std::borrow::Cow;
use std::time::Duration;

use saline_functions::{Function, Literal, Parameter, ParameterKind, RunsIn};
use serde::Deserialize;

use super::Described;
use super::call::run;
use crate::JobContext;

/// The most functions of a module, and the most parameters of a function.
const MAX_NAMES: usize = 256;

/// The longest version of a module, in bytes.
const MAX_VERSION: usize = 64;

/// How long a call may take if the description does not say.
const DEFAULT_TIME: Duration = Duration::from_secs(300);

/// The longest time of a call that a description can ask for: a day.
const LONGEST_TIME: u64 = 24 * 3600;

/// The functions of an executable, as it describes them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    functions: std::collections::BTreeMap<String, DescribedFunction>,
    /// The version of the module, for people.
    #[serde(default)]
    version: Option<String>,
}

/// One function.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedFunction {
    /// The documentation.
    #[serde(default)]
    documentation: String,
    /// The parameters, in the order in which positional arguments fill them.
    #[serde(default)]
    parameters: Vec<DescribedParameter>,
    /// Whether it takes further positional arguments.
    #[serde(default)]
    args: bool,
    /// Whether it takes further named arguments.
    #[serde(default)]
    kwargs: bool,
    /// How many seconds a call may take.
    seconds: Option<u64>,
    /// The user that the executable runs as.
    user: Option<String>,
}

/// One parameter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedParameter {
    name: String,
    /// Its value when it is left out; without one it must be given.
    #[serde(default, deserialize_with = "present")]
    default: Option<serde_json::Value>,
}

/// Reads a member that is present, also when it is `null`.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(deserializer).map(Some)
}

impl Description {
    /// Decodes a description.
    ///
    /// # Errors
    /// When it is malformed. Says in one line what is wrong.
    pub(super) fn decode(json: &[u8]) -> Result<Self, String> {
        let description: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if description.functions.len() > MAX_NAMES {
            return Err(format!("it has more than {MAX_NAMES} functions"));
        }
        let is_too_long = |version: &String| version.len() > MAX_VERSION;
        if description.version.as_ref().is_some_and(is_too_long) {
            return Err(format!("its version has more than {MAX_VERSION} bytes"));
        }
        for (name, function) in &description.functions {
            function.check(name)?;
        }
        Ok(description)
    }

    /// Returns the version of the module, if it has one, and the functions.
    pub(super) fn into_parts(self) -> (Option<String>, Vec<Described>) {
        let functions = self.functions.into_iter();
        let functions = functions.map(|(name, function)| function.described(name));
        (self.version, functions.collect())
    }
}

impl DescribedFunction {
    fn check(&self, function: &str) -> Result<(), String> {
        if !is_name(function) {
            return Err(format!("{function:?} cannot be the name of a function"));
        }
        if self.parameters.len() > MAX_NAMES {
            return Err(format!("{function} has more than {MAX_NAMES} parameters"));
        }
        if self.seconds.is_some_and(|s| s == 0 || s > LONGEST_TIME) {
            return Err(format!(
                "seconds of {function}: a number from 1 to {LONGEST_TIME} is expected"
            ));
        }
        let mut was_optional = None;
        for (at, parameter) in self.parameters.iter().enumerate() {
            let name = &parameter.name;
            if !is_name(name) || (self.args && name == "args") || (self.kwargs && name == "kwargs")
            {
                return Err(format!(
                    "{name:?} cannot be the name of a parameter of {function}"
                ));
            }
            if self.parameters[..at]
                .iter()
                .any(|other| other.name == *name)
            {
                return Err(format!("{function} has two parameters {name}"));
            }
            match (&parameter.default, was_optional) {
                (None, Some(optional)) => {
                    return Err(format!(
                        "{function}: the parameter {name} needs a default, since {optional} before it has one"
                    ));
                }
                (None, None) => {}
                (Some(default), _) => {
                    literal(default).ok_or_else(|| {
                        format!("the default of {name} of {function} is a list or a mapping: use null, and fill it in")
                    })?;
                    was_optional = Some(name);
                }
            }
        }
        Ok(())
    }

    fn described(self, name: String) -> Described {
        let parameter = |name: String, kind| Parameter {
            name: name.into(),
            takes: Cow::Borrowed("any value"),
            secret: false,
            kind,
        };
        let single = self.parameters.into_iter().map(|one| {
            let default = one.default.as_ref().and_then(literal);
            let kind = default.map_or(ParameterKind::Required, ParameterKind::Optional);
            parameter(one.name, kind)
        });
        let mut parameters: Vec<Parameter> = single.collect();
        if self.args {
            parameters.push(parameter("args".to_owned(), ParameterKind::Args));
        }
        if self.kwargs {
            parameters.push(parameter("kwargs".to_owned(), ParameterKind::Kwargs));
        }
        let function: Function<JobContext<'static>> = Function {
            name: name.into(),
            documentation: self.documentation.into(),
            parameters: parameters.into(),
            blocks: true,
            changes: false,
            acts_once: false,
            runs_in: RunsIn::OwnProcess,
            time: None,
            code: run,
        };
        Described {
            function,
            time: self.seconds.map_or(DEFAULT_TIME, Duration::from_secs),
            user: self.user,
        }
    }
}

/// Returns the default of a parameter; none of a list or a mapping.
fn literal(default: &serde_json::Value) -> Option<Literal> {
    use serde_json::Value;
    Some(match default {
        Value::Null => Literal::None,
        Value::Bool(yes) => Literal::Bool(*yes),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Literal::Int(whole),
            None => Literal::Float(number.as_f64()?),
        },
        Value::String(text) => Literal::Text(text.clone().into()),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// Whether a text can be the name of a function or a parameter.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrong(json: &str) -> String {
        Description::decode(json.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_mistake_is_named() {
        let function = |body: &str| wrong(&format!(r#"{{"functions": {{"f": {{{body}}}}}}}"#));
        assert_eq!(
            function(r#""parameters": [{"name": "a", "default": 1}, {"name": "b"}]"#),
            "f: the parameter b needs a default, since a before it has one"
        );
        assert_eq!(
            function(r#""parameters": [{"name": "a"}, {"name": "a"}]"#),
            "f has two parameters a"
        );
        assert_eq!(
            function(r#""parameters": [{"name": "a", "default": []}]"#),
            "the default of a of f is a list or a mapping: use null, and fill it in"
        );
        assert_eq!(
            function(r#""parameters": [{"name": "a-b"}]"#),
            "\"a-b\" cannot be the name of a parameter of f"
        );
        assert_eq!(
            function(r#""seconds": 0"#),
            "seconds of f: a number from 1 to 86400 is expected"
        );
        assert!(function(r#""second": 1"#).starts_with("unknown field `second`, expected one of"));
        assert_eq!(
            wrong(r#"{"functions": {"f.g": {}}}"#),
            "\"f.g\" cannot be the name of a function"
        );
        assert!(wrong("hello").starts_with("expected value at line 1 column 1"));
    }

    #[test]
    fn a_default_of_null_is_a_default() {
        let json = br#"{"functions": {"f": {"parameters": [{"name": "a", "default": null}]}}}"#;
        let functions = Description::decode(json).unwrap().into_parts().1;
        assert_eq!(
            functions[0].function.parameters[0].kind,
            ParameterKind::Optional(Literal::None)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Description::decode(&bytes).map(Description::into_parts);
        }
    }
}
