//! The starts of a minion, as its disk tells them: which one this is, which one was reconciled with a
//! master before it, and whether the machine lost power in between.
//!
//! A start names its predecessors, so that the master tells a copy of a machine, or a disk that was restored, from
//! a restart. A start that ran in the same place (boot and folder) as the one before proves that the one before has
//! ended.

use saline_messages::{MAX_PREDECESSORS, StartId};

use super::record::Record;
use crate::spool_location::SpoolLocation;

/// A start of the minion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The id of this start of the minion.
    pub id: StartId,
    /// The starts before it from the last one that was reconciled with a master on.
    pub predecessors: Vec<StartId>,
    /// Whether every earlier start on this disk has ended surely, because it ran in the same place.
    pub predecessor_ended: bool,
    /// Whether what the minion noted last before this start may be lost, and no earlier start has told a master so.
    pub power_lost: bool,
    /// Whether this start was reconciled with a master.
    pub reconciled: bool,
    /// Whether this start syncs every beginning of a job to the disk. Its records say so, since the option may be another
    /// one when the next start reads them.
    pub is_synced: bool,
    /// The number of heartbeats that the spool had noted when this start began.
    pub heartbeats_before: u64,
}

/// Follows the starts while the spool is read.
#[derive(Debug, Default)]
pub(super) struct StartsRead {
    last: Option<(Start, SpoolLocation)>,
    stopped: bool,
}

impl StartsRead {
    /// Takes a record into account.
    pub(super) fn take(&mut self, record: &Record) {
        match record {
            Record::Start {
                start,
                predecessors,
                place,
                power_lost,
                is_synced,
                ..
            } => {
                let start = Start {
                    id: *start,
                    predecessors: predecessors.clone(),
                    predecessor_ended: false,
                    power_lost: *power_lost,
                    reconciled: false,
                    is_synced: *is_synced,
                    heartbeats_before: 0,
                };
                self.last = Some((start, place.clone()));
                self.stopped = false;
            }
            Record::Reconciled => {
                if let Some((start, _)) = &mut self.last {
                    (start.reconciled, start.power_lost) = (true, false);
                }
            }
            Record::Stopped => self.stopped = true,
            // Says nothing of a job. The last one may be written while the minion stops.
            Record::Heartbeat => {}
            // Written after the minion had stopped in order, so it had not.
            _ => self.stopped = false,
        }
    }

    /// Returns the start with this id, which follows what was read. `is_synced` says that it syncs every beginning of
    /// a job to the disk, `damaged` that records are missing.
    pub(super) fn next(
        &self,
        id: StartId,
        place: &SpoolLocation,
        is_synced: bool,
        damaged: bool,
    ) -> Start {
        let Some((last, last_place)) = &self.last else {
            return Start {
                id,
                predecessors: Vec::new(),
                predecessor_ended: false,
                power_lost: damaged,
                reconciled: false,
                is_synced,
                heartbeats_before: 0,
            };
        };
        // Where boots cannot be told apart, each start may follow a loss of power.
        let rebooted = last_place.boot.is_none() || last_place.boot != place.boot;
        let mut predecessors = match last.reconciled {
            true => Vec::new(),
            false => last.predecessors.clone(),
        };
        if predecessors.len() >= MAX_PREDECESSORS {
            // The first one was reconciled, and the last ones may have been without knowing it.
            predecessors.remove(1);
        }
        predecessors.push(last.id);
        Start {
            id,
            predecessors,
            predecessor_ended: last_place.is_surely(place),
            power_lost: damaged
                || last.power_lost
                || (rebooted && !self.stopped && !last.is_synced),
            reconciled: false,
            is_synced,
            heartbeats_before: 0,
        }
    }

    /// Makes `start` the successor of `before` as well, whose predecessors these are, and which has surely ended. When the
    /// spool ends with an earlier start than `before`, what `before` noted in it is lost.
    pub(super) fn follow(&self, start: &mut Start, before: StartId, predecessors: &[StartId]) {
        let is_in_spool =
            |(last, _): &(Start, _)| last.id == before || last.predecessors.contains(&before);
        if self.last.as_ref().is_some_and(is_in_spool) {
            return;
        }
        let earlier = start.predecessors.clone();
        start.predecessors = predecessors.to_vec();
        start.predecessors.push(before);
        for id in earlier {
            if !start.predecessors.contains(&id) {
                start.predecessors.push(id);
            }
        }
        while start.predecessors.len() > MAX_PREDECESSORS {
            start.predecessors.remove(1);
        }
        (start.predecessor_ended, start.power_lost) = (true, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> StartId {
        StartId([number; 16])
    }

    fn start(number: u8, predecessors: &[u8], boot: &str, power_lost: bool) -> Record {
        Record::Start {
            start: id(number),
            predecessors: predecessors.iter().copied().map(id).collect(),
            place: SpoolLocation::named(boot, 1),
            heartbeats_noted: 0,
            power_lost,
            is_synced: false,
        }
    }

    /// The same start, which syncs every beginning of a job.
    fn synced(mut record: Record) -> Record {
        if let Record::Start { is_synced, .. } = &mut record {
            *is_synced = true;
        }
        record
    }

    fn next(records: &[Record], boot: &str, is_synced: bool) -> (Vec<u8>, bool) {
        let mut read = StartsRead::default();
        records.iter().for_each(|record| read.take(record));
        let next = read.next(id(9), &SpoolLocation::named(boot, 1), is_synced, false);
        let predecessors = next.predecessors.iter().map(|id| id.0[0]);
        (predecessors.collect(), next.power_lost)
    }

    #[test]
    fn the_predecessors_begin_with_the_last_start_that_was_reconciled() {
        assert_eq!(next(&[], "a", false), (vec![], false));
        let mut records = vec![start(1, &[], "a", false)];
        assert_eq!(next(&records, "a", false), (vec![1], false));
        records.push(Record::Reconciled);
        assert_eq!(next(&records, "a", false), (vec![1], false));
        // The master may know it though the minion was not told.
        records.push(start(2, &[1], "a", false));
        assert_eq!(next(&records, "a", false), (vec![1, 2], false));
        records.push(Record::Reconciled);
        assert_eq!(next(&records, "a", false), (vec![2], false));
    }

    #[test]
    fn power_was_lost_when_the_machine_restarted_and_the_minion_had_not_stopped() {
        let mut records = vec![start(1, &[], "a", false), Record::Reconciled];
        assert_eq!(next(&records, "b", false), (vec![1], true));
        assert_eq!(
            next(&records, "b", true),
            (vec![1], true),
            "only what comes is synced"
        );
        let synced = [synced(start(1, &[], "a", false)), Record::Reconciled];
        assert_eq!(next(&synced, "b", false), (vec![1], false), "all is synced");
        records.push(Record::Stopped);
        assert_eq!(next(&records, "b", false), (vec![1], false));
    }

    #[test]
    fn power_may_have_been_lost_where_boots_cannot_be_told_apart() {
        let mut read = StartsRead::default();
        let mut unknown = SpoolLocation::named("a", 1);
        unknown.boot = None;
        let mut first = start(1, &[], "a", false);
        if let Record::Start { place, .. } = &mut first {
            *place = unknown.clone();
        }
        read.take(&first);
        assert!(read.next(id(9), &unknown, false, false).power_lost);
        read.take(&Record::Stopped);
        assert!(!read.next(id(9), &unknown, false, false).power_lost);
    }

    #[test]
    fn it_is_told_until_a_reconciliation() {
        let mut records = vec![
            start(1, &[], "a", false),
            Record::Reconciled,
            start(2, &[1], "b", true),
        ];
        assert_eq!(next(&records, "b", false), (vec![1, 2], true));
        records.push(Record::Reconciled);
        assert_eq!(next(&records, "b", false), (vec![2], false));
    }

    #[test]
    fn the_predecessor_has_ended_when_it_ran_in_the_same_place() {
        let mut read = StartsRead::default();
        read.take(&start(1, &[], "a", false));
        let ended = |boot, folder| {
            let place = SpoolLocation::named(boot, folder);
            read.next(id(9), &place, false, false).predecessor_ended
        };
        assert!(ended("a", 1));
        assert!(!ended("a", 2), "a copy of the folder");
        assert!(
            !ended("b", 1),
            "another machine, or the same one after a restart"
        );
    }
}
