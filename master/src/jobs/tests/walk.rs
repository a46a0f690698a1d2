//! The walk of a job through the store.

use super::*;
use crate::jobs::offers;

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
    let page = store
        .returns(&job.jid, None, 1 << 20)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(page.states, [(id("a"), Returned), (id("b"), NotConnected)]);
    assert_eq!(page.expires, job.expires);
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
        let reply = job.jid.to_string().into_bytes();
        store.publish(job, request(1), Vec::new(), reply).await
    };
    assert_eq!(ask(&first).await.unwrap(), Committed::Now);
    let reply = first.jid.to_string().into_bytes();
    assert_eq!(
        ask(&second).await.unwrap(),
        Committed::Before(reply.clone())
    );
    assert_eq!(store.job(&second.jid).await.unwrap(), None);
    assert_eq!(
        store.outcome(request(1)).await.unwrap(),
        Some(reply.clone())
    );
    let again = store.record_outcome(request(1), b"other".to_vec()).await;
    assert_eq!(again.unwrap(), Committed::Before(reply));

    assert_eq!(store.outcome(request(2)).await.unwrap(), None);
    let now = store.record_outcome(request(2), b"keys".to_vec()).await;
    assert_eq!(now.unwrap(), Committed::Now);
    assert_eq!(
        store.outcome(request(2)).await.unwrap(),
        Some(b"keys".to_vec())
    );
}

#[tokio::test]
async fn a_jid_is_taken_once_and_what_fails_leaves_nothing() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[]).await;
    let again = store
        .publish(&job, request(9), vec![(id("a"), Offered)], Vec::new())
        .await;
    assert!(matches!(again, Err(StoreError::JidTaken(jid)) if jid == job.jid));
    assert_eq!(store.outcome(request(9)).await.unwrap(), None);
    assert_eq!(store.states(&job.jid).await.unwrap(), Some(Vec::new()));
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
    let states = store.states(&job.jid).await.unwrap().unwrap();
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
    let page = store.returns(&job.jid, None, 1024).await.unwrap().unwrap();
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
    assert_eq!(
        store.states(&job.jid).await.unwrap().unwrap(),
        [
            (id("a"), Running),
            (id("b"), Declined),
            (id("c"), NotConnected)
        ]
    );
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
    assert_eq!(
        store.states(&two.jid).await.unwrap().unwrap(),
        [(id("b"), Offered)]
    );
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
    let now = jobs[0].created;
    let pending = store.pending_jobs(&id("a"), now).await.unwrap();
    assert_eq!(pending, jobs[..2]);
    assert_eq!(store.pending_jobs(&id("b"), now).await.unwrap(), jobs);
    let late = jobs[0].expires;
    assert!(
        !store
            .pending_jobs(&id("a"), late)
            .await
            .unwrap()
            .contains(&jobs[0])
    );
    assert!(store.pending_jobs(&id("c"), now).await.unwrap().is_empty());
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
    let pending = store.pending_jobs(&id("a"), jobs[0].created).await.unwrap();
    assert_eq!(pending, jobs[..1]);
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
    assert_eq!(store.next_expiry().await.unwrap(), Some(soon.expires));
    assert!(store.expire(soon.expires - 1).await.unwrap().is_empty());
    assert_eq!(
        store.expire(soon.expires).await.unwrap(),
        [(soon.jid.clone(), id("a")), (soon.jid.clone(), id("b"))]
    );
    assert!(store.expire(soon.expires).await.unwrap().is_empty());
    assert_eq!(store.next_expiry().await.unwrap(), Some(later.expires));
    let verdict = answer(&store, "a", &soon.jid, &Value::Null).await.unwrap();
    assert_eq!(verdict, ReturnVerdict::Stored);
    assert_eq!(
        store.states(&soon.jid).await.unwrap().unwrap(),
        [(id("a"), Returned), (id("b"), Expired), (id("c"), Running)]
    );
    assert_eq!(store.expire(later.expires).await.unwrap().len(), 1);
    assert_eq!(store.next_expiry().await.unwrap(), None);
}

#[tokio::test]
async fn returns_come_in_pages() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let names: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    let offers: Vec<_> = names.iter().map(|name| (name.as_str(), Offered)).collect();
    publish(&store, &job, &offers).await;
    for name in names.iter().rev() {
        let value = Value::Bytes(vec![1; 1_000]);
        answer(&store, name, &job.jid, &value).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = store
            .returns(&job.jid, after.clone(), 3_500)
            .await
            .unwrap()
            .unwrap();
        assert!(page.returns.len() <= 3);
        assert_eq!(page.states.len(), 10);
        seen.extend(page.returns.iter().map(|found| found.minion.to_string()));
        after = page.returns.last().map(|found| found.minion.clone());
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, names);
    let tiny = store.returns(&job.jid, None, 0).await.unwrap().unwrap();
    assert_eq!((tiny.returns.len(), tiny.more), (1, true));
    let none = store.returns(&store.next_jid(), None, 0).await.unwrap();
    assert_eq!(none, None);
    assert_eq!(store.states(&store.next_jid()).await.unwrap(), None);
    assert_eq!(store.job(&store.next_jid()).await.unwrap(), None);
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
    let rest = store.list(9, Some(first[1].jid.clone())).await.unwrap();
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
    assert!(
        !place.path.with_extension("sqlite-wal").exists(),
        "the log was emptied"
    );
    let store = place.open();
    assert!(store.job(&job.jid).await.unwrap().is_some());
}

#[tokio::test]
async fn what_somebody_else_wrote_is_an_error_and_no_panic() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", Offered)]).await;
    let elsewhere = rusqlite::Connection::open(&place.path).unwrap();
    elsewhere
        .execute("UPDATE offers SET state = 99, minion = '../a'", [])
        .unwrap();
    let states = store.states(&job.jid).await;
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
async fn queries_of_the_walk_use_an_index() {
    let place = Place::new();
    let store = place.open();
    for sql in [
        offers::pending_query(),
        offers::EXPIRED.to_owned(),
        offers::NEXT_EXPIRY.to_owned(),
    ] {
        let plan = store.read(move |connection| {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
            let parameters = vec![0; statement.parameter_count()];
            let lines: Result<Vec<String>, _> = statement
                .query_map(rusqlite::params_from_iter(parameters), |row| row.get(3))?
                .collect();
            Ok(lines?.join("\n"))
        });
        let plan = plan.await.unwrap();
        assert!(plan.contains("offers_open"), "{plan}");
        assert!(!plan.contains("SCAN jobs"), "{plan}");
    }
}
