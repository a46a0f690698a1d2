//! `event`: fires events on the bus of the minion, and on that of the master.

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mapping, Mismatch, function};

use super::{environ, pillar};
use crate::event_queue::EventError;
use crate::merged_entries::merge_entries;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&FIRE, &SEND, &FIRE_MASTER];

/// Fires an event on the master's bus. Its tag is `salt/minion/<id>/` followed by `tag`: no minion can fire events of
/// the master or of another minion.
///
/// tag
///     The end of the tag.
///
/// data
///     A mapping. Further `name=value` arguments are added to it, where it has no such name.
///
/// preload
///     Not supported: name everything in `data`.
///
/// with_env
///     `True` adds the environment of the minion as `environ`, a list of names these variables.
///
/// with_grains
///     `True` adds the grains as `grains`, a list of names these grains.
///
/// with_pillar
///     `True` adds the pillar that the minion holds as `pillar`, a list of names these entries. Values are hidden as `**********`.
///
/// with_env_opts
///     `True` adds the names of the environments that the minion uses: `saltenv`, which is `base`, and `pillarenv`, which is `None`.
///
/// show_changed, timeout
///     Accepted for compatibility; do nothing.
///
/// unmask
///     `True` shows the values of `with_pillar`, which then stand in the event for everybody who reads events.
///
/// Returns `True` once the event is queued. It is lost if the minion stops before the master has taken it.
///
/// CLI Example:
///
///     saline '*' event.send backup/done files=1204
///     saline '*' event.send backup/done with_grains='[host, os]'
#[function(in_minion)]
#[expect(unused_variables, reason = "nothing is waited for")]
#[allow(clippy::too_many_arguments, reason = "Salt's parameters")]
fn send(
    job: &JobContext<'_>,
    tag: String,
    data: Option<Mapping>,
    preload: Option<Value>,
    #[default(false)] with_env: Included,
    #[default(false)] with_grains: Included,
    #[default(false)] with_pillar: Included,
    #[default(true)] show_changed: bool,
    #[default(false)] with_env_opts: bool,
    #[default(60)] timeout: i64,
    #[default(false)] unmask: bool,
    #[kwargs] more: Mapping,
) -> Result<bool, Failure> {
    if preload.is_some() {
        let why = "event.send: preload is not supported: name everything in data";
        return Err(Failure::Invocation(why.to_owned()));
    }
    let mut all = Mapping::new();
    let mut put = |name: &str, value| all.push((name.to_owned(), value));
    if with_env != Included::Nothing {
        put("environ", with_env.of(environ::all()));
    }
    if with_grains != Included::Nothing {
        let grains = job.host.grains.all().as_ref().clone();
        put("grains", with_grains.of(grains));
    }
    if with_pillar != Included::Nothing {
        let held = job.host.held_pillar(job.job)?;
        let held = pillar::all(&held, unmask);
        put("pillar", with_pillar.of(held));
    }
    if with_env_opts {
        put("saltenv", Value::from(saline_config::BASE));
        put("pillarenv", Value::Null);
    }
    // As with Salt, `data` counts most.
    merge_entries(&mut all, more);
    merge_entries(&mut all, data.unwrap_or_default());
    to_master(job, &tag, all)
}

/// Which entries of a mapping an event gets.
#[derive(Debug, Clone, PartialEq)]
enum Included {
    Nothing,
    All,
    Named(Vec<String>),
}

impl FromValue for Included {
    const TAKES: &'static str = "True, False or a list of names";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::Null | Value::Bool(false) => Ok(Self::Nothing),
            Value::Bool(true) => Ok(Self::All),
            names @ Value::List(_) => Vec::from_value(names).map(Self::Named),
            Value::Text(names) => {
                let names = names.split(',').map(|name| name.trim().to_owned());
                Ok(Self::Named(names.collect()))
            }
            other => Err(Mismatch::of::<Self>(&other)),
        }
    }
}

impl Included {
    /// Returns the entries of a mapping that the event gets.
    fn of(&self, mapping: Value) -> Value {
        match (self, mapping) {
            (Self::Named(names), Value::Map(mut entries)) => {
                entries.retain(|(name, _)| names.contains(name));
                Value::Map(entries)
            }
            (_, mapping) => mapping,
        }
    }
}

/// Fires an event as `event.send` does, with the arguments in the order of Salt's older function.
///
/// CLI Example:
///
///     saline '*' event.fire_master '{files: 1204}' backup/done
#[function(in_minion)]
fn fire_master(job: &JobContext<'_>, data: Mapping, tag: String) -> Result<bool, Failure> {
    to_master(job, &tag, data)
}

/// Fires an event on the minion's own bus, for programs on its machine. On `module_refresh`, `grains_refresh`,
/// `pillar_refresh` and `fire_master` the minion acts itself.
///
/// data
///     A mapping.
///
/// tag
///     The tag, as it is on the bus.
///
/// timeout
///     Accepted for compatibility; does nothing.
///
/// CLI Example:
///
///     saline '*' event.fire '{files: 1204}' backup/done
#[function(nonblocking, in_minion)]
#[expect(unused_variables, reason = "nothing is waited for")]
fn fire(
    job: &JobContext<'_>,
    data: Mapping,
    tag: String,
    timeout: Option<i64>,
) -> Result<bool, Failure> {
    if !job.host.has_bus {
        return Err(Failure::Execution(EventError::NoBus.to_string()));
    }
    let fired = job.host.local_events.fire(&tag, data);
    fired.map_err(|error| Failure::Execution(error.to_string()))?;
    Ok(true)
}

fn to_master(job: &JobContext<'_>, tag: &str, data: Mapping) -> Result<bool, Failure> {
    let fired = job.host.events.fire(tag, data);
    fired.map_err(|error| Failure::Execution(error.to_string()))?;
    Ok(true)
}
