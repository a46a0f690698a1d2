//! What is kept, and for how long.

use std::sync::Arc;

use super::*;
use crate::disk::writer::StoreFile as At;
use crate::jid::{from_micros, to_micros};
use crate::jobs::{JobSearch, Pruned, REQUESTS_KEPT, RequestBegin};

pub(super) const HOUR: u64 = 3_600_000;
pub(super) const DAY: u64 = 24 * HOUR;

/// A job that was published that long ago. Older jobs must be published first.
pub(super) fn old(store: &JobStore, age: u64) -> Job {
    let mut job = job(store);
    job.created -= age;
    job.expires -= age;
    let jid = to_micros(&job.jid).unwrap() - age as i64 * 1_000;
    job.jid = from_micros(jid);
    job
}

/// A store whose first file begins years ago.
pub(super) async fn since_long_ago(place: &Place) -> JobStore {
    let folder = &place.settings.folder;
    std::fs::create_dir_all(folder).unwrap();
    let first = folder.join("20200101000000000000.sqlite");
    let access = crate::disk::file::Access::Create;
    drop(
        crate::disk::file::open(&first, access, 1 << 20, &crate::jobs::tables::schema::JOBS)
            .unwrap(),
    );
    place.open()
}

pub(super) async fn is_there(store: &JobStore, job: &Job) -> bool {
    store.job(&job.jid).await.unwrap().is_some()
}

/// Returns how many jobs the store finds.
pub(super) async fn found(store: &JobStore) -> usize {
    let all = JobSearch::all(1_000, "master".to_owned());
    store.search(all).await.unwrap().jobs.len()
}

#[tokio::test]
async fn what_is_old_goes_with_all_that_belongs_to_it() {
    let place = Place::new();
    let store = since_long_ago(&place).await;
    let (gone, kept, new) = (
        old(&store, 2 * DAY),
        old(&store, DAY / 2),
        old(&store, DAY / 4),
    );
    for job in [&gone, &kept, &new] {
        publish(
            &store,
            job,
            &[
                ("a", MinionJobState::Offered),
                ("b", MinionJobState::Offered),
            ],
        )
        .await;
        let verdict = answer(&store, "a", &job.jid, &Value::from("out")).await;
        assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    }
    assert_eq!(place.files().len(), 4);
    store.expire(store.now());
    let before = store.now() - DAY;
    let pruned = store.prune(before).await.unwrap();
    let on_time = |pruned: &Pruned| !pruned.early && pruned.before <= kept.jid;
    assert!(
        pruned.len() == 2 && pruned.iter().all(on_time),
        "{pruned:?}"
    );
    assert_eq!(place.files().len(), 2);
    assert!(!is_there(&store, &gone).await);
    assert!(is_there(&store, &kept).await && is_there(&store, &new).await);
    assert_eq!(store.prune(before).await.unwrap(), []);
    let late = answer(&store, "b", &gone.jid, &Value::Null);
    assert_eq!(late.await.unwrap(), ReturnVerdict::UnknownJob);
    let late = answer(&store, "b", &kept.jid, &Value::Null);
    assert_eq!(late.await.unwrap(), ReturnVerdict::Stored);
    assert_eq!(found(&store).await, 2);
    drop(store);
    let store = place.open();
    assert!(is_there(&store, &kept).await && !is_there(&store, &gone).await);
}

#[tokio::test]
async fn what_may_be_begun_or_still_runs_or_is_the_newest_stays() {
    let place = Place::new();
    let store = since_long_ago(&place).await;
    let running = old(&store, 9 * DAY);
    let silent = old(&store, 8 * DAY);
    let mut queued = old(&store, 7 * DAY);
    queued.expires = store.now() + DAY;
    let last = old(&store, 6 * DAY);
    for job in [&running, &silent, &queued, &last] {
        publish(&store, job, &[("a", MinionJobState::Offered)]).await;
        let state = MinionJobState::Running;
        if job.jid != queued.jid && job.jid != last.jid {
            assert!(store.set_state(&job.jid, &id("a"), state).await.unwrap());
        }
    }
    // What is heard of once in a while stays, also over a restart.
    store.close().await;
    let store = place.open();
    let heard = std::slice::from_ref(&running.jid);
    store.mark_running(&id("a"), heard, 1024).await.unwrap();
    store.prune(store.now() - DAY).await.unwrap();
    for job in [&running, &silent, &queued, &last] {
        assert!(is_there(&store, job).await, "{}", job.jid);
    }
    // Later only one of them has been heard of again.
    let clock = store.now();
    while store.now() == clock {
        std::hint::spin_loop();
    }
    let since = store.now();
    store.mark_running(&id("a"), heard, 1024).await.unwrap();
    store.prune(since).await.unwrap();
    assert!(!is_there(&store, &silent).await);
    for job in [&running, &queued, &last] {
        assert!(is_there(&store, job).await, "{}", job.jid);
    }
    drop(store);
    // The clock has been set back by years: the jid still rises.
    let store = place.open();
    assert!(store.next_jid() > last.jid);
}

#[tokio::test]
async fn a_store_above_its_size_loses_the_oldest_jobs_first() {
    let mut place = Place::new();
    place.settings.max_bytes = Some(3 << 20);
    let store = since_long_ago(&place).await;
    let ages = [9, 8, 7, 6].map(|age| old(&store, age * HOUR));
    for job in &ages {
        publish(&store, job, &[("a", MinionJobState::Offered)]).await;
        let large = Value::Bytes(vec![1; 1 << 20]);
        let verdict = answer(&store, "a", &job.jid, &large).await;
        assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    }
    let pruned = store.prune(0).await.unwrap();
    assert!(
        pruned
            .iter()
            .all(|pruned| pruned.early && !pruned.under_way),
        "{pruned:?}"
    );
    assert!(!is_there(&store, &ages[0]).await && !is_there(&store, &ages[1]).await);
    assert!(is_there(&store, &ages[3]).await);
    let bytes: u64 = std::fs::read_dir(&place.settings.folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name() != "reserve")
        .map(|entry| entry.metadata().unwrap().len())
        .sum();
    assert!(bytes <= 3 << 20 | 64 << 10, "{bytes} bytes");
}

#[tokio::test]
async fn a_file_that_has_reached_its_size_is_the_last_of_its_span_no_more() {
    let mut place = Place::new();
    place.settings.max_bytes = Some(24 << 20);
    let store = place.open();
    for _ in 0..130 {
        let job = job(&store);
        publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
        let large = Value::Bytes(vec![1; 64 << 10]);
        let verdict = answer(&store, "a", &job.jid, &large).await;
        assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    }
    assert!(place.files().len() > 1, "8 MiB in files of 1 MiB");
    assert_eq!(found(&store).await, 130);
}

#[tokio::test]
async fn a_job_that_comes_after_one_with_a_higher_jid_hides_it_not() {
    let mut place = Place::new();
    // So small that every file is full at once.
    place.settings.max_bytes = Some(1);
    let store = place.open();
    for _ in 0..70 {
        let (late, first) = (job(&store), job(&store));
        publish(&store, &first, &[("a", MinionJobState::Offered)]).await;
        publish(&store, &late, &[("a", MinionJobState::Offered)]).await;
        for job in [&late, &first] {
            assert!(is_there(&store, job).await, "{}", job.jid);
        }
    }
    assert!(place.files().len() > 1);
}

#[tokio::test]
async fn a_file_that_somebody_has_removed_stops_no_pruning() {
    let place = Place::new();
    let store = since_long_ago(&place).await;
    let old_ones = [4, 3, 2].map(|days| old(&store, days * DAY));
    let last = job(&store);
    for job in old_ones.iter().chain([&last]) {
        publish(&store, job, &[("a", MinionJobState::NotConnected)]).await;
    }
    std::fs::remove_file(&place.files()[1]).unwrap();
    assert_eq!(store.prune(store.now() - DAY).await.unwrap().len(), 4);
    assert_eq!(place.files().len(), 1);
    assert!(is_there(&store, &last).await);
}

#[tokio::test]
async fn an_empty_file_that_a_full_disk_has_left_is_no_partition() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    store.close().await;
    let empty = place.settings.folder.join("20990101000000000000.sqlite");
    std::fs::write(&empty, "").unwrap();
    let store = place.open();
    assert!(!empty.exists() && is_there(&store, &job).await);
}

#[tokio::test]
async fn pruning_a_store_whose_disk_is_full_gives_space() {
    let place = Place::new();
    let store = since_long_ago(&place).await;
    let (gone, last) = (old(&store, 2 * DAY), old(&store, DAY / 2));
    for job in [&gone, &last] {
        publish(&store, job, &[("a", MinionJobState::Offered)]).await;
    }
    for job in [&gone, &last] {
        let start = store
            .partitions
            .holding(to_micros(&job.jid).unwrap())
            .unwrap();
        let full = store.writer.call(
            At::Partition(start),
            0,
            |connection| {
                let full = "PRAGMA max_page_count = 1";
                Ok(connection.query_row(full, [], |_| Ok(()))?)
            },
            |_| {},
        );
        full.await.unwrap();
        let large = Value::Bytes(vec![1; 1 << 20]);
        let refused = answer(&store, "a", &job.jid, &large).await;
        assert!(matches!(refused, Err(StoreError::Full)), "{refused:?}");
    }
    store.expire(store.now());
    assert_eq!(store.prune(store.now() - DAY).await.unwrap().len(), 2);
    assert_eq!(place.files().len(), 1);
}

#[tokio::test]
async fn requests_are_remembered_for_ten_minutes_over_a_restart() {
    let place = Place::new();
    let store = Arc::new(place.open());
    for number in [1, 2] {
        let now = store.log_request(request(number), b"reply".to_vec());
        assert_eq!(now.await.unwrap(), CarriedOut::Now);
    }
    // One is carried out, of the other the master does not say what came of it.
    let mut begun = Vec::new();
    for number in [3, 4] {
        let RequestBegin::Now(now) = store.begin_request(request(number)).await.unwrap() else {
            panic!("it was never begun");
        };
        begun.push(now);
    }
    let again = store.begin_request(request(4)).await.unwrap();
    assert!(matches!(again, RequestBegin::UnderWay), "{again:?}");
    begun.remove(0).end(b"done".to_vec()).await.unwrap();
    let done = job(&store);
    let published = NewJob {
        unknown: vec!["nobody".to_owned()],
        ..new(&done, &[("a", MinionJobState::Offered)])
    };
    let now = store.publish(published.clone()).await.unwrap();
    assert_eq!(now, CarriedOut::Now);
    let aged = store.writer.call(
        At::Newest,
        0,
        |connection| {
            connection.execute(
                "UPDATE request_log SET created = created - ?1 WHERE request_id = ?2",
                rusqlite::params![REQUESTS_KEPT as i64, request(1).0],
            )?;
            Ok(())
        },
        |_| {},
    );
    aged.await.unwrap();
    drop((store, begun));
    let store = Arc::new(place.open());
    for (number, reply) in [(3, b"done".as_slice()), (4, b"")] {
        let again = store.begin_request(request(number)).await.unwrap();
        let is_known = matches!(&again, RequestBegin::Before(before) if before == reply);
        assert!(is_known, "{again:?}");
    }
    assert_eq!(store.logged_reply(request(1)), None);
    assert_eq!(store.logged_reply(request(2)), Some(b"reply".to_vec()));
    let mut again = published;
    again.job.job.jid = store.next_jid();
    let CarriedOut::Before(before) = store.publish(again).await.unwrap() else {
        panic!("it was published before");
    };
    assert_eq!(before.jid, Some(done.jid));
    assert_eq!(before.expires, done.expires);
    assert_eq!(before.minions, [(id("a"), MinionJobState::Offered)]);
    assert_eq!(before.unknown, ["nobody"]);
    let again = store.log_request(request(1), b"later".to_vec()).await;
    assert_eq!(again.unwrap(), CarriedOut::Now);
}
