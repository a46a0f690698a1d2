//! `service`: the units of systemd, over D-Bus.
//!
//! | file | has |
//! |---|---|
//! | `activity` | the functions that start and stop units |
//! | `files` | the functions that enable and mask them |
//! | `queries` | the functions that tell which units there are |
//! | `systemd`, `manager`, `properties` | systemd, as it is asked over D-Bus |
//! | `unit_name` | the names of units |

mod activity;
mod files;
mod manager;
mod properties;
mod queries;
mod systemd;
#[cfg(test)]
mod tests;
mod unit_name;

use std::path::Path;

use saline_data::Value;

use self::unit_name::UnitName;
use crate::Functions;

pub(super) const FUNCTIONS: Functions = &[
    &queries::AVAILABLE,
    &files::DISABLE,
    &files::DISABLED,
    &files::ENABLE,
    &files::ENABLED,
    &queries::GET_ALL,
    &queries::GET_DISABLED,
    &queries::GET_ENABLED,
    &queries::GET_RUNNING,
    &queries::GET_STATIC,
    &files::MASK,
    &files::MASKED,
    &queries::MISSING,
    &activity::RELOAD,
    &activity::RESTART,
    &queries::SHOW,
    &activity::START,
    &queries::STATUS,
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
