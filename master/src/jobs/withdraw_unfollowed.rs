//! Withdraws what is queued and no minion would run: jobs with the signature of an identity from which none leads to the master's
//! present one, as after `pki_dir` was replaced.

use std::sync::Arc;

use saline_messages::{Jid, MinionId, SignedJob};

use super::catch_up::read_signed;
use super::{JobStore, StoreError, jid, lock};

/// The number of jobs that are read at a time.
const PAGE: usize = 256;

/// A job that was withdrawn, and the minions that it was queued for.
pub(crate) type WithdrawnJob = (Jid, Vec<MinionId>);

impl JobStore {
    /// Withdraws the jobs from the minions that they are queued for, or wait in a batch for, if `is_followed` says that minions do
    /// not follow whoever signed them. Jobs that were handed over stay as they are: the minions had followed then.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// A part of the jobs may be withdrawn when the future is dropped.
    pub(crate) async fn withdraw_unfollowed(
        &self,
        is_followed: impl Fn(&SignedJob) -> bool + Clone + Send + 'static,
    ) -> Result<Vec<WithdrawnJob>, StoreError> {
        let queued = lock(&self.open).queued();
        let mut withdrawn = Vec::new();
        for page in queued.chunks(PAGE) {
            let (page, secrets) = (page.to_vec(), Arc::clone(&self.secrets));
            let is_followed = is_followed.clone();
            let unfollowed = self.reader.call(move |connections| {
                let mut unfollowed = Vec::new();
                for number in page {
                    let signed = read_signed(connections, &secrets, number)?;
                    if signed.is_some_and(|signed| !is_followed(&signed)) {
                        unfollowed.push(number);
                    }
                }
                Ok(unfollowed)
            });
            for number in unfollowed.await? {
                let minions = lock(&self.open).withdraw_queued(number, self.now());
                withdrawn.push((jid::from_micros(number), minions));
            }
        }
        if !withdrawn.is_empty() {
            self.flush_all().await?;
        }
        Ok(withdrawn)
    }
}
