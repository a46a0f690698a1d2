//! Bounds the requests of one minion that are under way, so that one that asks for everything at once keeps nobody else
//! from a turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_messages::MinionId;

/// Limits how many requests of one kind each minion has under way.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    /// The most of one minion.
    most: usize,
    numbers: Mutex<HashMap<MinionId, usize>>,
}

/// The permit of a request, which is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    all: Arc<ConcurrencyLimit>,
    id: MinionId,
}

impl ConcurrencyLimit {
    /// Creates a limit of `most` requests of each minion.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            numbers: Mutex::default(),
        })
    }

    /// Begins a request of a minion; none when it has as many as it may.
    pub(crate) fn begin(self: &Arc<Self>, id: &MinionId) -> Option<RequestPermit> {
        let mut numbers = self.lock();
        let number = numbers.entry(id.clone()).or_default();
        if *number >= self.most {
            return None;
        }
        *number += 1;
        Some(RequestPermit {
            all: Arc::clone(self),
            id: id.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MinionId, usize>> {
        // Every change under this lock is complete in one step, so a poisoned lock is still valid.
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let mut numbers = self.all.lock();
        match numbers.get_mut(&self.id) {
            Some(number) if *number > 1 => *number -= 1,
            _ => drop(numbers.remove(&self.id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_minion_has_a_bounded_number_and_others_have_theirs() {
        const MAX_OF_ONE: usize = 3;
        let (all, one) = (
            ConcurrencyLimit::new(MAX_OF_ONE),
            MinionId::parse("a").unwrap(),
        );
        let other = MinionId::parse("b").unwrap();
        let mut begun: Vec<_> = (0..MAX_OF_ONE).map(|_| all.begin(&one).unwrap()).collect();
        assert!(all.begin(&one).is_none());
        assert!(all.begin(&other).is_some());
        begun.pop();
        begun.push(all.begin(&one).unwrap());
        assert!(all.begin(&one).is_none());
        drop(begun);
        assert!(all.lock().is_empty());
    }
}
