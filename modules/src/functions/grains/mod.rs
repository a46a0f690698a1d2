//! `grains`: facts about the machine.

mod filter;
mod keep;

use saline_data::Value;
use saline_functions::{FromValue, function};

use super::nested::lookup;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &EQUALS,
    &FETCH,
    &GET,
    &HAS_VALUE,
    &ITEM,
    &ITEMS,
    &LS,
    &filter::FILTER_BY,
    &keep::APPEND,
    &keep::DELKEY,
    &keep::DELVAL,
    &keep::REMOVE,
    &keep::SET,
    &keep::SETVAL,
    &keep::SETVALS,
];

/// The grains that say which machine this is, and what `sanitize` shows in their place.
const SANITIZED: [(&str, &str); 6] = [
    ("domain", "DOMAINNAME"),
    ("fqdn", "MINION.DOMAINNAME"),
    ("host", "MINION"),
    ("id", "MINION"),
    ("localhost", "MINION"),
    ("serialnumber", "SERIALNUMBER"),
];

/// Returns all grains of the minion.
///
/// sanitize
///     `True` hides the names of the machine and its serial number, so that the answer can be shown to others.
///
/// CLI Example:
///
///     saline '*' grains.items
#[function]
fn items(job: &JobContext<'_>, #[default(false)] sanitize: bool) -> Value {
    sanitized(job.host.grains.all().as_ref().clone(), sanitize)
}

/// Returns the named grains as a mapping. `delimiter` leads into nested grains; a grain that is missing has the value
/// `default`. `sanitize` is that of `grains.items`.
///
/// CLI Example:
///
///     saline '*' grains.item os osrelease
///     saline '*' grains.item ip_interfaces:eth0 host default=nobody
#[function]
fn item(
    job: &JobContext<'_>,
    #[args] keys: Vec<String>,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
    #[default(false)] sanitize: bool,
) -> Value {
    let grains = job.host.grains.all();
    let found = keys.into_iter().map(|key| {
        let value = lookup(&grains, &key, &delimiter).unwrap_or_else(|| default.clone());
        (key, value)
    });
    sanitized(Value::Map(found.collect()), sanitize)
}

/// Returns one grain, or `default` if it is missing. `delimiter` leads into nested grains: into mappings by name, into
/// lists by number.
///
/// CLI Example:
///
///     saline '*' grains.get os
///     saline '*' grains.get ip_interfaces:eth0
///     saline '*' grains.get 'roles|0' delimiter='|'
#[function]
fn get(
    job: &JobContext<'_>,
    key: String,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
) -> Value {
    lookup(&job.host.grains.all(), &key, &delimiter).unwrap_or(default)
}

/// Returns one grain, as `grains.get` does.
///
/// CLI Example:
///
///     saline '*' grains.fetch os
#[function]
fn fetch(
    job: &JobContext<'_>,
    key: String,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
) -> Value {
    get(job, key, default, delimiter)
}

/// Returns whether a grain is there and is not empty, zero or `False`. A colon leads into nested grains.
///
/// CLI Example:
///
///     saline '*' grains.has_value roles
#[function]
fn has_value(job: &JobContext<'_>, key: String) -> bool {
    match lookup(&job.host.grains.all(), &key, ":") {
        None | Some(Value::Null | Value::Bool(false) | Value::Int(0)) => false,
        Some(Value::Text(text)) => !text.is_empty(),
        Some(Value::List(values)) => !values.is_empty(),
        Some(Value::Map(entries)) => !entries.is_empty(),
        Some(_) => true,
    }
}

/// Returns whether a grain has this value; a number is compared as it is written.
///
/// CLI Example:
///
///     saline '*' grains.equals osrelease 12
#[function]
fn equals(job: &JobContext<'_>, key: String, value: Value) -> bool {
    let found = lookup(&job.host.grains.all(), &key, ":");
    let found = found.unwrap_or_else(|| Value::from(""));
    found == value || written(&found).is_some_and(|found| Some(found) == written(&value))
}

/// Returns the names of all grains.
///
/// CLI Example:
///
///     saline '*' grains.ls
#[function]
fn ls(job: &JobContext<'_>) -> Value {
    let mut names = match job.host.grains.all().as_ref() {
        Value::Map(entries) => entries.iter().map(|(name, _)| name.clone()).collect(),
        _ => Vec::new(),
    };
    names.sort_unstable();
    Value::texts(names)
}

/// Returns the grains, with those hidden that say which machine this is.
fn sanitized(grains: Value, hides: bool) -> Value {
    match grains {
        Value::Map(mut grains) if hides => {
            for (name, value) in &mut grains {
                if let Some((_, shown)) = SANITIZED.iter().find(|(known, _)| known == name) {
                    *value = Value::from(*shown);
                }
            }
            Value::Map(grains)
        }
        grains => grains,
    }
}

/// Returns a single value as it is written; none of a list or a mapping.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::Bool(true) => Some("True".to_owned()),
        Value::Bool(false) => Some("False".to_owned()),
        value => String::from_value(value.clone()).ok(),
    }
}
