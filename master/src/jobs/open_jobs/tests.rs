//! The state machine against a model that is short enough to be read: a table of states.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

use OfferState::{Expired, Offered, Queued, Returned, Running};

const STATES: [OfferState; 7] = OfferState::ALL;

/// What may happen.
#[derive(Debug, Clone)]
enum Event {
    Publish(i64, u64, Vec<usize>),
    Set(i64, usize, usize),
    Time(u64),
    Write,
    WriteBehind,
    Forget(i64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (
            0..6i64,
            0..30u64,
            proptest::collection::vec(0..7usize, 0..4)
        )
            .prop_map(|(job, ttl, states)| Event::Publish(job, ttl, states)),
        (0..6i64, 0..4usize, 0..7usize).prop_map(|(job, minion, to)| Event::Set(job, minion, to)),
        (0..6i64, 0..4usize, 0..7usize).prop_map(|(job, minion, to)| Event::Set(job, minion, to)),
        (0..20u64).prop_map(Event::Time),
        Just(Event::Write),
        Just(Event::WriteBehind),
        (0..6i64).prop_map(Event::Forget),
    ]
}

fn minion(number: usize) -> MinionId {
    MinionId::parse(&format!("m{number}")).unwrap()
}

/// The states of all jobs, whether or not they are over; and what a crash would leave.
#[derive(Debug, Default)]
struct Model {
    jobs: BTreeMap<i64, (u64, Vec<OfferState>)>,
    written: BTreeMap<i64, Vec<OfferState>>,
}

impl Model {
    fn set(&mut self, job: i64, minion: usize, to: OfferState) -> bool {
        let state = self
            .jobs
            .get_mut(&job)
            .and_then(|job| job.1.get_mut(minion));
        let allowed = state.as_ref().is_some_and(|from| may_become(**from, to));
        if let Some(state) = state.filter(|_| allowed) {
            *state = to;
        }
        allowed
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_table_and_the_machine_agree(events in proptest::collection::vec(event(), 1..80)) {
        let (mut open, mut model, mut now) = (OpenJobs::default(), Model::default(), 0);
        for event in events {
            match event {
                Event::Publish(job, ttl, states) => {
                    if model.jobs.contains_key(&job) {
                        continue;
                    }
                    let states: Vec<_> = states.into_iter().map(|state| STATES[state]).collect();
                    let named = states.iter().enumerate().map(|(at, s)| (minion(at), *s));
                    open.insert(job, now + ttl, named.collect(), now);
                    model.written.insert(job, states.clone());
                    model.jobs.insert(job, (now + ttl, states));
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
                    let mut expected = Vec::new();
                    for (job, (expires, states)) in &mut model.jobs {
                        for (at, state) in states.iter_mut().enumerate() {
                            if *expires <= now && matches!(state, Offered | Queued) {
                                *state = Expired;
                                expected.push((jid::from_micros(*job), minion(at)));
                            }
                        }
                    }
                    prop_assert_eq!(open.expire(now), expected);
                }
                Event::Write | Event::WriteBehind => {
                    let changed = open.changed(i64::MIN, usize::MAX);
                    if matches!(event, Event::WriteBehind) {
                        // While they are written, everybody goes on.
                        for ChangedJob { job, .. } in &changed {
                            for (from, to) in [(Offered, Running), (Running, Returned)] {
                                let at = model.jobs[job].1.iter().position(|s| *s == from);
                                if let Some(at) = at {
                                    open.set(*job, &minion(at), to, now);
                                    model.set(*job, at, to);
                                }
                            }
                        }
                    }
                    for changed in changed {
                        let plain = changed.states.iter().map(|(_, state)| *state);
                        model.written.insert(changed.job, plain.collect());
                        open.written(&changed);
                    }
                }
                Event::Forget(job) => {
                    open.forget(job..job + 1);
                    model.jobs.remove(&job);
                }
            }
            compare(&mut open, &model, now)?;
        }
    }
}

fn compare(open: &mut OpenJobs, model: &Model, now: u64) -> Result<(), TestCaseError> {
    let mut offers = 0;
    for (job, (expires, states)) in &model.jobs {
        let named: Vec<_> = states
            .iter()
            .enumerate()
            .map(|(at, s)| (minion(at), *s))
            .collect();
        let unfinished = states.iter().any(|state| !state.is_final());
        match open.states(*job) {
            Some((here, until)) => {
                prop_assert_eq!((here, until), (&named, *expires));
                offers += states.len();
            }
            None => {
                prop_assert!(!unfinished, "job {job} left before its end: {states:?}");
                // What is written, returns and the clock tell the same.
                for (written, is) in model.written[job].iter().zip(states) {
                    let told = match is {
                        Returned => Returned,
                        _ => super::super::states::at(now, *expires, *written),
                    };
                    prop_assert_eq!(told, *is, "job {}", job);
                }
            }
        }
        let alive = open.any_alive(*job..*job + 1, now, u64::MAX);
        prop_assert_eq!(alive, open.has(*job) && *expires > now);
    }
    prop_assert_eq!(open.offers(), offers);
    for at in 0..4 {
        let may = model.jobs.iter().filter(|(_, (expires, states))| {
            *expires > now && states.get(at).is_some_and(|state| may_begin(*state))
        });
        let may: Vec<i64> = may.map(|(job, _)| *job).collect();
        prop_assert_eq!(open.unbegun(&minion(at), i64::MIN, now, usize::MAX), may);
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
    assert!(open.unbegun.is_empty() && open.expiries.is_empty() && open.changed.is_empty());
}
