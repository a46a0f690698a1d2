//! The reconciliations and farewells that a minion may ask for. They are bounded because a reconciliation is synced
//! to the disk, and a farewell changes who is present.

use std::time::Duration;

use saline_messages::MinionId;
use saline_protocol::transport::Clock;

use crate::token_bucket::{MAX_MINIONS, Rate, TokenBuckets};

/// How the bucket of a minion fills. A session begins with one reconciliation for each thousand jobs that its
/// minion has to account for.
const RATE: Rate = Rate {
    per_second: 2.0,
    burst: 120.0,
};

/// The reconciliations and farewells that each minion may still ask for, over all of its sessions.
#[derive(Debug)]
pub(crate) struct ReconciliationBudget(TokenBuckets<MinionId>);

impl ReconciliationBudget {
    pub(crate) fn new(clock: Clock) -> Self {
        Self(TokenBuckets::new(clock, RATE, MAX_MINIONS))
    }

    /// Takes one reconciliation, or one farewell, from the budget of the minion.
    ///
    /// # Errors
    /// When nothing is left: the delay after which the minion may ask again.
    pub(crate) fn take(&self, id: &MinionId) -> Result<(), Duration> {
        self.0.take(id)
    }
}
