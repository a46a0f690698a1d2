//! Returns whose payload comes in parts.

use saline_messages::{Outgoing, RETCODE_INTERRUPTED, ReturnPart};

use super::counts::taken;
use super::*;
use crate::jobs::PartOutcome;
use crate::jobs::tables::return_parts;

const MIB: usize = 1024 * 1024;

/// A payload of so many bytes, which differ.
pub(super) fn payload(bytes: usize) -> Value {
    Value::Bytes((0..bytes).map(|number| (number / 7) as u8).collect())
}

pub(super) fn packed(payload: &Value) -> Outgoing {
    Outgoing::new(Packed::pack(payload).into_bytes())
}

/// The part of at most `most` bytes that begins at `offset`.
pub(super) fn part(jid: &Jid, whole: &Outgoing, offset: usize, most: usize) -> ReturnPart {
    ReturnPart {
        jid: jid.clone(),
        retcode: 0,
        success: true,
        part: whole.part(offset as u64, most),
    }
}

/// Sends a payload in parts of a mebibyte from `offset` on, and returns the verdict.
pub(super) async fn send(
    store: &JobStore,
    minion: &str,
    jid: &Jid,
    payload: &Value,
    mut offset: usize,
) -> ReturnVerdict {
    let (minion, whole) = (id(minion), packed(payload));
    loop {
        let part = part(jid, &whole, offset, MIB);
        match store.store_return_part(&minion, part).await.unwrap() {
            PartOutcome::Received(received) => {
                assert!(received as usize > offset);
                offset = received as usize;
            }
            PartOutcome::Verdict(verdict) => return verdict,
            outcome => panic!("{outcome:?}"),
        }
    }
}

pub(super) async fn payloads(store: &JobStore, jid: &Jid) -> Vec<Value> {
    let page = store.returns(jid, 0, usize::MAX).await.unwrap().unwrap();
    let all = page.returns.iter();
    all.map(|found| found.payload.unpack().unwrap()).collect()
}

/// How many rows a table of the store's only partition has.
fn rows(place: &Place, table: &str) -> i64 {
    let connection = rusqlite::Connection::open(&place.files()[0]).unwrap();
    let count = format!("SELECT count(*) FROM {table}");
    connection.query_row(&count, [], |row| row.get(0)).unwrap()
}

fn parts(place: &Place) -> i64 {
    rows(place, "return_parts")
}

#[tokio::test]
async fn each_part_is_committed_alone_and_the_return_with_the_last() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    taken(&store).await;
    let large = payload(2 * MIB);
    let verdict = send(&store, "a", &job.jid, &large, 0).await;
    assert_eq!(verdict, ReturnVerdict::Stored);
    let statements = taken(&store).await;
    let written: Vec<Vec<&str>> = statements
        .split(|statement| statement == "COMMIT")
        .map(|all| {
            let writes = all
                .iter()
                .filter(|statement| statement.starts_with(['B', 'I', 'D']));
            writes.map(String::as_str).collect()
        })
        .collect();
    let (begin, part) = ("BEGIN IMMEDIATE", "INSERT OR REPLACE");
    // Beside its bytes the payload has a header, so it has three parts.
    let all = [
        vec![begin, part, part],
        vec![begin, part],
        vec![begin, part, "INSERT INTO returns", "DELETE FROM transfers"],
        vec![],
    ];
    assert_eq!(written, all);
    assert_eq!(payloads(&store, &job.jid).await, [large]);
    let states = states(&store, &job.jid).await;
    assert_eq!(states, [(id("a"), MinionJobState::Returned)]);
    assert_eq!(rows(&place, "transfers"), 0);
}

#[tokio::test]
async fn the_payload_of_one_return_is_read_up_to_a_size() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let offers = [
        ("a", MinionJobState::Offered),
        ("b", MinionJobState::Offered),
    ];
    publish(&store, &job, &offers).await;
    let large = payload(MIB);
    let bytes = Packed::pack(&large).as_bytes().len();
    for minion in ["a", "b"] {
        send(&store, minion, &job.jid, &large, 0).await;
    }
    let read = async |minion: &str, most: usize| {
        let read = store.payload_of(&job.jid, &id(minion), most).await;
        read.unwrap().map(|payload| payload.unpack().unwrap())
    };
    assert_eq!(read("b", bytes).await, Some(large));
    assert_eq!(read("b", bytes - 1).await, None);
    assert_eq!(read("c", usize::MAX).await, None);
}

#[tokio::test]
async fn the_first_part_has_a_verdict_when_the_return_is_not_wanted() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let offers = [
        ("a", MinionJobState::Offered),
        ("b", MinionJobState::Declined),
    ];
    publish(&store, &job, &offers).await;
    let first = payload(MIB + 1);
    send(&store, "a", &job.jid, &first, 0).await;
    for (minion, jid, verdict) in [
        ("a", &job.jid, ReturnVerdict::Duplicate),
        ("b", &job.jid, ReturnVerdict::NotOffered),
        ("c", &job.jid, ReturnVerdict::NotOffered),
        ("a", &store.next_jid(), ReturnVerdict::UnknownJob),
    ] {
        let begins = part(jid, &packed(&payload(3 * MIB)), 0, 10);
        let outcome = store.store_return_part(&id(minion), begins).await;
        assert_eq!(outcome.unwrap(), PartOutcome::Verdict(verdict));
    }
    assert_eq!(payloads(&store, &job.jid).await, [first]);
    assert_eq!((parts(&place), rows(&place, "transfers")), (2, 0));
}

#[tokio::test]
async fn several_at_once_are_whole() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let names = names(3);
    publish(&store, &job, &offered(&names)).await;
    let sent = [payload(3 * MIB), payload(MIB), payload(5 * MIB)];
    let (a, b, c) = tokio::join!(
        send(&store, &names[0], &job.jid, &sent[0], 0),
        send(&store, &names[1], &job.jid, &sent[1], 0),
        send(&store, &names[2], &job.jid, &sent[2], 0),
    );
    assert_eq!([a, b, c], [ReturnVerdict::Stored; 3]);
    let page = store.returns(&job.jid, 0, usize::MAX).await.unwrap();
    for found in page.unwrap().returns {
        let number = names.iter().position(|name| *name == found.minion.as_str());
        assert_eq!(found.payload.unpack().unwrap(), sent[number.unwrap()]);
    }
    // A page holds at least one return, and no second one that does not fit.
    let page = store.returns(&job.jid, 0, MIB).await.unwrap().unwrap();
    assert_eq!((page.returns.len(), page.more), (1, true));
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn a_large_result_replaces_what_was_said_of_an_interrupted_run() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Running)]).await;
    let before = Return {
        retcode: RETCODE_INTERRUPTED,
        success: false,
        ..returned(&job.jid, &payload(3 * MIB))
    };
    let verdict = store.store_large_return(&id("a"), before).await.unwrap();
    assert_eq!(verdict, Some(ReturnVerdict::Stored));
    let large = payload(2 * MIB);
    let verdict = send(&store, "a", &job.jid, &large, 0).await;
    assert_eq!(verdict, ReturnVerdict::Stored);
    assert_eq!(
        payloads(&store, &job.jid).await,
        std::slice::from_ref(&large)
    );
    assert_eq!(parts(&place), 3, "those of the result, and of its envelope");
    let verdict = send(&store, "a", &job.jid, &payload(4 * MIB), 0).await;
    assert_eq!(verdict, ReturnVerdict::Duplicate);
    assert_eq!(payloads(&store, &job.jid).await, [large]);
}

#[tokio::test]
async fn one_that_came_as_one_is_stored_in_parts() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    let large = payload(2 * MIB);
    let minion = id("a");
    let stored = store.store_large_return(&minion, returned(&job.jid, &large));
    assert_eq!(stored.await.unwrap(), Some(ReturnVerdict::Stored));
    assert_eq!(parts(&place), 3);
    assert_eq!(payloads(&store, &job.jid).await, [large]);
}

#[tokio::test]
async fn a_part_whose_call_was_dropped_may_be_sent_again() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    let (large, minion) = (payload(3 * MIB), id("a"));
    for polls in 0..6 {
        let begins = part(&job.jid, &packed(&large), 0, MIB);
        let mut call = Box::pin(store.store_return_part(&minion, begins));
        for _ in 0..polls {
            tokio::select! {
                biased;
                _ = &mut call => break,
                () = tokio::task::yield_now() => {}
            }
        }
    }
    // What is queued is written before this is.
    taken(&store).await;
    let begins = part(&job.jid, &packed(&large), 0, MIB);
    let outcome = store.store_return_part(&minion, begins).await.unwrap();
    assert_eq!(outcome, PartOutcome::Received(MIB as u64));
    let verdict = send(&store, "a", &job.jid, &large, MIB).await;
    assert_eq!(verdict, ReturnVerdict::Stored);
    assert_eq!(payloads(&store, &job.jid).await, [large]);
}

#[tokio::test]
async fn a_transfer_goes_on_after_a_restart() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    let (large, minion) = (payload(4 * MIB), id("a"));
    let whole = packed(&large);
    for offset in [0, MIB] {
        let next = part(&job.jid, &whole, offset, MIB);
        store.store_return_part(&minion, next).await.unwrap();
    }
    // A master that is killed writes nothing more than this one.
    store.close().await;
    drop(store);
    let store = place.open();
    let first = part(&job.jid, &whole, 0, 10);
    let outcome = store.store_return_part(&minion, first).await.unwrap();
    assert_eq!(outcome, PartOutcome::Received(2 * MIB as u64));
    let verdict = send(&store, "a", &job.jid, &large, 2 * MIB).await;
    assert_eq!(verdict, ReturnVerdict::Stored);
    assert_eq!(
        payloads(&store, &job.jid).await,
        std::slice::from_ref(&large)
    );
    store.close().await;
    drop(store);
    let store = place.open();
    assert_eq!(payloads(&store, &job.jid).await, [large]);
    assert_eq!(rows(&place, "transfers"), 0);
}

#[tokio::test]
async fn parts_that_changed_on_the_disk_are_no_return() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    let (large, minion) = (payload(2 * MIB), id("a"));
    let whole = packed(&large);
    let first = part(&job.jid, &whole, 0, MIB);
    store.store_return_part(&minion, first).await.unwrap();
    store.close().await;
    drop(store);
    let elsewhere = rusqlite::Connection::open(&place.files()[0]).unwrap();
    let change = "UPDATE return_parts SET bytes = zeroblob(length(bytes))";
    elsewhere.execute(change, []).unwrap();
    drop(elsewhere);
    let store = place.open();
    let rest = [
        part(&job.jid, &whole, MIB, MIB),
        part(&job.jid, &whole, 2 * MIB, MIB),
    ];
    let mut outcome = PartOutcome::Busy;
    for part in rest {
        outcome = store.store_return_part(&minion, part).await.unwrap();
    }
    assert_eq!(outcome, PartOutcome::Malformed);
    store.flush().await.unwrap();
    assert_eq!((parts(&place), rows(&place, "transfers")), (0, 0));
    let verdict = send(&store, "a", &job.jid, &large, 0).await;
    assert_eq!(verdict, ReturnVerdict::Stored);
    assert_eq!(payloads(&store, &job.jid).await, [large]);
}

#[tokio::test]
async fn another_return_of_the_minion_takes_the_place_of_the_first() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    let begins = part(&job.jid, &packed(&payload(3 * MIB)), 0, MIB);
    store.store_return_part(&id("a"), begins).await.unwrap();
    let other = payload(2 * MIB);
    let verdict = send(&store, "a", &job.jid, &other, 0).await;
    assert_eq!(verdict, ReturnVerdict::Stored);
    store.flush().await.unwrap();
    assert_eq!((parts(&place), rows(&place, "transfers")), (3, 0));
    assert_eq!(payloads(&store, &job.jid).await, [other]);
}

#[tokio::test]
async fn a_return_that_came_as_one_meanwhile_stands() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    let large = payload(2 * MIB);
    let (whole, a) = (packed(&large), id("a"));
    let too_large = part(&job.jid, &whole, 0, MIB + 1);
    let refused = store.store_return_part(&a, too_large).await.unwrap();
    assert_eq!(refused, PartOutcome::Malformed);
    for offset in [0, MIB] {
        let next = part(&job.jid, &whole, offset, MIB);
        store.store_return_part(&a, next).await.unwrap();
    }
    let small = Value::from("small");
    answer(&store, "a", &job.jid, &small).await.unwrap();
    let verdict = send(&store, "a", &job.jid, &large, 2 * MIB).await;
    assert_eq!(verdict, ReturnVerdict::Duplicate);
    assert_eq!((parts(&place), rows(&place, "transfers")), (0, 0));
    assert_eq!(payloads(&store, &job.jid).await, [small]);
}

#[tokio::test]
async fn parts_of_nothing_go_at_the_next_start_and_those_of_returns_never() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    let large = payload(2 * MIB);
    send(&store, "a", &job.jid, &large, 0).await;
    store.close().await;
    drop(store);
    let elsewhere = rusqlite::Connection::open(&place.files()[0]).unwrap();
    return_parts::insert(&elsewhere, 7 * return_parts::MAX_PARTS + 3, b"of nothing").unwrap();
    // As if the last statement of the return had failed.
    let note = "INSERT INTO transfers (first, jid, minion, id, total)
                SELECT parts, jid, minion, zeroblob(32), 9999999 FROM returns";
    elsewhere.execute(note, []).unwrap();
    drop(elsewhere);
    let store = place.open();
    store.flush().await.unwrap();
    assert_eq!((parts(&place), rows(&place, "transfers")), (3, 0));
    assert_eq!(payloads(&store, &job.jid).await, [large]);
    let first = rusqlite::Connection::open(&place.files()[0])
        .unwrap()
        .query_row("SELECT parts FROM returns", [], |row| row.get(0));
    let elsewhere = rusqlite::Connection::open(&place.files()[0]).unwrap();
    return_parts::remove(&elsewhere, first.unwrap()).unwrap();
    assert_eq!(parts(&place), 3, "a return names them");
}

#[tokio::test]
async fn a_check_names_payloads_that_are_lost() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    send(&store, "a", &job.jid, &payload(2 * MIB), 0).await;
    let elsewhere = rusqlite::Connection::open(&place.files()[0]).unwrap();
    elsewhere.execute("DELETE FROM return_parts", []).unwrap();
    let problems = store.check().await.unwrap().problems;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].ends_with("1 large returns have lost their payload"));
}
