//! Watches the accepted keys. When the key of a minion was removed or replaced by hand, also while no master ran,
//! the watch revokes what the minion had.

use std::collections::HashMap;
use std::time::Duration;

use saline_protocol::channel::KeyError;
use saline_protocol::message::MinionId;

use crate::keys::{ChangedByHand, KeyAccess, KeyNews, KeyStore};
use crate::master_clock::MasterClock;
use crate::revocation::Revocation;

/// How often the keys are looked at.
const BEAT: Duration = Duration::from_secs(1);

/// The watch over the accepted keys.
#[derive(Debug)]
pub struct KeyWatch {
    pub(crate) clock: MasterClock,
    pub(crate) keys: KeyAccess,
    pub(crate) revocation: Revocation,
}

impl KeyWatch {
    /// Compares the keys with those that the job store has noted, and revokes minions whose keys were removed or
    /// replaced while no master ran. To be called once, before minions are served.
    ///
    /// # Errors
    /// When the keys cannot be read.
    ///
    /// # Cancel safety
    /// What was revoked before the future is dropped stays so.
    pub async fn compare_at_start(&self) -> Result<(), KeyError> {
        // The code of the key store panicked, which the runtime logs.
        let Some(news) = self.keys.with_minions(KeyStore::news).await else {
            return Ok(());
        };
        let accepted: HashMap<MinionId, [u8; 32]> = news?.accepted.into_iter().collect();
        let known = self.revocation.jobs.minions_with_keys_or_jobs();
        let mut revoked = Vec::new();
        let all_missing = known.len() > 1 && !known.iter().any(|id| accepted.contains_key(id));
        if all_missing {
            tracing::error!(
                "all {} accepted keys are missing, as when their folder is not mounted: nothing is revoked for it; \
                 `saline-key -D` deletes all keys",
                known.len()
            );
        } else {
            self.revocation
                .grains
                .retain(|id| accepted.contains_key(id));
            let gone = known.into_iter().filter(|id| !accepted.contains_key(id));
            revoked.extend(gone.map(|id| (id, None)));
        }
        for (id, _) in &revoked {
            tracing::warn!("the key of minion {id} was removed while no master ran");
        }
        let replaced = accepted
            .into_iter()
            .filter(|(id, key)| !self.revocation.jobs.note_key(id, *key));
        for (id, key) in replaced {
            tracing::warn!("the key of minion {id} was replaced while no master ran");
            revoked.push((id, Some(key)));
        }
        self.revocation.revoke(&revoked).await;
        Ok(())
    }

    /// Looks at the keys every second until the future is dropped.
    pub async fn run(&self) {
        let mut timer = self.clock.clock().interval(BEAT);
        loop {
            timer.tick().await;
            match self.keys.with_minions(KeyStore::news).await {
                Some(Ok(news)) => self.follow(news).await,
                Some(Err(error)) => tracing::error!("the keys cannot be watched: {error}"),
                // As above.
                None => {}
            }
        }
    }

    async fn follow(&self, news: KeyNews) {
        let mut revoked = Vec::new();
        for (id, key) in news.accepted {
            if !self.revocation.jobs.note_key(&id, key) {
                revoked.push((id, Some(key)));
            }
        }
        for ChangedByHand { id, identity } in news.changed {
            let what = match identity {
                Some(_) => "replaced",
                None => "removed",
            };
            tracing::warn!("the key of minion {id} was {what} by hand");
            revoked.push((id, identity));
        }
        self.revocation.revoke(&revoked).await;
    }
}
