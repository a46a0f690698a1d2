//! What is kept, and for how long.

use super::*;
use crate::jobs::OUTCOME_KEPT;

const DAY: u64 = 86_400_000;

/// A job that was published that long ago.
fn old(store: &JobStore, age: u64) -> Job {
    let mut job = job(store);
    job.created -= age;
    job.expires -= age;
    job
}

async fn rows(store: &JobStore) -> (i64, i64, i64) {
    store
        .read(|connection| {
            let count = |table: &str| {
                connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                    row.get(0)
                })
            };
            Ok((count("jobs")?, count("offers")?, count("returns")?))
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn what_is_old_goes_with_all_that_belongs_to_it() {
    let place = Place::new();
    let store = place.open();
    let names: Vec<String> = (0..2_500).map(|n| format!("m{n:04}")).collect();
    let offers: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), OfferState::Offered))
        .collect();
    let (gone, kept) = (old(&store, 2 * DAY), old(&store, DAY / 2));
    for job in [&gone, &kept] {
        publish(&store, job, &offers).await;
        for name in &names[..1_200] {
            let answer = returned(&job.jid, &Value::from("out"));
            let _ = store_one(&store, &id(name), answer).await.unwrap();
        }
    }
    assert_eq!(rows(&store).await, (2, 5_000, 2_400));
    let before = store.now() - DAY;
    assert_eq!(store.prune(before).await.unwrap(), 1);
    assert_eq!(rows(&store).await, (1, 2_500, 1_200));
    assert_eq!(store.prune(before).await.unwrap(), 0);
    let late = answer(&store, "m2000", &gone.jid, &Value::Null);
    assert_eq!(late.await.unwrap(), ReturnVerdict::UnknownJob);
    assert!(store.job(&kept.jid).await.unwrap().is_some());
}

#[tokio::test]
async fn what_may_be_begun_or_still_runs_or_is_the_newest_stays() {
    let place = Place::new();
    let store = place.open();
    let running = old(&store, 2 * DAY);
    let silent = old(&store, 2 * DAY);
    let mut queued = old(&store, 2 * DAY);
    queued.expires = store.now() + DAY;
    let last = old(&store, 2 * DAY);
    for job in [&running, &silent, &queued, &last] {
        publish(&store, job, &[("a", OfferState::Offered)]).await;
    }
    let jids = [running.jid.clone()];
    store.mark_running(&id("a"), &jids).await.unwrap();
    assert_eq!(store.prune(store.now() - DAY).await.unwrap(), 1);
    assert_eq!(store.job(&silent.jid).await.unwrap(), None);
    for job in [&running, &queued, &last] {
        assert!(store.job(&job.jid).await.unwrap().is_some());
    }
    drop(store);
    // The clock has been set back by years: the jid still rises.
    let store = place.open();
    assert!(store.next_jid() > last.jid);
}

#[tokio::test]
async fn rows_that_a_crash_has_left_go_too() {
    let place = Place::new();
    let store = place.open();
    let (first, last) = (job(&store), job(&store));
    for job in [&first, &last] {
        publish(&store, job, &[("a", OfferState::Offered)]).await;
        let answer = returned(&job.jid, &Value::Null);
        let _ = store_one(&store, &id("a"), answer).await.unwrap();
    }
    // As if it had died after the first transaction of a pruning.
    let jid = first.jid.clone();
    store
        .write(0, move |connection| {
            connection.execute("DELETE FROM jobs WHERE jid = ?1", [jid.as_str()])?;
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(store.states(&first.jid).await.unwrap(), None);
    assert_eq!(store.returns(&first.jid, None, 9).await.unwrap(), None);
    store.prune(0).await.unwrap();
    assert_eq!(rows(&store).await, (1, 1, 1));
}

#[tokio::test]
async fn outcomes_are_kept_for_ten_minutes() {
    let place = Place::new();
    let store = place.open();
    for number in [1, 2] {
        let now = store.record_outcome(request(number), b"reply".to_vec());
        assert_eq!(now.await.unwrap(), Committed::Now);
    }
    store
        .write(0, |connection| {
            connection.execute(
                "UPDATE outcomes SET created = created - ?1 WHERE request_id = ?2",
                rusqlite::params![OUTCOME_KEPT as i64, request(1).0],
            )?;
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(store.outcome(request(1)).await.unwrap(), None);
    assert!(store.outcome(request(2)).await.unwrap().is_some());
    store.prune(0).await.unwrap();
    let left: i64 = store
        .read(|connection| {
            Ok(connection.query_row("SELECT count(*) FROM outcomes", [], |row| row.get(0))?)
        })
        .await
        .unwrap();
    assert_eq!(left, 1);
    let again = store.record_outcome(request(1), b"later".to_vec()).await;
    assert_eq!(again.unwrap(), Committed::Now);
}

#[tokio::test]
async fn the_file_shrinks_when_much_has_gone() {
    let place = Place::new();
    let store = place.open();
    let (large, last) = (old(&store, 2 * DAY), job(&store));
    publish(&store, &large, &[("a", OfferState::Offered)]).await;
    publish(&store, &last, &[]).await;
    let value = Value::Bytes(vec![7; 60 << 20]);
    let _ = answer(&store, "a", &large.jid, &value).await.unwrap();
    store.prune(store.now() - DAY).await.unwrap();
    store.close().await;
    let length = std::fs::metadata(&place.path).unwrap().len();
    assert!(length < 30 << 20, "{length} bytes");
}
