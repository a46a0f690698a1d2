//! The absence of the master: requests and subscriptions notice it, and each absence is reported once, for a command to print.

use std::time::Duration;

use saline_protocol::transport::{Clock, Instant};
use tokio::sync::watch;

/// How long a master may be away before a request fails.
pub(crate) const MASTER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the master must be away before its absence is reported: a restart takes less.
const REPORTED_AFTER: Duration = Duration::from_secs(2);

/// The absence of the master, if it is away.
#[derive(Debug, Default)]
pub(crate) struct MasterAbsence(watch::Sender<Option<OngoingAbsence>>);

#[derive(Debug, Clone, Copy)]
struct OngoingAbsence {
    since: Instant,
    /// Whether [`MasterAbsence::next_reported`] has returned it.
    reported: bool,
}

impl MasterAbsence {
    /// Notes that the master has been away since `noticed`, or since earlier if that is known. Returns the time until which the
    /// client waits for the master.
    pub(crate) fn begin(&self, noticed: Instant) -> Instant {
        let mut since = noticed;
        self.0.send_if_modified(|absence| {
            let is_new = absence.is_none();
            since = absence
                .get_or_insert(OngoingAbsence {
                    since: noticed,
                    reported: false,
                })
                .since;
            is_new
        });
        since + MASTER_TIMEOUT
    }

    /// Notes that the master is back, or that the client waits for it no longer.
    pub(crate) fn end(&self) {
        self.0.send_if_modified(|absence| absence.take().is_some());
    }

    /// Waits until the master has been away for two seconds, and returns how much longer the client waits for it. Each absence is
    /// reported once.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next_reported(&self, clock: Clock) -> Duration {
        let mut changes = self.0.subscribe();
        loop {
            let absence = *changes.borrow_and_update();
            let Some(OngoingAbsence {
                since,
                reported: false,
            }) = absence
            else {
                // `self` holds the sender while this future is polled, so there is no error.
                let _ = changes.changed().await;
                continue;
            };
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = clock.until(since + REPORTED_AFTER) => {
                    let is_mine = self.0.send_if_modified(|absence| match absence {
                        Some(absence) if !absence.reported => {
                            absence.reported = true;
                            true
                        }
                        _ => false,
                    });
                    if is_mine {
                        return (since + MASTER_TIMEOUT).saturating_duration_since(clock.now());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the absence that is reported now, if one is.
    async fn reported(absence: &MasterAbsence) -> Option<Duration> {
        Clock
            .deadline(Clock.now(), absence.next_reported(Clock))
            .await
            .ok()
    }

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_absence_is_reported_once_and_the_next_one_again() {
        let absence = MasterAbsence::default();
        let begun = Clock.now();
        assert_eq!(absence.begin(begun), begun + MASTER_TIMEOUT);
        assert_eq!(reported(&absence).await, None, "a restart takes a moment");
        pass(2).await;
        // Another request notices it later.
        assert_eq!(absence.begin(Clock.now()), begun + MASTER_TIMEOUT);
        assert_eq!(reported(&absence).await, Some(Duration::from_secs(28)));
        assert_eq!(reported(&absence).await, None);
        absence.end();
        pass(5).await;
        assert_eq!(reported(&absence).await, None);
        absence.begin(Clock.now());
        pass(3).await;
        assert_eq!(reported(&absence).await, Some(Duration::from_secs(27)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_master_that_is_back_within_two_seconds_is_not_reported() {
        let absence = MasterAbsence::default();
        absence.begin(Clock.now());
        let mut waiting = std::pin::pin!(absence.next_reported(Clock));
        assert!(Clock.deadline(Clock.now(), &mut waiting).await.is_err());
        pass(1).await;
        absence.end();
        pass(10).await;
        assert!(Clock.deadline(Clock.now(), &mut waiting).await.is_err());
        // The same wait reports an absence that begins later.
        absence.begin(Clock.now());
        assert_eq!(waiting.await, Duration::from_secs(28));
    }
}
