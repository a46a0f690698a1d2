//! The calls of a job. Most jobs have one; a job of several functions (Salt's compound execution) names them with commas
//! between them, and its positional arguments are one list for each, in the form of [`Arguments::to_salt`].

use saline_data::{Packed, Value};

use crate::{Arguments, PackedArguments};

/// What stands between the names of the functions of a job.
const SEPARATOR: char = ',';

/// The reason why a job is not one of several functions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallsError {
    /// The name of a function is empty.
    #[error("a name is missing in the list of functions {0:?}")]
    NoName(String),
    /// There are not as many lists of arguments as functions.
    #[error(
        "{functions} functions have {lists} lists of arguments: there is one for each, also for a function without arguments, and only `saline` and the HTTP \
         API take several functions"
    )]
    Lists {
        /// How many functions there are.
        functions: usize,
        /// How many lists there are.
        lists: usize,
    },
    /// The arguments cannot be read.
    #[error("malformed arguments")]
    Malformed,
}

/// Whether a job runs several functions.
pub fn is_compound(fun: &str) -> bool {
    fun.contains(SEPARATOR)
}

/// Returns the calls of a job in their order.
///
/// # Errors
/// When a job of several functions does not have a list of arguments for each.
pub fn calls(fun: &str, arguments: Arguments) -> Result<Vec<(String, Arguments)>, CallsError> {
    if !is_compound(fun) {
        return Ok(vec![(fun.to_owned(), arguments)]);
    }
    let names: Vec<&str> = fun.split(SEPARATOR).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(CallsError::NoName(fun.to_owned()));
    }
    if !arguments.named.is_empty() {
        return Err(CallsError::Malformed);
    }
    if names.len() != arguments.positional.len() {
        return Err(CallsError::Lists {
            functions: names.len(),
            lists: arguments.positional.len(),
        });
    }
    let calls = names.into_iter().zip(arguments.positional);
    calls
        .map(|(name, list)| {
            let own = PackedArguments::from_packed(Packed::pack(&list));
            let own = own.unpack().map_err(|_| CallsError::Malformed)?;
            Ok((name.to_owned(), own))
        })
        .collect()
}

/// Returns the function and the arguments of a job that runs these calls in their order.
pub fn compound(calls: &[(String, Arguments)]) -> (String, Arguments) {
    let names: Vec<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
    let lists = calls.iter().map(|(_, arguments)| arguments.to_salt());
    let arguments = Arguments {
        positional: lists.collect(),
        named: Vec::new(),
    };
    (names.join(","), arguments)
}

/// Returns the names of the functions of a job as events show them: the name of one, a list of several.
pub fn shown_functions(fun: &str) -> Value {
    match is_compound(fun) {
        true => Value::texts(fun.split(SEPARATOR)),
        false => Value::from(fun),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(positional: &[Value], named: &[(&str, Value)]) -> Arguments {
        let named = named
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        Arguments {
            positional: positional.to_vec(),
            named: named.collect(),
        }
    }

    #[test]
    fn several_calls_travel_as_one_job() {
        let several = vec![
            (
                "cmd.run".to_owned(),
                arguments(&["id".into()], &[("runas", "anna".into())]),
            ),
            ("test.ping".to_owned(), Arguments::default()),
        ];
        let (fun, packed) = compound(&several);
        assert_eq!(fun, "cmd.run,test.ping");
        let packed = packed.pack().unpack().unwrap();
        assert_eq!(calls(&fun, packed), Ok(several));
    }

    #[test]
    fn one_call_is_what_it_was() {
        let own = arguments(&["a,b".into()], &[("x", Value::Null)]);
        assert_eq!(
            calls("test.arg", own.clone()),
            Ok(vec![("test.arg".to_owned(), own)])
        );
    }

    #[test]
    fn a_list_for_each_function_is_needed() {
        let none = Value::List(Vec::new());
        let of = |fun: &str, lists: &[Value]| calls(fun, arguments(lists, &[])).unwrap_err();
        assert_eq!(
            of("a.b,c.d", std::slice::from_ref(&none)).to_string(),
            "2 functions have 1 lists of arguments: there is one for each, also for a function without arguments, and only `saline` and the HTTP \
             API take several functions"
        );
        assert_eq!(
            of("a.b,c.d", &[none.clone(), Value::Null]),
            CallsError::Malformed
        );
        assert_eq!(
            of("a.b,", &[none.clone(), none.clone()]),
            CallsError::NoName("a.b,".into())
        );
        let named = arguments(&[none.clone(), none], &[("x", Value::Null)]);
        assert_eq!(calls("a.b,c.d", named), Err(CallsError::Malformed));
    }
}
