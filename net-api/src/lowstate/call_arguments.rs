//! The arguments of a call: `arg` and `kwarg`, and for functions of the master also beside them.

use saline_client::data::Value;
use saline_client::messages::Arguments;
use saline_config::{parse_argument, split_named};

use super::Chunk;
use crate::error::ApiError;

/// The largest number of named arguments: each is compared with those before it.
const MAX_NAMED: usize = 1_000;

/// The entries of a chunk for a runner or a wheel that are no arguments of the function.
const OPTIONS: [&str; 12] = [
    "arg",
    "client",
    "eauth",
    "full_return",
    "fun",
    "kwarg",
    "password",
    "print_event",
    "sharedkey",
    "timeout",
    "token",
    "username",
];

/// Returns the arguments of the function. A text `name=value` in `arg` is a named one, whose value is read as YAML. With
/// `beside` also the entries beside `arg` are arguments, but for those that are options of every call.
///
/// # Errors
/// `BadRequest` when they have another form, or a name occurs twice.
pub(crate) fn call_arguments(chunk: &Chunk, beside: bool) -> Result<Arguments, ApiError> {
    let mut arguments = Arguments::default();
    let given = match chunk.get("arg") {
        None => Vec::new(),
        Some(Value::List(given)) => given.clone(),
        Some(one) => vec![one.clone()],
    };
    for argument in given {
        match argument {
            Value::Text(text) => match split_named(&text) {
                Some((name, value)) => name_argument(&mut arguments, name, parse_argument(value))?,
                None => arguments.positional.push(Value::Text(text)),
            },
            // As Salt's own clients send them.
            Value::Map(entries) if is_marked(&entries) => {
                for (name, value) in entries {
                    if name != "__kwarg__" {
                        name_argument(&mut arguments, &name, value)?;
                    }
                }
            }
            other => arguments.positional.push(other),
        }
    }
    match chunk.get("kwarg") {
        None => {}
        Some(Value::Map(entries)) => {
            for (name, value) in entries.iter().filter(|(name, _)| name != "__kwarg__") {
                name_argument(&mut arguments, name, value.clone())?;
            }
        }
        Some(_) => {
            return Err(ApiError::BadRequest("kwarg has to be a mapping".to_owned()));
        }
    }
    if beside {
        let entries = chunk.entries().iter();
        let entries = entries
            .filter(|(name, _)| !OPTIONS.contains(&name.as_str()) && !name.starts_with("__"));
        for (name, value) in entries {
            let name = if name == "expr_form" {
                "tgt_type"
            } else {
                name
            };
            name_argument(&mut arguments, name, value.clone())?;
        }
    }
    Ok(arguments)
}

fn is_marked(entries: &[(String, Value)]) -> bool {
    let mut entries = entries.iter();
    entries.any(|(name, value)| name == "__kwarg__" && *value == Value::Bool(true))
}

fn name_argument(arguments: &mut Arguments, name: &str, value: Value) -> Result<(), ApiError> {
    if arguments.named.iter().any(|(known, _)| known == name) {
        return Err(ApiError::BadRequest(format!(
            "the argument {name:?} is given twice"
        )));
    }
    if arguments.named.len() >= MAX_NAMED {
        return Err(ApiError::BadRequest(
            "a call has at most 1000 named arguments".to_owned(),
        ));
    }
    arguments.named.push((name.to_owned(), value));
    Ok(())
}
