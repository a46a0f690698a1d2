//! The walk of a job through the store.

use super::*;
use saline_protocol::message::Published;

use OfferState::{Declined, Expired, NotConnected, Offered, Queued, Returned, Running};

#[tokio::test]
async fn what_is_published_is_there_after_the_store_was_dropped() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("b", NotConnected), ("a", Offered)]).await;
    let verdict = answer(&store, "a", &job.jid, &Value::from("out"))
        .await
        .unwrap();
    assert_eq!(verdict, ReturnVerdict::Stored);
    drop(store);

    let store = place.open();
    assert_eq!(store.job(&job.jid).await.unwrap().unwrap(), job);
    let all = store.states(&job.jid, None, 9).await.unwrap().unwrap();
    assert_eq!(all.states, [(id("a"), Returned), (id("b"), NotConnected)]);
    assert_eq!(all.expires, job.expires);
    let page = store.returns(&job.jid, 0, 1 << 20).await.unwrap().unwrap();
    assert!(!page.more);
    assert_eq!(page.returns.len(), 1);
    assert_eq!(page.returns[0].minion, id("a"));
    assert_eq!(
        page.returns[0].payload.unpack().unwrap(),
        Value::from("out")
    );
    assert!(store.next_jid() > job.jid);
}

#[tokio::test]
async fn a_request_that_is_made_again_acts_once() {
    let place = Place::new();
    let store = place.open();
    let (first, second) = (job(&store), job(&store));
    let ask = async |job: &Job| {
        let mut new = new(job, &[("a", Offered)]);
        new.request = request(1);
        store.publish(new).await.unwrap()
    };
    let published = Published {
        jid: Some(first.jid.clone()),
        expires: first.expires,
        minions: vec![(id("a"), Offered)],
        unknown: Vec::new(),
    };
    assert_eq!(ask(&first).await, Committed::Now);
    assert_eq!(ask(&second).await, Committed::Before(published));
    assert_eq!(store.job(&second.jid).await.unwrap(), None);
    let pending = store.pending_jobs(&id("a"), None, first.created).await;
    assert_eq!(pending.unwrap().jobs.len(), 1);

    assert_eq!(store.outcome(request(2)), None);
    let now = store.record_outcome(request(2), b"keys".to_vec()).await;
    assert_eq!(now.unwrap(), Committed::Now);
    assert_eq!(store.outcome(request(2)), Some(b"keys".to_vec()));
    let again = store.record_outcome(request(2), b"other".to_vec()).await;
    assert_eq!(again.unwrap(), Committed::Before(b"keys".to_vec()));
}

#[tokio::test]
async fn a_request_that_is_made_twice_at_once_acts_once() {
    let place = Place::new();
    let store = place.open();
    let jobs = [job(&store), job(&store)];
    let publications = jobs.clone().map(|job| {
        let mut new = new(&job, &[("a", Offered)]);
        new.request = request(1);
        store.publish(new)
    });
    let [one, two] = publications;
    let both = tokio::join!(one, two);
    assert_eq!(both.0.unwrap(), Committed::Now);
    let Committed::Before(before) = both.1.unwrap() else {
        panic!("both acted");
    };
    assert_eq!(before.jid.as_ref(), Some(&jobs[0].jid));
}

#[tokio::test]
async fn a_jid_is_taken_once_and_what_fails_leaves_nothing() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[]).await;
    let mut again = new(&job, &[("a", Offered)]);
    again.request = request(9);
    let refused = store.publish(again.clone()).await;
    assert!(matches!(refused, Err(StoreError::JidTaken(jid)) if jid == job.jid));
    assert_eq!(states(&store, &job.jid).await, []);
    again.job.job.jid = store.next_jid();
    let now = store.publish(again).await.unwrap();
    assert_eq!(
        now,
        Committed::Now,
        "the request was not carried out before"
    );
}

#[tokio::test]
async fn every_return_has_its_verdict() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let offers = [
        ("offered", Offered),
        ("queued", Queued),
        ("running", Running),
        ("expired", Expired),
        ("declined", Declined),
        ("away", NotConnected),
    ];
    publish(&store, &job, &offers).await;
    let other = store.next_jid();
    let answer =
        async |minion: &str, jid: &Jid| answer(&store, minion, jid, &Value::Null).await.unwrap();
    for minion in ["offered", "queued", "running", "expired"] {
        assert_eq!(answer(minion, &job.jid).await, ReturnVerdict::Stored);
        assert_eq!(answer(minion, &job.jid).await, ReturnVerdict::Duplicate);
    }
    for minion in ["declined", "away", "stranger"] {
        assert_eq!(answer(minion, &job.jid).await, ReturnVerdict::NotOffered);
    }
    assert_eq!(answer("offered", &other).await, ReturnVerdict::UnknownJob);
    let states = states(&store, &job.jid).await;
    let count = |state| states.iter().filter(|(_, found)| *found == state).count();
    assert_eq!(
        (count(Returned), count(Declined), count(NotConnected)),
        (4, 1, 1)
    );
}

#[tokio::test]
async fn the_first_return_stays() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", Offered)]).await;
    for text in ["first", "second"] {
        let value = Value::from(text);
        answer(&store, "a", &job.jid, &value).await.unwrap();
    }
    let page = store.returns(&job.jid, 0, 1024).await.unwrap().unwrap();
    assert_eq!(
        page.returns[0].payload.unpack().unwrap(),
        Value::from("first")
    );
}

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
async fn that_a_minion_began_in_time_may_be_heard_late() {
    let place = Place::new();
    let store = place.open();
    let mut job = job(&store);
    job.expires = job.created;
    publish(&store, &job, &[("a", Offered), ("b", Offered)]).await;
    assert_eq!(store.expire(job.expires).len(), 2);
    assert_eq!(
        states(&store, &job.jid).await,
        [(id("a"), Expired), (id("b"), Expired)]
    );
    let jids = std::slice::from_ref(&job.jid);
    assert_eq!(store.mark_running(&id("a"), jids).await.unwrap(), jids);
    assert!(store.mark_running(&id("a"), jids).await.unwrap().is_empty());
    assert!(store.mark_running(&id("z"), jids).await.unwrap().is_empty());
    let now = [(id("a"), Running), (id("b"), Expired)];
    assert_eq!(states(&store, &job.jid).await, now);
    drop(store);
    let store = place.open();
    assert_eq!(states(&store, &job.jid).await, now);
    let verdict = answer(&store, "a", &job.jid, &Value::Null).await.unwrap();
    assert_eq!(verdict, ReturnVerdict::Stored);
    assert!(store.mark_running(&id("a"), jids).await.unwrap().is_empty());
    let now = [(id("a"), Returned), (id("b"), Expired)];
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
    let begun = store.mark_running(&id("a"), &jids).await.unwrap();
    assert_eq!(begun, std::slice::from_ref(&one.jid));
    assert!(
        store
            .mark_running(&id("a"), &jids)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(store.mark_running(&id("a"), &[]).await.unwrap().is_empty());
    assert_eq!(states(&store, &two.jid).await, [(id("b"), Offered)]);
}

#[tokio::test]
async fn a_minion_catches_up_with_what_it_may_still_begin() {
    let place = Place::new();
    let store = place.open();
    let jobs: Vec<Job> = (0..7).map(|_| job(&store)).collect();
    let states = [
        Offered,
        Queued,
        Running,
        Declined,
        NotConnected,
        Expired,
        Offered,
    ];
    for (job, state) in jobs.iter().zip(states) {
        publish(&store, job, &[("a", state), ("b", Offered)]).await;
    }
    answer(&store, "a", &jobs[6].jid, &Value::Null)
        .await
        .unwrap();
    let check = async |store: &JobStore| {
        let now = jobs[0].created;
        assert_eq!(pending(store, "a", now).await, jobs[..2]);
        assert_eq!(pending(store, "b", now).await, jobs);
        let late = jobs[0].expires;
        assert!(!pending(store, "a", late).await.contains(&jobs[0]));
        assert_eq!(pending(store, "c", now).await, []);
    };
    check(&store).await;
    drop(store);
    check(&place.open()).await;
}

#[tokio::test]
async fn a_minion_catches_up_in_pages_to_the_end() {
    let place = Place::new();
    let store = place.open();
    let mut jobs = Vec::new();
    for _ in 0..600 {
        let job = job(&store);
        publish(&store, &job, &[("a", Offered)]).await;
        jobs.push(job);
    }
    let first = store.pending_jobs(&id("a"), None, 0).await.unwrap();
    assert_eq!(first.jobs.len(), 256);
    assert!(first.more);
    assert_eq!(first.jobs[0].signature, [7; 64], "as it was published");
    assert_eq!(pending(&store, "a", 0).await, jobs);
}

#[tokio::test]
async fn what_a_minion_catches_up_with_is_bounded() {
    let place = Place::new();
    let store = place.open();
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let mut job = job(&store);
        let large = Value::Bytes(vec![0; 3 << 20]);
        job.arg = Arguments {
            positional: vec![large],
            named: Vec::new(),
        }
        .pack();
        publish(&store, &job, &[("a", Offered)]).await;
        jobs.push(job);
    }
    let first = store.pending_jobs(&id("a"), None, 0).await.unwrap();
    assert!(first.jobs.len() == 1 && first.more);
    assert_eq!(pending(&store, "a", 0).await, jobs);
}

#[tokio::test]
async fn offers_expire_at_their_time_and_a_late_return_is_taken() {
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
    publish(&store, &later, &[("a", Offered)]).await;
    assert!(store.expire(soon.expires - 1).is_empty());
    assert_eq!(
        store.expire(soon.expires),
        [(soon.jid.clone(), id("a")), (soon.jid.clone(), id("b"))]
    );
    assert!(store.expire(soon.expires).is_empty());
    let verdict = answer(&store, "a", &soon.jid, &Value::Null).await.unwrap();
    assert_eq!(verdict, ReturnVerdict::Stored);
    let now = [(id("a"), Returned), (id("b"), Expired), (id("c"), Running)];
    assert_eq!(states(&store, &soon.jid).await, now);
    assert_eq!(store.expire(later.expires).len(), 1);
}

#[tokio::test]
async fn returns_come_in_pages_in_the_order_of_their_receipt() {
    let place = Place::new();
    let store = place.open();
    let (job, other) = (job(&store), job(&store));
    let names: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    let offers: Vec<_> = names.iter().map(|name| (name.as_str(), Offered)).collect();
    publish(&store, &job, &offers).await;
    publish(&store, &other, &offers).await;
    let returned: Vec<&String> = names.iter().rev().collect();
    for name in &returned {
        let value = Value::Bytes(vec![1; 1_000]);
        answer(&store, name, &job.jid, &value).await.unwrap();
        answer(&store, name, &other.jid, &value).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut after = 0;
    loop {
        let page = store
            .returns(&job.jid, after, 3_500)
            .await
            .unwrap()
            .unwrap();
        assert!(page.returns.len() <= 3);
        for found in &page.returns {
            assert!(found.receipt > after);
            after = found.receipt;
            seen.push(found.minion.to_string());
        }
        if !page.more {
            break;
        }
    }
    assert!(seen.iter().eq(returned));
    let end = store.returns(&job.jid, after, 9).await.unwrap().unwrap();
    assert!(end.returns.is_empty() && !end.more);
    let tiny = store.returns(&job.jid, 0, 0).await.unwrap().unwrap();
    assert_eq!((tiny.returns.len(), tiny.more), (1, true));
    let none = store.next_jid();
    assert_eq!(store.returns(&none, 0, 0).await.unwrap(), None);
    assert_eq!(store.states(&none, None, 9).await.unwrap(), None);
    assert_eq!(store.job(&none).await.unwrap(), None);
}

#[tokio::test]
async fn states_come_in_pages_of_a_job_that_is_under_way_and_of_one_that_is_over() {
    let place = Place::new();
    let store = place.open();
    let (open, over) = (job(&store), job(&store));
    let names: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    let offers: Vec<_> = names.iter().map(|name| (name.as_str(), Offered)).collect();
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
async fn jobs_are_listed_newest_first() {
    let place = Place::new();
    let store = place.open();
    let mut jobs: Vec<Job> = (0..5).map(|_| job(&store)).collect();
    for job in &jobs {
        publish(&store, job, &[]).await;
    }
    jobs.reverse();
    let first = store.list(2, None).await.unwrap();
    assert_eq!(first, jobs[..2]);
    let rest = store.list(9, Some(&first[1].jid)).await.unwrap();
    assert_eq!(rest, jobs[2..]);
    assert!(store.list(0, None).await.unwrap().is_empty());
}

#[tokio::test]
async fn after_the_end_there_is_an_error_and_no_hang() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", Offered)]).await;
    store.close().await;
    store.close().await;
    assert!(matches!(store.job(&job.jid).await, Err(StoreError::Closed)));
    let verdict = answer(&store, "a", &job.jid, &Value::Null);
    assert!(matches!(verdict.await, Err(StoreError::Closed)));
    for file in place.files() {
        let log = file.with_extension("sqlite-wal");
        assert!(!log.exists(), "the log was emptied");
    }
    let store = place.open();
    assert!(store.job(&job.jid).await.unwrap().is_some());
}

#[tokio::test]
async fn what_somebody_else_wrote_is_an_error_and_no_panic() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", NotConnected)]).await;
    let elsewhere = rusqlite::Connection::open(&place.files()[0]).unwrap();
    elsewhere
        .execute("UPDATE jobs SET states = x'0161'", [])
        .unwrap();
    let states = store.states(&job.jid, None, 9).await;
    assert!(
        matches!(states, Err(StoreError::Corrupt { .. })),
        "{states:?}"
    );
    elsewhere
        .execute("UPDATE jobs SET tgt_type = 'magic'", [])
        .unwrap();
    assert!(store.job(&job.jid).await.is_err());
}

#[tokio::test]
async fn queries_use_an_index() {
    let place = Place::new();
    let store = place.open();
    for (sql, index) in [
        (
            "SELECT receipt FROM returns INDEXED BY returns_of WHERE jid = 1",
            "COVERING INDEX returns_of",
        ),
        (
            "SELECT minion FROM returns WHERE jid = 1 AND minion > 'a' ORDER BY minion",
            "COVERING INDEX returns_of",
        ),
        ("SELECT max(receipt) FROM returns", "SEARCH returns"),
        ("SELECT max(jid) FROM jobs", "SEARCH jobs"),
        (
            "SELECT created FROM jobs WHERE jid > 1",
            "INTEGER PRIMARY KEY",
        ),
    ] {
        let plan = store.read(i64::MAX, move |connection| {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
            let lines: Result<Vec<String>, _> =
                statement.query_map([], |row| row.get(3))?.collect();
            Ok(Some(lines?.join("\n")))
        });
        let plan = plan.await.unwrap().unwrap();
        assert!(plan.contains(index) && !plan.contains("TEMP"), "{plan}");
    }
}

#[tokio::test]
async fn many_late_reports_of_one_job_count_it_once() {
    let place = Place::new();
    let store = place.open();
    let mut job = job(&store);
    job.expires = job.created;
    let names: Vec<String> = (0..50).map(|n| format!("m{n:02}")).collect();
    let offers: Vec<_> = names.iter().map(|name| (name.as_str(), Offered)).collect();
    publish(&store, &job, &offers).await;
    store.expire(job.expires);
    assert_eq!(lock(&store.open).offers(), 0, "it is over");
    let store = std::sync::Arc::new(store);
    let mut reports = tokio::task::JoinSet::new();
    for name in names {
        let (store, jid) = (std::sync::Arc::clone(&store), job.jid.clone());
        reports.spawn(async move {
            let begun = store
                .mark_running(&id(&name), std::slice::from_ref(&jid))
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
        let count = "SELECT count(*) FROM jobs WHERE running > 0";
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

/// What a minion may still begin, all pages of it.
async fn pending(store: &JobStore, minion: &str, now: u64) -> Vec<Job> {
    let mut all: Vec<Job> = Vec::new();
    loop {
        let after = all.last().map(|job| job.jid.clone());
        let page = store.pending_jobs(&id(minion), after.as_ref(), now).await;
        let page = page.unwrap();
        all.extend(page.jobs.into_iter().map(|signed| signed.job));
        if !page.more {
            return all;
        }
    }
}
