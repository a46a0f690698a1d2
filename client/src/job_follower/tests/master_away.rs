//! A master that goes away while a job is followed.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_clock_stands_still_while_the_master_is_away_and_then_the_fleet_has_time() {
    let table = Table::new(&[
        ("a", MinionJobState::Running),
        ("b", MinionJobState::Running),
    ]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    pass(2).await;
    table.push(Delivery::Disconnected);
    assert_eq!(told(&mut run).await, [""; 0]);
    pass(2).await;
    assert_eq!(told(&mut run).await, [""; 0]);
    assert_eq!(table.away().await, Some(Duration::from_secs(28)));
    pass(23).await;
    assert_eq!(told(&mut run).await, [""; 0]);
    // The master is new: no minion has a session yet.
    table.lock().silent = vec![id("a"), id("b")];
    table.store("a", false);
    table.push(Delivery::Connected);
    assert_eq!(told(&mut run).await, ["a"]);
    pass(10).await;
    assert_eq!(told(&mut run).await, [""; 0]);
    table.store("b", true);
    assert_eq!(told(&mut run).await, ["b", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_master_that_stays_away_is_given_up_and_may_be_waited_for_again() {
    let table = Table::new(&[("a", MinionJobState::Running)]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    table.push(Delivery::Disconnected);
    told(&mut run).await;
    pass(2).await;
    assert_eq!(told(&mut run).await, [""; 0]);
    assert_eq!(table.away().await, Some(Duration::from_secs(28)));
    pass(28).await;
    let error = told(&mut run).await;
    assert_eq!(error.len(), 1);
    assert!(
        error[0].contains("table://here has been gone for 30 s"),
        "{error:?}"
    );
    told(&mut run).await;
    pass(2).await;
    let again = Some(Duration::from_secs(28));
    assert_eq!(table.away().await, again, "the next call waits as long");
    table.push(Delivery::Connected);
    table.store("a", false);
    assert_eq!(told(&mut run).await, ["a", "end"]);
    assert_eq!(table.away().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_only_the_session_shows_gives_the_fleet_time_too() {
    let table = Table::new(&[("a", MinionJobState::Running)]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    table.lock().silent = vec![id("a")];
    table.sessions.fetch_add(1, Ordering::Relaxed);
    pass(5).await;
    assert_eq!(told(&mut run).await, [""; 0]);
    pass(15).await;
    assert_eq!(told(&mut run).await, ["a gone, Some(5s)"]);
    pass(5).await;
    assert_eq!(told(&mut run).await, ["a no response", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_master_that_is_restarted_is_not_reported_as_away() {
    let table = Table::new(&[("a", MinionJobState::Running)]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    table.push(Delivery::Disconnected);
    told(&mut run).await;
    pass(1).await;
    table.push(Delivery::Connected);
    table.store("a", false);
    assert_eq!(told(&mut run).await, ["a", "end"]);
    pass(5).await;
    assert_eq!(table.away().await, None);
}
