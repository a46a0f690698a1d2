//! How the states of minions change, and when that is on the disk.

use super::*;

use MinionJobState::{
    Declined, Expired, NotConnected, Offered, Queued, Returned, Running, Unconfirmed,
};

/// A time at which no minion's expiry ack is awaited any more.
const LONG_AFTER: u64 = u64::MAX / 2;

#[tokio::test]
async fn states_move_forward_only() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(
        &store,
        &job,
        &[("a", Offered), ("b", Offered), ("c", NotConnected)],
    )
    .await;
    let to =
        async |minion: &str, state| store.set_state(&job.jid, &id(minion), state).await.unwrap();
    assert!(to("a", Running).await);
    assert!(!to("a", Running).await);
    assert!(!to("a", Declined).await);
    assert!(
        !to("a", Returned).await,
        "without a return none stands as returned"
    );
    assert!(to("b", Declined).await);
    assert!(!to("b", Running).await);
    assert!(!to("c", Running).await);
    assert!(!to("stranger", Running).await);
    let now = [
        (id("a"), Running),
        (id("b"), Declined),
        (id("c"), NotConnected),
    ];
    assert_eq!(states(&store, &job.jid).await, now);
    store.close().await;
    let store = place.open();
    assert_eq!(states(&store, &job.jid).await, now, "after a restart");
}

#[tokio::test]
async fn a_state_is_on_the_disk_after_a_flush() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(
        &store,
        &job,
        &[("a", Offered), ("b", Offered), ("c", Offered)],
    )
    .await;
    assert!(store.set_state(&job.jid, &id("a"), Running).await.unwrap());
    assert!(store.set_state(&job.jid, &id("b"), Declined).await.unwrap());
    store.flush().await.unwrap();
    assert!(store.set_state(&job.jid, &id("c"), Running).await.unwrap());
    // Dropped without being closed, as if it had been killed.
    drop(store);
    let store = place.open();
    let now = [(id("a"), Running), (id("b"), Declined), (id("c"), Offered)];
    assert_eq!(states(&store, &job.jid).await, now);
}

#[tokio::test]
async fn the_jobs_that_a_minion_runs_at_a_time_are_bounded() {
    let place = Place::new();
    let store = place.open();
    let mut jids = Vec::new();
    for _ in 0..5 {
        let job = job(&store);
        publish(&store, &job, &[("a", Offered), ("b", Offered)]).await;
        jids.push(job.jid);
    }
    assert_eq!(store.may_begin_to_run(&id("a"), 4, 3), 3);
    let begun = store.mark_running(&id("a"), &jids, 3).await.unwrap();
    assert_eq!(begun, jids[..3]);
    assert_eq!(store.may_begin_to_run(&id("a"), 4, 3), 0);
    assert_eq!(store.may_begin_to_run(&id("a"), 4, 5), 2);
    assert_eq!(store.may_begin_to_run(&id("b"), 3, 3), 3, "another minion");
    answer(&store, "a", &jids[0], &Value::Null).await.unwrap();
    assert_eq!(store.may_begin_to_run(&id("a"), 4, 3), 1);
    let none = Jid::parse("20261123000000000000").unwrap();
    let all: Vec<_> = jids.iter().chain([&none]).collect();
    // What says that the first one runs is not removed yet.
    store.flush().await.unwrap();
    let closed = store.closed_among(&id("a"), &all);
    assert_eq!(closed, 2, "one has returned, and one is no job");
}

#[tokio::test]
async fn that_a_minion_began_in_time_may_be_heard_late() {
    let place = Place::new();
    let store = place.open();
    let mut job = job(&store);
    job.expires = job.created;
    publish(
        &store,
        &job,
        &[("a", Offered), ("b", Queued), ("c", Offered)],
    )
    .await;
    assert_eq!(
        store.expire(job.expires),
        [(job.jid.clone(), id("b"))],
        "it was never handed over"
    );
    let now = [
        (id("a"), Unconfirmed),
        (id("b"), Expired),
        (id("c"), Unconfirmed),
    ];
    assert_eq!(states(&store, &job.jid).await, now);
    store.expire(LONG_AFTER);
    assert_eq!(states(&store, &job.jid).await, now, "from the disk");
    let jids = std::slice::from_ref(&job.jid);
    assert_eq!(
        store.mark_running(&id("a"), jids, 1024).await.unwrap(),
        jids
    );
    assert!(
        store
            .mark_running(&id("a"), jids, 1024)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .mark_running(&id("z"), jids, 1024)
            .await
            .unwrap()
            .is_empty()
    );
    let now = [
        (id("a"), Running),
        (id("b"), Expired),
        (id("c"), Unconfirmed),
    ];
    assert_eq!(states(&store, &job.jid).await, now);
    drop(store);
    let store = place.open();
    assert_eq!(states(&store, &job.jid).await, now);
    let verdict = answer(&store, "a", &job.jid, &Value::Null).await.unwrap();
    assert_eq!(verdict, ReturnVerdict::Stored);
    assert!(
        store
            .mark_running(&id("a"), jids, 1024)
            .await
            .unwrap()
            .is_empty()
    );
    let now = [
        (id("a"), Returned),
        (id("b"), Expired),
        (id("c"), Unconfirmed),
    ];
    assert_eq!(states(&store, &job.jid).await, now);
}

#[tokio::test]
async fn a_heartbeat_tells_what_has_begun() {
    let place = Place::new();
    let store = place.open();
    let (one, two) = (job(&store), job(&store));
    publish(&store, &one, &[("a", Offered)]).await;
    publish(&store, &two, &[("b", Offered)]).await;
    let jids = [one.jid.clone(), two.jid.clone(), store.next_jid()];
    let begun = store.mark_running(&id("a"), &jids, 1024).await.unwrap();
    assert_eq!(begun, std::slice::from_ref(&one.jid));
    assert!(
        store
            .mark_running(&id("a"), &jids, 1024)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .mark_running(&id("a"), &[], 1024)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(states(&store, &two.jid).await, [(id("b"), Offered)]);
}

#[tokio::test]
async fn what_was_queued_expires_at_its_time_and_a_late_return_is_taken() {
    let place = Place::new();
    let store = place.open();
    let (mut soon, later) = (job(&store), job(&store));
    soon.expires = soon.created + 10;
    let mut later = later;
    later.expires = soon.created + 1_000;
    publish(
        &store,
        &soon,
        &[("b", Queued), ("a", Offered), ("c", Running)],
    )
    .await;
    publish(&store, &later, &[("a", Queued)]).await;
    assert!(store.expire(soon.expires - 1).is_empty());
    assert_eq!(store.expire(soon.expires), [(soon.jid.clone(), id("b"))]);
    assert!(store.expire(soon.expires).is_empty());
    let verdict = answer(&store, "a", &soon.jid, &Value::Null).await.unwrap();
    assert_eq!(verdict, ReturnVerdict::Stored);
    // The disk has no expiries: the clock tells them.
    while store.now() < soon.expires {
        tokio::task::yield_now().await;
    }
    let now = [(id("a"), Returned), (id("b"), Expired), (id("c"), Running)];
    assert_eq!(states(&store, &soon.jid).await, now);
    assert_eq!(store.expire(later.expires).len(), 1);
}

#[tokio::test]
async fn states_come_in_pages_of_a_job_that_is_under_way_and_of_one_that_is_over() {
    let place = Place::new();
    let store = place.open();
    let (open, over) = (job(&store), job(&store));
    let names = names(10);
    let offers = offered(&names);
    publish(&store, &open, &offers).await;
    publish(&store, &over, &offers).await;
    for name in &names {
        answer(&store, name, &over.jid, &Value::Null).await.unwrap();
    }
    for (job, state) in [(&open, Offered), (&over, Returned)] {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = store.states(&job.jid, after.as_ref(), 4).await;
            let page = page.unwrap().unwrap();
            assert!(page.states.len() <= 4);
            assert_eq!(page.expires, job.expires);
            after = page.states.last().map(|(id, _)| id.clone());
            seen.extend(page.states);
            if !page.more {
                break;
            }
        }
        let all: Vec<_> = names.iter().map(|name| (id(name), state)).collect();
        assert_eq!(seen, all);
    }
}

#[tokio::test]
async fn many_late_reports_of_one_job_count_it_once() {
    let place = Place::new();
    let store = place.open();
    let mut job = job(&store);
    job.expires = job.created;
    let names = names(50);
    let offers = offered(&names);
    publish(&store, &job, &offers).await;
    store.expire(LONG_AFTER);
    assert_eq!(lock(&store.open).offers(), 0, "it is over");
    let store = std::sync::Arc::new(store);
    let mut reports = tokio::task::JoinSet::new();
    for name in names {
        let (store, jid) = (std::sync::Arc::clone(&store), job.jid.clone());
        reports.spawn(async move {
            let begun = store
                .mark_running(&id(&name), std::slice::from_ref(&jid), 1024)
                .await;
            assert_eq!(begun.unwrap(), [jid]);
        });
    }
    while let Some(reported) = reports.join_next().await {
        reported.unwrap();
    }
    assert_eq!(lock(&store.open).offers(), 50);
    let all = states(&store, &job.jid).await;
    assert!(all.iter().all(|(_, state)| *state == Running), "{all:?}");
}

#[tokio::test]
async fn a_job_that_ran_and_is_over_is_not_read_by_later_starts() {
    let place = Place::new();
    let store = place.open();
    let mut job = job(&store);
    job.expires = job.created;
    publish(&store, &job, &[("a", Offered)]).await;
    assert!(store.set_state(&job.jid, &id("a"), Running).await.unwrap());
    store.flush().await.unwrap();
    let running = async |store: &JobStore| {
        let count = "SELECT count(*) FROM state_changes WHERE state = 3";
        let read = store.read(i64::MAX, move |connection| {
            Ok(Some(
                connection.query_row(count, [], |row| row.get::<_, i64>(0))?,
            ))
        });
        read.await.unwrap().unwrap()
    };
    assert_eq!(running(&store).await, 1);
    drop(store);
    let store = place.open();
    answer(&store, "a", &job.jid, &Value::Null).await.unwrap();
    store.close().await;
    assert_eq!(running(&place.open()).await, 0);
}

#[tokio::test]
async fn a_minion_that_never_returns_keeps_no_other_one_in_memory() {
    let place = Place::new();
    let store = place.open();
    let mut job = job(&store);
    job.expires = job.created + 1;
    let names = names(100);
    publish(&store, &job, &offered(&names)).await;
    for name in &names {
        assert!(store.set_state(&job.jid, &id(name), Running).await.unwrap());
    }
    store.flush().await.unwrap();
    for name in &names[1..] {
        answer(&store, name, &job.jid, &Value::Null).await.unwrap();
    }
    assert_eq!(lock(&store.open).offers(), 1);
    let all = states(&store, &job.jid).await;
    assert_eq!(all[0], (id("m0000"), Running));
    assert!(all[1..].iter().all(|(_, state)| *state == Returned));
    // Killed before the next flush: the rows of those that ran are still there.
    drop(store);
    while MasterClock::new(Clock).now() <= job.expires {
        tokio::task::yield_now().await;
    }
    let store = place.open();
    assert_eq!(lock(&store.open).offers(), 1);
    assert_eq!(states(&store, &job.jid).await, all);
}

#[tokio::test]
async fn the_oldest_job_of_a_minion_that_runs_too_many_is_given_up() {
    let place = Place::new();
    let store = place.open();
    let mut jobs = Vec::new();
    for _ in 0..=saline_messages::MAX_RUNNING {
        let job = job(&store);
        publish(&store, &job, &[("a", Offered), ("b", Offered)]).await;
        let runs = store.set_state(&job.jid, &id("a"), Running).await;
        assert!(runs.unwrap());
        jobs.push(job);
    }
    let lost = MinionJobState::LostTrack;
    assert_eq!(
        states(&store, &jobs[0].jid).await,
        [(id("a"), lost), (id("b"), Offered)]
    );
    assert_eq!(states(&store, &jobs[1].jid).await[0].1, Running);
    let given_up = [(jobs[0].jid.clone(), id("a"))];
    assert_eq!(store.take_given_up(), given_up);
    assert_eq!(store.take_given_up(), []);
    let verdict = answer(&store, "a", &jobs[0].jid, &Value::Null).await;
    assert_eq!(
        verdict.unwrap(),
        ReturnVerdict::Stored,
        "the truth is taken"
    );
}
