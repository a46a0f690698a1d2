//! `beacons`: Saline has none, which programs that were written for Salt's API ask about.

use saline_data::Value;
use saline_functions::function;

use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[&LIST, &LIST_AVAILABLE];

/// Returns the beacons of the minion, of which it has none. A schedule, or a program that calls `event.send`, does their work.
///
/// CLI Example:
///
///     saline '*' beacons.list
#[function]
#[expect(unused_variables, reason = "no beacon is written in any form")]
fn list(_: &JobContext<'_>, #[default(true)] return_yaml: bool) -> Value {
    // What Salt's returns for none, with and without YAML.
    Value::map([("beacons", Value::Map(Vec::new()))])
}

/// Returns the names of the beacons that the minion could have, which are none.
///
/// CLI Example:
///
///     saline '*' beacons.list_available
#[function]
#[expect(unused_variables, reason = "no beacon is written in any form")]
fn list_available(_: &JobContext<'_>, #[default(true)] return_yaml: bool) -> Value {
    Value::List(Vec::new())
}
