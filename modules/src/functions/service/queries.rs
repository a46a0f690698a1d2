//! Tells which units there are, and how they are.

use std::collections::BTreeSet;

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};
use saline_targeting::Glob;

use super::properties::to_value;
use super::systemd::{Systemd, ask, refused};
use super::unit_name::{UnitName, listed};
use crate::JobContext;

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
pub(super) fn status(job: &JobContext<'_>, name: UnitsAsked) -> Result<Value, Failure> {
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

/// Returns all properties of a unit that systemd has, with the types that they have there.
///
/// CLI Example:
///
///     saline '*' service.show nginx
#[function]
pub(super) fn show(job: &JobContext<'_>, name: UnitName) -> Result<Value, Failure> {
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
pub(super) fn get_all(job: &JobContext<'_>) -> Result<Value, Failure> {
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
pub(super) fn get_enabled(job: &JobContext<'_>) -> Result<Value, Failure> {
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
pub(super) fn get_disabled(job: &JobContext<'_>) -> Result<Value, Failure> {
    in_state(job, "disabled")
}

/// Returns the names of the units that can be neither enabled nor disabled: other units start them. The name of a service has no
/// suffix.
///
/// CLI Example:
///
///     saline '*' service.get_static
#[function]
pub(super) fn get_static(job: &JobContext<'_>) -> Result<Value, Failure> {
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
pub(super) fn get_running(job: &JobContext<'_>) -> Result<Value, Failure> {
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
pub(super) fn available(job: &JobContext<'_>, name: UnitName) -> Result<bool, Failure> {
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
pub(super) fn missing(job: &JobContext<'_>, name: UnitName) -> Result<bool, Failure> {
    available(job, name).map(|available| !available)
}

/// One unit, or those that match a glob.
pub(super) enum UnitsAsked {
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
