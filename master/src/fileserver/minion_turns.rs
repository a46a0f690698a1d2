//! One turn for each minion: what it asks for is done one after the other, so that a minion waits for its own requests before others
//! wait for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use saline_messages::MinionId;
use tokio::sync::Semaphore;

/// The turns of the minions that have one or wait for one.
#[derive(Debug, Default)]
pub(super) struct MinionTurns(Mutex<HashMap<MinionId, Arc<Semaphore>>>);

impl MinionTurns {
    /// Returns the semaphore of a minion, which has one permit and is never closed.
    pub(super) fn of(&self, id: &MinionId) -> Arc<Semaphore> {
        let mut minions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody waits for a turn to which nothing else refers.
        minions.retain(|_, turn| Arc::strong_count(turn) > 1 || turn.available_permits() == 0);
        let turn = minions.entry(id.clone());
        Arc::clone(turn.or_insert_with(|| Arc::new(Semaphore::new(1))))
    }
}
