//! Returns that are pruned before a follower has read them are counted.

use std::sync::Arc;

use super::retention::{DAY, HOUR, old, since_long_ago};
use super::*;
use crate::jobs::ReceiptFollower;

use MinionJobState::Offered;

#[tokio::test]
async fn what_is_pruned_before_a_follower_has_it_is_counted_for_it() {
    let place = Place::new();
    let store = since_long_ago(&place).await;
    let follower = |wants: fn(&Jid, Option<&MinionId>, &[String]) -> bool, done: i64| {
        let follower = Arc::new(ReceiptFollower::new(Arc::new(wants), done));
        store.follow(Arc::clone(&follower));
        follower
    };
    // The follower has read the returns that were stored before.
    let (all, returns, named) = (
        follower(|_, _, _| true, store.highest_receipt()),
        follower(|_, minion, _| minion.is_some(), store.highest_receipt()),
        follower(
            |_, _, names| names == ["postgres", "local"],
            store.highest_receipt(),
        ),
    );
    let ended = old(&store, 9 * DAY);
    let mut ordered = new(&ended, &[("a", Offered), ("b", Offered)]);
    ordered.returners = vec!["postgres".to_owned(), "local".to_owned()];
    assert_eq!(store.publish(ordered).await.unwrap(), CarriedOut::Now);
    let beside = old(&store, 9 * DAY - HOUR / 4);
    publish(&store, &beside, &[("a", Offered)]).await;
    for (minion, job) in [("a", &ended), ("b", &ended), ("a", &beside)] {
        let verdict = answer(&store, minion, &job.jid, &Value::from("x")).await;
        assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
    }
    let done = follower(|_, _, _| true, store.highest_receipt());
    let last = old(&store, 6 * DAY);
    publish(&store, &last, &[("a", Offered)]).await;

    store.expire(store.now());
    store.prune(store.now() - 7 * DAY).await.unwrap();
    let lost = [&all, &returns, &named, &done].map(|follower| follower.lost());
    assert_eq!(lost, [5, 3, 3, 0]);
    // The rest is there, and nothing is counted twice.
    store.prune(store.now() - 7 * DAY).await.unwrap();
    assert_eq!(all.lost(), 5);
}
