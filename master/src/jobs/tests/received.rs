//! What was received, in its order, whichever file it is in.

use super::*;
use crate::jobs::{Received, ReceivedKind, ReceivedQuery};

type Wants = fn(&Jid, Option<&MinionId>, &[String]) -> bool;

/// Reads everything in pages, and returns it as texts.
async fn all(store: &JobStore, max_bytes: usize, wants: Wants) -> Vec<String> {
    let (mut after, mut found, mut last) = (0, Vec::new(), 0);
    loop {
        let query = ReceivedQuery {
            after,
            max_bytes,
            max_payload: 1_000,
            wants,
        };
        let page = store.received(query).await.unwrap();
        assert!(!page.more || page.until > after, "it goes on");
        after = page.until;
        for Received { receipt, what, .. } in page.entries {
            assert!(last < receipt && receipt <= after);
            last = receipt;
            found.push(match what {
                ReceivedKind::Job(stored, minions) => {
                    format!("{} {}", stored.job.fun, minions.len())
                }
                ReceivedKind::Return {
                    minion, payload, ..
                } => format!(
                    "{minion} {:?}",
                    payload.map(|payload| payload.unpack().unwrap())
                ),
            });
        }
        if !page.more {
            return found;
        }
    }
}

#[tokio::test]
async fn jobs_and_returns_come_in_the_order_of_their_receipt() {
    let mut place = Place::new();
    // So that every job gets a file of its own.
    place.settings.max_bytes = Some(1);
    let store = place.open();
    let names = names(3);
    let mut jobs = Vec::new();
    let mut expected = Vec::new();
    for round in 0..70 {
        let mut job = job(&store);
        job.fun = format!("test.f{round}");
        publish(&store, &job, &offered(&names)).await;
        expected.push(format!("test.f{round} 3"));
        jobs.push(job);
    }
    assert!(place.files().len() > 1, "{:?}", place.files());
    // The last jobs are answered first.
    for (at, job) in jobs.iter().enumerate().rev() {
        let value = Value::from(at as u64);
        let verdict = answer(&store, "m0001", &job.jid, &value).await;
        assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
        expected.push(format!("m0001 {:?}", Some(value)));
    }
    for max_bytes in [1, 1_000, 1 << 20] {
        assert_eq!(all(&store, max_bytes, |_, _, _| true).await, expected);
    }
    let returns = all(&store, 1_000, |_, minion, _| minion.is_some()).await;
    assert_eq!(returns, expected[70..]);
    // After a restart the numbers go on.
    store.close().await;
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &offered(&names)).await;
    expected.push("test.echo 3".to_owned());
    assert_eq!(all(&store, 1 << 20, |_, _, _| true).await, expected);
}

#[tokio::test]
async fn a_payload_that_is_too_large_is_left_out() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &offered(&names(2))).await;
    for (minion, size) in [("m0000", 2_000), ("m0001", 3 << 20)] {
        let value = Value::from("x".repeat(size));
        answer(&store, minion, &job.jid, &value).await.unwrap();
    }
    let found = all(&store, 1 << 20, |_, minion, _| minion.is_some()).await;
    assert_eq!(found, ["m0000 None", "m0001 None"]);
}
