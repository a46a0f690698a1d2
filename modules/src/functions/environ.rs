//! `environ`: the environment of the minion. Commands get their own, see `cmd.run`: that of the minion is only read here.

use saline_data::Value;
use saline_functions::{Failure, function};

use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&GET, &ITEM, &ITEMS, &HAS_VALUE];

/// Returns a variable of the minion's environment, or `default` if it is not set.
///
/// CLI Example:
///
///     saline '*' environ.get LANG
#[function]
fn get(_: &JobContext<'_>, key: String, #[default("")] default: String) -> String {
    variable(&key).unwrap_or(default)
}

/// Returns some variables of the minion's environment, each with `default` if it is not set.
///
/// keys
///     A name, or a list of names.
///
/// CLI Example:
///
///     saline '*' environ.item '[LANG, PATH]'
#[function]
fn item(_: &JobContext<'_>, keys: Value, #[default("")] default: String) -> Result<Value, Failure> {
    let keys = match keys {
        Value::List(keys) => keys,
        one => vec![one],
    };
    let found = keys.iter().map(|key| {
        let name = key.as_str().ok_or_else(|| {
            Failure::Invocation("keys: it must be a name or a list of names".to_owned())
        })?;
        let value = variable(name).unwrap_or_else(|| default.clone());
        Ok((name.to_owned(), Value::from(value)))
    });
    found.collect::<Result<_, Failure>>().map(Value::Map)
}

/// Returns the minion's environment.
///
/// CLI Example:
///
///     saline '*' environ.items
#[function]
fn items(_: &JobContext<'_>) -> Value {
    all()
}

/// Returns the minion's environment, by name.
pub(super) fn all() -> Value {
    let mut all: Vec<(String, Value)> = std::env::vars_os()
        .map(|(name, value)| {
            let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
            (text(name), Value::from(text(value)))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Map(all)
}

/// Returns whether a variable of the minion's environment is set; with `value`, whether it has this value.
///
/// CLI Example:
///
///     saline '*' environ.has_value LANG C.UTF-8
#[function]
fn has_value(_: &JobContext<'_>, key: String, value: Option<String>) -> bool {
    match (variable(&key), value) {
        (Some(found), Some(value)) => found == value,
        (found, _) => found.is_some(),
    }
}

/// Returns a variable; a name that no variable can have is not set.
fn variable(name: &str) -> Option<String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return None;
    }
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}
