//! `grains`: facts about the machine.

use saline_data::Value;
use saline_functions::function;

use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&ITEMS, &ITEM, &GET, &LS];

/// Returns all grains of the minion.
///
/// CLI Example:
///
///     saline '*' grains.items
#[function]
fn items(job: &JobContext<'_>) -> Value {
    job.host.grains.all().as_ref().clone()
}

/// Returns the named grains as a mapping. `delimiter` leads into nested grains; a grain that is missing has the value
/// `default`.
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
) -> Value {
    let grains = job.host.grains.all();
    let found = keys.into_iter().map(|key| {
        let value = lookup(&grains, &key, &delimiter).unwrap_or_else(|| default.clone());
        (key, value)
    });
    Value::Map(found.collect())
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

/// Looks a path up: mappings by name and lists by number.
fn lookup(value: &Value, key: &str, delimiter: &str) -> Option<Value> {
    let delimiter = match delimiter {
        "" => ":",
        delimiter => delimiter,
    };
    let mut here = value;
    for part in key.split(delimiter) {
        here = match here {
            Value::Map(_) => here.get(part)?,
            Value::List(values) => values.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(here.clone())
}
