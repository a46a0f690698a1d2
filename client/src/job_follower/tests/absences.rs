//! Minions that go away while they have the job.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_running_minion_extends_the_wait_and_a_dead_one_does_not() {
    let table = Table::new(&[
        ("dead", MinionJobState::Offered),
        ("slow", MinionJobState::Running),
    ]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    for _ in 0..10 {
        pass(5).await;
        assert_eq!(told(&mut run).await, [""; 0]);
    }
    table.store("slow", true);
    assert_eq!(told(&mut run).await, ["slow", "dead offered", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_minion_costs_the_timeout_and_no_more() {
    let table = Table::new(&[
        ("dead", MinionJobState::Offered),
        ("quick", MinionJobState::Offered),
    ]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    table.store("quick", true);
    pass(4).await;
    assert_eq!(told(&mut run).await, ["quick"]);
    pass(1).await;
    assert_eq!(told(&mut run).await, ["dead offered", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_running_minion_whose_session_is_gone_is_given_up_after_the_timeout() {
    // The others stand on further pages, where nobody is silent.
    let names = ["a", "b", "c", "d", "e"];
    let table = Table::new(&names.map(|name| (name, MinionJobState::Running)));
    let mut run = table.run(&[]);
    told(&mut run).await;
    pass(5).await;
    assert_eq!(told(&mut run).await, [""; 0]);
    for name in &names[1..] {
        table.store(name, true);
    }
    assert_eq!(told(&mut run).await, ["b", "c", "d", "e"]);
    pass(3).await;
    table.lock().silent = vec![id("a")];
    table.fire(JobEvent::Gone(id("a")), Value::Null);
    assert_eq!(told(&mut run).await, ["a gone, Some(5s)"]);
    pass(4).await;
    assert_eq!(told(&mut run).await, [""; 0], "it may come back");
    pass(1).await;
    assert_eq!(told(&mut run).await, ["a no response", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_the_present_start_of_the_minion_does_not_know_is_given_up_after_the_timeout() {
    let table = Table::new(&[
        ("a", MinionJobState::Running),
        ("b", MinionJobState::Running),
    ]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    table.fire(JobEvent::Gone(id("a")), Value::Null);
    assert_eq!(told(&mut run).await, [""; 0]);
    // It is back, with an empty disk.
    table.lock().disputed = vec![id("a")];
    for _ in 0..3 {
        pass(5).await;
        assert_eq!(told(&mut run).await, [""; 0], "b is waited for");
    }
    table.store("b", true);
    assert_eq!(told(&mut run).await, ["b", "a disputed", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_minion_that_comes_back_within_the_timeout_is_waited_for() {
    let table = Table::new(&[("a", MinionJobState::Running)]);
    let mut run = table.run(&[]);
    told(&mut run).await;
    for _ in 0..5 {
        table.lock().silent = vec![id("a")];
        table.fire(JobEvent::Gone(id("a")), Value::Null);
        assert_eq!(told(&mut run).await, ["a gone, Some(5s)"]);
        pass(4).await;
        table.lock().silent.clear();
        assert_eq!(told(&mut run).await, [""; 0]);
        pass(10).await;
        assert_eq!(told(&mut run).await, [""; 0]);
    }
    table.store("a", true);
    assert_eq!(told(&mut run).await, ["a", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_minion_is_waited_for_until_it_returns_or_expires_or_is_gone() {
    let names = ["a", "b", "c"];
    let table = Table::new(&names.map(|name| (name, MinionJobState::Offered)));
    table.lock().busy = names.map(id).to_vec();
    let mut run = table.run(&[]);
    assert_eq!(told(&mut run).await, [""; 0]);
    pass(5).await;
    assert_eq!(told(&mut run).await, ["a, b, c busy"]);
    for _ in 0..3 {
        pass(5).await;
        assert_eq!(told(&mut run).await, [""; 0]);
    }
    table.store("a", true);
    table.fire(JobEvent::Expired(id("b")), Value::Null);
    assert_eq!(told(&mut run).await, ["a", "b expired"]);
    // Dead without a word: from now on it does not count as busy.
    table.lock().busy = Vec::new();
    table.lock().silent = vec![id("c")];
    pass(5).await;
    assert_eq!(told(&mut run).await, ["c offered", "end"]);
}
