//! `config`: the configuration of the minion, with its secrets hidden.

use std::sync::Arc;

use saline_data::{Value, masked};
use saline_functions::{Failure, FromValue, Mismatch, function};
use saline_targeting::Glob;

use super::nested::{lookup, merged};
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&GET, &ITEMS, &OPTION];

/// The entry of a pillar that has what the master shows of its configuration.
const MASTER: &str = "master";

/// How the values of several sources become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merge {
    /// Mappings are merged at every depth.
    Recurse,
    /// Mappings are merged at the first depth alone.
    Overwrite,
}

impl FromValue for Merge {
    const TAKES: &'static str = "recurse or overwrite";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value.as_str() {
            Some("recurse") => Ok(Self::Recurse),
            Some("overwrite") => Ok(Self::Overwrite),
            _ => Err(Mismatch::of::<Self>(&value)),
        }
    }
}

/// A place where values are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Options,
    Grains,
    Pillar,
    Master,
}

impl Source {
    /// All of them, the one that counts most first.
    const ALL: [Self; 4] = [Self::Options, Self::Grains, Self::Pillar, Self::Master];

    /// Returns the values of the source; none where there are none. Those of the pillar are hidden unless `unmask`.
    fn values(self, job: &JobContext<'_>, unmask: bool) -> Result<Option<Arc<Value>>, Failure> {
        let shown = |value: Value| match unmask {
            true => Arc::new(value),
            false => Arc::new(masked(value)),
        };
        Ok(match self {
            Self::Options => Some(job.host.options()),
            Self::Grains => Some(job.host.grains.all()),
            // No master takes part in this call.
            Self::Pillar | Self::Master if job.host.master_pillar.get().is_none() => None,
            Self::Pillar => Some(shown(
                job.host.held_pillar(job.job)?.entries.as_ref().clone(),
            )),
            Self::Master => {
                let pillar = job.host.held_pillar(job.job)?;
                pillar.entries.get(MASTER).cloned().map(shown)
            }
        })
    }
}

/// Returns an option of the minion, with its default if the files do not set it; otherwise the grain of this name; otherwise the value
/// of this name in the pillar that the minion holds, or below `master` there; otherwise `default`. Secrets are hidden, and the
/// values of the pillar are `**********`.
///
/// key
///     The name; `delimiter` leads into what is nested.
///
/// merge
///     `recurse` or `overwrite` merges the mappings that these places have, at every depth or at the first alone.
///
/// omit_opts, omit_grains, omit_pillar, omit_master
///     `True` leaves out the options, the grains, the pillar, or what is below `master` there.
///
/// unmask
///     `True` shows the values of the pillar, which then stand in the job store and in the event of the return.
///
/// CLI Example:
///
///     saline '*' config.get master_port
///     saline '*' config.get grains:role
#[function(in_minion)]
#[allow(
    clippy::too_many_arguments,
    clippy::fn_params_excessive_bools,
    reason = "Salt's parameters"
)]
fn get(
    job: &JobContext<'_>,
    key: String,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
    merge: Option<Merge>,
    #[default(false)] omit_opts: bool,
    #[default(false)] omit_pillar: bool,
    #[default(false)] omit_master: bool,
    #[default(false)] omit_grains: bool,
    #[default(false)] unmask: bool,
) -> Result<Value, Failure> {
    let omitted = [omit_opts, omit_grains, omit_pillar, omit_master];
    let mut found: Vec<Value> = Vec::new();
    for source in wanted(omitted) {
        let values = source.values(job, unmask)?;
        let value = values.and_then(|values| lookup(&values, &key, &delimiter));
        match (value, merge) {
            (Some(value), None) => return Ok(value),
            (Some(value), Some(_)) => found.push(value),
            (None, _) => {}
        }
    }
    let Some(merge) = merge else {
        return Ok(default);
    };
    // The source that counts most comes last.
    let mut merging = found
        .into_iter()
        .rev()
        .filter(|value| matches!(value, Value::Map(_)));
    let first = merging.next();
    let first = first.map(|first| match &default {
        Value::Map(_) => merged_as(merge, default.clone(), first),
        _ => first,
    });
    let all = first.map(|first| merging.fold(first, |base, over| merged_as(merge, base, over)));
    Ok(all.unwrap_or(default))
}

/// Returns the sources that are not omitted.
fn wanted(omitted: [bool; 4]) -> impl Iterator<Item = Source> {
    let sources = Source::ALL.into_iter().zip(omitted);
    sources
        .filter(|(_, omitted)| !omitted)
        .map(|(source, _)| source)
}

/// Merges mappings.
fn merged_as(merge: Merge, base: Value, over: Value) -> Value {
    match (merge, base, over) {
        (Merge::Overwrite, Value::Map(mut base), Value::Map(over)) => {
            base.retain(|(name, _)| over.iter().all(|(known, _)| known != name));
            Value::Map([base, over].concat())
        }
        (_, base, over) => merged(base, over, false),
    }
}

/// Returns an option of the minion, as `config.get` does; with `wildcard=True` all options whose names match, as a mapping.
///
/// value
///     The name of the option; with `wildcard=True` a glob.
///
/// CLI Example:
///
///     saline '*' config.option log_level
///     saline '*' config.option 'recon_*' wildcard=True
#[function(in_minion)]
#[allow(
    clippy::too_many_arguments,
    clippy::fn_params_excessive_bools,
    reason = "Salt's parameters"
)]
fn option(
    job: &JobContext<'_>,
    value: String,
    #[default("")] default: Value,
    #[default(false)] omit_opts: bool,
    #[default(false)] omit_grains: bool,
    #[default(false)] omit_pillar: bool,
    #[default(false)] omit_master: bool,
    #[default(false)] omit_all: bool,
    #[default(false)] wildcard: bool,
    #[default(false)] unmask: bool,
) -> Result<Value, Failure> {
    let omitted = [omit_opts, omit_grains, omit_pillar, omit_master];
    let sources = wanted(omitted.map(|omitted| omitted || omit_all));
    if !wildcard {
        for source in sources {
            let values = source.values(job, unmask)?;
            if let Some(found) = values.and_then(|values| values.get(&value).cloned()) {
                return Ok(found);
            }
        }
        return Ok(default);
    }
    let glob =
        Glob::compile(&value).map_err(|error| Failure::Invocation(format!("value: {error}")))?;
    let mut all: Vec<(String, Value)> = Vec::new();
    for source in sources {
        let values = source.values(job, unmask)?;
        let Some(Value::Map(entries)) = values.as_deref() else {
            continue;
        };
        for (name, value) in entries {
            if glob.matches(name) && all.iter().all(|(known, _)| known != name) {
                all.push((name.clone(), value.clone()));
            }
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Value::Map(all))
}

/// Returns all options of the minion, with their defaults where the files do not set them. Secrets are hidden.
///
/// CLI Example:
///
///     saline '*' config.items
#[function(in_minion)]
fn items(job: &JobContext<'_>) -> Value {
    job.host.options().as_ref().clone()
}
