//! The state machine against a model that is short enough to be read: a table of states.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

use MinionJobState::{
    Cancelled, Expired, LostTrack, Offered, Queued, Returned, Running, Waiting, Withdrawn,
};

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

/// The number of jobs that a minion runs at a time.
const MOST_RUNNING: usize = 2;

/// A job of the model.
#[derive(Debug)]
struct Row {
    expires: u64,
    states: Vec<MinionJobState>,
    published: Vec<MinionJobState>,
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
    given_up: Vec<(Jid, MinionId)>,
}

impl Model {
    fn set(&mut self, job: i64, minion: usize, to: MinionJobState) -> bool {
        let row = self.jobs.get_mut(&job);
        let state = row.and_then(|row| row.states.get_mut(minion));
        let allowed = state.as_ref().is_some_and(|from| may_become(**from, to));
        if let Some(state) = state.filter(|_| allowed) {
            *state = to;
        }
        if allowed && to == Running {
            self.give_up_oldest(minion);
        }
        allowed
    }

    /// Of too many jobs that a minion runs, nobody follows the oldest.
    fn give_up_oldest(&mut self, who: usize) {
        let mut rows = self.jobs.iter_mut();
        let mut running: Vec<_> = rows
            .by_ref()
            .filter(|(_, row)| row.states.get(who) == Some(&Running))
            .collect();
        if running.len() > MOST_RUNNING {
            let (job, row) = &mut running[0];
            row.states[who] = LostTrack;
            self.given_up.push((jid::from_micros(**job), minion(who)));
        }
    }

    /// Returns what a start would be told of a minion by what is written, returns, the clock and its expiry ack.
    fn told(&self, job: i64, at: usize, now: u64) -> MinionJobState {
        let row = &self.jobs[&job];
        match (row.states[at], row.written[at]) {
            (Returned, _) => Returned,
            (_, Queued | Waiting) if row.cancelled => Cancelled,
            (_, written) => self.at(job, at, now, written),
        }
    }

    /// Returns what the clock and the expiry ack make of a state.
    fn at(&self, job: i64, at: usize, now: u64, state: MinionJobState) -> MinionJobState {
        let (expires, record) = (self.jobs[&job].expires, &self.records[at]);
        crate::jobs::memory::states::at(now, expires, state, Some(record))
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
        let mut open = OpenJobs::new(MOST_RUNNING);
        let mut now = 1_000;
        let record = MinionRecord::new(StartId([1; 16]), now);
        let mut model =
            Model { jobs: BTreeMap::new(), records: vec![record; 4], given_up: Vec::new() };
        for event in events {
            match event {
                Event::Publish(job, ttl, states) => {
                    if model.jobs.contains_key(&job) {
                        continue;
                    }
                    // Nobody runs a job when it is published.
                    let states = states.into_iter().map(|state| STATES[state]);
                    let states: Vec<_> = states.filter(|state| *state != Running).collect();
                    let named = states.iter().enumerate().map(|(at, s)| (minion(at), *s));
                    open.insert(job, now + 1 + ttl, named.collect(), now);
                    let row = Row { expires: now + 1 + ttl, written: states.clone(),
                        published: states.clone(), states, cancelled: false, barred: false };
                    model.jobs.insert(job, row);
                }
                Event::Set(job, who, to) => {
                    let (id, to) = (minion(who), STATES[to]);
                    if open.lookup(job, &id) != MinionLookup::NotHere {
                        let set = open.set(job, &id, to, now);
                        prop_assert_eq!(set, model.set(job, who, to));
                    } else if model.jobs.get(&job).is_some_and(|row| row.states.len() > who)
                        && to != Returned
                        && may_become(model.told(job, who, now), to)
                    {
                        // The store changes what is written.
                        let expires = model.jobs[&job].expires;
                        if let Some(row) = model.jobs.get_mut(&job) {
                            row.written[who] = to;
                        }
                        prop_assert!(model.set(job, who, to));
                        if to == Running {
                            open.insert_late(job, expires, &id, now);
                        }
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
                        (at == who && state == Offered && row.expires <= until
                            && open.lookup(job, &minion(at)) != MinionLookup::NotHere)
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
                        (at == who && !state.is_final()
                            && open.lookup(job, &minion(at)) != MinionLookup::NotHere)
                            .then_some(Withdrawn)
                    });
                    let expected: Vec<_> =
                        expected.iter().map(|(job, ..)| jid::from_micros(*job)).collect();
                    prop_assert_eq!(open.withdraw(&minion(who), now), expected);
                }
                Event::Write | Event::WriteBehind => {
                    let all = open.unwritten(None, usize::MAX);
                    let mut pages: Vec<UnwrittenState> = Vec::new();
                    loop {
                        let last = pages.last().map(|last| (last.job, last.minion.clone()));
                        let page = open.unwritten(last.as_ref(), 2);
                        let is_last = page.len() < 2;
                        pages.extend(page);
                        if is_last {
                            break;
                        }
                    }
                    let named = |states: &[UnwrittenState]| {
                        let each = states.iter().map(|one| (one.job, one.minion.clone(), one.state));
                        each.collect::<Vec<_>>()
                    };
                    prop_assert_eq!(named(&pages), named(&all));
                    if matches!(event, Event::WriteBehind) {
                        // While they are written, everybody goes on.
                        for UnwrittenState { job, .. } in &all {
                            for (from, to) in [(Offered, Running), (Running, Returned)] {
                                let at = model.jobs[job].states.iter().position(|s| *s == from);
                                if let Some(at) = at && open.set(*job, &minion(at), to, now) {
                                    model.set(*job, at, to);
                                }
                            }
                        }
                    }
                    for unwritten in all {
                        let at = (0..4).find(|at| minion(*at) == unwritten.minion).unwrap();
                        if let Some(row) = model.jobs.get_mut(&unwritten.job) {
                            // The row of the change is removed.
                            row.written[at] = match unwritten.state {
                                Returned => row.published[at],
                                state => state,
                            };
                        }
                        open.written(&unwritten);
                    }
                }
                Event::Forget(job) => {
                    open.forget(job..job + 1, &[]);
                    model.jobs.remove(&job);
                }
            }
            prop_assert_eq!(open.take_given_up(), std::mem::take(&mut model.given_up));
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
    assert!(open.is_unwritten(2, &minion(0)), "the store is told");
}

fn compare(open: &OpenJobs, model: &Model, now: u64) -> Result<(), TestCaseError> {
    let mut offers = 0;
    for (job, row) in &model.jobs {
        for (at, state) in row.states.iter().enumerate() {
            let may_begin_or_runs = matches!(state, Running | Queued | Waiting)
                || (*state == Offered && row.expires > now);
            let is_unwritten = open.is_unwritten(*job, &minion(at));
            match open.lookup(*job, &minion(at)) {
                MinionLookup::State(here) => {
                    prop_assert_eq!(here, *state);
                    prop_assert!(is_unwritten || !state.is_final(), "job {job}: {row:?}");
                    offers += usize::from(!state.is_final());
                }
                MinionLookup::NotHere => {
                    prop_assert!(!may_begin_or_runs, "job {job} left before its end: {row:?}");
                    // What is written, returns, the clock and the expiry acks of minions tell the same.
                    let is = model.at(*job, at, now, *state);
                    prop_assert_eq!(model.told(*job, at, now), is, "job {} {:?}", job, row);
                }
            }
            // A start does not read for long that somebody runs a job who does not.
            let is_stale = row.written[at] == Running && *state != Running;
            prop_assert!(!is_stale || is_unwritten, "job {job}: {row:?}");
        }
        prop_assert_eq!(open.expires(*job).unwrap_or(row.expires), row.expires);
        let is_alive = |since| open.alive(*job..*job + 1, now, since) == [*job];
        let may_begin = is_alive(u64::MAX);
        prop_assert_eq!(may_begin, open.has(*job) && row.expires > now);
        prop_assert_eq!(is_alive(0), may_begin || row.states.contains(&Running));
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
        let is_here = |job: &i64| open.lookup(*job, &minion(at)) != MinionLookup::NotHere;
        let handed: Vec<_> = handed
            .filter(|(job, _)| is_here(job))
            .map(|(job, row)| (*job, row.states[at]))
            .collect();
        prop_assert_eq!(open.handed_over(&minion(at), i64::MIN), handed);
        let barred = of(|state| state == Offered).filter(|(_, row)| row.barred);
        let barred: Vec<i64> = barred.map(|(job, _)| *job).filter(is_here).collect();
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
