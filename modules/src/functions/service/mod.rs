//! `service`: the units of systemd, over D-Bus.
//!
//! | file | has |
//! |---|---|
//! | `activity` | the functions that start and stop units |
//! | `files` | the functions that enable and mask them |
//! | `listed` | the functions that tell which units there are |
//! | `systemd`, `manager`, `properties` | systemd, as it is asked over D-Bus |
//! | `unit_name` | the names of units |

mod activity;
mod files;
mod listed;
mod manager;
mod properties;
mod systemd;
#[cfg(test)]
mod tests;
mod unit_name;

use std::path::Path;

use saline_data::Value;

use self::unit_name::UnitName;
use crate::Functions;

pub(super) const FUNCTIONS: Functions = &[
    &listed::AVAILABLE,
    &files::DISABLE,
    &files::DISABLED,
    &files::ENABLE,
    &files::ENABLED,
    &listed::GET_ALL,
    &listed::GET_DISABLED,
    &listed::GET_ENABLED,
    &listed::GET_RUNNING,
    &listed::GET_STATIC,
    &files::MASK,
    &files::MASKED,
    &listed::MISSING,
    &activity::RELOAD,
    &activity::RESTART,
    &listed::SHOW,
    &activity::START,
    &listed::STATUS,
    &activity::STOP,
    &files::UNMASK,
];

/// Returns what a machine lacks on which systemd does not run.
pub(super) fn lacks() -> Option<String> {
    match Path::new("/run/systemd/system").exists() {
        true => None,
        false => Some("systemd running, which the module service asks".to_owned()),
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
