//! Publications: what is stored once and is there after a restart, and what is refused.

use super::*;
use saline_messages::Published;

use MinionJobState::{NotConnected, Offered, Returned};

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
    let stored = store.job(&job.jid).await.unwrap().unwrap();
    assert_eq!((&stored.job, stored.operator.as_str()), (&job, "root"));
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
        without_grains: Vec::new(),
        without_pillar: Vec::new(),
        batch: None,
        warnings: Vec::new(),
    };
    assert_eq!(ask(&first).await, CarriedOut::Now);
    assert_eq!(ask(&second).await, CarriedOut::Before(published));
    assert_eq!(store.job(&second.jid).await.unwrap(), None);
    let pending = store
        .pending_jobs(&id("a"), None, first.created, u64::MAX)
        .await;
    assert_eq!(pending.unwrap().jobs.len(), 1);

    assert_eq!(store.logged_reply(request(2)), None);
    let now = store.log_request(request(2), b"keys".to_vec()).await;
    assert_eq!(now.unwrap(), CarriedOut::Now);
    assert_eq!(store.logged_reply(request(2)), Some(b"keys".to_vec()));
    let again = store.log_request(request(2), b"other".to_vec()).await;
    assert_eq!(again.unwrap(), CarriedOut::Before(b"keys".to_vec()));
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
    assert_eq!(both.0.unwrap(), CarriedOut::Now);
    let CarriedOut::Before(before) = both.1.unwrap() else {
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
        CarriedOut::Now,
        "the request was not carried out before"
    );
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
async fn what_is_queued_and_signed_by_an_identity_that_is_not_followed_is_withdrawn() {
    let place = Place::new();
    let store = place.open();
    let (followed, other) = (job(&store), job(&store));
    publish(&store, &followed, &[("a", MinionJobState::Queued)]).await;
    let states_of_other = [
        ("a", MinionJobState::Queued),
        ("b", MinionJobState::Offered),
        ("c", MinionJobState::Waiting),
    ];
    publish(&store, &other, &states_of_other).await;
    drop(store);
    let store = place.open();
    let is_followed = {
        let jid = followed.jid.clone();
        move |signed: &SignedJob| signed.job.jid == jid
    };
    let withdrawn = store.withdraw_unfollowed(is_followed.clone()).await;
    assert_eq!(
        withdrawn.unwrap(),
        [(other.jid.clone(), vec![id("a"), id("c")])]
    );
    assert_eq!(store.withdraw_unfollowed(is_followed).await.unwrap(), []);
    // It is on the disk.
    drop(store);
    let store = place.open();
    let told = |states: Vec<(MinionId, MinionJobState)>| -> Vec<_> {
        states.into_iter().map(|(_, state)| state).collect()
    };
    assert_eq!(
        told(states(&store, &other.jid).await),
        [
            MinionJobState::Withdrawn,
            MinionJobState::Offered,
            MinionJobState::Withdrawn
        ]
    );
    assert_eq!(
        told(states(&store, &followed.jid).await),
        [MinionJobState::Queued]
    );
}
