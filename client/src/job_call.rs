//! The function of a job with its arguments, of which those for secret parameters are set apart: every program that gives orders
//! has them set apart here.

use saline_functions::{Parameter, take_secrets};
use saline_messages::{Arguments, compound};

use crate::SecretArguments;

/// Returns the parameters of a function of minions by its full name; none of an unknown function.
pub type ParametersOf = fn(&str) -> &'static [Parameter];

/// The function of a job, or several with commas between them, with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct JobCall {
    /// The function, `module.function`.
    pub fun: String,
    /// The arguments, but for those that are secret.
    pub arg: Arguments,
    /// The arguments of secret parameters.
    pub secrets: SecretArguments,
}

/// A job of several functions has a secret argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fun} has secret arguments, which are for a job of one function: run it by itself")]
pub struct SecretsOfSeveral {
    /// The function that has it.
    pub fun: String,
}

impl JobCall {
    /// Puts the functions of a job together, which are one or several. The arguments of secret parameters are secret without being
    /// asked, of functions that `parameters_of` knows.
    ///
    /// # Errors
    /// When one of several functions has a secret argument.
    pub fn of(
        mut calls: Vec<(String, Arguments)>,
        parameters_of: ParametersOf,
    ) -> Result<Self, SecretsOfSeveral> {
        if let [(fun, arg)] = &mut calls[..] {
            let secrets = take_secrets(parameters_of(fun), arg);
            return Ok(Self {
                fun: std::mem::take(fun),
                arg: std::mem::take(arg),
                secrets: SecretArguments(secrets),
            });
        }
        for (fun, arg) in &mut calls {
            if !take_secrets(parameters_of(fun), arg).is_empty() {
                return Err(SecretsOfSeveral {
                    fun: std::mem::take(fun),
                });
            }
        }
        let (fun, arg) = compound(&calls);
        Ok(Self {
            fun,
            arg,
            secrets: SecretArguments::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use saline_data::Value;
    use saline_functions::ParameterKind;

    use super::*;

    const fn parameter(name: &'static str, secret: bool) -> Parameter {
        Parameter {
            name: Cow::Borrowed(name),
            takes: Cow::Borrowed("a text"),
            secret,
            kind: ParameterKind::Required,
        }
    }

    const PARAMETERS: &[Parameter] = &[parameter("name", false), parameter("password", true)];

    fn call(fun: &str, positional: &[&str]) -> (String, Arguments) {
        let arguments = Arguments {
            positional: positional.iter().map(|text| Value::from(*text)).collect(),
            named: Vec::new(),
        };
        (fun.to_owned(), arguments)
    }

    #[test]
    fn the_arguments_of_secret_parameters_are_set_apart_in_a_job_of_one_function_alone() {
        let parameters_of: ParametersOf = |fun| match fun {
            "user.add" => PARAMETERS,
            _ => &[],
        };
        let of = |calls: &[(String, Arguments)]| JobCall::of(calls.to_vec(), parameters_of);
        let secret = call("user.add", &["ann", "pw"]);
        let one = of(std::slice::from_ref(&secret)).unwrap();
        assert_eq!((one.fun, one.arg), call("user.add", &["ann"]));
        let SecretArguments(apart) = one.secrets;
        assert_eq!(apart.len(), 1);
        assert_eq!(apart[0].1, Value::from("pw"));
        let (plain, known) = (
            call("other.add", &["ann", "pw"]),
            call("user.add", &["ann"]),
        );
        let one = of(std::slice::from_ref(&plain)).unwrap();
        assert_eq!((one.fun, one.arg), plain);
        assert_eq!(
            of(&[plain.clone(), known]).unwrap().fun,
            "other.add,user.add"
        );
        let refused = of(&[plain, secret]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "user.add has secret arguments, which are for a job of one function: run it by itself"
        );
    }
}
