//! `saltutil.refresh_pillar`: brings the minion's pillar again.

use std::time::Duration;

use saline_functions::{Failure, function};

use crate::JobContext;

/// Asks the master for the minion's pillar, and holds it from then on. Returns `True` once it is there; with errors in the pillar the
/// minion keeps the last one without any, and the function fails. The event `salt/minion/ID/minion_pillar_refresh_complete` tells the
/// end.
///
/// wait
///     `False` does not wait: the function only has the minion ask, as the event `pillar_refresh` on the minion's own bus does.
///
/// timeout
///     How long the master is waited for, in seconds. The minion keeps its pillar if it does not answer.
///
/// clean_cache
///     Accepted for compatibility; does nothing.
///
/// CLI Example:
///
///     saline '*' saltutil.refresh_pillar
///     saline '*' saltutil.refresh_pillar wait=False
#[function(in_minion)]
#[expect(unused_variables, reason = "there is no cache to clean")]
pub(super) fn refresh_pillar(
    job: &JobContext<'_>,
    #[default(true)] wait: bool,
    #[default(30)] timeout: Duration,
    #[default(true)] clean_cache: bool,
) -> Result<bool, Failure> {
    refresh(job, wait, timeout)?;
    Ok(true)
}

/// Has the minion bring its pillar, and waits for it if `wait`.
pub(super) fn refresh(job: &JobContext<'_>, wait: bool, timeout: Duration) -> Result<(), Failure> {
    if !job.host.has_bus {
        return Err(Failure::Execution(
            "the pillar belongs to the running minion: have it refreshed with `saline`".to_owned(),
        ));
    }
    if !wait {
        job.host.pillar.want(true);
        return Ok(());
    }
    let refreshed = job.host.refresh_pillar(job.job, timeout);
    let failure = match &refreshed {
        Ok(pillar) => pillar.failure(),
        Err(_) => None,
    };
    job.host
        .tell_pillar_refreshed(refreshed.is_ok() && failure.is_none());
    refreshed?;
    failure.map_or(Ok(()), Err)
}
