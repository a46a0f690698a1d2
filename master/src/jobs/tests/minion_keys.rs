//! In which order keys, expiry acks and the states of jobs reach the disk: a store that is dropped without being closed
//! has lost what was not written, as after a crash.

use super::*;
use crate::jobs::ReconcilingStart;
use saline_messages::{ExpiryAck, StartId};

use MinionJobState::{Offered, Queued, Running, Unconfirmed, Withdrawn};

const OLD: [u8; 32] = [1; 32];
const NEW: [u8; 32] = [2; 32];

fn start(number: u8) -> ReconcilingStart {
    ReconcilingStart {
        start: StartId([number; 16]),
        predecessors: vec![StartId([number - 1; 16])],
        power_lost: false,
        beside: false,
        heartbeats_noted: 0,
        heartbeats_before: 0,
    }
}

/// A store that knows the key of the minion `a`, and a job that is queued for it.
async fn offered_to_the_old_key(place: &Place) -> (JobStore, Job) {
    let store = place.open();
    assert!(store.note_key(&id("a"), OLD));
    let job = job(&store);
    publish(&store, &job, &[("a", Queued)]).await;
    (store, job)
}

async fn of_a(store: &JobStore, job: &Job) -> MinionJobState {
    states(store, &job.jid).await[0].1
}

#[tokio::test]
async fn a_new_key_is_on_the_disk_after_the_withdrawal() {
    let place = Place::new();
    let (store, job) = offered_to_the_old_key(&place).await;
    assert_eq!(
        store.withdraw(&id("a"), Some(NEW)),
        std::slice::from_ref(&job.jid)
    );
    // Before anything was flushed, a session under the id ends its reconciliation.
    let finished = store.finish_reconciliation(&id("a"), &start(2)).await;
    finished.unwrap();
    drop(store);
    let store = place.open();
    assert!(store.has_key(&id("a"), NEW), "it was written");
    assert_eq!(of_a(&store, &job).await, Withdrawn);
}

#[tokio::test]
async fn a_withdrawal_alone_leaves_the_old_key_noted() {
    let place = Place::new();
    let (store, job) = offered_to_the_old_key(&place).await;
    store.withdraw(&id("a"), Some(NEW));
    drop(store);
    let store = place.open();
    assert_eq!(of_a(&store, &job).await, Queued);
    assert!(
        !store.note_key(&id("a"), NEW),
        "it is withdrawn at the start"
    );
}

#[tokio::test]
async fn the_key_is_on_the_disk_before_what_is_offered_to_it() {
    let place = Place::new();
    let (store, job) = offered_to_the_old_key(&place).await;
    drop(store);
    let store = place.open();
    assert_eq!(of_a(&store, &job).await, Queued);
    assert!(!store.note_key(&id("a"), NEW), "the disk knows the old one");
    assert!(store.has_key(&id("a"), OLD));
}

#[tokio::test]
async fn what_was_resolved_before_a_withdrawal_is_stored_as_withdrawn() {
    let place = Place::new();
    let (store, _) = offered_to_the_old_key(&place).await;
    let late = job(&store);
    let resolved = store.now();
    store.withdraw(&id("a"), Some(NEW));
    store.flush_all().await.unwrap();
    let new = NewJob {
        resolved: Some(resolved),
        ..new(&late, &[("a", Queued), ("b", Queued)])
    };
    assert_eq!(store.publish(new).await.unwrap(), CarriedOut::Now);
    let withdrawn = store.withdrawn_late(&late.jid, resolved).await.unwrap();
    assert_eq!(withdrawn.into_iter().collect::<Vec<_>>(), [id("a")]);
    let expected = [(id("a"), Withdrawn), (id("b"), Queued)];
    assert_eq!(states(&store, &late.jid).await, expected);
    drop(store);
    let store = place.open();
    assert_eq!(states(&store, &late.jid).await, expected, "after a crash");
    let pending = store
        .pending_jobs(&id("a"), None, late.created, u64::MAX)
        .await;
    assert_eq!(pending.unwrap().jobs, []);
}

/// Publications that are under way while a key is replaced: when the new key is on the disk, so is what was
/// withdrawn from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_written_inherits_nothing_that_was_on_its_way() {
    for _ in 0..20 {
        let place = Place::new();
        let store = std::sync::Arc::new(place.open());
        assert!(store.note_key(&id("a"), OLD));
        store.flush_all().await.unwrap();
        let resolved = store.now();
        let mut tasks = tokio::task::JoinSet::new();
        let jobs: Vec<Job> = (0..16).map(|_| job(&store)).collect();
        for job in jobs.clone() {
            let store = std::sync::Arc::clone(&store);
            tasks.spawn(async move {
                let new = NewJob {
                    resolved: Some(resolved),
                    ..new(&job, &[("a", Queued)])
                };
                assert_eq!(store.publish(new).await.unwrap(), CarriedOut::Now);
            });
        }
        tokio::task::yield_now().await;
        store.withdraw(&id("a"), Some(NEW));
        store.flush_all().await.unwrap();
        // What is committed by now is all that a crash leaves.
        let copied = Place::new();
        std::fs::create_dir_all(&copied.settings.folder).unwrap();
        for entry in std::fs::read_dir(&place.settings.folder).unwrap() {
            let entry = entry.unwrap();
            let to = copied.settings.folder.join(entry.file_name());
            std::fs::copy(entry.path(), to).unwrap();
        }
        while tasks.join_next().await.is_some() {}
        drop(store);
        let store = copied.open();
        assert!(store.has_key(&id("a"), NEW));
        let pending = store.pending_jobs(&id("a"), None, resolved, u64::MAX).await;
        assert_eq!(pending.unwrap().jobs, []);
    }
}

#[tokio::test]
async fn a_start_is_not_overwritten_by_a_flush_that_began_before_it() {
    let place = Place::new();
    let store = place.open();
    let first = store.finish_reconciliation(&id("a"), &start(1)).await;
    first.unwrap();
    // More states than a flush writes in one call.
    let (many, last) = (job(&store), job(&store));
    publish(&store, &last, &[("a", Offered)]).await;
    run_by_many(&store, &many).await;
    assert!(store.set_state(&last.jid, &id("a"), Running).await.unwrap());
    // Its record waits to be written, as it is now.
    assert!(store.note_key(&id("a"), OLD));
    assert!(!store.flush().await.unwrap(), "one is left");
    let second = store.finish_reconciliation(&id("a"), &start(2)).await;
    second.unwrap();
    while !store.flush().await.unwrap() {}
    drop(store);
    let store = place.open();
    let record = store.minion_record(&id("a")).unwrap();
    assert_eq!(record.start, StartId([2; 16]));
}

/// Publishes a job that as many minions run as a flush writes in one call.
async fn run_by_many(store: &JobStore, job: &Job) {
    let names = names(crate::jobs::flush::FLUSHED);
    publish(store, job, &offered(&names)).await;
    for name in &names {
        assert!(store.set_state(&job.jid, &id(name), Running).await.unwrap());
    }
}

#[tokio::test]
async fn an_expiry_ack_is_not_on_the_disk_before_the_states_that_it_decides_about() {
    let place = Place::new();
    let store = place.open();
    let first = store.finish_reconciliation(&id("a"), &start(1)).await;
    first.unwrap();
    let settled = store.minion_record(&id("a")).unwrap().expiry_acked_until;
    while store.now() < settled + 3 {
        tokio::task::yield_now().await;
    }
    let mut begun = job(&store);
    begun.expires = settled + 1;
    publish(&store, &begun, &[("a", Offered)]).await;
    // In one request, as when it is not clear what the minion runs: its expiry ack, and the end of a reconciliation.
    let ack = ExpiryAck {
        after: settled,
        until: u64::MAX,
        begun: vec![begun.jid.clone()],
    };
    let taken = store.take_expiry_ack(&id("a"), &ack).await;
    taken.unwrap();
    let again = store.finish_reconciliation(&id("a"), &start(1)).await;
    again.unwrap();
    drop(store);
    let store = place.open();
    assert_eq!(of_a(&store, &begun).await, Running, "it has not expired");
}

#[tokio::test]
async fn an_expiry_ack_that_comes_during_a_flush_waits_for_the_next_one() {
    let place = Place::new();
    let store = place.open();
    let first = store.finish_reconciliation(&id("a"), &start(1)).await;
    first.unwrap();
    let settled = store.minion_record(&id("a")).unwrap().expiry_acked_until;
    while store.now() < settled + 3 {
        tokio::task::yield_now().await;
    }
    let mut begun = job(&store);
    begun.expires = settled + 1;
    publish(&store, &begun, &[("a", Offered), ("b", Offered)]).await;
    assert!(
        store
            .set_state(&begun.jid, &id("b"), Running)
            .await
            .unwrap()
    );
    let many = job(&store);
    run_by_many(&store, &many).await;
    assert!(!store.flush().await.unwrap(), "the last one is left");
    let ack = ExpiryAck {
        after: settled,
        until: u64::MAX,
        begun: vec![begun.jid.clone()],
    };
    let taken = store.take_expiry_ack(&id("a"), &ack).await;
    taken.unwrap();
    assert!(store.flush().await.unwrap());
    drop(store);
    let store = place.open();
    assert_eq!(of_a(&store, &begun).await, Unconfirmed, "and not expired");
}

#[tokio::test]
async fn many_who_wait_for_a_flush_share_it() {
    let place = Place::new();
    let store = place.open();
    let starts: Vec<_> = (0..200)
        .map(|number| (id(&format!("m{number}")), start(1)))
        .collect();
    let finish = starts
        .iter()
        .map(|(minion, start)| store.finish_reconciliation(minion, start));
    for finished in futures_join(finish.collect()).await {
        finished.unwrap();
    }
    let passes = lock(&store.passes).ended();
    assert!(passes <= 3, "{passes}");
    drop(store);
    let store = place.open();
    for (minion, _) in &starts {
        assert!(store.minion_record(minion).is_some(), "{minion}");
    }
}

/// Runs all of these at once, in one task.
async fn futures_join<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut left: Vec<_> = futures.into_iter().map(|f| (Box::pin(f), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in &mut left {
            if output.is_none()
                && let std::task::Poll::Ready(done) = future.as_mut().poll(context)
            {
                *output = Some(done);
            }
        }
        match left.iter().all(|(_, output)| output.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    left.into_iter().filter_map(|(_, output)| output).collect()
}
