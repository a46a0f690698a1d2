//! Returns: their verdicts, and their pages.

use saline_messages::RETCODE_INTERRUPTED;

use super::*;

use MinionJobState::{Declined, Expired, NotConnected, Offered, Queued, Returned, Running};

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

/// A copy of a minion returned that the run of its original was interrupted.
#[tokio::test]
async fn what_was_said_of_an_interrupted_run_is_replaced_by_its_result() {
    let place = Place::new();
    let store = place.open();
    let job = job(&store);
    publish(&store, &job, &[("a", Running)]).await;
    let said = async |text: &str, retcode: i64| {
        let returned = Return {
            retcode,
            success: retcode == 0,
            ..returned(&job.jid, &Value::from(text))
        };
        store_one(&store, &id("a"), returned).await.unwrap()
    };
    let found = async || {
        let page = store.returns(&job.jid, 0, 1024).await.unwrap().unwrap();
        let all = page.returns.iter();
        let all = all.map(|found| (found.receipt, found.payload.unpack().unwrap()));
        all.collect::<Vec<_>>()
    };
    let interrupted = RETCODE_INTERRUPTED;
    assert_eq!(
        said("interrupted", interrupted).await,
        ReturnVerdict::Stored
    );
    assert_eq!(
        said("interrupted", interrupted).await,
        ReturnVerdict::Duplicate
    );
    let [(first, _)] = found().await[..] else {
        panic!("one return")
    };
    assert_eq!(said("result", 0).await, ReturnVerdict::Stored);
    assert_eq!(said("another", 0).await, ReturnVerdict::Duplicate);
    assert_eq!(
        said("interrupted", interrupted).await,
        ReturnVerdict::Duplicate
    );
    let [(second, payload)] = &found().await[..] else {
        panic!("one return")
    };
    assert_eq!(payload, &Value::from("result"));
    assert!(*second > first, "who follows the job reads it");
}

#[tokio::test]
async fn returns_come_in_pages_in_the_order_of_their_receipt() {
    let place = Place::new();
    let store = place.open();
    let (job, other) = (job(&store), job(&store));
    let names = names(10);
    let offers = offered(&names);
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
