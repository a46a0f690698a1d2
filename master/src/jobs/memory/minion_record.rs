//! The record of one minion beside its jobs: its last start, its key, and for which expiries it has
//! acknowledged that it does not begin the jobs.

use saline_messages::{MasterTime, MinionJobState, StartId};

/// The largest number of times that are remembered for which a minion cannot acknowledge expiries.
const GAPS: usize = 16;

/// The record of one minion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinionRecord {
    /// The last start of the minion that was reconciled; zero when none was.
    pub start: StartId,
    /// The accepted key to which the minion's offers are made; none when it was deleted or rejected, or was
    /// never seen.
    pub key: Option<[u8; 32]>,
    /// The highest time at which a Noise key that the minion came with was vouched for, in nanoseconds since 1970.
    pub vouched: u64,
    /// When a duplicate of the minion reconciled last: a copy of it, or the one of which it is a copy. 0 when
    /// none ever did.
    pub duplicate_seen: MasterTime,
    /// The number of heartbeats that the minion's spool has noted, as far as it was heard.
    pub heartbeats_noted: u64,
    /// Whether the record is from a copy of the store that was put back, and the minion has not reconciled since: what was heard of
    /// the minion between the copy and its return is lost.
    pub is_copy: bool,
    /// The expiry up to which the minion has acknowledged.
    pub expiry_acked_until: MasterTime,
    /// The expiries, each after the first and until the second time, for which it cannot tell: its disk
    /// was lost, or replaced.
    pub(in crate::jobs) gaps: Vec<(MasterTime, MasterTime)>,
}

impl MinionRecord {
    /// Begins the record of a minion that reconciles for the first time.
    pub(in crate::jobs) fn new(start: StartId, now: MasterTime) -> Self {
        Self {
            start,
            key: None,
            vouched: 0,
            duplicate_seen: 0,
            heartbeats_noted: 0,
            is_copy: false,
            expiry_acked_until: now,
            gaps: Vec::new(),
        }
    }

    /// Whether the expiry ack of the minion counts for a job that was created then: no other copy of it can have
    /// begun the job, or none was heard of since `duplicates_before`.
    pub fn is_authoritative_for(&self, created: MasterTime, duplicates_before: MasterTime) -> bool {
        created >= self.duplicate_seen || self.has_no_duplicate_since(duplicates_before)
    }

    /// Whether no other copy was heard of since `time`.
    pub fn has_no_duplicate_since(&self, time: MasterTime) -> bool {
        self.duplicate_seen <= time
    }

    /// Returns the state at this record of an offer that the minion has not begun as far as the store
    /// knows; none while the minion has not acknowledged the expiry.
    pub fn verdict(&self, expires: MasterTime) -> Option<MinionJobState> {
        let is_gap =
            |(after, until): &(MasterTime, MasterTime)| *after < expires && expires <= *until;
        if expires > self.expiry_acked_until {
            None
        } else if self.gaps.iter().any(is_gap) {
            Some(MinionJobState::MayHaveRun)
        } else {
            Some(MinionJobState::Expired)
        }
    }

    /// Takes the minion's acknowledgement of the expiries after `after` and until `until`. What lies between the last
    /// one and this one stays without.
    pub(in crate::jobs) fn settle(&mut self, after: MasterTime, until: MasterTime) {
        if until <= self.expiry_acked_until {
            return;
        }
        if after > self.expiry_acked_until {
            self.skip(after);
        }
        self.expiry_acked_until = until;
    }

    /// Sets the times in the record that are after `now` to `now`, since the master's time is set back to it.
    pub(in crate::jobs) fn set_back(&mut self, now: MasterTime) {
        self.duplicate_seen = self.duplicate_seen.min(now);
        self.expiry_acked_until = self.expiry_acked_until.min(now);
        self.gaps.retain(|(after, _)| *after < now);
        for (_, until) in &mut self.gaps {
            *until = (*until).min(now);
        }
    }

    /// Notes that the minion cannot acknowledge the expiries until `until`.
    pub(in crate::jobs) fn skip(&mut self, until: MasterTime) {
        if until <= self.expiry_acked_until {
            return;
        }
        if self.gaps.len() >= GAPS {
            // The two oldest become one: it is better to say too often that a job may have run.
            let (_, second) = (self.gaps.remove(0), &mut self.gaps[0]);
            second.0 = 0;
        }
        self.gaps.push((self.expiry_acked_until, until));
        self.expiry_acked_until = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> MinionRecord {
        MinionRecord::new(StartId([1; 16]), 100)
    }

    #[test]
    fn what_lies_before_the_expiry_ack_has_expired() {
        let mut record = record();
        assert_eq!(record.verdict(101), None);
        record.settle(100, 200);
        assert_eq!(record.verdict(101), Some(MinionJobState::Expired));
        assert_eq!(record.verdict(201), None);
        record.settle(50, 150);
        assert_eq!(record.expiry_acked_until, 200, "it never goes back");
    }

    #[test]
    fn no_time_lies_after_that_to_which_the_masters_time_is_set_back() {
        let mut record = record();
        record.duplicate_seen = 900;
        record.settle(150, 200);
        record.settle(400, 1_000);
        record.settle(2_000, 3_000);
        record.set_back(300);
        assert_eq!(record.duplicate_seen, 300);
        let told = [120, 180, 250, 300, 301].map(|expires| record.verdict(expires));
        let (may, not) = (MinionJobState::MayHaveRun, MinionJobState::Expired);
        assert_eq!(told, [Some(may), Some(not), Some(may), Some(may), None]);
    }

    #[test]
    fn what_the_minion_cannot_tell_may_have_run() {
        let mut record = record();
        record.settle(150, 200);
        assert_eq!(record.verdict(120), Some(MinionJobState::MayHaveRun));
        assert_eq!(record.verdict(150), Some(MinionJobState::MayHaveRun));
        assert_eq!(record.verdict(151), Some(MinionJobState::Expired));
        for round in 0..40 {
            record.skip(300 + 10 * round);
            record.settle(300 + 10 * round, 305 + 10 * round);
        }
        assert!(record.gaps.len() <= GAPS);
        assert_eq!(record.verdict(120), Some(MinionJobState::MayHaveRun));
        assert_eq!(record.verdict(690), Some(MinionJobState::MayHaveRun));
    }
}
