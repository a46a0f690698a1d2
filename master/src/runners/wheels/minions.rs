//! `minions`: the minions that are present.

use saline_data::Value;
use saline_functions::function;

use crate::runners::run::Run;
use crate::runners::{Functions, manage};

pub(super) const FUNCTIONS: Functions = &[&CONNECTED];

/// Returns the minions that are present, as the runner `manage.up` does.
///
/// CLI Example:
///
///     pepper --client=wheel minions.connected
#[function(nonblocking)]
async fn connected(run: &Run) -> Value {
    manage::up(run, false).await
}
