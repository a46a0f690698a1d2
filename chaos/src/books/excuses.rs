//! Excuses for a difference between what Saline reported and what ran. Each excuse holds for a limited time: from a fault until
//! everything that the fault delayed must have arrived.

use std::time::Duration;

use super::{Ledger, minion_number};
use crate::evidence::LedgerRun;
use crate::publisher::Publication;
use crate::timeline::{Loss, Who};

/// The longest delivery of a return on a busy machine, once its minion is back.
const DELIVERY: Duration = Duration::from_secs(10);

/// How long before a fault a run must have ended for its return to be on the minion's disk.
const SPOOLING: Duration = Duration::from_millis(200);

/// How long before a loss of power a run must have ended for its return to be synced, with `spool_sync: always`. Hundreds of
/// returns may wait for earlier syncs.
const SYNCING: Duration = Duration::from_secs(2);

/// How much longer than planned a job may run on a busy machine.
const JOB_DELAY: Duration = Duration::from_secs(30);

/// The number of heartbeats after which the master no longer waits for another machine with the same key.
const DISPUTED: u32 = 60;

/// How long after a run has begun a copy of the disk may be made that does not have it.
const RUNNING: Duration = Duration::from_millis(500);

/// How long a minion takes at most to note that a job has begun.
const NOTING: Duration = Duration::from_secs(1);

/// Returns the minion and the master.
fn with_master(minion: &str) -> Vec<Who> {
    let minion = minion_number(minion).map(Who::Minion);
    minion.into_iter().chain([Who::Master]).collect()
}

impl Ledger<'_> {
    /// Returns the time by which everything that a minion has to report at `at` must have reached the master: the end of the first
    /// period, long enough, in which neither of them was disturbed.
    pub(super) fn delivered_by(&self, minion: &str, at: Duration) -> Duration {
        let who = with_master(minion);
        let calm = self.evidence.return_bound + DELIVERY;
        let history = &self.evidence.history;
        history.calm_after(&who, at, calm).unwrap_or(Duration::MAX)
    }

    /// Returns the time by which the return of a run must have reached the master.
    pub(super) fn return_delivered_by(&self, run: &LedgerRun) -> Duration {
        self.delivered_by(run.minion(), run.ended.unwrap_or(self.longest_end(run)))
    }

    /// Returns the time by which a run must have ended, whatever delays it.
    fn longest_end(&self, run: &LedgerRun) -> Duration {
        let publication = self.publications.get(&run.token);
        let takes = publication.map_or(Duration::ZERO, |published| published.job.takes);
        run.at + takes + JOB_DELAY
    }

    /// Whether the minion's machine lost its power while it had this run, or too soon after it to have noted its return. A
    /// job outlives every other end of its minion.
    pub(super) fn was_cut_short(&self, run: &LedgerRun) -> bool {
        let until = run
            .ended
            .map_or(self.longest_end(run), |end| end + SPOOLING);
        let is_it = |at: &Duration| (run.at..=until).contains(at);
        self.losses_of(run.minion())
            .any(|loss| matches!(loss, Loss::Power { at, .. } if is_it(at)))
    }

    /// Whether the minion lost its power before the return of this run was surely synced, with `spool_sync: always`.
    pub(super) fn was_not_synced(&self, run: &LedgerRun) -> bool {
        let until = run.ended.map_or(self.longest_end(run), |end| end + SYNCING);
        let is_it = |at: &Duration| (run.at..=until).contains(at);
        self.losses_of(run.minion())
            .any(|loss| matches!(loss, Loss::Power { at, synced: true, .. } if is_it(at)))
    }

    /// Whether the minion's process did not run at some time between these.
    pub(super) fn was_down(&self, minion: &str, from: Duration, to: Duration) -> bool {
        let Some(number) = minion_number(minion) else {
            return false;
        };
        let mut downtimes = self.evidence.history.downtimes(Who::Minion(number));
        downtimes.any(|(begin, end)| begin <= to && end.is_none_or(|end| end >= from))
    }

    /// Whether the minion may have forgotten, between two times, what it noted after the first one, or may seem to: a minion
    /// whose machine has lost its power is offered jobs until the master notices that it is gone.
    pub(super) fn forgot_within(&self, minion: &str, from: Duration, to: Duration) -> bool {
        let downtimes = minion_number(minion).into_iter().flat_map(|number| {
            let history = &self.evidence.history;
            history.downtimes(Who::Minion(number))
        });
        let mut covering =
            downtimes.filter(|(begin, end)| *begin <= from && end.is_none_or(|end| end >= from));
        let from = covering.next().map_or(from, |(begin, _)| begin);
        self.losses_of(minion).any(|loss| match loss {
            // With `spool_sync: always` nothing is forgotten.
            Loss::Power { at, synced, .. } => !synced && (from..=to).contains(at),
            Loss::RolledBack {
                from: copied,
                to: ended,
                ..
            } => *copied <= from + NOTING && (from..=to).contains(ended),
            _ => false,
        })
    }

    /// Whether the minion's machine lost its power between these times.
    pub(super) fn lost_power_within(&self, minion: &str, from: Duration, to: Duration) -> bool {
        self.losses_of(minion)
            .any(|loss| matches!(loss, Loss::Power { at, .. } if (from..=to).contains(at)))
    }

    /// Whether the minion's disk was put back between these times.
    pub(super) fn rolled_back_within(&self, minion: &str, from: Duration, to: Duration) -> bool {
        self.losses_of(minion).any(
            |loss| matches!(loss, Loss::RolledBack { to: ended, .. } if (from..=to).contains(ended)),
        )
    }

    /// Whether the minion's disk was put back, between a run and `until`, to a moment before the run and after the last heartbeat
    /// that the master had heard. Such a disk cannot be told from one that nothing happened to: the run may be repeated, or
    /// its job be told as expired (`docs/states.md`).
    pub(super) fn put_back_between_heartbeats(
        &self,
        minion: &str,
        run: Duration,
        until: Duration,
    ) -> bool {
        let who = with_master(minion);
        let is_young = |copied: Duration, ended: Duration| {
            let (history, bound) = (&self.evidence.history, self.evidence.return_bound);
            let beaten = copied + self.evidence.heartbeat * 2;
            // A session begins with a heartbeat: one is heard soon after whatever was done to one of them.
            let heard = match history.left_alone(&who, copied.saturating_sub(bound), beaten) {
                true => Some(beaten),
                false => history.calm_after(&who, copied, bound),
            };
            heard.is_none_or(|heard| ended <= heard)
        };
        self.losses_of(minion).any(|loss| match loss {
            Loss::RolledBack {
                from: copied,
                to: ended,
                ..
            } => {
                *copied <= run + RUNNING
                    && (run..=until).contains(ended)
                    && is_young(*copied, *ended)
            }
            _ => false,
        })
    }

    /// Whether the master may have taken the minion for two machines at some time between these.
    pub(super) fn was_double(&self, minion: &str, from: Duration, to: Duration) -> bool {
        let disputed = self.evidence.heartbeat * DISPUTED;
        self.losses_of(minion).any(|loss| match loss {
            Loss::Cloned {
                from: copied,
                to: ended,
                ..
            }
            | Loss::RolledBack {
                from: copied,
                to: ended,
                ..
            } => *copied <= to && *ended + disputed >= from,
            _ => false,
        })
    }

    /// Whether the minion's disk took nothing at some time between these.
    pub(super) fn disk_was_full(&self, minion: &str, from: Duration, to: Duration) -> bool {
        self.losses_of(minion).any(|loss| match loss {
            Loss::DiskFull {
                from: full,
                to: relieved,
                ..
            } => *full <= to && *relieved >= from,
            _ => false,
        })
    }

    /// Whether the minion's key was deleted before `to`, and the minion was perhaps not accepted again at `from`.
    pub(super) fn key_was_deleted(&self, minion: &str, from: Duration, to: Duration) -> bool {
        self.losses_of(minion).any(|loss| match loss {
            Loss::KeyDeleted { at, .. } => *at <= to && self.delivered_by(minion, *at) >= from,
            _ => false,
        })
    }

    /// Whether events of this period may be missing from the store, because the store was replaced with an older copy.
    pub(super) fn lost_within(&self, from: Duration, to: Duration) -> bool {
        let losses = &self.evidence.history.losses;
        losses.iter().any(|loss| match loss {
            Loss::Restored {
                from: copied,
                to: restored,
            } => from <= *restored && to >= *copied,
            _ => false,
        })
    }

    /// Returns the time by which the master must know whether the minion was handed the job.
    pub(super) fn handed_over_until(&self, publication: &Publication, minion: &str) -> Duration {
        let expires = publication.began + publication.job.offered_for();
        self.delivered_by(minion, expires)
    }

    fn losses_of(&self, minion: &str) -> impl Iterator<Item = &Loss> {
        let number = minion_number(minion);
        let losses = self.evidence.history.losses.iter();
        losses.filter(move |loss| match loss {
            Loss::Power { minion, .. }
            | Loss::RolledBack { minion, .. }
            | Loss::DiskFull { minion, .. }
            | Loss::Cloned { minion, .. }
            | Loss::KeyDeleted { minion, .. } => Some(*minion) == number,
            Loss::Restored { .. } => false,
        })
    }
}
