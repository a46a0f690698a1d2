//! How many bytes a batch writes for each of its minions.

use super::*;
use saline_messages::Batch;
use std::collections::BTreeSet;

use MinionJobState::{Returned, Running, Waiting};

/// The bytes that the threads of a store have given the system to write.
async fn written(store: &JobStore) -> u64 {
    let writer = store.writer.alone(|_| Ok(of_this_thread())).await.unwrap();
    let upkeep = store.upkeep.call(|_| Ok(of_this_thread())).await.unwrap();
    writer + upkeep
}

fn of_this_thread() -> u64 {
    let all = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let mut lines = all.lines();
    let written = lines.find_map(|line| line.strip_prefix("wchar:"));
    written.unwrap().trim().parse().unwrap()
}

/// Carries out a batch of which so many minions end together, and returns the bytes that were written for each minion. The grant and the return of each are
/// commits of their own: both must be on the disk before the minion hears of them.
async fn batch(minions: usize, together: usize) -> u64 {
    let place = Place::new();
    let store = place.open();
    let names = names(minions);
    let present: BTreeSet<MinionId> = names.iter().map(|name| id(name)).collect();
    let job = job(&store);
    let mut new = new(&job, &[]);
    new.minions = names.iter().map(|name| (id(name), Waiting)).collect();
    new.batch = Some(Batch {
        size: u32::try_from(together).unwrap(),
        wait_ms: 0,
        timeout_ms: 0,
        failhard: false,
        queues: false,
    });
    assert_eq!(store.publish(new).await.unwrap(), CarriedOut::Now);
    let before = written(&store).await;
    for group in names.chunks(together) {
        store.step_batches(Some(&present));
        for name in group {
            assert!(store.claim(&id(name), &job.jid).await.unwrap(), "{name}");
        }
        for name in group {
            assert!(store.set_state(&job.jid, &id(name), Running).await.unwrap());
        }
        store.flush_due().await.unwrap();
        for name in group {
            answer(&store, name, &job.jid, &Value::Bool(true))
                .await
                .unwrap();
        }
        store.flush_due().await.unwrap();
    }
    let after = written(&store).await;
    let all = states(&store, &job.jid).await;
    assert!(all.iter().all(|(_, state)| *state == Returned));
    (after - before) / minions as u64
}

#[tokio::test]
async fn a_batch_writes_as_little_for_minions_that_end_one_by_one() {
    for together in [1, 7, 100] {
        let each = batch(300, together).await;
        assert!(each < 5_000, "{each} bytes each, {together} together");
    }
}
