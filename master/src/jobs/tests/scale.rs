//! What grows with the fleet, and what does not: only minions in a state that is not final are held in memory.

use super::*;
use saline_messages::{Batch, MAX_RUNNING};
use std::collections::BTreeSet;

use MinionJobState::{NotConnected, Offered, Returned, Running, Waiting};

/// Returns a fleet of which only these two minions are connected.
fn fleet_with_two<'n>(names: &'n [String], two: [&'n str; 2]) -> Vec<(&'n str, MinionJobState)> {
    let away = names.iter().map(|name| (name.as_str(), NotConnected));
    let two = two.map(|name| (name, Offered));
    away.chain(two).collect()
}

#[tokio::test]
async fn two_minions_that_never_return_stop_no_publication_to_a_fleet() {
    let place = Place::new();
    let store = place.open();
    let names = names(10_000);
    let two = ["x1", "x2"];
    let fleet = fleet_with_two(&names, two);
    for _ in 0..10 {
        let job = job(&store);
        publish(&store, &job, &fleet).await;
        for name in two {
            assert!(store.set_state(&job.jid, &id(name), Running).await.unwrap());
        }
    }
    assert_eq!(
        lock(&store.open).offers(),
        20,
        "of 100,020 that the jobs were for"
    );
    // They say that they run everything that they are offered.
    for _ in 0..MAX_RUNNING {
        let job = job(&store);
        publish(&store, &job, &two.map(|name| (name, Offered))).await;
        for name in two {
            assert!(store.set_state(&job.jid, &id(name), Running).await.unwrap());
        }
    }
    assert_eq!(lock(&store.open).offers(), 2 * MAX_RUNNING);
    assert_eq!(store.take_given_up().len(), 20, "ten of each");
    store.flush().await.unwrap();
    drop(store);
    let store = place.open();
    assert_eq!(lock(&store.open).offers(), 2 * MAX_RUNNING, "after a crash");
}

#[tokio::test]
#[ignore = "fills a store with the states of ten million minions of jobs"]
async fn a_store_with_ten_thousand_jobs_that_one_minion_never_ends_starts_in_a_second() {
    const JOBS: usize = 10_000;
    let place = Place::new();
    let store = std::sync::Arc::new(place.open());
    let names = names(1_000);
    let mut fleet = fleet_with_two(&names[..998], ["x1", "x2"]);
    fleet[998].1 = NotConnected;
    let mut jobs = tokio::task::JoinSet::new();
    for _ in 0..JOBS {
        let (store, mut job) = (std::sync::Arc::clone(&store), job(&store));
        // As those of the last weeks.
        job.expires = job.created;
        let new = new(&job, &fleet);
        jobs.spawn(async move {
            assert_eq!(store.publish(new).await.unwrap(), CarriedOut::Now);
            assert!(store.set_state(&job.jid, &id("x2"), Running).await.unwrap());
        });
        if jobs.len() == 200 {
            jobs.join_next().await.unwrap().unwrap();
        }
    }
    while let Some(done) = jobs.join_next().await {
        done.unwrap();
    }
    store.close().await;
    drop(store);
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib = line.trim().trim_end_matches(" kB").parse::<u64>();
        kib.unwrap() / 1024
    };
    let (before, began) = (resident(), Clock.now());
    let store = place.open();
    let (took, after) = (began.elapsed(), resident());
    println!("{JOBS} jobs: started in {took:?}, {before} MiB before and {after} MiB after");
    assert_eq!(
        lock(&store.open).offers(),
        MAX_RUNNING,
        "as many as one minion may run"
    );
    assert!(took.as_secs() < 3, "{took:?}");
    assert!(after < before + 100, "{before} MiB, then {after} MiB");
}

#[tokio::test]
async fn who_holds_the_most_is_named() {
    let place = Place::new();
    let store = place.open();
    for offers in [
        &[("a", Offered), ("b", Offered)][..],
        &[("b", Offered), ("c", Waiting)],
    ] {
        publish(&store, &job(&store), offers).await;
    }
    let busiest = lock(&store.open).busiest(2);
    assert_eq!(busiest, [(id("b"), 2), (id("a"), 1)]);
}

#[tokio::test]
async fn a_batch_writes_the_changes_of_one_minion_at_a_time() {
    const MINIONS: usize = 300;
    let place = Place::new();
    let store = place.open();
    let names = names(MINIONS);
    let present: BTreeSet<MinionId> = names.iter().map(|name| id(name)).collect();
    let job = job(&store);
    let mut new = new(&job, &[]);
    new.minions = names.iter().map(|name| (id(name), Waiting)).collect();
    new.batch = Some(Batch {
        size: 1,
        wait_ms: 0,
        timeout_ms: 0,
        failhard: false,
        queues: false,
    });
    assert_eq!(store.publish(new).await.unwrap(), CarriedOut::Now);
    counts::taken(&store).await;
    for name in &names {
        store.step_batches(Some(&present));
        assert!(store.claim(&id(name), &job.jid).await.unwrap(), "{name}");
        assert!(store.set_state(&job.jid, &id(name), Running).await.unwrap());
        store.flush().await.unwrap();
        answer(&store, name, &job.jid, &Value::Null).await.unwrap();
        store.flush().await.unwrap();
    }
    let mut written = counts::taken(&store).await;
    written.retain(|sql| sql != "BEGIN IMMEDIATE" && sql != "COMMIT");
    // The grant, the beginning, the return, and the removal of the beginning.
    let of_each = [
        "INSERT INTO state_changes",
        "INSERT INTO state_changes",
        "INSERT INTO returns",
        "DELETE FROM state_changes",
    ];
    assert_eq!(written.len(), of_each.len() * MINIONS);
    assert!(written.chunks(of_each.len()).all(|each| each == of_each));
    let all = states(&store, &job.jid).await;
    assert!(all.iter().all(|(_, state)| *state == Returned));
}

#[tokio::test]
async fn what_minions_report_again_is_gathered_and_the_rest_is_written_when_it_is_due() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", Offered), ("b", Offered)]).await;
    store.flush().await.unwrap();
    counts::taken(&store).await;
    let set = async |minion, state| {
        let set = store.set_state(&job.jid, &id(minion), state).await;
        assert!(set.unwrap());
        store.flush_due().await.unwrap();
        let mut written = counts::taken(&store).await;
        written.retain(|sql| sql.ends_with("state_changes"));
        written.len()
    };
    assert_eq!(set("a", Running).await, 0, "it reports that again");
    assert_eq!(
        set("b", MinionJobState::Declined).await,
        2,
        "with what was gathered"
    );
    answer(&store, "a", &job.jid, &Value::Null).await.unwrap();
    store.flush_due().await.unwrap();
    let number = crate::jid::to_micros(&job.jid).unwrap();
    let is_here = lock(&store.open).has(number);
    assert!(!is_here, "a job that is over leaves at once");
}
