//! Which environments had a top file since the master has started, so that one that goes empties no pillar.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The environments that had a top file.
#[derive(Debug, Default)]
pub(super) struct SeenTops(Mutex<BTreeSet<String>>);

impl SeenTops {
    /// Notes that an environment has a top file now.
    pub(super) fn note(&self, environment: &str) {
        let mut seen = self.lock();
        if !seen.contains(environment) {
            seen.insert(environment.to_owned());
        }
    }

    /// Whether an environment had a top file.
    pub(super) fn had(&self, environment: &str) -> bool {
        self.lock().contains(environment)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        // A name is added in one step, so a poisoned lock is still valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
