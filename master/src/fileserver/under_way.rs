//! Bounds the requests of one minion that are under way, so that one that asks for everything at once keeps nobody else
//! from a turn.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_messages::MinionId;

/// The most requests of one minion: two parts for each of four jobs.
const MOST: usize = 8;

/// The numbers of requests that are under way.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<HashMap<MinionId, usize>>);

/// A request that is under way until this is dropped.
#[derive(Debug)]
pub(super) struct RequestUnderWay<'a> {
    all: &'a UnderWay,
    id: &'a MinionId,
}

impl UnderWay {
    /// Begins a request of a minion; none when it has as many as it may.
    pub(super) fn begin<'a>(&'a self, id: &'a MinionId) -> Option<RequestUnderWay<'a>> {
        let mut numbers = self.lock();
        let number = numbers.entry(id.clone()).or_default();
        if *number >= MOST {
            return None;
        }
        *number += 1;
        Some(RequestUnderWay { all: self, id })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MinionId, usize>> {
        // Every change under this lock is complete in one step, so a poisoned lock is still valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestUnderWay<'_> {
    fn drop(&mut self) {
        let mut numbers = self.all.lock();
        match numbers.get_mut(self.id) {
            Some(number) if *number > 1 => *number -= 1,
            _ => drop(numbers.remove(self.id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_minion_has_a_bounded_number_and_others_have_theirs() {
        let (all, one) = (UnderWay::default(), MinionId::parse("a").unwrap());
        let other = MinionId::parse("b").unwrap();
        let mut begun: Vec<_> = (0..MOST).map(|_| all.begin(&one).unwrap()).collect();
        assert!(all.begin(&one).is_none());
        assert!(all.begin(&other).is_some());
        begun.pop();
        begun.push(all.begin(&one).unwrap());
        assert!(all.begin(&one).is_none());
        drop(begun);
        assert!(all.lock().is_empty());
    }
}
