//! `pillar`: the data that the master has for this minion.

use std::sync::Arc;

use saline_data::{Value, masked};
use saline_functions::{Failure, function};

use super::nested::{joined, lookup, merged};
use crate::pillar::{Environments, Pillar};
use crate::{Functions, JobContext, Outcome};

pub(super) const FUNCTIONS: Functions = &[&GET, &ITEM, &ITEMS, &KEYS, &LS, &OBFUSCATE, &RAW];

/// Returns a value of the pillar that the minion holds, or `default` if it is missing. Values are hidden as `**********`.
///
/// key
///     The name; `delimiter` leads into what is nested: into mappings by name, into lists by number.
///
/// merge
///     `True` merges the value over `default`, if both are mappings or both are lists.
///
/// merge_nested_lists
///     Whether lists within the mappings are merged too; otherwise those of the pillar replace those of `default`.
///
/// pillarenv, saltenv
///     With one of them the master compiles a pillar for this environment, and the value is taken from it.
///
/// unmask
///     `True` shows the value, which then stands in the job store and in the event of the return.
///
/// CLI Example:
///
///     saline '*' pillar.get web:port unmask=True
///     saline '*' pillar.get 'certificates|web:443' delimiter='|'
#[function(in_minion)]
#[allow(clippy::too_many_arguments, reason = "Salt's parameters")]
fn get(
    job: &JobContext<'_>,
    key: String,
    #[default("")] default: Value,
    #[default(false)] merge: bool,
    #[default(false)] merge_nested_lists: bool,
    #[default(":")] delimiter: String,
    pillarenv: Option<String>,
    saltenv: Option<String>,
    #[default(false)] unmask: bool,
) -> Result<Value, Failure> {
    let pillar = of_environments(job, pillarenv, saltenv)?;
    let found = lookup(&Value::Map(pillar.shown()), &key, &delimiter);
    let found = found.map(|value| shown(value, unmask || key == crate::pillar::ERRORS));
    Ok(match (found, default) {
        (Some(found @ Value::Map(_)), default @ Value::Map(_)) if merge => {
            merged(default, found, merge_nested_lists)
        }
        (Some(Value::List(found)), Value::List(default)) if merge => {
            Value::List(joined(default, found))
        }
        (Some(found), _) => found,
        (None, default) => default,
    })
}

/// Returns the named values of the pillar that the minion holds, as a mapping; one that is missing has the value `default`. Values are
/// hidden as `**********`, unless `unmask=True`. `delimiter`, `pillarenv` and `saltenv` are those of `pillar.get`.
///
/// CLI Example:
///
///     saline '*' pillar.item role web:port unmask=True
#[function(in_minion)]
fn item(
    job: &JobContext<'_>,
    #[args] keys: Vec<String>,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
    pillarenv: Option<String>,
    saltenv: Option<String>,
    #[default(false)] unmask: bool,
) -> Result<Value, Failure> {
    let pillar = of_environments(job, pillarenv, saltenv)?;
    Ok(values(&pillar, keys, &default, &delimiter, unmask))
}

/// Has the master compile the pillar of this minion, and returns all of it, with what went wrong under `_errors`; the retcode is 1
/// then. What the minion holds stays as it is. Values are hidden as `**********`.
///
/// keys
///     Returns only these entries, of the pillar that the minion holds, as `pillar.item` does.
///
/// pillarenv, saltenv
///     The environment that the pillar is compiled for.
///
/// unmask
///     `True` shows the values, which then stand in the job store and in the event of the return.
///
/// CLI Example:
///
///     saline '*' pillar.items
///     saline web1 pillar.items unmask=True
#[function(in_minion)]
fn items(
    job: &JobContext<'_>,
    #[args] keys: Vec<String>,
    pillarenv: Option<String>,
    saltenv: Option<String>,
    #[default(false)] unmask: bool,
) -> Result<Outcome, Failure> {
    if !keys.is_empty() {
        let pillar = of_environments(job, pillarenv, saltenv)?;
        let found = values(&pillar, keys, &Value::from(""), ":", unmask);
        return Ok(Outcome::from(found));
    }
    let pillar = compiled(job, pillarenv, saltenv)?;
    Ok(judged(&pillar, all(&pillar, unmask)))
}

/// Returns the names in a mapping of the pillar that the minion holds. `delimiter` leads into what is nested.
///
/// CLI Example:
///
///     saline '*' pillar.keys web:sites
#[function(in_minion)]
fn keys(
    job: &JobContext<'_>,
    key: String,
    #[default(":")] delimiter: String,
) -> Result<Value, Failure> {
    let pillar = job.host.held_pillar(job.job)?;
    match lookup(&pillar.entries, &key, &delimiter) {
        Some(Value::Map(entries)) => Ok(Value::texts(entries.into_iter().map(|(name, _)| name))),
        Some(_) => Err(Failure::Execution(format!(
            "the value of {key} in the pillar is not a mapping"
        ))),
        None => Err(Failure::Execution(format!("the pillar has no key {key}"))),
    }
}

/// Has the master compile the pillar of this minion, and returns the names of its entries. `pillarenv` and `saltenv` are those of
/// `pillar.items`.
///
/// CLI Example:
///
///     saline '*' pillar.ls
#[function(in_minion)]
fn ls(
    job: &JobContext<'_>,
    pillarenv: Option<String>,
    saltenv: Option<String>,
) -> Result<Outcome, Failure> {
    let pillar = compiled(job, pillarenv, saltenv)?;
    let names = pillar.shown().into_iter().map(|(name, _)| name);
    Ok(judged(&pillar, Value::texts(names)))
}

/// Has the master compile the pillar of this minion, and returns it with the type in the place of each value: `<str>`, `<int>`.
/// `pillarenv` and `saltenv` are those of `pillar.items`.
///
/// CLI Example:
///
///     saline '*' pillar.obfuscate
#[function(in_minion)]
fn obfuscate(
    job: &JobContext<'_>,
    pillarenv: Option<String>,
    saltenv: Option<String>,
) -> Result<Outcome, Failure> {
    let pillar = compiled(job, pillarenv, saltenv)?;
    Ok(judged(&pillar, with_types(Value::Map(pillar.shown()))))
}

/// Returns the pillar that the minion holds, or one of its entries; an empty mapping if there is no such entry. Nobody asks the master,
/// unless the minion holds no pillar yet. Values are hidden as `**********`.
///
/// unmask
///     `True` shows the values, which then stand in the job store and in the event of the return.
///
/// CLI Example:
///
///     saline '*' pillar.raw
///     saline '*' pillar.raw key=roles unmask=True
#[function(in_minion)]
fn raw(
    job: &JobContext<'_>,
    key: Option<String>,
    #[default(false)] unmask: bool,
) -> Result<Value, Failure> {
    let pillar = job.host.held_pillar(job.job)?;
    let Some(key) = key.filter(|key| !key.is_empty()) else {
        return Ok(all(&pillar, unmask));
    };
    let found = pillar.shown().into_iter().find(|(name, _)| *name == key);
    let found = found.map(|entry| shown_entry(entry, unmask).1);
    Ok(found.unwrap_or_else(|| Value::Map(Vec::new())))
}

/// Returns the pillar that the minion holds, or one that the master compiles for these environments.
fn of_environments(
    job: &JobContext<'_>,
    pillarenv: Option<String>,
    saltenv: Option<String>,
) -> Result<Arc<Pillar>, Failure> {
    match (&pillarenv, &saltenv) {
        (None, None) => job.host.held_pillar(job.job),
        _ => compiled(job, pillarenv, saltenv),
    }
}

/// Has the master compile a pillar.
fn compiled(
    job: &JobContext<'_>,
    pillarenv: Option<String>,
    saltenv: Option<String>,
) -> Result<Arc<Pillar>, Failure> {
    let environments = Environments { saltenv, pillarenv };
    job.host.compile_pillar(job.job, environments)
}

/// Returns the named values of a pillar.
fn values(
    pillar: &Pillar,
    keys: Vec<String>,
    default: &Value,
    delimiter: &str,
    unmask: bool,
) -> Value {
    let entries = Value::Map(pillar.shown());
    let found = keys
        .into_iter()
        .map(|key| match lookup(&entries, &key, delimiter) {
            Some(value) => shown_entry((key, value), unmask),
            None => (key, default.clone()),
        });
    Value::Map(found.collect())
}

/// Returns all of a pillar.
pub(super) fn all(pillar: &Pillar, unmask: bool) -> Value {
    let entries = pillar.shown().into_iter();
    Value::Map(entries.map(|entry| shown_entry(entry, unmask)).collect())
}

/// Returns an entry as it is shown. What went wrong is no secret.
fn shown_entry((name, value): (String, Value), unmask: bool) -> (String, Value) {
    let unmask = unmask || name == crate::pillar::ERRORS;
    (name, shown(value, unmask))
}

fn shown(value: Value, unmask: bool) -> Value {
    match unmask {
        true => value,
        false => masked(value),
    }
}

/// Returns the outcome of a function that shows a pillar: a failure if the pillar has errors.
fn judged(pillar: &Pillar, value: Value) -> Outcome {
    Outcome::new(value, i64::from(!pillar.errors.is_empty()))
}

/// Puts the names of their types, which are Python's, in the place of single values.
fn with_types(value: Value) -> Value {
    Value::from(match value {
        Value::List(values) => return Value::List(values.into_iter().map(with_types).collect()),
        Value::Map(entries) => {
            let typed = entries
                .into_iter()
                .map(|(name, value)| (name, with_types(value)));
            return Value::Map(typed.collect());
        }
        Value::Null => "<NoneType>",
        Value::Bool(_) => "<bool>",
        Value::Int(_) | Value::UInt(_) => "<int>",
        Value::Float(_) => "<float>",
        Value::Text(_) => "<str>",
        Value::Bytes(_) => "<bytes>",
    })
}
