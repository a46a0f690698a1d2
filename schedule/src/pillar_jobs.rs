//! The jobs of a minion's pillar, which comes later than the start, and may change or go at any time.

use crate::entry::Entry;
use crate::runs::Skip;
use crate::scheduler::Scheduler;
use crate::scheduler_state::{LaterJobs, to_map};

impl Scheduler {
    /// Takes over the jobs of the pillar; those that it does not have any more go. A job of the same name in the configuration, or
    /// one that a function added, goes before one of the pillar. Returns whether the pillar has other jobs than before.
    pub fn set_of_pillar(&self, jobs: Vec<(String, Entry)>) -> bool {
        let now = self.time();
        let jobs = to_map(jobs);
        let mut skipped: Vec<(String, Skip)> = Vec::new();
        let mut state = self.state();
        let later = state.later.take();
        let differs = state.of_pillar != jobs;
        if !differs && later.is_none() {
            return false;
        }
        state.of_pillar = jobs;
        if let Some(LaterJobs {
            mut remembered,
            missed,
        }) = later
        {
            // The first ones begin as if they had been there at the start.
            for (name, entry) in state.wanted() {
                if state.schedule.status(&name, now).is_none() {
                    let before = remembered.remove(&name);
                    let skip = state.schedule.start(&name, entry, before, missed, now);
                    skipped.extend(skip.map(|skip| (name, skip)));
                }
            }
        }
        state.refresh(now);
        drop(state);
        self.tell_skipped(&skipped);
        self.changed.notify_one();
        differs
    }

    /// Whether a job is in the pillar alone.
    pub fn is_of_pillar(&self, name: &str) -> bool {
        let state = self.state();
        state.of_pillar.contains_key(name)
            && !state.configured.contains_key(name)
            && !state.saved.jobs.contains_key(name)
    }
}
