//! Returns, and jobs that end without them.

use super::*;

#[tokio::test(start_paused = true)]
async fn returns_come_as_events_and_the_run_ends_with_the_last() {
    let table = Table::new(&[
        ("a", MinionJobState::Offered),
        ("b", MinionJobState::Offered),
    ]);
    let mut run = table.run(&[]);
    assert_eq!(told(&mut run).await, [""; 0]);
    table.store("b", true);
    assert_eq!(told(&mut run).await, ["b"]);
    table.store("a", true);
    assert_eq!(told(&mut run).await, ["a", "end"]);
    assert_eq!(
        table.asked(),
        1,
        "the store was asked once, at the beginning"
    );
}

#[tokio::test(start_paused = true)]
async fn what_came_before_the_subscription_is_read_from_the_store_in_pages() {
    let names = ["a", "b", "c", "d", "e"];
    let table = Table::new(&names.map(|name| (name, MinionJobState::Offered)));
    let mut run = table.run(&[]);
    for name in names {
        table.store(name, false);
    }
    assert_eq!(told(&mut run).await, ["a", "b", "c", "d", "e", "end"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_there_is_told_at_once_and_nobody_is_waited_for() {
    let table = Table::new(&[
        ("a", MinionJobState::NotConnected),
        ("b", MinionJobState::NotConnected),
    ]);
    let mut run = table.run(&["nosuch"]);
    assert_eq!(
        told(&mut run).await,
        ["nosuch no key", "a not connected", "b not connected", "end"]
    );
    assert_eq!(table.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn minions_that_decline_or_expire_end_the_run() {
    let table = Table::new(&[
        ("a", MinionJobState::Offered),
        ("b", MinionJobState::Offered),
    ]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    table.fire(JobEvent::Declined(id("a")), Value::Null);
    table.fire(JobEvent::Expired(id("b")), Value::Null);
    assert_eq!(told(&mut run).await, ["a declined", "b expired", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_gap_or_an_event_without_its_payload_is_filled_from_the_store() {
    let table = Table::new(&[
        ("a", MinionJobState::Offered),
        ("b", MinionJobState::Offered),
        ("c", MinionJobState::Running),
    ]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    table.store("a", false);
    assert_eq!(told(&mut run).await, [""; 0]);
    table.push(Delivery::Lagged(Lost::Unknown));
    assert_eq!(told(&mut run).await, ["a"]);
    table.store("b", false);
    table.fire(
        JobEvent::Returned(id("b")),
        Value::map([("retcode", Value::Int(0))]),
    );
    assert_eq!(told(&mut run).await, ["b"]);
    table.store("c", true);
    table.store("c", true);
    assert_eq!(told(&mut run).await, ["c", "end"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_matched() {
    let published = Published {
        jid: None,
        expires: 0,
        minions: vec![],
        unknown: vec![],
        without_grains: vec![],
        without_pillar: vec![],
        warnings: Vec::new(),
        batch: None,
    };
    let mut run = JobFollower::new(Table::new(&[]), published, TIMEOUT);
    assert_eq!(run.jid(), None);
    assert_eq!(told(&mut run).await, ["end"]);
}

#[tokio::test(start_paused = true)]
async fn a_return_that_the_store_names_and_never_gives_is_given_up() {
    let table = Table::new(&[("a", MinionJobState::Returned)]);
    let mut run = table.run(&[]);
    assert_eq!(told(&mut run).await, [""; 0]);
    pass(5).await;
    assert_eq!(told(&mut run).await, ["a return not delivered", "end"]);
    assert!(table.asked() < 5);
}

#[tokio::test(start_paused = true)]
async fn a_return_that_is_stored_while_the_store_is_read_is_fetched_also_at_the_deadline() {
    let running = MinionJobState::Running;
    for timed_out in [false, true] {
        let table = Table::new(&[("a", running), ("b", running), ("c", running)]);
        let mut run = table.run(&[]);
        if timed_out {
            told(&mut run).await;
            pass(5).await;
        }
        table.lock().return_between = vec![id("a"), id("b"), id("c")];
        assert_eq!(told(&mut run).await, ["c", "b", "a", "end"]);
        assert!(table.asked() <= 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_return_that_the_store_does_not_give_hides_no_other() {
    let running = MinionJobState::Running;
    let table = Table::new(&[("a", MinionJobState::Returned), ("b", running)]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    pass(5).await;
    table.lock().return_between = vec![id("b")];
    assert_eq!(told(&mut run).await, ["b", "a return not delivered", "end"]);
}
