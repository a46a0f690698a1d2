//! `config`: the configuration of the minion, with its secrets hidden.

use saline_data::Value;
use saline_functions::{Failure, function};
use saline_targeting::Glob;

use super::grains::lookup;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&GET, &ITEMS, &OPTION];

/// The refusal of `merge`.
const UNMERGED: &str = "merge: there is nothing to merge, since a minion has no pillar";

/// Returns an option of the minion, with its default if the files do not set it; otherwise the grain of this name; otherwise
/// `default`. Secrets are hidden.
///
/// key
///     The name; `delimiter` leads into what is nested.
///
/// omit_opts, omit_grains
///     `True` leaves out the options, or the grains. A minion has no pillar and no options of the master: `omit_pillar` and
///     `omit_master` have nothing to leave out.
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
#[expect(
    unused_variables,
    reason = "there is neither a pillar nor a master's configuration"
)]
fn get(
    job: &JobContext<'_>,
    key: String,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
    merge: Option<String>,
    #[default(false)] omit_opts: bool,
    #[default(false)] omit_pillar: bool,
    #[default(false)] omit_master: bool,
    #[default(false)] omit_grains: bool,
) -> Result<Value, Failure> {
    if merge.is_some() {
        return Err(Failure::Invocation(UNMERGED.to_owned()));
    }
    let of_options = || lookup(&job.host.options(), &key, &delimiter);
    let of_grains = || lookup(&job.host.grains.all(), &key, &delimiter);
    let found = (!omit_opts).then(of_options).flatten();
    let found = found.or_else(|| (!omit_grains).then(of_grains).flatten());
    Ok(found.unwrap_or(default))
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
#[expect(
    unused_variables,
    reason = "there is neither a pillar nor a master's configuration"
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
) -> Result<Value, Failure> {
    let sources = [
        (!omit_opts && !omit_all).then(|| job.host.options()),
        (!omit_grains && !omit_all).then(|| job.host.grains.all()),
    ];
    let sources = sources.into_iter().flatten();
    if !wildcard {
        let mut found = sources.filter_map(|source| source.get(&value).cloned());
        return Ok(found.next().unwrap_or(default));
    }
    let glob =
        Glob::compile(&value).map_err(|error| Failure::Invocation(format!("value: {error}")))?;
    let mut all: Vec<(String, Value)> = Vec::new();
    for source in sources {
        let Value::Map(entries) = source.as_ref() else {
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
