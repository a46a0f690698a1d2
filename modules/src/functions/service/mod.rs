//! `service`: the units of systemd, over D-Bus.

mod manager;
mod properties;
mod systemd;
#[cfg(test)]
mod tests;
mod unit_name;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};
use saline_targeting::Glob;

use self::properties::to_value;
use self::systemd::{FileVerb, Systemd, UnitState, Verb, ask, refused};
use self::unit_name::{UnitName, listed};
use crate::command::Command;
use crate::{Functions, JobContext, Outcome};

pub(super) const FUNCTIONS: Functions = &[
    &AVAILABLE,
    &DISABLE,
    &DISABLED,
    &ENABLE,
    &ENABLED,
    &GET_ALL,
    &GET_DISABLED,
    &GET_ENABLED,
    &GET_RUNNING,
    &GET_STATIC,
    &MASK,
    &MASKED,
    &MISSING,
    &RELOAD,
    &RESTART,
    &SHOW,
    &START,
    &STATUS,
    &STOP,
    &UNMASK,
];

/// How long journalctl may take to find the last lines of a unit.
const TIME_FOR_JOURNAL: Duration = Duration::from_secs(20);

/// Returns what a machine lacks on which systemd does not run.
pub(super) fn lacks() -> Option<String> {
    match Path::new("/run/systemd/system").exists() {
        true => None,
        false => Some("systemd running, which the module service asks".to_owned()),
    }
}

/// Whether a service is active. Of a glob, returns a mapping of the services that match to whether each is active.
///
/// name
///     The name of a unit; without a suffix, that of a service. Or a glob over the names that `service.get_all` returns.
///
/// CLI Example:
///
///     saline '*' service.status nginx
///     saline '*' service.status 'php*'
#[function]
fn status(job: &JobContext<'_>, name: UnitsAsked) -> Result<Value, Failure> {
    ask(job, false, async |systemd| match &name {
        UnitsAsked::One(unit) => Ok(Value::Bool(systemd.state(unit).await?.is_active())),
        UnitsAsked::Matching(glob) => {
            let active = active_units(systemd).await?;
            let names = all_units(systemd).await?;
            let matching = names.into_iter().filter(|name| glob.matches(name));
            Ok(Value::map(matching.map(|name| {
                let is_active = Value::Bool(active.contains(&name));
                (name, is_active)
            })))
        }
    })
}

/// Starts a service. Returns `True` if it runs; a service whose process lasts is watched for some seconds first. Otherwise
/// the retcode is 1, and the return has the reason as `comment` and the last lines of its journal as `journal`.
///
/// name
///     The name of a unit; without a suffix, that of a service.
///
/// no_block
///     `True` returns as soon as systemd has begun, whatever comes of it.
///
/// unmask
///     `True` unmasks the service before.
///
/// watch
///     The number of seconds for which the service is watched after its start. 0 returns at once.
///
/// test
///     `True` returns which state would change, as `{unit: {old, new}}`, and changes nothing.
///
/// CLI Example:
///
///     saline '*' service.start nginx
#[function(changes)]
fn start(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] no_block: bool,
    #[default(false)] unmask: bool,
    #[default(5)] watch: Duration,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    Change {
        verb: Verb::Start,
        unit: name,
        no_block,
        unmask,
        watch,
        test,
    }
    .run(job)
}

/// Stops a service. Returns `True` once it has stopped. The parameters and the return are those of `service.start`.
///
/// CLI Example:
///
///     saline '*' service.stop nginx
#[function(changes)]
fn stop(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] no_block: bool,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    Change::of(Verb::Stop, name, no_block, test).run(job)
}

/// Stops a service if it runs, and starts it. The parameters and the return are those of `service.start`.
///
/// CLI Example:
///
///     saline '*' service.restart nginx
#[function(changes)]
fn restart(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] no_block: bool,
    #[default(false)] unmask: bool,
    #[default(5)] watch: Duration,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    Change {
        verb: Verb::Restart,
        unit: name,
        no_block,
        unmask,
        watch,
        test,
    }
    .run(job)
}

/// Lets a service read its configuration again. The parameters and the return are those of `service.start`.
///
/// CLI Example:
///
///     saline '*' service.reload nginx
#[function(changes)]
fn reload(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] no_block: bool,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    Change::of(Verb::Reload, name, no_block, test).run(job)
}

/// Lets a service start with the machine. Returns `True`.
///
/// name
///     The name of a unit; without a suffix, that of a service.
///
/// test
///     `True` returns which state would change, as `{unit: {old, new}}`, and changes nothing.
///
/// CLI Example:
///
///     saline '*' service.enable nginx
#[function(changes)]
fn enable(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    change_files(job, FileVerb::Enable, &name, false, test)
}

/// Lets a service not start with the machine. The parameters and the return are those of `service.enable`.
///
/// CLI Example:
///
///     saline '*' service.disable nginx
#[function(changes)]
fn disable(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    change_files(job, FileVerb::Disable, &name, false, test)
}

/// Masks a service: nothing starts it until `service.unmask`. One that runs goes on. Returns `True`.
///
/// runtime
///     `True` masks it until the machine starts again.
///
/// CLI Example:
///
///     saline '*' service.mask nginx
#[function(changes)]
fn mask(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] runtime: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    change_files(job, FileVerb::Mask, &name, runtime, test)
}

/// Ends the masking of a service. The parameters and the return are those of `service.mask`.
///
/// CLI Example:
///
///     saline '*' service.unmask nginx
#[function(changes)]
fn unmask(
    job: &JobContext<'_>,
    name: UnitName,
    #[default(false)] runtime: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    change_files(job, FileVerb::Unmask, &name, runtime, test)
}

/// Whether a service starts with the machine, or with another unit that does.
///
/// CLI Example:
///
///     saline '*' service.enabled nginx
#[function]
fn enabled(job: &JobContext<'_>, name: UnitName) -> Result<bool, Failure> {
    ask(job, false, async |systemd| {
        Ok(is_enabled(&systemd.file_state(&name).await?))
    })
}

/// Whether `service.enabled` is `False` for a service.
///
/// CLI Example:
///
///     saline '*' service.disabled nginx
#[function]
fn disabled(job: &JobContext<'_>, name: UnitName) -> Result<bool, Failure> {
    enabled(job, name).map(|enabled| !enabled)
}

/// Whether a service is masked.
///
/// CLI Example:
///
///     saline '*' service.masked nginx
#[function]
fn masked(job: &JobContext<'_>, name: UnitName) -> Result<bool, Failure> {
    ask(job, false, async |systemd| {
        Ok(systemd.file_state(&name).await?.starts_with("masked"))
    })
}

/// Returns all properties of a unit that systemd has, with the types that they have there.
///
/// CLI Example:
///
///     saline '*' service.show nginx
#[function]
fn show(job: &JobContext<'_>, name: UnitName) -> Result<Value, Failure> {
    ask(job, false, async |systemd| {
        let properties = systemd.properties(&name).await?;
        let entries = properties
            .iter()
            .map(|(name, value)| (name.as_str(), to_value(value)));
        Ok(Value::map(entries))
    })
}

/// Returns the names of all units that have files, and of all services that are loaded. The name of a service has no
/// suffix.
///
/// CLI Example:
///
///     saline '*' service.get_all
#[function]
fn get_all(job: &JobContext<'_>) -> Result<Value, Failure> {
    ask(job, false, async |systemd| {
        Ok(Value::texts(all_units(systemd).await?))
    })
}

/// Returns the names of the units that are enabled. The name of a service has no suffix.
///
/// CLI Example:
///
///     saline '*' service.get_enabled
#[function]
fn get_enabled(job: &JobContext<'_>) -> Result<Value, Failure> {
    ask(job, false, async |systemd| {
        let files = systemd.manager.list_unit_files().await.map_err(refused)?;
        let enabled = files
            .iter()
            .filter(|(_, state)| state.starts_with("enabled"));
        let names: BTreeSet<&str> = enabled.map(|(path, _)| listed(file_name(path))).collect();
        Ok(Value::texts(names))
    })
}

/// Returns the names of the units that are disabled. The name of a service has no suffix.
///
/// CLI Example:
///
///     saline '*' service.get_disabled
#[function]
fn get_disabled(job: &JobContext<'_>) -> Result<Value, Failure> {
    in_state(job, "disabled")
}

/// Returns the names of the units that can be neither enabled nor disabled: other units start them. The name of a service has no
/// suffix.
///
/// CLI Example:
///
///     saline '*' service.get_static
#[function]
fn get_static(job: &JobContext<'_>) -> Result<Value, Failure> {
    in_state(job, "static")
}

/// Returns the names of the units whose files are in a state.
fn in_state(job: &JobContext<'_>, wanted: &'static str) -> Result<Value, Failure> {
    ask(job, false, async |systemd| {
        let files = systemd.manager.list_unit_files().await.map_err(refused)?;
        let found = files.iter().filter(|(_, state)| state == wanted);
        let names: BTreeSet<&str> = found.map(|(path, _)| listed(file_name(path))).collect();
        Ok(Value::texts(names))
    })
}

/// Returns the names of the services that run.
///
/// CLI Example:
///
///     saline '*' service.get_running
#[function]
fn get_running(job: &JobContext<'_>) -> Result<Value, Failure> {
    ask(job, false, async |systemd| {
        let units = systemd.manager.list_units().await.map_err(refused)?;
        let running = units.iter().filter(|unit| unit.4 == "running");
        let services = running.filter_map(|unit| unit.0.strip_suffix(".service"));
        Ok(Value::texts(services.collect::<BTreeSet<_>>()))
    })
}

/// Whether there is a unit of this name.
///
/// CLI Example:
///
///     saline '*' service.available nginx
#[function]
fn available(job: &JobContext<'_>, name: UnitName) -> Result<bool, Failure> {
    ask(job, false, async |systemd| {
        Ok(systemd.state(&name).await?.load != "not-found")
    })
}

/// Whether there is no unit of this name.
///
/// CLI Example:
///
///     saline '*' service.missing nginx
#[function]
fn missing(job: &JobContext<'_>, name: UnitName) -> Result<bool, Failure> {
    available(job, name).map(|available| !available)
}

/// One unit, or those that match a glob.
enum UnitsAsked {
    One(UnitName),
    Matching(Glob),
}

impl FromValue for UnitsAsked {
    const TAKES: &'static str = "the name of a unit, or a glob";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value
            .as_str()
            .is_some_and(|text| text.contains(['*', '?', '[']))
        {
            true => Glob::from_value(value).map(Self::Matching),
            false => UnitName::from_value(value).map(Self::One),
        }
    }
}

/// A change of the activity of a unit.
struct Change {
    verb: Verb,
    unit: UnitName,
    no_block: bool,
    unmask: bool,
    watch: Duration,
    test: bool,
}

impl Change {
    fn of(verb: Verb, unit: UnitName, no_block: bool, test: bool) -> Self {
        Self {
            verb,
            unit,
            no_block,
            unmask: false,
            watch: Duration::ZERO,
            test,
        }
    }

    fn run(&self, job: &JobContext<'_>) -> Result<Outcome, Failure> {
        if self.test {
            let before = ask(job, false, async |systemd| systemd.state(&self.unit).await)?;
            return Ok(Outcome::from(self.would_change(&before)));
        }
        let failed = ask(job, true, async |systemd| self.failure(systemd).await)?;
        match failed {
            None => Ok(Outcome::from(true)),
            Some(why) => {
                let report = [
                    ("comment", Value::from(why)),
                    ("journal", Value::texts(last_lines(job, &self.unit)?)),
                    ("result", Value::Bool(false)),
                ];
                Ok(Outcome::new(Value::map(report), 1))
            }
        }
    }

    /// Changes the unit. Returns why it failed, if it did.
    async fn failure(&self, systemd: &Systemd) -> Result<Option<String>, Failure> {
        if self.unmask {
            let no_longer = FileVerb::Unmask;
            systemd.change_files(no_longer, &self.unit, false).await?;
        }
        let before = systemd.state(&self.unit).await?;
        let ended = systemd
            .change(self.verb, &self.unit, !self.no_block)
            .await?;
        if ended != "done" {
            let state = systemd.state(&self.unit).await?;
            return Ok(Some(self.comment(&state, &ended)));
        }
        let starts = match self.verb {
            Verb::Start => !before.is_active(),
            Verb::Restart => true,
            Verb::Stop | Verb::Reload => false,
        };
        if self.no_block || !starts {
            return Ok(None);
        }
        let (state, has_failed) = systemd.watch(&self.unit, &before, self.watch).await?;
        Ok(has_failed.then(|| self.comment(&state, "failed soon after its start")))
    }

    fn comment(&self, state: &UnitState, ended: &str) -> String {
        let Change { verb, unit, .. } = self;
        let verb = format!("{verb:?}").to_lowercase();
        let (active, sub, result) = (&state.active, &state.sub, &state.result);
        format!("{verb} of {unit}: {ended}; it is {active} ({sub}), with the result {result:?}")
    }

    fn would_change(&self, before: &UnitState) -> Value {
        let new = match self.verb {
            Verb::Stop => "inactive",
            Verb::Start | Verb::Restart | Verb::Reload => "active",
        };
        let is_so = match self.verb {
            Verb::Start => before.is_active(),
            Verb::Stop => matches!(&*before.active, "inactive" | "failed"),
            Verb::Restart | Verb::Reload => false,
        };
        old_and_new(&self.unit, &before.active, new, is_so)
    }
}

/// Returns what a change of a unit would change: nothing if it is so already.
fn old_and_new(unit: &UnitName, old: &str, new: &str, is_so: bool) -> Value {
    if is_so {
        return Value::Map(Vec::new());
    }
    let change = Value::map([("new", Value::from(new)), ("old", Value::from(old))]);
    Value::map([(unit.as_str(), change)])
}

fn change_files(
    job: &JobContext<'_>,
    verb: FileVerb,
    unit: &UnitName,
    runtime: bool,
    test: bool,
) -> Result<Value, Failure> {
    ask(job, true, async |systemd| {
        if !test {
            systemd.change_files(verb, unit, runtime).await?;
            return Ok(Value::Bool(true));
        }
        let old = systemd.file_state(unit).await?;
        if old.is_empty() && verb != FileVerb::Mask {
            return Err(Failure::Execution(format!("{unit} does not exist")));
        }
        let is_masked = old.starts_with("masked");
        let (new, is_so) = match verb {
            FileVerb::Enable => ("enabled", is_enabled(&old)),
            FileVerb::Disable => ("disabled", !old.starts_with("enabled")),
            FileVerb::Mask => ("masked", is_masked),
            FileVerb::Unmask => ("not masked", !is_masked),
        };
        Ok(old_and_new(unit, &old, new, is_so))
    })
}

/// Whether a state of a file is one that `systemctl is-enabled` calls enabled.
fn is_enabled(state: &str) -> bool {
    matches!(
        state,
        "enabled" | "enabled-runtime" | "static" | "alias" | "indirect" | "generated"
    )
}

async fn all_units(systemd: &Systemd) -> Result<BTreeSet<String>, Failure> {
    let files = systemd.manager.list_unit_files().await.map_err(refused)?;
    let units = systemd.manager.list_units().await.map_err(refused)?;
    let files = files.iter().map(|(path, _)| file_name(path));
    let loaded = units.iter().filter(|unit| unit.2 != "not-found");
    let services = loaded
        .map(|unit| &*unit.0)
        .filter(|name| name.ends_with(".service"));
    Ok(files
        .chain(services)
        .map(|name| listed(name).to_owned())
        .collect())
}

async fn active_units(systemd: &Systemd) -> Result<BTreeSet<String>, Failure> {
    let units = systemd.manager.list_units().await.map_err(refused)?;
    let active = units
        .iter()
        .filter(|unit| matches!(&*unit.3, "active" | "reloading"));
    Ok(active.map(|unit| listed(&unit.0).to_owned()).collect())
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Returns the last lines of a unit in the journal, or why there are none.
fn last_lines(job: &JobContext<'_>, unit: &UnitName) -> Result<Vec<String>, Failure> {
    let words = [
        "journalctl",
        "-u",
        unit.as_str(),
        "-n",
        "20",
        "--no-pager",
        "-o",
        "short-iso",
    ];
    let read = job.run(&Command {
        argv: words.map(str::to_owned).into(),
        timeout: Some(TIME_FOR_JOURNAL),
        merged: true,
        ..Command::default()
    });
    let finished = match read {
        Ok(finished) => finished,
        Err(Failure::Execution(why)) => return Ok(vec![why]),
        Err(other) => return Err(other),
    };
    let bytes = finished
        .stdout
        .into_bytes()
        .unwrap_or_else(String::into_bytes);
    Ok(String::from_utf8_lossy(&bytes)
        .lines()
        .map(str::to_owned)
        .collect())
}
