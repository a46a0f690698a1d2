//! Recognises replayed resumes: each carries the time at which it was begun, and each time of a key is
//! taken once. After WireGuard's timestamps, with a window: operators begin several at once.
//!
//! A peer that is taken for a replay, since its clock was set back, makes a first contact instead. A resume gives a
//! session to accepted peers alone; after a first contact also those that wait have one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use saline_channel::PublicIdentity;

/// How far the time of a resume may be behind the latest one of its key, in nanoseconds. Those that are
/// further behind could be replays, and take the longer way.
const WINDOW: u64 = 10_000_000_000;

/// The largest number of times within the window that are told apart for one key.
const MAX_TIMES: usize = 1024;

/// The largest number of keys. Only keys that are accepted are remembered; beyond this number all are
/// forgotten, and what was captured before could be replayed once.
const MAX_KEYS: usize = 200_000;

/// The times at which the resumes of each accepted key were begun.
#[derive(Debug, Default)]
pub(super) struct ResumeTimes {
    keys: Mutex<HashMap<PublicIdentity, Times>>,
}

/// The times of one key.
#[derive(Debug, Default)]
struct Times {
    /// No time up to this one is taken.
    floor: u64,
    /// The taken times above it, in their order.
    taken: Vec<u64>,
}

impl ResumeTimes {
    /// Takes the time of a resume. Returns false when it was taken before, or lies too far behind to tell.
    pub(super) fn take(&self, key: PublicIdentity, time: u64) -> bool {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= MAX_KEYS && !keys.contains_key(&key) {
            keys.clear();
        }
        keys.entry(key).or_default().take(time)
    }
}

impl Times {
    fn take(&mut self, time: u64) -> bool {
        if time <= self.floor {
            return false;
        }
        let Err(place) = self.taken.binary_search(&time) else {
            return false;
        };
        self.taken.insert(place, time);
        let latest = self.taken.last().copied().unwrap_or(time);
        self.floor = self.floor.max(latest.saturating_sub(WINDOW));
        let floor = self.floor;
        let mut behind = self.taken.partition_point(|time| *time <= floor);
        if self.taken.len() - behind > MAX_TIMES {
            behind = self.taken.len() - MAX_TIMES;
            self.floor = self.taken[behind - 1];
        }
        self.taken.drain(..behind);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const KEY: PublicIdentity = PublicIdentity([1; 32]);
    const OTHER: PublicIdentity = PublicIdentity([2; 32]);

    #[test]
    fn a_time_is_taken_once_from_each_key() {
        let times = ResumeTimes::default();
        assert!(times.take(KEY, 5 * WINDOW));
        assert!(!times.take(KEY, 5 * WINDOW));
        assert!(times.take(OTHER, 5 * WINDOW));
        assert!(
            times.take(KEY, 5 * WINDOW - 1),
            "begun at about the same time"
        );
        assert!(!times.take(KEY, 4 * WINDOW), "too far behind to tell");
        assert!(times.take(KEY, 9 * WINDOW));
        assert!(!times.take(KEY, 5 * WINDOW - 1));
    }

    #[test]
    fn what_is_remembered_of_a_key_is_bounded() {
        let mut times = Times::default();
        for time in 1..100_000 {
            assert!(times.take(time));
        }
        assert!(times.taken.len() <= MAX_TIMES);
        assert!(!times.take(99_000));
    }

    proptest! {
        #[test]
        fn none_is_taken_twice(begun in proptest::collection::vec(1..40u64, 1..200)) {
            let mut times = Times::default();
            let mut taken = HashSet::new();
            for time in begun {
                let time = time * (WINDOW / 10);
                if times.take(time) {
                    prop_assert!(taken.insert(time));
                }
            }
        }
    }
}
