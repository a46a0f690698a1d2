//! Payloads that are stored in parts.

use super::counts::taken;
use super::*;

const MIB: usize = 1024 * 1024;

/// A payload of so many bytes, which differ.
fn payload(bytes: usize) -> Value {
    Value::Bytes((0..bytes).map(|number| (number / 7) as u8).collect())
}

async fn payloads(store: &JobStore, jid: &Jid) -> Vec<Value> {
    let page = store.returns(jid, 0, usize::MAX).await.unwrap().unwrap();
    let all = page.returns.iter();
    all.map(|found| found.payload.unpack().unwrap()).collect()
}

/// How many parts are in the store's only partition.
fn parts(place: &Place) -> i64 {
    let connection = rusqlite::Connection::open(&place.files()[0]).unwrap();
    let count = "SELECT count(*) FROM return_parts";
    connection.query_row(count, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn each_part_is_committed_alone() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    taken(&store).await;
    let large = payload(2 * MIB);
    let verdict = answer(&store, "a", &job.jid, &large).await.unwrap();
    assert_eq!(verdict, ReturnVerdict::Stored);
    let statements = taken(&store).await;
    let mut transactions = statements.split(|statement| statement == "COMMIT");
    let [begin, look @ ..] = transactions.next().unwrap() else {
        panic!("{statements:?}");
    };
    assert_eq!(begin, "BEGIN IMMEDIATE");
    assert!(look.iter().all(|statement| statement.starts_with("SELECT")));
    let written: Vec<&[String]> = transactions.collect();
    let (ends, all) = written.split_last().unwrap();
    assert!(ends.is_empty());
    let (last, parts) = all.split_last().unwrap();
    assert_eq!(last, &["BEGIN IMMEDIATE", "INSERT INTO returns"]);
    // Beside its bytes the payload has a header.
    assert_eq!(parts.len(), 5);
    for part in parts {
        assert_eq!(part, &["BEGIN IMMEDIATE", "INSERT INTO return_parts"]);
    }
    assert_eq!(payloads(&store, &job.jid).await, [large]);
}

#[tokio::test]
async fn a_repeated_return_leaves_the_first() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let offers = [
        ("a", MinionJobState::Offered),
        ("b", MinionJobState::Declined),
    ];
    publish(&store, &job, &offers).await;
    let first = payload(MIB + 1);
    answer(&store, "a", &job.jid, &first).await.unwrap();
    let again = answer(&store, "a", &job.jid, &payload(3 * MIB)).await;
    assert_eq!(again.unwrap(), ReturnVerdict::Duplicate);
    let declined = answer(&store, "b", &job.jid, &payload(3 * MIB)).await;
    assert_eq!(declined.unwrap(), ReturnVerdict::NotOffered);
    assert_eq!(payloads(&store, &job.jid).await, [first]);
    assert_eq!(parts(&place), 3);
}

#[tokio::test]
async fn two_at_once_and_small_ones_are_whole() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let names = names(3);
    publish(&store, &job, &offered(&names)).await;
    let sent = [payload(3 * MIB), payload(MIB), payload(5 * MIB)];
    let (a, b, c) = tokio::join!(
        answer(&store, &names[0], &job.jid, &sent[0]),
        answer(&store, &names[1], &job.jid, &sent[1]),
        answer(&store, &names[2], &job.jid, &sent[2]),
    );
    for verdict in [a, b, c] {
        assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    }
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
async fn parts_of_a_call_that_was_dropped_are_removed() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    let large = payload(9 * MIB);
    let minion = id("a");
    let mut call = Box::pin(store_one(&store, &minion, returned(&job.jid, &large)));
    while parts(&place) < 3 {
        tokio::select! {
            biased;
            _ = &mut call => panic!("it has 19 parts"),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(call);
    store.flush().await.unwrap();
    assert_eq!(parts(&place), 0);
    answer(&store, "a", &job.jid, &large).await.unwrap();
    assert_eq!(payloads(&store, &job.jid).await, [large]);
}

#[tokio::test]
async fn parts_without_a_return_go_at_the_next_start() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    let names = names(3);
    publish(&store, &job, &offered(&names)).await;
    let sent = [payload(2 * MIB), payload(3 * MIB)];
    answer(&store, &names[0], &job.jid, &sent[0]).await.unwrap();
    // A master that ends now writes no return.
    let mut unfinished = returned(&job.jid, &payload(4 * MIB));
    let start = store.partitions.newest().unwrap();
    let micros = crate::jobs::jid::to_micros(&job.jid).unwrap();
    let minion = id(&names[1]);
    let stored = store.store_large_payload(start, &minion, micros, &mut unfinished);
    stored.await.unwrap().unwrap().keep();
    assert_eq!(parts(&place), 5 + 9);
    store.close().await;
    drop(store);

    let store = place.open();
    assert_eq!(parts(&place), 5);
    answer(&store, &names[2], &job.jid, &sent[1]).await.unwrap();
    assert_eq!(payloads(&store, &job.jid).await, sent);
}

#[tokio::test]
async fn a_check_names_payloads_that_are_lost() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
    answer(&store, "a", &job.jid, &payload(2 * MIB))
        .await
        .unwrap();
    let elsewhere = rusqlite::Connection::open(&place.files()[0]).unwrap();
    elsewhere.execute("DELETE FROM return_parts", []).unwrap();
    let problems = store.check().await.unwrap().problems;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].ends_with("1 large returns have lost their payload"));
}
