//! Many at once, a full disk, and neighbours of what fails.

use super::*;
use crate::disk::writer::StoreFile as At;
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Runs `act` on the thread that writes.
async fn write<T: Send + 'static>(
    store: &JobStore,
    act: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    store.writer.call(At::Newest, 0, act, |_| {}).await
}

/// Has what `queued` queues when it is first polled done in one transaction: the writer is busy
/// until then.
async fn together<T>(store: &JobStore, queued: impl Future<Output = T>) -> T {
    let (running, runs) = oneshot::channel();
    let (release, released) = std::sync::mpsc::sync_channel(1);
    let busy = write(store, move |_| {
        running.send(()).unwrap();
        released.recv().unwrap();
        Ok(())
    });
    let rest = async {
        runs.await.unwrap();
        tokio::join!(biased; queued, async { release.send(()).unwrap() }).0
    };
    let (busy, outcome) = tokio::join!(busy, rest);
    busy.unwrap();
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_returns_at_once_are_stored_once_each() {
    const JOBS: usize = 20;
    const MINIONS: usize = 1_000;
    let place = Place::new();
    let store = Arc::new(place.open());
    let names = names(MINIONS);
    let offers = offered(&names);
    let mut jids = Vec::new();
    for _ in 0..JOBS {
        let job = job(&store);
        publish(&store, &job, &offers).await;
        jids.push(job.jid);
    }
    let started = Clock.now();
    let mut tasks = JoinSet::new();
    for name in &names {
        let (store, minion, jids) = (Arc::clone(&store), id(name), jids.clone());
        tasks.spawn(async move {
            let mut stored = 0;
            for jid in &jids {
                let value = Value::from(minion.as_str());
                let twice = tokio::join!(
                    store_one(&store, &minion, returned(jid, &value)),
                    store_one(&store, &minion, returned(jid, &value)),
                );
                let verdicts = [twice.0.unwrap(), twice.1.unwrap()];
                assert!(verdicts.contains(&ReturnVerdict::Stored));
                assert!(verdicts.contains(&ReturnVerdict::Duplicate));
                stored += 1;
            }
            stored
        });
    }
    let mut stored = 0;
    while let Some(done) = tasks.join_next().await {
        stored += done.unwrap();
    }
    let took = started.elapsed();
    println!("{stored} returns, each sent twice, in {took:?}");
    assert_eq!(stored, JOBS * MINIONS);
    for jid in &jids {
        let page = store.returns(jid, 0, usize::MAX).await.unwrap().unwrap();
        let found: BTreeSet<String> = page
            .returns
            .iter()
            .map(|found| found.payload.unpack().unwrap().as_str().unwrap().to_owned())
            .collect();
        assert!(found.iter().eq(&names));
        let rising = |two: &[StoredReturn]| two[0].receipt < two[1].receipt;
        assert!(page.returns.windows(2).all(rising));
        let states = states(&store, jid).await;
        let returned = |(_, state): &(MinionId, MinionJobState)| *state == MinionJobState::Returned;
        assert!(states.iter().all(returned));
    }
}

#[tokio::test]
async fn a_command_that_fails_does_not_fail_its_neighbours() {
    let place = Place::new();
    let store = place.open();
    let taken = job(&store);
    publish(&store, &taken, &[]).await;
    let jobs: Vec<Job> = (0..3).map(|_| job(&store)).collect();
    let offered = |job: &Job| new(job, &[("a", MinionJobState::Offered)]);
    let mut again = offered(&taken);
    again.request = request(2);
    let all = async {
        tokio::join!(
            store.publish(offered(&jobs[0])),
            store.publish(again),
            store.publish(offered(&jobs[1])),
            write(&store, |connection| {
                connection.execute("nonsense", [])?;
                Ok(())
            }),
        )
    };
    let (one, bad, two, broken) = together(&store, all).await;
    assert!(one.is_ok() && two.is_ok());
    assert!(matches!(bad, Err(StoreError::JidTaken(_))));
    assert!(matches!(broken, Err(StoreError::Database(_))));
    for job in [&taken, &jobs[0], &jobs[1]] {
        assert!(store.job(&job.jid).await.unwrap().is_some());
    }
    assert_eq!(states(&store, &taken.jid).await, []);
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_the_store_lives_on() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(
        &store,
        &job,
        &[
            ("a", MinionJobState::Offered),
            ("b", MinionJobState::Offered),
        ],
    )
    .await;
    let limit = |pages: i64| {
        write(&store, move |connection| {
            Ok(
                connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| {
                    row.get::<_, i64>(0)
                })?,
            )
        })
    };
    limit(200).await.unwrap();
    let large = Value::Bytes(vec![1; 4 << 20]);
    let full = answer(&store, "a", &job.jid, &large).await;
    assert!(matches!(full, Err(StoreError::Full)), "{full:?}");
    assert_eq!(states(&store, &job.jid).await[0].1, MinionJobState::Offered);
    let small = answer(&store, "b", &job.jid, &Value::Null);
    assert_eq!(small.await.unwrap(), ReturnVerdict::Stored);
    limit(1 << 30).await.unwrap();
    let again = answer(&store, "a", &job.jid, &large);
    assert_eq!(again.await.unwrap(), ReturnVerdict::Stored);
}

#[tokio::test]
async fn a_transaction_that_fails_fails_all_in_it_and_the_next_goes_on() {
    let place = Place::new();
    let store = place.open();
    let (one, two) = (job(&store), job(&store));
    // What a failing disk does: the whole transaction is gone in the middle of it.
    let all = async {
        tokio::join!(
            store.publish(new(&one, &[("a", MinionJobState::Offered)])),
            write(&store, |connection| {
                connection.execute_batch("ROLLBACK")?;
                Err::<(), _>(StoreError::Full)
            }),
        )
    };
    let (first, lost) = together(&store, all).await;
    assert!(matches!(first, Err(StoreError::Full)), "{first:?}");
    assert!(matches!(lost, Err(StoreError::Full)));
    assert_eq!(store.job(&one.jid).await.unwrap(), None);
    let pending = store
        .pending_jobs(&id("a"), None, 0, u64::MAX)
        .await
        .unwrap();
    assert_eq!(pending.jobs, [], "what was not committed is nowhere");
    publish(&store, &one, &[("a", MinionJobState::Offered)]).await;
    publish(&store, &two, &[]).await;
    assert!(store.job(&two.jid).await.unwrap().is_some());
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_the_store_whole() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    for _ in 0..50 {
        let attempt = answer(&store, "a", &job.jid, &Value::Null);
        // Polled once and dropped: it is queued by then.
        let _ = Clock.deadline(Clock.now(), attempt).await;
    }
    let verdict = answer(&store, "a", &job.jid, &Value::Null);
    assert_eq!(verdict.await.unwrap(), ReturnVerdict::Duplicate);
}
