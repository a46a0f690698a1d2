//! Books that do not balance are found.

use std::time::Duration;

use super::*;
use crate::contents::Content;
use crate::evidence::{Lookup, PresenceSample, UsageSeries};
use crate::fleet::ProcessUsage;
use crate::plan::{JobAct, JobPlan, Output, PublishMode};
use crate::publisher::{DoneAct, PrintedReturn};
use crate::store::StoredReturn;
use crate::timeline::{Condition, Disturbance, Loss, Who};

pub(super) const JID: &str = "20261121091409931549";
pub(super) const TOKEN: Token = Token(1);

pub(super) fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// One job for m1 that was published, ran, returned, and was printed.
pub(super) fn balanced() -> Evidence {
    let mut evidence = Evidence {
        minions: 1,
        return_bound: at(6),
        heartbeat: at(1),
        ..Evidence::default()
    };
    evidence.publications.push(Publication {
        job: JobPlan {
            token: TOKEN,
            targets: vec![1],
            mode: PublishMode::Attached,
            prints: 5,
            ..JobPlan::default()
        },
        mode: "saline",
        began: at(20),
        ended: Some(at(21)),
        jid: Some(JID.to_owned()),
        returns: vec![PrintedReturn {
            minion: "m1".to_owned(),
            content: printed_by("m1"),
        }],
        exit: Some(0),
        ..Publication::default()
    });
    evidence.runs.push(run(20));
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::Running, 1));
    evidence
}

pub(super) fn run(seconds: u64) -> LedgerRun {
    LedgerRun {
        token: TOKEN,
        instance: "m1".to_owned(),
        at: at(seconds),
        ended: Some(at(seconds) + Duration::from_millis(100)),
    }
}

pub(super) fn printed_by(instance: &str) -> Content {
    Content::Whole(Output {
        token: TOKEN,
        instance: instance.to_owned(),
        prints: 5,
    })
}

fn returned(instance: &str) -> StoredReturn {
    StoredReturn {
        retcode: 0,
        content: printed_by(instance),
    }
}

pub(super) fn down(minion: usize, from: u64, to: u64) -> Disturbance {
    Disturbance {
        who: Who::Minion(minion),
        condition: Condition::Down,
        from: at(from),
        to: Some(at(to)),
    }
}

pub(super) fn stored(state: State, returns: usize) -> StoredJob {
    let mut job = StoredJob {
        token: Some(TOKEN),
        ..StoredJob::default()
    };
    job.states.insert("m1".to_owned(), state);
    if returns > 0 {
        let rows = vec![returned("m1"); returns];
        job.returns.insert("m1".to_owned(), rows);
    }
    job
}

/// Makes the publication one that did not wait.
pub(super) fn detach(evidence: &mut Evidence) {
    evidence.publications[0].job.mode = PublishMode::Async;
    evidence.publications[0].returns.clear();
}

/// The names of the books that do not balance, where the services of the master did what they promise.
pub(super) fn broken(evidence: &Evidence) -> Vec<&'static str> {
    names_of_broken(&served(evidence))
}

/// Returns the evidence with every return delivered, and the start of a minion reacted to.
pub(super) fn served(evidence: &Evidence) -> Evidence {
    let mut served = evidence.clone();
    for (jid, job) in &evidence.jobs {
        for (minion, rows) in &job.returns {
            let retcode = rows[0].retcode;
            let of = (jid.clone(), minion.clone());
            served.delivered.insert(of, retcode);
        }
    }
    let reaction = StoredJob {
        reaction: Some(b"start".to_vec()),
        ..StoredJob::default()
    };
    served.jobs.insert("20261121091409931548".into(), reaction);
    served
}

pub(super) fn names_of_broken(evidence: &Evidence) -> Vec<&'static str> {
    let books = check(evidence).into_iter();
    books
        .filter(|book| !book.balances())
        .map(|book| book.name)
        .collect()
}

#[test]
fn books_that_balance() {
    let none: [&str; 0] = [];
    assert_eq!(broken(&balanced()), none);
    assert_eq!(broken(&Evidence::default()), none);
}

#[test]
fn a_second_run_is_found_with_its_jid() {
    let mut evidence = balanced();
    evidence.runs.push(run(25));
    let books = check(&evidence);
    let finding = &books[0].findings[0];
    assert_eq!((finding.jid.as_str(), finding.minion.as_str()), (JID, "m1"));
    assert!(finding.evidence.contains("25.000 s"), "{finding:?}");
    assert_eq!(broken(&evidence), ["at most once"]);
    // Another instance is another matter.
    evidence.runs[1].instance = "m1-clone-1".to_owned();
    assert_eq!(broken(&evidence).len(), 0);
}

#[test]
fn a_printed_return_that_is_not_stored_is_found() {
    let mut evidence = balanced();
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::LostTrack, 0));
    assert_eq!(broken(&evidence), ["acknowledged", "true states"]);
}

#[test]
fn a_printed_jid_that_is_not_stored_is_found_but_not_after_a_restore() {
    let mut evidence = balanced();
    evidence.jobs.clear();
    assert_eq!(broken(&evidence), ["acknowledged"]);
    evidence.history.losses.push(Loss::Restored {
        from: at(15),
        to: at(30),
    });
    assert_eq!(broken(&evidence).len(), 0);
}

#[test]
fn a_return_that_is_stored_twice_is_found() {
    let mut evidence = balanced();
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::Running, 2));
    assert_eq!(broken(&evidence), ["stored once"]);
}

#[test]
fn running_and_offered_without_end_are_found() {
    for state in [State::Running, State::Offered, State::Queued] {
        let mut evidence = balanced();
        detach(&mut evidence);
        evidence.jobs.insert(JID.to_owned(), stored(state, 0));
        // An operator is told no end either.
        evidence
            .lookups
            .insert(JID.to_owned(), Ok(Lookup::default()));
        assert_eq!(broken(&evidence), ["an end"], "{state}");
    }
}

#[test]
fn a_command_line_that_does_not_end_is_found() {
    let mut evidence = balanced();
    evidence.publications[0].ended = None;
    assert_eq!(broken(&evidence), ["an end"]);
}

#[test]
fn a_run_that_ends_as_expired_is_found_also_when_only_an_operator_is_told_so() {
    let mut evidence = balanced();
    detach(&mut evidence);
    for state in [State::Expired, State::NotConnected, State::Declined] {
        evidence.jobs.insert(JID.to_owned(), stored(state, 0));
        assert_eq!(broken(&evidence), ["true states"], "{state}");
    }
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::Offered, 0));
    let mut lookup = Lookup::default();
    lookup.absent.insert("m1".to_owned(), "Expired".to_owned());
    evidence.lookups.insert(JID.to_owned(), Ok(lookup));
    assert_eq!(broken(&evidence), ["true states"]);
}

#[test]
fn a_power_loss_excuses_that_a_run_may_have_been_and_nothing_else() {
    let mut evidence = balanced();
    detach(&mut evidence);
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::MayHaveRun, 0));
    assert_eq!(broken(&evidence), ["true states"]);
    let loss = |seconds| Loss::Power {
        minion: 1,
        at: at(seconds),
        synced: false,
    };
    evidence.history.losses.push(loss(10));
    assert_eq!(broken(&evidence), ["true states"], "it was before the run");
    evidence.history.losses.push(loss(22));
    assert_eq!(broken(&evidence).len(), 0);
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::Expired, 0));
    assert_eq!(broken(&evidence), ["true states"]);
}

#[test]
fn what_was_told_not_to_run_and_ran_is_found() {
    let mut evidence = balanced();
    detach(&mut evidence);
    evidence.publications[0].absent = vec![("m1".to_owned(), "Not connected".to_owned())];
    assert_eq!(broken(&evidence), ["told"]);
    evidence.publications[0].absent = vec![("m1".to_owned(), "No response".to_owned())];
    assert_eq!(broken(&evidence).len(), 0);
}

#[test]
fn a_job_that_a_minion_missed_though_it_was_there_is_found() {
    let mut evidence = balanced();
    detach(&mut evidence);
    evidence.runs.clear();
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::Expired, 0));
    assert_eq!(broken(&evidence), ["in time"]);
    evidence.history.disturbances.push(down(1, 19, 26));
    assert_eq!(broken(&evidence).len(), 0);
}

#[test]
fn presence_that_lies_is_found() {
    let sample = |present: &[&str]| PresenceSample {
        asked: at(20),
        answered: at(20),
        present: Some(present.iter().map(|name| (*name).to_owned()).collect()),
    };
    let mut evidence = balanced();
    evidence.presence = vec![sample(&["m1"])];
    assert_eq!(broken(&evidence).len(), 0);
    evidence.presence = vec![sample(&[])];
    assert_eq!(broken(&evidence), ["presence"]);
    evidence.history.disturbances.push(Disturbance {
        who: Who::Minion(1),
        condition: Condition::Down,
        from: at(10),
        to: None,
    });
    assert_eq!(broken(&evidence).len(), 0);
    evidence.presence = vec![sample(&["m1"])];
    assert_eq!(broken(&evidence), ["presence"]);
    evidence.history.losses.push(Loss::Cloned {
        minion: 1,
        from: at(15),
        to: at(18),
    });
    assert_eq!(broken(&evidence).len(), 0, "the copy is there");
    evidence.presence[0].asked = at(25);
    evidence.presence[0].answered = at(25);
    assert_eq!(broken(&evidence), ["presence"], "it has gone");
    let mut link = Disturbance {
        who: Who::Minion(1),
        condition: Condition::Unreachable,
        from: at(9),
        to: None,
    };
    evidence.history.disturbances.push(link);
    assert_eq!(broken(&evidence), ["presence"], "nothing passes");
    evidence.history.disturbances.pop();
    link.to = Some(at(24));
    evidence.history.disturbances.push(link);
    assert_eq!(broken(&evidence).len(), 0, "its last heartbeat came late");
}

#[test]
fn a_minion_whose_clone_has_gone_may_wait_before_it_tries_again() {
    let mut evidence = balanced();
    evidence.history.losses = vec![Loss::Cloned {
        minion: 1,
        from: at(20),
        to: at(24),
    }];
    let mut broken_at = |seconds| {
        evidence.presence = vec![PresenceSample {
            asked: at(seconds),
            answered: at(seconds),
            present: Some(Default::default()),
        }];
        broken(&evidence)
    };
    // Its last pause is twice as long as those before it, which came to no more than 9 s.
    assert_eq!(broken_at(47).len(), 0);
    assert_eq!(broken_at(48), ["presence"]);
}

#[test]
fn memory_that_grows_is_found_in_processes_that_ran_to_the_end() {
    let series = |pid, until: u64, grown: u64| UsageSeries {
        instance: "m1".to_owned(),
        pid,
        samples: (0..until)
            .map(|second| {
                let usage = ProcessUsage {
                    memory: 20_000 + if second + 3 >= until { grown } else { 0 },
                    descriptors: 20,
                };
                (at(second), usage)
            })
            .collect(),
    };
    let mut evidence = balanced();
    evidence.usage = vec![series(1, 20, 500_000), series(2, 30, 1000)];
    assert_eq!(broken(&evidence).len(), 0);
    evidence.usage.push(series(3, 30, 500_000));
    assert_eq!(broken(&evidence), ["flat"]);
}

#[test]
fn a_jid_that_was_given_to_two_jobs_is_found() {
    let mut evidence = balanced();
    evidence.history.losses.push(Loss::Restored {
        from: at(15),
        to: at(30),
    });
    let mut first = evidence.publications[0].clone();
    first.job.token = Token(7);
    evidence.publications.push(first);
    assert_eq!(broken(&evidence), ["acknowledged", "contents"]);
}

#[test]
fn a_batch_that_more_run_at_once_than_it_allows_is_found_unless_one_was_disturbed() {
    let mut evidence = balanced();
    evidence.minions = 2;
    evidence.publications[0].job.batch = Some(1);
    evidence.publications[0].job.takes = at(2);
    let job = evidence.jobs.get_mut(JID).unwrap();
    job.states.insert("m2".to_owned(), State::Running);
    job.returns.insert("m2".to_owned(), vec![returned("m2")]);
    let other = |seconds| LedgerRun {
        instance: "m2".to_owned(),
        ..run(seconds)
    };
    evidence.runs.push(other(22));
    assert!(!broken(&evidence).contains(&"batches"));
    evidence.runs[1] = other(21);
    assert!(broken(&evidence).contains(&"batches"));
    let mut killed = evidence.clone();
    killed.publications[0].acts.push(DoneAct {
        act: JobAct::Kill,
        from: at(20),
        to: at(21),
        answers: [].into(),
    });
    assert!(!broken(&killed).contains(&"batches"), "its runs end early");
    evidence.history.disturbances.push(Disturbance {
        who: Who::Minion(2),
        condition: Condition::Disturbed,
        from: at(19),
        to: Some(at(20)),
    });
    assert!(!broken(&evidence).contains(&"batches"));
}
