//! The starts of a minion, as its disk tells them: which one this is, which one was reconciled with a
//! master before it, and whether the machine lost power in between.

use saline_protocol::message::StartId;

use super::record::Record;
use crate::place::Place;

/// A start of the minion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The start.
    pub id: StartId,
    /// The last start before it that was reconciled with a master.
    pub predecessor: Option<StartId>,
    /// Whether every earlier start on this disk has ended surely, because it ran in the same place.
    pub predecessor_ended: bool,
    /// Whether what the minion noted last may be lost, since no reconciliation has told so.
    pub power_lost: bool,
    /// Whether this start was reconciled with a master.
    pub reconciled: bool,
}

/// Follows the starts while the spool is read.
#[derive(Debug, Default)]
pub(super) struct StartsRead {
    last: Option<(Start, Place)>,
    stopped: bool,
}

impl StartsRead {
    /// Takes a record into account.
    pub(super) fn take(&mut self, record: &Record) {
        match record {
            Record::Start {
                start,
                predecessor,
                place,
                power_lost,
            } => {
                let start = Start {
                    id: *start,
                    predecessor: *predecessor,
                    predecessor_ended: false,
                    power_lost: *power_lost,
                    reconciled: false,
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
            // Written after the minion had stopped in order, so it had not.
            _ => self.stopped = false,
        }
    }

    /// Returns the start with this id, which follows what was read. `is_synced` says that every beginning of
    /// a job was synced to the disk, `damaged` that records are missing.
    pub(super) fn next(&self, id: StartId, place: &Place, is_synced: bool, damaged: bool) -> Start {
        let Some((last, last_place)) = &self.last else {
            return Start {
                id,
                predecessor: None,
                predecessor_ended: false,
                power_lost: damaged,
                reconciled: false,
            };
        };
        // Where boots cannot be told apart, nothing is concluded from them.
        let rebooted =
            matches!((&last_place.boot, &place.boot), (Some(before), Some(now)) if before != now);
        Start {
            id,
            predecessor: match last.reconciled {
                true => Some(last.id),
                false => last.predecessor,
            },
            predecessor_ended: last_place.is(place),
            power_lost: damaged || last.power_lost || (rebooted && !self.stopped && !is_synced),
            reconciled: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> StartId {
        StartId([number; 16])
    }

    fn start(number: u8, predecessor: Option<u8>, boot: &str, power_lost: bool) -> Record {
        Record::Start {
            start: id(number),
            predecessor: predecessor.map(id),
            place: Place::named(boot, 1),
            power_lost,
        }
    }

    fn next(records: &[Record], boot: &str, is_synced: bool) -> (Option<u8>, bool) {
        let mut read = StartsRead::default();
        records.iter().for_each(|record| read.take(record));
        let next = read.next(id(9), &Place::named(boot, 1), is_synced, false);
        (next.predecessor.map(|id| id.0[0]), next.power_lost)
    }

    #[test]
    fn the_predecessor_is_the_last_start_that_was_reconciled() {
        assert_eq!(next(&[], "a", false), (None, false));
        let mut records = vec![start(1, None, "a", false)];
        assert_eq!(next(&records, "a", false), (None, false));
        records.push(Record::Reconciled);
        assert_eq!(next(&records, "a", false), (Some(1), false));
        records.push(start(2, Some(1), "a", false));
        assert_eq!(next(&records, "a", false), (Some(1), false));
    }

    #[test]
    fn power_was_lost_when_the_machine_restarted_and_the_minion_had_not_stopped() {
        let mut records = vec![start(1, None, "a", false), Record::Reconciled];
        assert_eq!(next(&records, "b", false), (Some(1), true));
        assert_eq!(next(&records, "b", true), (Some(1), false), "all is synced");
        records.push(Record::Stopped);
        assert_eq!(next(&records, "b", false), (Some(1), false));
    }

    #[test]
    fn it_is_told_until_a_reconciliation() {
        let mut records = vec![
            start(1, None, "a", false),
            Record::Reconciled,
            start(2, Some(1), "b", true),
        ];
        assert_eq!(next(&records, "b", false), (Some(1), true));
        records.push(Record::Reconciled);
        assert_eq!(next(&records, "b", false), (Some(2), false));
    }

    #[test]
    fn the_predecessor_has_ended_when_it_ran_in_the_same_place() {
        let mut read = StartsRead::default();
        read.take(&start(1, None, "a", false));
        let ended = |boot, folder| {
            let place = Place::named(boot, folder);
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
