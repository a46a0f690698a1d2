//! The end of queued jobs that no minion would accept, since the master has another identity now.

use saline_messages::MinionJobState;

use crate::events::Events;
use crate::job_signer::JobSigner;
use crate::jobs::{JobStore, StoreError};

/// The most jobs that one line of the log names.
const NAMED_JOBS: usize = 10;

/// Withdraws what is queued and signed by an identity that minions do not follow to the present one, and tells it in the log.
/// To be called once, before minions are served.
///
/// # Errors
/// When the store fails.
///
/// # Cancel safety
/// A part of the jobs may be withdrawn when the future is dropped.
pub(crate) async fn withdraw_unfollowed(
    signer: &JobSigner,
    jobs: &JobStore,
    events: &Events,
) -> Result<(), StoreError> {
    let signer = signer.clone();
    let is_followed = move |signed: &_| signer.is_followed(signed);
    let withdrawn = jobs.withdraw_unfollowed(is_followed).await?;
    if withdrawn.is_empty() {
        return Ok(());
    }
    let named = withdrawn.iter().take(NAMED_JOBS);
    let named: Vec<&str> = named.map(|(jid, _)| jid.as_str()).collect();
    let more = match withdrawn.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    tracing::warn!(
        "queued jobs were withdrawn, since an identity signed them that is not the master's any more and does not lead to \
         the present one ({} of them: {}{more}): publish them again if they are still wanted",
        withdrawn.len(),
        named.join(", ")
    );
    for (jid, minions) in withdrawn {
        for id in minions {
            let withdrawn = MinionJobState::Withdrawn;
            events.job_state(&jid, &id, withdrawn).await;
        }
    }
    Ok(())
}
