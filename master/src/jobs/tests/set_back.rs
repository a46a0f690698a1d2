//! Setting the master's time back after a start with a clock that was far ahead.

use saline_messages::{MasterTime, StartId};

use super::*;
use crate::jobs::{MinionRecord, SetBackError};

const TEN_DAYS: MasterTime = 10 * 86_400 * 1_000;

/// Opens the store as a master does whose machine has a clock that is ten days ahead.
fn open_ahead(place: &Place) -> JobStore {
    let clock = MasterClock::new(Clock);
    clock.rise_above(clock.now() + TEN_DAYS);
    JobStore::open(place.settings.clone(), clock).unwrap()
}

/// Publishes a job for `a` that expires then, and has `a` return.
async fn done(store: &JobStore, expires: MasterTime) -> Job {
    let job = Job {
        expires,
        ..job(store)
    };
    publish(store, &job, &[("a", MinionJobState::Offered)]).await;
    answer(store, "a", &job.jid, &Value::Bool(true))
        .await
        .unwrap();
    job
}

async fn close(store: JobStore) {
    store.close().await;
    drop(store);
}

fn files_set_aside(place: &Place) -> usize {
    let entries = std::fs::read_dir(&place.settings.folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    let is_aside = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".sqlite.ahead");
    names.filter(is_aside).count()
}

#[tokio::test]
async fn a_start_is_in_doubt_until_the_clock_is_near_the_entries_of_the_store() {
    let place = Place::new();
    for (ahead, is_in_doubt) in [(false, false), (true, true), (true, false), (false, true)] {
        let store = match ahead {
            true => open_ahead(&place),
            false => place.open(),
        };
        assert_eq!(store.started_in_doubt(), is_in_doubt, "{ahead}");
        let expires = store.now() + 1;
        done(&store, expires).await;
        close(store).await;
    }
}

#[tokio::test]
async fn the_time_is_set_back_by_the_next_start_with_what_came_before() {
    let place = Place::new();
    let store = place.open();
    let soon = store.now() + 1;
    let before = done(&store, soon).await;
    close(store).await;
    // The machine's clock is right again, and the master's time is not.
    close(open_ahead(&place)).await;
    let store = open_ahead(&place);
    let expires = store.now() + 60_000;
    let ahead = done(&store, expires).await;
    let a = id("a");
    let record = MinionRecord::new(StartId([1; 16]), soon);
    let settle = |record: &mut MinionRecord| record.settle(soon, expires);
    store.records.put(&a, record, settle);
    close(store).await;
    let store = place.open();
    assert!(store.next_jid() > ahead.jid);
    let by = store.order_set_back().await.unwrap();
    assert!(by > Duration::from_secs(9 * 86_400), "{by:?}");
    close(store).await;

    let store = place.open();
    assert!(store.clock.ahead() < 1_000);
    assert_eq!(files_set_aside(&place), 1);
    assert!(store.job(&before.jid).await.unwrap().is_some());
    assert!(store.job(&ahead.jid).await.unwrap().is_none());
    let next = store.next_jid();
    assert!(before.jid < next && next < ahead.jid);
    // A job of now is offered, and has not expired because the minion acknowledged a later expiry.
    let expires = store.now() + 60_000;
    let record = store.records.get(&a).unwrap();
    assert_eq!(record.verdict(expires), None);
    assert_eq!(record.verdict(soon + 1), Some(MinionJobState::Expired));
    done(&store, expires).await;
    close(store).await;
    // It stays there.
    let store = place.open();
    assert!(store.clock.ahead() < 1_000);
    assert_eq!(files_set_aside(&place), 1);
}

#[tokio::test]
async fn a_job_that_was_told_to_have_expired_in_the_time_ahead_is_not_offered_again() {
    let place = Place::new();
    let store = place.open();
    let waits = Job {
        expires: store.now() + 3_600_000,
        ..job(&store)
    };
    publish(&store, &waits, &[("a", MinionJobState::Queued)]).await;
    close(store).await;
    // It expires there.
    let store = open_ahead(&place);
    assert_eq!(lock(&store.open).under_way(), 0);
    let expires = store.now() + 60_000;
    done(&store, expires).await;
    store.order_set_back().await.unwrap();
    close(store).await;
    let store = place.open();
    assert!(store.clock.ahead() < 1_000);
    assert_eq!(lock(&store.open).under_way(), 0);
    assert_eq!(files_set_aside(&place), 2);
}

#[tokio::test]
async fn a_job_that_was_told_to_have_expired_stays_so_though_nothing_else_was_noted_in_the_time_ahead()
 {
    const HOUR: MasterTime = 3_600_000;
    let place = Place::new();
    let store = place.open();
    let waits = Job {
        expires: store.now() + HOUR,
        ..job(&store)
    };
    publish(&store, &waits, &[("a", MinionJobState::Queued)]).await;
    close(store).await;
    let told = async |store: &JobStore| {
        let pending = store
            .pending_jobs(&id("a"), None, store.now(), u64::MAX)
            .await;
        let pending = pending.unwrap().jobs.len();
        (states(store, &waits.jid).await[0].1, pending)
    };
    let store = open_ahead(&place);
    assert_eq!(told(&store).await, (MinionJobState::Expired, 0));
    // Not closed: it crashes.
    drop(store);
    let store = place.open();
    assert_eq!(told(&store).await, (MinionJobState::Expired, 0));
    // The time is not ten days ahead, but where that is true.
    assert!(store.clock.ahead() <= HOUR + 60_000);
    store.order_set_back().await.unwrap();
    close(store).await;
    let store = place.open();
    assert!(store.clock.ahead() < 1_000);
    assert_eq!(files_set_aside(&place), 1);
}

#[tokio::test]
async fn the_time_is_not_set_back_while_a_job_is_open_or_when_it_is_right() {
    let place = Place::new();
    let store = place.open();
    let right = store.order_set_back().await;
    assert!(matches!(right, Err(SetBackError::NotAhead(0))), "{right:?}");
    close(store).await;
    let store = open_ahead(&place);
    let expires = store.now() + 60_000;
    let open = Job {
        expires,
        ..job(&store)
    };
    publish(&store, &open, &[("a", MinionJobState::Offered)]).await;
    let refused = store.order_set_back().await;
    assert!(
        matches!(refused, Err(SetBackError::JobsOpen(1))),
        "{refused:?}"
    );
    answer(&store, "a", &open.jid, &Value::Bool(true))
        .await
        .unwrap();
    store.order_set_back().await.unwrap();
    // One that is published before the restart stays, and the time with it.
    let late = Job {
        expires,
        ..job(&store)
    };
    publish(&store, &late, &[("a", MinionJobState::Offered)]).await;
    close(store).await;
    let store = place.open();
    assert!(store.clock.ahead() > TEN_DAYS / 2);
    assert_eq!(files_set_aside(&place), 0);
    assert!(store.job(&late.jid).await.unwrap().is_some());
    answer(&store, "a", &late.jid, &Value::Bool(true))
        .await
        .unwrap();
    close(store).await;
    let store = place.open();
    assert!(
        store.clock.ahead() > TEN_DAYS / 2,
        "the order was refused, and is over"
    );
}

#[tokio::test]
async fn a_request_that_is_repeated_after_the_time_was_set_back_acts_once() {
    let place = Place::new();
    let store = open_ahead(&place);
    let request = request(7);
    let reply = store.log_request(request, b"done".to_vec()).await.unwrap();
    assert_eq!(reply, CarriedOut::Now);
    store.order_set_back().await.unwrap();
    close(store).await;
    let store = place.open();
    assert!(store.clock.ahead() < 1_000);
    let again = store.log_request(request, b"again".to_vec()).await.unwrap();
    assert_eq!(again, CarriedOut::Before(b"done".to_vec()));
}
