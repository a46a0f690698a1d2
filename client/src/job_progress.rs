//! The progress of every minion of one job, as far as this client knows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use saline_messages::{MasterTime, MinionId, MinionJobState, PlannedEnd};
use saline_protocol::transport::Instant;

use crate::Absent;
use crate::minion_progress::MinionProgress;

/// The progress of every minion of a job. A minion is reported at most once as absent, and at most
/// once as returned.
///
/// Each of thousands of events changes one minion, and is followed by the question whether the job is
/// over: so what the answer depends on is counted as it changes.
#[derive(Debug, Default)]
pub(crate) struct JobProgress {
    minions: BTreeMap<MinionId, MinionProgress>,
    counted: Counted,
}

/// The minions whose absence keeps a job from going on.
#[derive(Debug)]
pub(crate) struct HeldUp {
    pub(crate) minions: Vec<MinionId>,
    /// Since when the one is gone that went last.
    pub(crate) latest: Instant,
    /// Whether they have the job.
    pub(crate) has_active: bool,
    /// Whether the job is a batch in which minions wait for their turn.
    pub(crate) has_awaiting_turn: bool,
    /// Whether one of those is present.
    pub(crate) has_present: bool,
}

/// Counts over all minions of a job.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    /// The minions that may still return and were not given up.
    waited_for: usize,
    /// Those of them that have the job, not those whose turn in a batch has not come.
    active: usize,
    /// Those of the active ones that are gone.
    active_gone: usize,
    /// Those whose turn has not come and that are gone.
    awaiting_turn_gone: usize,
    /// The minions of which the store has a return that was not received.
    lacking: usize,
    /// The minions that will not return and were not reported.
    unreported: BTreeSet<MinionId>,
}

impl Counted {
    fn add(&mut self, minion: &MinionId, progress: &MinionProgress) {
        self.waited_for += usize::from(progress.is_waited_for());
        self.active += usize::from(progress.is_active());
        self.active_gone += usize::from(progress.is_active() && progress.is_gone());
        self.awaiting_turn_gone += usize::from(progress.is_awaiting_turn() && progress.is_gone());
        self.lacking += usize::from(progress.is_lacking());
        if progress.is_unreported() {
            self.unreported.insert(minion.clone());
        }
    }

    fn remove(&mut self, minion: &MinionId, progress: &MinionProgress) {
        self.waited_for -= usize::from(progress.is_waited_for());
        self.active -= usize::from(progress.is_active());
        self.active_gone -= usize::from(progress.is_active() && progress.is_gone());
        self.awaiting_turn_gone -= usize::from(progress.is_awaiting_turn() && progress.is_gone());
        self.lacking -= usize::from(progress.is_lacking());
        if progress.is_unreported() {
            self.unreported.remove(minion);
        }
    }
}

impl JobProgress {
    /// Applies the states that the master reports.
    pub(crate) fn update(&mut self, states: &[(MinionId, MinionJobState)]) {
        for (minion, state) in states {
            self.entry(minion, *state).set(*state);
        }
        self.count();
    }

    /// Notes which minions are gone, and which ones are present and do not know the job that they run, as the master says at
    /// `now`: all others are not. What such a one began is gone with the start of it that did.
    pub(crate) fn set_gone(&mut self, gone: &[MinionId], disputed: &[MinionId], now: Instant) {
        let gone: BTreeSet<&MinionId> = gone.iter().collect();
        let disputed: BTreeSet<&MinionId> = disputed.iter().collect();
        for (minion, progress) in &mut self.minions {
            let since = progress.gone_since.unwrap_or(now);
            progress.is_disputed = disputed.contains(minion);
            let is_gone = progress.is_disputed || gone.contains(minion);
            progress.gone_since = is_gone.then_some(since);
        }
        self.count();
    }

    /// Notes which of the minions that are gone are so because of a plan for their machines: all others are not.
    pub(crate) fn set_planned(&mut self, planned: &[(MinionId, PlannedEnd)]) {
        let planned: BTreeSet<&MinionId> = planned.iter().map(|(id, _)| id).collect();
        for (minion, progress) in &mut self.minions {
            progress.is_planned = planned.contains(minion);
        }
    }

    /// Notes which of the minions that were offered the job run as many others as they may: all others do not.
    pub(crate) fn set_busy(&mut self, busy: &[MinionId]) {
        let busy: BTreeSet<&MinionId> = busy.iter().collect();
        for (minion, progress) in &mut self.minions {
            progress.is_busy = busy.contains(minion);
        }
    }

    /// Takes the minions that are waited for although they have not begun, since they are busy, and have not been
    /// reported.
    pub(crate) fn take_busy(&mut self) -> Vec<MinionId> {
        let is_due = |p: &MinionProgress| p.is_held_by_others() && p.is_waited_for();
        let due = self.minions.iter_mut().filter(|(_, p)| is_due(p));
        let due = due.filter_map(|(minion, p)| {
            (!std::mem::replace(&mut p.busy_reported, true)).then(|| minion.clone())
        });
        due.collect()
    }

    fn entry(&mut self, minion: &MinionId, state: MinionJobState) -> &mut MinionProgress {
        self.minions
            .entry(minion.clone())
            .or_insert_with(|| MinionProgress::new(state))
    }

    /// Counts everything, after a change of many.
    fn count(&mut self) {
        self.counted = Counted::default();
        for (minion, progress) in &self.minions {
            self.counted.add(minion, progress);
        }
    }

    /// Changes one minion, which is new with `state` if it is not there.
    fn change<T>(
        &mut self,
        minion: &MinionId,
        state: MinionJobState,
        act: impl FnOnce(&mut MinionProgress) -> T,
    ) -> T {
        if let Some(progress) = self.minions.get(minion) {
            self.counted.remove(minion, progress);
        }
        let progress = self.entry(minion, state);
        let done = act(progress);
        if let Some(progress) = self.minions.get(minion) {
            self.counted.add(minion, progress);
        }
        done
    }

    /// Sets the state that an event tells of a minion. A final state stays, except that a minion may still return; that it
    /// runs the job is a sign of life.
    pub(crate) fn set(&mut self, minion: &MinionId, state: MinionJobState) {
        self.change(minion, state, |progress| {
            progress.set(state);
            if state == MinionJobState::Running {
                (progress.gone_since, progress.is_disputed) = (None, false);
            }
        });
    }

    /// Notes that a minion is gone: from now on it has the timeout to come back.
    pub(crate) fn gone(&mut self, minion: &MinionId, now: Instant) {
        if self.minions.contains_key(minion) {
            self.change(minion, MinionJobState::Offered, |progress| {
                // It was back in between, if it is known to be gone already.
                progress.gone_since = Some(now);
            });
        }
    }

    /// Notes the last expiry that minions acknowledged.
    pub(crate) fn set_acked_until(&mut self, acked: &[(MinionId, MasterTime)]) {
        for (minion, until) in acked {
            if let Some(progress) = self.minions.get_mut(minion) {
                progress.acked_until = Some(*until);
            }
        }
    }

    /// Notes the return of a minion. Returns whether it is the first one.
    pub(crate) fn returned(&mut self, minion: &MinionId) -> bool {
        self.change(minion, MinionJobState::Returned, |progress| {
            progress.set(MinionJobState::Returned);
            !std::mem::replace(&mut progress.returned, true)
        })
    }

    /// Takes the minions that will not return and have not been reported.
    pub(crate) fn take_absent(&mut self) -> Vec<Absent> {
        let unreported = std::mem::take(&mut self.counted.unreported);
        self.report(unreported)
    }

    /// Takes the minions that were given up and have not been reported.
    pub(crate) fn take_given_up(&mut self) -> Vec<Absent> {
        let open = self
            .minions
            .iter()
            .filter(|(_, p)| p.is_open() && !p.absent);
        let open: Vec<_> = open.map(|(minion, _)| minion.clone()).collect();
        self.report(open)
    }

    fn report(&mut self, minions: impl IntoIterator<Item = MinionId>) -> Vec<Absent> {
        let mut absent = Vec::new();
        for minion in minions {
            if let Some(progress) = self.minions.get_mut(&minion)
                && let Some(absence) = progress.absence()
            {
                progress.absent = true;
                absent.push(Absent {
                    name: minion.to_string(),
                    absence,
                });
            }
        }
        absent
    }

    /// Gives up the minions that show no sign of life, since `timeout` has passed. Still waited for are those that
    /// run the job and are not gone, or not for so long; those that hold it while they run others; those whose turn in
    /// a batch has not come, which the master settles; and those whose turn has come only now. Returns when to judge again.
    pub(crate) fn judge(&mut self, now: Instant, timeout: Duration) -> Instant {
        let mut next = now + timeout;
        for progress in self.minions.values_mut() {
            let is_new = std::mem::take(&mut progress.is_new);
            let gives_up = match progress.state {
                MinionJobState::Waiting => false,
                MinionJobState::Running => progress.gone_since.is_some_and(|since| {
                    let until = since + timeout;
                    if until > now {
                        next = next.min(until);
                    }
                    until <= now
                }),
                MinionJobState::Offered => !is_new && !progress.is_busy,
                _ => true,
            };
            progress.given_up = progress.is_open() && gives_up;
        }
        self.count();
        next
    }

    /// Returns the minions that are waited for, and whether each runs the job and is present.
    pub(crate) fn waited_for(&self) -> impl Iterator<Item = (&MinionId, bool)> {
        let waited_for = self.minions.iter().filter(|(_, p)| p.is_waited_for());
        waited_for.map(|(minion, p)| (minion, p.state == MinionJobState::Running && !p.is_gone()))
    }

    /// Returns the minions whose absence keeps the job from going on: all that have the job, if all of them are gone;
    /// if nobody has it, all whose turn in a batch has not come, if all of these are gone.
    pub(crate) fn held_up(&self) -> Option<HeldUp> {
        let Counted {
            waited_for,
            active,
            active_gone,
            awaiting_turn_gone,
            ..
        } = self.counted;
        let awaiting_turn = waited_for - active;
        let is_held_up = match active {
            0 => awaiting_turn > 0 && awaiting_turn_gone == awaiting_turn,
            active => active_gone == active,
        };
        if !is_held_up {
            return None;
        }
        let is_meant = |p: &MinionProgress| p.is_active() || (active == 0 && p.is_awaiting_turn());
        let meant = self.minions.iter().filter(|(_, p)| is_meant(p));
        Some(HeldUp {
            latest: meant.clone().filter_map(|(_, p)| p.gone_since).max()?,
            minions: meant.map(|(minion, _)| minion.clone()).collect(),
            has_active: active > 0,
            has_awaiting_turn: awaiting_turn > 0,
            has_present: awaiting_turn_gone < awaiting_turn,
        })
    }

    /// Whether a minion is still waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        self.counted.waited_for > 0
    }

    /// Returns the number of minions of which the store has a return that has not been received.
    pub(crate) fn lacking_returns(&self) -> usize {
        self.counted.lacking
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Absence;
    use MinionJobState::*;
    use proptest::prelude::*;
    use saline_protocol::transport::Clock;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn id(text: &str) -> MinionId {
        MinionId::parse(text).unwrap()
    }

    fn progress(states: &[(&str, MinionJobState)]) -> JobProgress {
        let mut progress = JobProgress::default();
        let states: Vec<_> = states.iter().map(|(m, s)| (id(m), *s)).collect();
        progress.update(&states);
        progress
    }

    #[test]
    fn what_is_final_is_told_once_and_the_others_are_waited_for() {
        let mut s = progress(&[("a", NotConnected), ("b", Offered), ("c", Running)]);
        assert_eq!(s.take_absent().len(), 1);
        assert_eq!(s.take_absent(), []);
        assert!(s.is_waiting());
        assert!(s.returned(&id("b")));
        assert!(!s.returned(&id("b")));
        assert!(s.is_waiting());
        s.set(&id("c"), Expired);
        assert!(!s.is_waiting());
        assert_eq!(s.take_absent().len(), 1);
    }

    #[test]
    fn who_shows_no_sign_of_life_is_given_up_and_told_when_nobody_is_waited_for() {
        let mut s = progress(&[("a", Offered), ("b", Running), ("c", Running)]);
        let now = Clock.now();
        s.set_gone(&[id("c")], &[], now);
        assert_eq!(s.judge(now + TIMEOUT / 2, TIMEOUT), now + TIMEOUT);
        assert_eq!(s.waited_for().count(), 2, "c may come back");
        s.judge(now + TIMEOUT, TIMEOUT);
        assert_eq!(s.waited_for().count(), 1, "b runs");
        assert!(s.returned(&id("b")));
        assert!(!s.is_waiting());
        let absent: Vec<_> = s.take_given_up().into_iter().map(|a| a.absence).collect();
        assert_eq!(absent, [Absence::Offered, Absence::NoResponse]);
        assert!(s.returned(&id("a")), "a late return is told all the same");
    }

    #[test]
    fn a_minion_that_runs_others_is_waited_for_and_told_of_once() {
        let mut s = progress(&[("a", Offered), ("b", Offered), ("c", Running)]);
        let now = Clock.now();
        for told in [&["a", "c"][..1], &[]] {
            s.set_busy(&[id("a"), id("c")]);
            s.judge(now, TIMEOUT);
            let busy: Vec<_> = s.take_busy().iter().map(MinionId::to_string).collect();
            assert_eq!(busy, told);
        }
        let waited_for: Vec<_> = s.waited_for().map(|(m, _)| m.to_string()).collect();
        assert_eq!(waited_for, ["a", "c"], "b has shown no sign of life");
        // Its connection ends: the master names it no more.
        s.set_busy(&[]);
        s.judge(now, TIMEOUT);
        assert_eq!(s.waited_for().count(), 1);
    }

    #[test]
    fn a_batch_is_waited_for_until_the_last_turn_is_over() {
        let mut s = progress(&[("a", Running), ("b", Waiting), ("c", Waiting)]);
        assert!(s.returned(&id("a")));
        s.judge(Clock.now(), TIMEOUT);
        assert!(
            s.is_waiting(),
            "nobody is offered the job, and the master goes on"
        );
        s.set(&id("b"), Offered);
        s.set(&id("c"), NotConnected);
        s.judge(Clock.now(), TIMEOUT);
        assert!(s.is_waiting(), "b was offered the job a moment ago");
        s.judge(Clock.now(), TIMEOUT);
        assert!(!s.is_waiting(), "b has had the whole time");
        let absent: Vec<_> = s.take_absent().into_iter().map(|a| a.absence).collect();
        assert_eq!(absent, [Absence::NotConnected]);
    }

    #[test]
    fn an_event_that_is_late_takes_nothing_back() {
        let mut s = progress(&[("a", Waiting)]);
        s.set(&id("a"), Running);
        for late in [Offered, Queued, Waiting] {
            s.set(&id("a"), late);
        }
        s.judge(Clock.now(), TIMEOUT);
        assert!(s.is_waiting(), "it runs");
    }

    #[test]
    fn what_is_queued_at_the_end_of_a_batch_is_not_waited_for() {
        let mut s = progress(&[("a", Waiting)]);
        s.judge(Clock.now(), TIMEOUT);
        s.set(&id("a"), Queued);
        assert!(!s.is_waiting());
    }

    #[test]
    fn a_stored_return_that_is_not_here_yet_is_waited_for() {
        let mut s = progress(&[("a", Offered)]);
        s.set(&id("a"), Returned);
        assert!(s.is_waiting() && s.lacking_returns() == 1);
        s.returned(&id("a"));
        assert!(!s.is_waiting() && s.lacking_returns() == 0);
    }

    #[test]
    fn a_minion_that_nobody_expected_counts_when_it_shows() {
        let mut s = progress(&[("a", Declined)]);
        assert!(s.returned(&id("z")));
        assert!(!s.is_waiting());
    }

    proptest! {
        #[test]
        fn nobody_is_told_twice_and_nobody_is_forgotten(
            events in proptest::collection::vec((0u8..5, 0u8..16, any::<bool>()), 0..60),
        ) {
            let names = ["a", "b", "c", "d", "e"];
            let mut s = progress(&names.map(|name| (name, Offered)));
            let mut now = Clock.now();
            let (mut returned, mut absent) = (Vec::new(), Vec::new());
            for (who, state, silent) in events {
                let who = id(names[usize::from(who)]);
                now += TIMEOUT / 3;
                match MinionJobState::from_number(state.into()) {
                    Some(Returned) => {
                        if s.returned(&who) {
                            returned.push(who.to_string());
                        }
                    }
                    Some(state) => {
                        s.update(&[(who.clone(), state)]);
                        let silent: &[MinionId] = if silent { &[who] } else { &[] };
                        s.set_gone(silent, &[], now);
                    }
                    None if state == 14 => s.gone(&who, now),
                    None => {
                        s.judge(now, TIMEOUT);
                    }
                }
                prop_assert_eq!(s.waited_for().count(), s.counted.waited_for);
                let counted = std::mem::take(&mut s.counted);
                s.count();
                prop_assert_eq!(&counted, &s.counted);
                absent.extend(s.take_absent().into_iter().map(|a| a.name));
            }
            s.judge(Clock.now(), TIMEOUT);
            absent.extend(s.take_given_up().into_iter().map(|a| a.name));
            for list in [&returned, &absent] {
                let mut once = list.clone();
                once.sort();
                once.dedup();
                prop_assert_eq!(once.len(), list.len());
            }
            for name in names {
                let told = returned.iter().chain(&absent).any(|n| n == name);
                let running = s.is_waiting();
                prop_assert!(told || running, "{name}");
            }
        }
    }
}
