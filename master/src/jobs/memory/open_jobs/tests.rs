//! The state machine against a model that is short enough to be read: a table of states.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

use MinionJobState::{Cancelled, Expired, Offered, Queued, Returned, Running, Waiting, Withdrawn};

use crate::jobs::{MinionRecord, jid};
use saline_messages::StartId;

/// The states that are stored.
const STATES: [MinionJobState; 13] = {
    let mut states = [Waiting; 13];
    let mut at = 0;
    while at < 12 {
        states[at] = MinionJobState::ALL[at];
        at += 1;
    }
    states
};

/// What may happen.
#[derive(Debug, Clone)]
enum Event {
    Publish(i64, u64, Vec<usize>),
    Set(i64, usize, usize),
    Time(u64),
    /// A minion acknowledges expiries until so long ago, and may be unable to for the time before.
    Ack(usize, u64, bool),
    Cancel(i64),
    Withdraw(usize),
    Write,
    WriteBehind,
    Forget(i64),
}

fn event() -> impl Strategy<Value = Event> {
    let set = || (0..6i64, 0..4usize, 0..13usize).prop_map(|(j, m, to)| Event::Set(j, m, to));
    prop_oneof![
        (
            0..6i64,
            0..30u64,
            proptest::collection::vec(0..13usize, 0..4)
        )
            .prop_map(|(job, ttl, states)| Event::Publish(job, ttl, states)),
        set(),
        set(),
        (0..20u64).prop_map(Event::Time),
        (100_000..200_000u64).prop_map(Event::Time),
        (0..4usize, 0..20u64, any::<bool>()).prop_map(|(m, ago, gap)| Event::Ack(m, ago, gap)),
        (0..6i64).prop_map(Event::Cancel),
        (0..4usize).prop_map(Event::Withdraw),
        Just(Event::Write),
        Just(Event::WriteBehind),
        (0..6i64).prop_map(Event::Forget),
    ]
}

fn minion(number: usize) -> MinionId {
    MinionId::parse(&format!("m{number}")).unwrap()
}

/// A job of the model.
#[derive(Debug)]
struct Row {
    expires: u64,
    states: Vec<MinionJobState>,
    /// What a crash would leave, beside returns, the clock and the expiry acks of minions.
    written: Vec<MinionJobState>,
    /// Before it expired, and at any time.
    cancelled: bool,
    barred: bool,
}

/// All jobs, whether or not they are over.
#[derive(Debug)]
struct Model {
    jobs: BTreeMap<i64, Row>,
    records: Vec<MinionRecord>,
}

impl Model {
    fn set(&mut self, job: i64, minion: usize, to: MinionJobState) -> bool {
        let row = self.jobs.get_mut(&job);
        let state = row.and_then(|row| row.states.get_mut(minion));
        let allowed = state.as_ref().is_some_and(|from| may_become(**from, to));
        if let Some(state) = state.filter(|_| allowed) {
            *state = to;
        }
        allowed
    }

    /// Changes the state of everybody for whom `to` gives another one, and returns who that is.
    fn each(
        &mut self,
        to: impl Fn(i64, &Row, usize, MinionJobState) -> Option<MinionJobState>,
    ) -> Vec<(i64, usize, MinionJobState)> {
        let mut changed = Vec::new();
        for (job, row) in &self.jobs {
            for (at, state) in row.states.iter().enumerate() {
                if let Some(to) = to(*job, row, at, *state) {
                    changed.push((*job, at, to));
                }
            }
        }
        for (job, at, to) in &changed {
            assert!(self.set(*job, *at, *to));
        }
        changed
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_table_and_the_machine_agree(events in proptest::collection::vec(event(), 1..80)) {
        let mut open = OpenJobs::default();
        let mut now = 1_000;
        let record = MinionRecord::new(StartId([1; 16]), now);
        let mut model = Model { jobs: BTreeMap::new(), records: vec![record; 4] };
        for event in events {
            match event {
                Event::Publish(job, ttl, states) => {
                    if model.jobs.contains_key(&job) {
                        continue;
                    }
                    let states: Vec<_> = states.into_iter().map(|state| STATES[state]).collect();
                    let named = states.iter().enumerate().map(|(at, s)| (minion(at), *s));
                    open.insert(job, now + 1 + ttl, named.collect(), now);
                    let row = Row { expires: now + 1 + ttl, written: states.clone(), states, cancelled: false,
                        barred: false };
                    model.jobs.insert(job, row);
                }
                Event::Set(job, who, to) => {
                    // Of a job that is not here, the store changes what is written.
                    if open.has(job) {
                        let set = open.set(job, &minion(who), STATES[to], now);
                        prop_assert_eq!(set, model.set(job, who, STATES[to]));
                    }
                }
                Event::Time(passes) => {
                    now += passes;
                    let due = model.each(|_, row, _, state| {
                        (is_to_be_offered(state) && row.expires <= now).then_some(Expired)
                    });
                    let due = due.into_iter().map(|(job, at, _)| (jid::from_micros(job), minion(at)));
                    let found = open.expire(now);
                    prop_assert_eq!(found.expired, due.collect::<Vec<_>>());
                }
                Event::Ack(who, ago, gap) => {
                    let until = now - ago.min(now);
                    let record = &mut model.records[who];
                    let after = if gap { until.saturating_sub(3) } else { 0 };
                    record.settle(after, until);
                    let record = record.clone();
                    let verdict = |expires| record.verdict(expires).unwrap_or(Offered);
                    let here = model.each(|job, row, at, state| {
                        (at == who && state == Offered && row.expires <= until && open.has(job))
                            .then(|| verdict(row.expires))
                    });
                    let settled = open.settle(&minion(who), until, verdict);
                    let expected = here.into_iter().map(|(job, _, to)| (jid::from_micros(job), to));
                    prop_assert_eq!(settled, expected.collect::<Vec<_>>());
                    // The others are told by what is written and the expiry ack.
                    model.each(|_, row, at, state| {
                        (at == who && state == Offered && row.expires <= until)
                            .then(|| verdict(row.expires))
                    });
                }
                Event::Cancel(job) => {
                    let is_here = open.has(job);
                    let expected = model.each(|number, _, _, state| {
                        (number == job && is_here && is_to_be_offered(state)).then_some(Cancelled)
                    });
                    if let Some(row) = model.jobs.get_mut(&job).filter(|_| is_here) {
                        row.cancelled |= now < row.expires;
                        row.barred = true;
                    }
                    let expected: Vec<_> = expected.iter().map(|(_, at, _)| minion(*at)).collect();
                    prop_assert_eq!(open.cancel(job, now), expected);
                }
                Event::Withdraw(who) => {
                    let expected = model.each(|job, _, at, state| {
                        (at == who && open.has(job) && !state.is_final()).then_some(Withdrawn)
                    });
                    let expected: Vec<_> =
                        expected.iter().map(|(job, ..)| jid::from_micros(*job)).collect();
                    prop_assert_eq!(open.withdraw(&minion(who), now), expected);
                }
                Event::Write | Event::WriteBehind => {
                    let changed = open.changed(i64::MIN, usize::MAX);
                    if matches!(event, Event::WriteBehind) {
                        // While they are written, everybody goes on.
                        for ChangedJob { job, .. } in &changed {
                            for (from, to) in [(Offered, Running), (Running, Returned)] {
                                let at = model.jobs[job].states.iter().position(|s| *s == from);
                                if let Some(at) = at {
                                    open.set(*job, &minion(at), to, now);
                                    model.set(*job, at, to);
                                }
                            }
                        }
                    }
                    for changed in changed {
                        let plain = changed.states.iter().map(|(_, state)| *state);
                        if let Some(row) = model.jobs.get_mut(&changed.job) {
                            row.written = plain.collect();
                        }
                        open.written(&changed);
                    }
                }
                Event::Forget(job) => {
                    open.forget(job..job + 1);
                    model.jobs.remove(&job);
                }
            }
            compare(&open, &model, now)?;
        }
    }
}

#[test]
fn a_job_that_was_resolved_before_a_withdrawal_is_withdrawn_when_it_comes() {
    let mut open = OpenJobs::default();
    let offered = |number| vec![(minion(0), Offered), (minion(number), Queued)];
    open.withdraw(&minion(0), 1_000);
    open.insert(1, 9_000, offered(1), 1_002);
    // The key was looked up again, and stood, after the withdrawal.
    open.withdraw_late(1, 1_001, 1_003);
    assert_eq!(open.lookup(1, &minion(0)), MinionLookup::State(Offered));
    open.insert(2, 9_000, offered(2), 1_002);
    open.withdraw_late(2, 999, 1_003);
    assert_eq!(open.lookup(2, &minion(0)), MinionLookup::State(Withdrawn));
    assert_eq!(open.lookup(2, &minion(2)), MinionLookup::State(Queued));
    assert!(open.is_changed(2), "the store is told");
}

fn compare(open: &OpenJobs, model: &Model, now: u64) -> Result<(), TestCaseError> {
    let mut offers = 0;
    for (job, row) in &model.jobs {
        let named: Vec<_> = row
            .states
            .iter()
            .enumerate()
            .map(|(at, s)| (minion(at), *s))
            .collect();
        let may_begin_or_runs = row.states.iter().any(|state| {
            matches!(state, Running | Queued | Waiting) || (*state == Offered && row.expires > now)
        });
        match open.states(*job) {
            Some((here, until)) => {
                prop_assert_eq!((here, until), (&named, row.expires));
                offers += row.states.len();
            }
            None => {
                prop_assert!(!may_begin_or_runs, "job {job} left before its end: {row:?}");
                // What is written, returns, the clock and the expiry acks of minions tell the same.
                let both = row.written.iter().zip(&row.states).enumerate();
                for (at, (written, is)) in both {
                    let told = match (is, written) {
                        (Returned, _) => Returned,
                        (_, Queued | Waiting) if row.cancelled => Cancelled,
                        _ => crate::jobs::memory::states::at(
                            now,
                            row.expires,
                            *written,
                            Some(&model.records[at]),
                        ),
                    };
                    let is = crate::jobs::memory::states::at(
                        now,
                        row.expires,
                        *is,
                        Some(&model.records[at]),
                    );
                    prop_assert_eq!(told, is, "job {} {:?}", job, row);
                }
            }
        }
        let alive = open.any_alive(*job..*job + 1, now, u64::MAX);
        prop_assert_eq!(alive, open.has(*job) && row.expires > now);
    }
    prop_assert_eq!(open.offers(), offers);
    for at in 0..4 {
        let of = |which: fn(MinionJobState) -> bool| {
            model
                .jobs
                .iter()
                .filter(move |(_, row)| row.states.get(at).is_some_and(|s| which(*s)))
        };
        let may = of(may_begin).filter(|(_, row)| row.expires > now && !row.barred);
        let may: Vec<i64> = may.map(|(job, _)| *job).collect();
        prop_assert_eq!(open.unbegun(&minion(at), i64::MIN, now, usize::MAX), may);
        let handed = of(|state| matches!(state, Offered | Running));
        let handed: Vec<_> = handed
            .filter(|(job, _)| open.has(**job))
            .map(|(job, row)| (*job, row.states[at]))
            .collect();
        prop_assert_eq!(open.handed_over(&minion(at), i64::MIN), handed);
        let barred = of(|state| state == Offered).filter(|(_, row)| row.barred);
        let barred: Vec<i64> = barred
            .map(|(job, _)| *job)
            .filter(|job| open.has(*job))
            .collect();
        prop_assert_eq!(open.cancelled_of(&minion(at), usize::MAX), barred);
    }
    Ok(())
}

#[test]
fn nothing_stays_when_all_is_over() {
    let mut open = OpenJobs::default();
    for job in 0..10 {
        let states = vec![(minion(0), Offered), (minion(1), Running)];
        open.insert(job, 100, states, 0);
    }
    for job in 0..10 {
        assert!(open.set(job, &minion(0), Returned, 1));
        assert!(open.set(job, &minion(1), Returned, 1));
    }
    assert_eq!((open.offers, open.jobs.len()), (0, 0));
    assert!(open.open.is_empty() && open.expiries.is_empty() && open.changed.is_empty());
}
