//! What a minion that comes back may still begin.

use super::*;

use MinionJobState::{Declined, Expired, NotConnected, Offered, Queued, Running};

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
    let first = store
        .pending_jobs(&id("a"), None, 0, u64::MAX)
        .await
        .unwrap();
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
    let first = store
        .pending_jobs(&id("a"), None, 0, u64::MAX)
        .await
        .unwrap();
    assert!(first.jobs.len() == 1 && first.more);
    assert_eq!(pending(&store, "a", 0).await, jobs);
}

/// What a minion may still begin, all pages of it.
async fn pending(store: &JobStore, minion: &str, now: u64) -> Vec<Job> {
    let mut all: Vec<Job> = Vec::new();
    loop {
        let after = all.last().map(|job| job.jid.clone());
        let page = store
            .pending_jobs(&id(minion), after.as_ref(), now, u64::MAX)
            .await;
        let page = page.unwrap();
        all.extend(page.jobs.into_iter().map(|signed| signed.job));
        if !page.more {
            return all;
        }
    }
}
