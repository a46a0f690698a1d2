//! A choice by a grain.

use saline_data::Value;
use saline_functions::{Failure, Mapping, function};
use saline_targeting::Glob;

use super::super::nested::lookup;
use super::written;
use crate::JobContext;

/// Returns the entry of a mapping whose name matches a grain; names are globs. Without one, that of the name `default`.
///
/// lookup_dict
///     A mapping of values of the grain to what is returned for them.
///
/// grain
///     The name of the grain. Of a grain that is a list, its first value with an entry counts.
///
/// merge
///     A mapping that is merged over the result.
///
/// default
///     The name of the entry that is taken when none matches.
///
/// base
///     The name of an entry that the result is merged over.
///
/// CLI Example:
///
///     saline '*' grains.filter_by '{Debian: apache2, RedHat: httpd, default: unknown}'
#[function]
pub(super) fn filter_by(
    job: &JobContext<'_>,
    lookup_dict: Mapping,
    #[default("os_family")] grain: String,
    merge: Option<Mapping>,
    #[default("default")] default: String,
    base: Option<String>,
) -> Result<Value, Failure> {
    let found = lookup(&job.host.grains.all(), &grain, ":");
    let values = match found {
        Some(Value::List(values)) => values,
        Some(value) => vec![value],
        None => Vec::new(),
    };
    let entry = |name: &str| {
        let found = lookup_dict.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let matching = values.iter().find_map(|value| {
        let value = written(value)?;
        entry(&value).or_else(|| {
            let is_match =
                |pattern: &str| Glob::compile(pattern).is_ok_and(|glob| glob.matches(&value));
            let found = lookup_dict.iter().find(|(pattern, _)| is_match(pattern));
            found.map(|(_, value)| value.clone())
        })
    });
    let chosen = matching.or_else(|| entry(&default)).unwrap_or(Value::Null);
    let mut result = match base.as_deref().and_then(entry) {
        Some(base) => merged(base, chosen),
        None => chosen,
    };
    if let Some(over) = merge {
        if !matches!(result, Value::Map(_) | Value::Null) {
            let why = "merge: what was chosen is not a mapping, so nothing can be merged over it";
            return Err(Failure::Execution(why.to_owned()));
        }
        result = merged(result, Value::Map(over));
    }
    Ok(result)
}

/// Merges `over` over `base`: mappings entry by entry, anything else replaces what was there.
fn merged(base: Value, over: Value) -> Value {
    match (base, over) {
        (Value::Map(mut base), Value::Map(over)) => {
            for (name, value) in over {
                match base.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, old)) => *old = merged(std::mem::take(old), value),
                    None => base.push((name, value)),
                }
            }
            Value::Map(base)
        }
        (base, Value::Null) => base,
        (_, over) => over,
    }
}
