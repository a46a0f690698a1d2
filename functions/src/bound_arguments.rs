//! The arguments of one call, bound to the parameters of its function.

use saline_data::{Value, nearest};
use saline_messages::{ArgumentPlace, Arguments};

use crate::shown::{shortened, shown};
use crate::{ArgumentError, FromValue, Mapping, Mismatch, Parameter, ParameterKind};

/// The name of every parameter that takes a command line, as in Salt.
const COMMAND: &str = "cmd";

/// The arguments of one call, each with the name of its parameter.
#[derive(Clone, PartialEq)]
pub struct BoundArguments {
    function: String,
    /// The values of the parameters that were given or have a default.
    values: Vec<(String, Value)>,
    /// The parameter of further positional arguments, and these.
    args: (String, Vec<Value>),
    kwargs: Mapping,
    /// The parameters whose values no error shows.
    hidden: Vec<String>,
}

impl BoundArguments {
    /// Binds arguments as Python does. `None` for a parameter that may be left out leaves it out. No error shows the
    /// value of an argument in `hidden`.
    ///
    /// # Errors
    /// When they are too many or too few, or a name is unknown.
    pub fn bind(
        function: &str,
        parameters: &[Parameter],
        arguments: Arguments,
        hidden: &[ArgumentPlace],
    ) -> Result<Self, ArgumentError> {
        let is_single = |parameter: &&Parameter| {
            !matches!(parameter.kind, ParameterKind::Args | ParameterKind::Kwargs)
        };
        let single: Vec<&Parameter> = parameters.iter().filter(is_single).collect();
        // Those behind the further positional arguments are given by name alone.
        let by_place = parameters.iter().take_while(is_single).count();
        let args = parameters.iter().find(|p| p.kind == ParameterKind::Args);
        let has_kwargs = parameters.iter().any(|p| p.kind == ParameterKind::Kwargs);
        let is_required = |parameter: &Parameter| parameter.kind == ParameterKind::Required;
        let function = function.to_owned();
        let given = arguments.positional.len();
        if given > by_place && args.is_none() {
            return Err(ArgumentError::TooMany {
                least: single.iter().filter(|p| is_required(p)).count(),
                most: by_place,
                function,
                given,
            });
        }
        let mut positional = arguments.positional.into_iter();
        let mut values: Vec<Option<Value>> = positional.by_ref().take(by_place).map(Some).collect();
        values.resize(single.len(), None);
        let mut unknown = Mapping::new();
        for (name, value) in arguments.named {
            match single.iter().position(|parameter| parameter.name == name) {
                Some(index) if values[index].is_some() => {
                    return Err(ArgumentError::Twice {
                        function,
                        parameter: name,
                    });
                }
                Some(index) => values[index] = Some(value),
                None => unknown.push((name, value)),
            }
        }
        if !unknown.is_empty() && !has_kwargs {
            let hides = !hidden.is_empty() || single.iter().any(|parameter| parameter.secret);
            return Err(unknown_names(&single, &values, &unknown, hides));
        }
        let missing: Vec<String> = single
            .iter()
            .zip(&values)
            .filter(|(parameter, value)| is_required(parameter) && value.is_none())
            .map(|(parameter, _)| parameter.name.to_string())
            .collect();
        if !missing.is_empty() {
            return Err(ArgumentError::Missing { function, missing });
        }
        let values = single.iter().zip(values).map(|(parameter, value)| {
            let value = match (value, &parameter.kind) {
                (None | Some(Value::Null), ParameterKind::Optional(default)) => default.to_value(),
                (value, _) => value.unwrap_or_default(),
            };
            (parameter.name.to_string(), value)
        });
        let args_name = args.map_or_else(String::new, |parameter| parameter.name.to_string());
        let hidden = hidden.iter().map(|place| match place {
            ArgumentPlace::Named(name) => name.clone(),
            ArgumentPlace::Positional(number) => {
                let filled = single[..by_place].get(*number as usize);
                filled.map_or_else(|| args_name.clone(), |one| one.name.to_string())
            }
        });
        Ok(Self {
            values: values.collect(),
            function,
            hidden: hidden.collect(),
            args: (args_name, positional.collect()),
            kwargs: unknown,
        })
    }

    /// Takes the value of a parameter. A second time it is `None`.
    ///
    /// # Errors
    /// When the type does not take the value.
    pub fn take<T: FromValue>(&mut self, parameter: &str) -> Result<T, ArgumentError> {
        let value = self.values.iter_mut().find(|(name, _)| name == parameter);
        let value = value.map(|(_, value)| std::mem::take(value));
        self.convert(parameter, value.unwrap_or_default())
    }

    /// Takes the positional arguments beyond the parameters.
    ///
    /// # Errors
    /// When the type does not take one of them.
    pub fn take_args<T: FromValue>(&mut self) -> Result<Vec<T>, ArgumentError> {
        let (name, values) = std::mem::take(&mut self.args);
        let values = values.into_iter();
        values.map(|value| self.convert(&name, value)).collect()
    }

    /// Takes the named arguments that are no parameters.
    pub fn take_kwargs(&mut self) -> Mapping {
        std::mem::take(&mut self.kwargs)
    }

    /// Returns all arguments: the positional ones beyond the parameters, and by name those of parameters, with their
    /// defaults, and further ones.
    pub fn into_all(self) -> (Vec<Value>, Mapping) {
        let mut named: Mapping = self.values;
        named.extend(self.kwargs);
        (self.args.1, named)
    }

    fn convert<T: FromValue>(&self, parameter: &str, value: Value) -> Result<T, ArgumentError> {
        T::from_value(value).map_err(|mismatch| ArgumentError::Mismatch {
            function: self.function.clone(),
            parameter: parameter.to_owned(),
            mismatch: match self.hidden.iter().any(|name| name == parameter) {
                true => Mismatch::of_hidden::<T>(),
                false => mismatch,
            },
        })
    }
}

/// Parameters that several functions share: a struct with the attribute [`macro@crate::parameters`].
pub trait Parameters: Sized {
    /// The parameters, one for each field.
    const PARAMETERS: &'static [Parameter];

    /// Takes the values of the fields.
    ///
    /// # Errors
    /// When a field does not take its value.
    fn take(arguments: &mut BoundArguments) -> Result<Self, ArgumentError>;
}

// The values may be secret, so only their number is shown.
impl std::fmt::Debug for BoundArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundArguments")
            .field("function", &self.function)
            .field("values", &self.values.len())
            .finish_non_exhaustive()
    }
}

/// Returns the error of named arguments that are no parameters, without their values if it `hides` them: the name of a
/// secret may be misspelt.
fn unknown_names(
    parameters: &[&Parameter],
    values: &[Option<Value>],
    unknown: &[(String, Value)],
    hides: bool,
) -> ArgumentError {
    let arguments: Vec<String> = unknown
        .iter()
        .map(|(name, value)| match hides {
            true => name.clone(),
            false => format!("{name}={}", shown(value)),
        })
        .collect();
    let hint = meant_names(parameters, unknown)
        .or_else(|| match hides {
            true => None,
            false => taken_for_named(parameters, values, unknown),
        })
        .unwrap_or_else(|| known_names(parameters));
    ArgumentError::Unknown {
        arguments: arguments.join(", "),
        hint,
    }
}

/// Returns a hint that names the parameters whose names are near to those of unknown ones; none if there is no such one.
fn meant_names(parameters: &[&Parameter], unknown: &[(String, Value)]) -> Option<String> {
    let mut near: Vec<String> = unknown
        .iter()
        .filter_map(|(wrong, _)| nearest(wrong, parameters.iter().map(|known| &*known.name)))
        .map(|name| format!("'{name}'"))
        .collect();
    near.dedup();
    (!near.is_empty()).then(|| format!(". Did you mean {}?", near.join(" and ")))
}

/// Returns a hint that lists the parameters.
fn known_names(parameters: &[&Parameter]) -> String {
    let known: Vec<&str> = parameters.iter().map(|known| &*known.name).collect();
    match known.as_slice() {
        [] => ". The function has no parameters".to_owned(),
        [one] => format!(". The parameter is {one}"),
        _ => format!(". The parameters are {}", known.join(", ")),
    }
}

/// Returns a hint when a text such as `FOO=bar make`, quoted or not, was taken for a named argument.
fn taken_for_named(
    parameters: &[&Parameter],
    values: &[Option<Value>],
    unknown: &[(String, Value)],
) -> Option<String> {
    let [(name, Value::Text(text)), ..] = unknown else {
        return None;
    };
    let first = &parameters.first()?.name;
    let is_required = |parameter: &&&Parameter| parameter.kind == ParameterKind::Required;
    match values.first()? {
        // The only one that must be given is missing: the text is probably its value.
        None if parameters.iter().filter(is_required).count() == 1 && unknown.len() == 1 => {
            let text = shortened(text);
            Some(format!(
                ". If this is the '{first}' itself, write {first}='{name}={text}'"
            ))
        }
        Some(Value::Text(_)) if *first == COMMAND => Some(format!(
            ". If this is a part of the '{first}', put the whole into quotes: {first}='...'"
        )),
        _ => None,
    }
}
