//! Faults of keys: an operator deletes or replaces the key of a minion.

use std::time::Duration;

use saline_protocol::transport::Clock;

use super::Injector;
use crate::error::Result;
use crate::fleet::remove_identity;
use crate::plan::Fault;
use crate::timeline::{Condition, Loss, Who};

impl Injector<'_> {
    /// Deletes the key of a minion, which asks to be accepted again, and is.
    pub(super) async fn delete_key(self, minion: usize, lasts: Duration) -> Result<()> {
        let Some(seat) = self.fleet.seat(minion) else {
            return Ok(());
        };
        let timeline = &self.fleet.timeline;
        let _alone = seat.daemon.lock().await;
        self.begin(Fault::DeleteKey(minion), lasts);
        let _disturbed = timeline.disturb(Who::Minion(minion), Condition::Disturbed);
        self.delete(minion).await?;
        Clock.pause(lasts).await;
        Ok(())
    }

    /// Deletes the key of a minion that does not run, and starts it with another one.
    pub(super) async fn replace_key(self, minion: usize, lasts: Duration) -> Result<()> {
        let Some(seat) = self.fleet.seat(minion) else {
            return Ok(());
        };
        let timeline = &self.fleet.timeline;
        let _identity = seat.identity.lock().await;
        let mut daemon = seat.daemon.lock().await;
        self.begin(Fault::ReplaceKey(minion), lasts);
        let _down = self.terminate(Who::Minion(minion), &mut daemon).await;
        let deleted = self.delete(minion).await;
        Clock.pause(lasts).await;
        let replaced = deleted.and_then(|()| remove_identity(self.fleet.root(), daemon.instance()));
        daemon.start()?;
        replaced?;
        timeline.note(format_args!("m{minion} is started with another key"));
        Ok(())
    }

    async fn delete(self, minion: usize) -> Result<()> {
        // The key may be gone although the command failed.
        let at = self.fleet.timeline.now();
        let deleted = self.fleet.operator.delete_key(&format!("m{minion}")).await;
        self.fleet.timeline.lost(Loss::KeyDeleted { minion, at });
        deleted
    }
}
