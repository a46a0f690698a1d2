//! `saltutil.sync_all`: brings everything that the master has for minions.

use saline_data::Value;
use saline_functions::{Failure, function};

use super::refresh_pillar;
use super::sync_modules::{Environments, sync};
use crate::JobContext;
use crate::pillar::COMPILE_TIMEOUT;

/// Brings the modules of the master (`saltutil.sync_modules`), collects the grains again, and asks for the pillar.
///
/// saltenv
///     The environment of the modules, or several of them. `base` if it is not given.
///
/// refresh
///     `False` leaves grains and pillar as they are.
///
/// test
///     `True` only tells which modules would change.
///
/// Returns the modules that are new or have changed: `{modules: [modules.NAME]}`.
///
/// CLI Example:
///
///     saline '*' saltutil.sync_all
#[function(changes, in_minion)]
pub(super) fn sync_all(
    job: &JobContext<'_>,
    #[default("base")] saltenv: Environments,
    #[default(true)] refresh: bool,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let modules = sync(job, &saltenv, test)?;
    if refresh && !test {
        job.host.refresh_grains(job.job);
        refresh_pillar::refresh(job, true, COMPILE_TIMEOUT)?;
    }
    Ok(Value::map([("modules", modules)]))
}
