//! Which terms of targets the pillars of minions match.
//!
//! A target looks at the pillar that a minion gets which names no environment, so no minion changes by what it asks for whom a
//! target includes. The last pillar without errors counts while it is the one that would be compiled now; otherwise it is
//! compiled again, so a minion that does not ask for its pillar changes nothing either.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use saline_data::Packed;
use saline_messages::MinionId;
use saline_protocol::transport::Instant;
use saline_targeting::CompiledTarget;
use tokio_util::task::AbortOnDropHandle;

use super::version::SourceVersion;
use super::{AT_ONCE, AskedEnvironments, COMPILE_TIMEOUT, Parts, Pillars};
use crate::facts::PillarVerdict;

/// How long the pillars that a target looks at are compiled. Less than an operator's program waits for an answer.
const MATCHING_TIMEOUT: Duration = Duration::from_secs(10);

/// The pillars that one target looks at.
struct Search {
    target: Arc<CompiledTarget>,
    ids: Vec<MinionId>,
    found: Mutex<Vec<PillarVerdict>>,
    /// The places of the minions whose pillars are to be compiled.
    missing: Mutex<Vec<usize>>,
    next: AtomicUsize,
}

impl Pillars {
    /// Finds out which terms of the target the pillars of these minions match, in the order of the minions. Pillars that are not
    /// kept are compiled, one on each processor and at most [`AT_ONCE`], until the time is over, and are kept for the next
    /// target. A minion whose pillar has errors is judged by its last pillar without errors.
    ///
    /// # Cancel safety
    /// The compilations that were begun are finished.
    pub(crate) async fn match_target(
        &self,
        ids: Vec<MinionId>,
        target: &Arc<CompiledTarget>,
    ) -> Vec<PillarVerdict> {
        self.match_target_within(MATCHING_TIMEOUT, ids, target)
            .await
    }

    pub(super) async fn match_target_within(
        &self,
        time: Duration,
        ids: Vec<MinionId>,
        target: &Arc<CompiledTarget>,
    ) -> Vec<PillarVerdict> {
        let clock = self.0.context.clock;
        let began = clock.now();
        let ends = clock.after(time);
        let search = Arc::new(Search {
            target: Arc::clone(target),
            found: Mutex::new(vec![None; ids.len()]),
            missing: Mutex::default(),
            next: AtomicUsize::new(0),
            ids,
        });
        let (parts, kept) = (Arc::clone(&self.0), Arc::clone(&search));
        let looking = self.0.context.spawn_blocking(move || {
            let now = parts.current_version(began);
            kept.look_at_kept(&parts, &now);
        });
        // Otherwise it panicked, which the runtime logs, and no pillar is known.
        if looking.await.is_ok() {
            let processors = available_parallelism().map_or(1, usize::from);
            let compiling: Vec<_> = (0..processors.min(AT_ONCE))
                .map(|_| {
                    let (this, search) = (self.clone(), Arc::clone(&search));
                    let compile = async move { this.compile_missing(&search, ends).await };
                    AbortOnDropHandle::new(self.0.context.spawn(compile))
                })
                .collect();
            // What is not known then is told as not known.
            let ended = async {
                for task in compiling {
                    // It panicked otherwise, which the runtime logs.
                    let _ = task.await;
                }
            };
            let _ = clock.deadline(ends, ended).await;
        }
        std::mem::take(&mut *search.found())
    }

    /// Compiles the pillars that are missing, one after the other, until all are taken or the time is over.
    async fn compile_missing(&self, search: &Search, ends: Instant) {
        let asked = AskedEnvironments::default();
        while self.0.context.clock.now() < ends {
            let Some((place, id)) = search.next_missing() else {
                return;
            };
            let target = Arc::clone(&search.target);
            let matching = self.work_on(&id, &asked, move |work| {
                let packed = match work.compile_and_keep() {
                    Ok(packed) => Ok(packed),
                    Err(errors) => {
                        let good = work.parts.kept.good(work.minion.id(), work.asked);
                        good.map(|good| good.packed).ok_or(errors)
                    }
                };
                packed.map(|packed| matches(&packed, &target))
            });
            match matching.await {
                Ok(Ok(known)) => search.note(place, known),
                Ok(Err(errors)) => self.report(&id, &errors),
                // Its key was deleted, or its turn did not come.
                Err(error) => tracing::debug!("the pillar of minion {id} for a target: {error}"),
            }
        }
    }
}

impl Parts {
    /// Returns what pillars are compiled from that are asked for now. Blocks.
    fn current_version(&self, now: Instant) -> SourceVersion {
        let settings = self.settings.now();
        let tree = self.tree(&settings.pillar);
        let files = tree.at(
            now,
            self.context.clock.after(COMPILE_TIMEOUT),
            &self.renderers,
        );
        files.look_at_all();
        SourceVersion::new(&settings, files.seen())
    }
}

impl Search {
    /// Looks at the pillars that are kept and would be compiled alike now. Blocks.
    fn look_at_kept(&self, parts: &Parts, now: &SourceVersion) {
        let asked = AskedEnvironments::default();
        for (place, id) in self.ids.iter().enumerate() {
            match parts.kept.good(id, &asked) {
                Some(good) if good.from.is_still(now) => {
                    self.note(place, matches(&good.packed, &self.target));
                }
                _ => lock(&self.missing).push(place),
            }
        }
    }

    fn next_missing(&self) -> Option<(usize, MinionId)> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let place = *lock(&self.missing).get(next)?;
        Some((place, self.ids.get(place)?.clone()))
    }

    fn note(&self, place: usize, known: PillarVerdict) {
        if let Some(found) = self.found().get_mut(place) {
            *found = known;
        }
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Vec<PillarVerdict>> {
        lock(&self.found)
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each change is one step, so a poisoned lock is still valid.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Matches a pillar; it is not known if it cannot be unpacked, which never happens to one that was packed here.
fn matches(packed: &Packed, target: &CompiledTarget) -> PillarVerdict {
    let pillar = packed.unpack().ok()?;
    Some(target.match_pillar(&pillar))
}
