//! Minions of batches that hold others up.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_batch_is_held_up_by_those_that_have_the_job_or_by_all_whose_turn_has_not_come() {
    use MinionJobState::{Offered, Running, Waiting};
    let table = Table::new(&[("a", Running), ("b", Waiting), ("c", Waiting)]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    table.fire(JobEvent::Gone(id("a")), Value::Null);
    // b and c are present: the master goes on with them.
    assert_eq!(told(&mut run).await, ["a gone, None", "in turns"]);
    table.set("b", Offered);
    table.lock().silent = vec![id("a"), id("c")];
    pass(5).await;
    assert_eq!(told(&mut run).await, [""; 0]);
    table.store("b", true);
    assert_eq!(told(&mut run).await, ["b"]);
    pass(1).await;
    assert_eq!(told(&mut run).await, ["c gone, None", "in turns"]);
    table.set("c", MinionJobState::NotConnected);
    pass(5).await;
    assert_eq!(
        told(&mut run).await,
        ["c not connected", "a no response", "end"]
    );
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_before_its_turn_is_told_of_also_with_a_long_timeout() {
    use MinionJobState::{Running, Waiting};
    let table = Table::new(&[("a", Running), ("b", Waiting)]);
    let mut run = table.follow(Duration::from_secs(u64::MAX), &[]);
    told(&mut run).await;
    table.fire(JobEvent::Gone(id("b")), Value::Null);
    assert_eq!(told(&mut run).await, [""; 0], "a goes on");
    pass(2).await;
    table.store("a", true);
    let told_of = told(&mut run).await;
    assert!(told_of[0] == "a" && told_of[1] == "b gone, None" && told_of[2] == "in turns");
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_minions_are_all_gone_after_a_restart_waits_quietly() {
    let table = Table::new(&[
        ("a", MinionJobState::Waiting),
        ("b", MinionJobState::Waiting),
    ]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    table.lock().silent = vec![id("a"), id("b")];
    table.push(Delivery::Disconnected);
    assert_eq!(told(&mut run).await, [""; 0]);
    table.push(Delivery::Connected);
    assert_eq!(told(&mut run).await, [""; 0]);
    let asked = table.asked();
    for _ in 0..3 {
        pass(4).await;
        assert_eq!(
            told(&mut run).await,
            [""; 0],
            "they have twenty seconds to connect"
        );
    }
    assert_eq!(table.asked(), asked);
    pass(5).await;
    assert_eq!(told(&mut run).await, ["a, b gone, None", "in turns"]);
}

#[tokio::test(start_paused = true)]
async fn a_minion_that_goes_away_again_has_the_whole_time_again() {
    let table = Table::new(&[("a", MinionJobState::Running)]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    for _ in 0..4 {
        // It is back in between, before the store is read.
        table.fire(JobEvent::Gone(id("a")), Value::Null);
        table.lock().silent = vec![id("a")];
        assert_eq!(told(&mut run).await, ["a gone, Some(5s)"]);
        pass(3).await;
        assert_eq!(told(&mut run).await, [""; 0]);
    }
    pass(2).await;
    assert_eq!(told(&mut run).await, ["a no response", "end"]);
}

#[tokio::test(start_paused = true)]
async fn who_was_away_when_a_batch_began_holds_nothing_up() {
    let table = Table::new(&[
        ("a", MinionJobState::Offered),
        ("b", MinionJobState::Waiting),
    ]);
    table.lock().silent = vec![id("b")];
    let mut run = table.run(&[]);
    told(&mut run).await;
    table.store("a", true);
    assert_eq!(told(&mut run).await, ["a"]);
    let state = Value::map([("state", MinionJobState::NotConnected.name().into())]);
    table.fire(JobEvent::State(id("b")), state);
    assert_eq!(told(&mut run).await, ["b not connected", "end"]);
}
