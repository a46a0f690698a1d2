//! Batches in the store: who gets its turn, what a claim changes, and what a crash leaves.

use std::collections::BTreeSet;

use super::*;
use crate::jobs::{BatchStep, BatchStop};
use saline_messages::{Batch, BatchEvent};

use MinionJobState::{Cancelled, NotConnected, Offered, Queued, Returned, Running, Waiting};

const ONE: Batch = Batch {
    size: 1,
    wait_ms: 0,
    timeout_ms: 0,
    failhard: false,
    queues: false,
};

/// Publishes a batch for `a`, `b` and `c`.
async fn publish_batch(store: &JobStore, batch: Batch) -> Job {
    let job = job(store);
    let new = NewJob {
        batch: Some(batch),
        ..new(&job, &[("a", Waiting), ("b", Waiting), ("c", Waiting)])
    };
    assert_eq!(store.publish(new).await.unwrap(), CarriedOut::Now);
    job
}

fn step(store: &JobStore, present: &[&str]) -> BatchStep {
    let present: BTreeSet<MinionId> = present.iter().map(|name| id(name)).collect();
    store.step_batches(Some(&present))
}

fn turns(step: &BatchStep) -> Vec<&MinionId> {
    step.turns.iter().flat_map(|(_, ids)| ids).collect()
}

fn events(step: &BatchStep) -> Vec<BatchEvent> {
    step.reports.iter().map(|report| report.event).collect()
}

async fn claims(store: &JobStore, job: &Job, minion: &str) -> bool {
    store.claim(&id(minion), &job.jid).await.unwrap()
}

async fn is_listed(store: &JobStore, minion: &str) -> bool {
    let now = store.now();
    let page = store
        .pending_jobs(&id(minion), None, now, u64::MAX)
        .await
        .unwrap();
    !page.jobs.is_empty()
}

async fn gives_back(store: &JobStore, job: &Job, minion: &str, retcode: i64) {
    let returned = Return {
        jid: job.jid.clone(),
        fun: job.fun.clone(),
        retcode,
        success: retcode == 0,
        payload: Packed::pack(&Value::Null),
    };
    let verdicts = store.store_returns(&id(minion), vec![returned]).await;
    assert_eq!(verdicts.unwrap(), [ReturnVerdict::Stored]);
}

fn named(states: [MinionJobState; 3]) -> Vec<(MinionId, MinionJobState)> {
    ["a", "b", "c"].map(id).into_iter().zip(states).collect()
}

#[tokio::test]
async fn a_minion_gets_the_job_in_its_turn_and_a_claim_hands_it_over() {
    let place = Place::new();
    let store = place.open();
    let job = publish_batch(&store, ONE).await;
    assert_eq!(store.batches_under_way(), (true, true));
    assert!(!is_listed(&store, "a").await, "it is nobody's turn yet");
    let all = ["a", "b"];
    let first = step(&store, &all);
    assert_eq!(turns(&first), [&id("a")]);
    assert_eq!(events(&first), [BatchEvent::New, BatchEvent::Progress]);
    assert_eq!(store.batches_under_way(), (true, false));

    assert!(is_listed(&store, "a").await && !is_listed(&store, "b").await);
    assert_eq!(states(&store, &job.jid).await, named([Waiting; 3]));
    assert!(!claims(&store, &job, "b").await);
    assert!(claims(&store, &job, "a").await);
    assert!(claims(&store, &job, "a").await, "its answer may be lost");
    let granted = named([Offered, Waiting, Waiting]);
    assert_eq!(states(&store, &job.jid).await, granted);

    assert_eq!(turns(&step(&store, &all)), Vec::<&MinionId>::new());
    gives_back(&store, &job, "a", 3).await;
    assert_eq!(turns(&step(&store, &all)), [&id("b")]);
    assert!(!claims(&store, &job, "a").await, "it has ended");
    assert!(claims(&store, &job, "b").await);
    gives_back(&store, &job, "b", 0).await;
    let last = step(&store, &["a", "b"]);
    assert_eq!(last.settled, [(job.jid.clone(), id("c"), NotConnected)]);
    assert_eq!(events(&last), [BatchEvent::Progress, BatchEvent::Complete]);
    assert!(!claims(&store, &job, "c").await);
    assert_eq!(store.batches_under_way(), (false, false));
    assert_eq!(store.batches(), []);
}

#[tokio::test]
async fn a_batch_goes_on_after_a_crash_and_offers_nothing_twice() {
    let place = Place::new();
    let store = place.open();
    let job = publish_batch(&store, ONE).await;
    let all = ["a", "b", "c"];
    assert_eq!(turns(&step(&store, &all)), [&id("a")]);
    assert!(claims(&store, &job, "a").await);
    // Dropped without being closed, as if it had been killed.
    drop(store);

    let store = place.open();
    let granted = named([Offered, Waiting, Waiting]);
    assert_eq!(states(&store, &job.jid).await, granted);
    let first = step(&store, &["b", "c"]);
    assert_eq!(events(&first), [BatchEvent::Recover]);
    assert!(
        first.turns.is_empty(),
        "a may run it, and has not come back"
    );
    assert!(!claims(&store, &job, "b").await);
    assert!(claims(&store, &job, "a").await, "it may not have begun");
    assert!(store.set_state(&job.jid, &id("a"), Running).await.unwrap());
    gives_back(&store, &job, "a", 0).await;
    assert_eq!(turns(&step(&store, &all)), [&id("b")]);
    let progress = &store.batches()[0];
    assert_eq!(
        (progress.ended, progress.active, progress.waiting),
        (1, 1, 1)
    );
}

#[tokio::test]
async fn a_failure_halts_a_batch_also_when_the_master_is_killed_at_once() {
    let place = Place::new();
    let store = place.open();
    let batch = Batch {
        failhard: true,
        ..ONE
    };
    let job = publish_batch(&store, batch).await;
    step(&store, &["a", "b", "c"]);
    assert!(claims(&store, &job, "a").await);
    gives_back(&store, &job, "a", 1).await;
    drop(store);

    let store = place.open();
    assert_eq!(store.batches()[0].stopped, Some(BatchStop::Halted));
    let halted = step(&store, &["a", "b", "c"]);
    assert!(halted.turns.is_empty());
    let told = [BatchEvent::Recover, BatchEvent::Halted];
    assert_eq!(events(&halted)[..2], told);
    assert_eq!(
        states(&store, &job.jid).await,
        named([Returned, Cancelled, Cancelled])
    );
}

#[tokio::test]
async fn a_cancelled_batch_stays_so_when_the_master_is_killed_at_once() {
    let place = Place::new();
    let store = place.open();
    let job = publish_batch(&store, ONE).await;
    store.cancel(&job.jid).await.unwrap().unwrap();
    // Without the flush that follows.
    drop(store);
    let store = place.open();
    assert!(turns(&step(&store, &["a", "b", "c"])).is_empty());
    assert!(!claims(&store, &job, "a").await);
    let cancelled = named([Cancelled; 3]);
    assert_eq!(states(&store, &job.jid).await, cancelled);
}

#[tokio::test]
async fn a_cancelled_batch_offers_the_job_to_nobody_and_lets_the_others_end() {
    let place = Place::new();
    let store = place.open();
    let job = publish_batch(&store, ONE).await;
    step(&store, &["a", "b", "c"]);
    assert!(claims(&store, &job, "a").await);
    assert!(store.set_state(&job.jid, &id("a"), Running).await.unwrap());
    let cancelled = store.cancel(&job.jid).await.unwrap().unwrap();
    assert_eq!(cancelled, ["b", "c"].map(id));
    let stopped = step(&store, &["a", "b", "c"]);
    assert_eq!(events(&stopped), [BatchEvent::Stop, BatchEvent::Progress]);
    store.flush_all().await.unwrap();
    drop(store);

    let store = place.open();
    let left = named([Running, Cancelled, Cancelled]);
    assert_eq!(states(&store, &job.jid).await, left);
    gives_back(&store, &job, "a", 0).await;
    let last = step(&store, &["a"]);
    assert_eq!(events(&last).last(), Some(&BatchEvent::Complete));
}

#[tokio::test]
async fn with_a_time_to_live_the_rest_is_queued_and_gets_its_turn_when_it_comes() {
    let place = Place::new();
    let store = place.open();
    let batch = Batch {
        queues: true,
        ..ONE
    };
    let job = publish_batch(&store, batch).await;
    let first = step(&store, &[]);
    let queued = ["a", "b", "c"].map(|name| (job.jid.clone(), id(name), Queued));
    assert_eq!(first.settled, queued);
    assert_eq!(step(&store, &[]).settled, []);
    assert_eq!(turns(&step(&store, &["b", "c"])), [&id("b")]);
    assert!(!claims(&store, &job, "c").await);
    assert!(claims(&store, &job, "b").await);
}

#[tokio::test]
async fn a_minion_whose_key_goes_gives_its_slot_back() {
    let place = Place::new();
    let store = place.open();
    let job = publish_batch(&store, ONE).await;
    step(&store, &["a", "b", "c"]);
    assert!(claims(&store, &job, "a").await);
    assert_eq!(
        store.withdraw(&id("a"), None),
        std::slice::from_ref(&job.jid)
    );
    assert_eq!(turns(&step(&store, &["b", "c"])), [&id("b")]);
}
