use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use saline_data::{Packed, Value};
use saline_engine::{DeliveryReceiver, DeliverySender, delivery_queue};
use saline_messages::{EventOrigin, MinionId, ReturnsPage, StatesPage, StoredReturn};
use saline_protocol::transport::{Clock, Limits, Lost};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);

/// A master as a table: what it stores, and whom it tells.
#[derive(Debug, Default)]
struct Table {
    state: Mutex<State>,
    sessions: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The minions by the receipt numbers of their returns.
    returns: BTreeMap<u64, MinionId>,
    states: BTreeMap<MinionId, MinionJobState>,
    silent: Vec<MinionId>,
    bus: Option<DeliverySender>,
    asked: usize,
}

#[derive(Debug)]
struct Bus(DeliveryReceiver);

#[async_trait]
impl Subscriber for Bus {
    async fn next(&mut self) -> Option<Delivery> {
        self.0.next().await
    }
}

#[async_trait]
impl Master for Table {
    async fn ask(&self, request: &OperatorRequest) -> Result<OperatorReply, ClientError> {
        let mut state = self.lock();
        // Small pages, so that every test reads several.
        match request {
            OperatorRequest::JobReturns { after, .. } => {
                state.asked += 1;
                let rest = state.returns.range(after + 1..);
                let page = rest.clone().take(2).map(|(receipt, minion)| StoredReturn {
                    receipt: *receipt,
                    minion: minion.clone(),
                    retcode: 0,
                    success: true,
                    payload: Packed::pack(&Value::Bool(true)),
                });
                Ok(OperatorReply::Returns(ReturnsPage {
                    returns: page.collect(),
                    more: rest.count() > 2,
                }))
            }
            OperatorRequest::JobStates { after, .. } => {
                let rest = state
                    .states
                    .iter()
                    .filter(|(m, _)| Some(*m) > after.as_ref());
                let page = rest.clone().take(2).map(|(m, s)| (m.clone(), *s));
                let page: Vec<_> = page.collect();
                let is_here = |silent: &&MinionId| page.iter().any(|(m, _)| m == *silent);
                Ok(OperatorReply::States(StatesPage {
                    silent: state.silent.iter().filter(is_here).cloned().collect(),
                    states: page,
                    more: rest.count() > 2,
                    clock: 0,
                    expires: 60_000,
                    unconfirmed_since: Vec::new(),
                    duplicates: Vec::new(),
                }))
            }
            _ => Err(ClientError::Closed),
        }
    }

    async fn subscribe(
        &self,
        _topics: Vec<TopicFilter>,
    ) -> Result<Box<dyn Subscriber>, ClientError> {
        let (sender, receiver) = delivery_queue(&Limits::default());
        self.lock().bus = Some(sender);
        Ok(Box::new(Bus(receiver)))
    }

    fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    fn endpoint(&self) -> String {
        "table://here".to_owned()
    }

    fn clock(&self) -> Clock {
        Clock
    }
}

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

fn jid() -> Jid {
    Jid::parse("20261121091409931549").unwrap()
}

impl Table {
    fn new(states: &[(&str, MinionJobState)]) -> Arc<Self> {
        let table = Self::default();
        table.lock().states = states.iter().map(|(m, s)| (id(m), *s)).collect();
        Arc::new(table)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn run(self: &Arc<Self>, unknown: &[&str]) -> JobFollower {
        self.follow(TIMEOUT, unknown)
    }

    fn follow(self: &Arc<Self>, timeout: Duration, unknown: &[&str]) -> JobFollower {
        let published = Published {
            jid: Some(jid()),
            expires: 60_000,
            minions: self.lock().states.clone().into_iter().collect(),
            unknown: unknown.iter().map(|name| (*name).to_owned()).collect(),
            without_grains: Vec::new(),
            secrets_by_claims: false,
            batch: None,
        };
        JobFollower::new(Arc::clone(self) as Arc<dyn Master>, published, timeout)
    }

    fn set(&self, minion: &str, state: MinionJobState) {
        self.lock().states.insert(id(minion), state);
    }

    /// Stores a return; says so on the bus when `loud`.
    fn store(&self, minion: &str, loud: bool) {
        let mut state = self.lock();
        let receipt = 1 + state.returns.len() as u64;
        state.returns.insert(receipt, id(minion));
        drop(state);
        self.set(minion, MinionJobState::Returned);
        if loud {
            self.fire(JobEvent::Returned(id(minion)), returned_data());
        }
    }

    fn fire(&self, event: JobEvent, data: Value) {
        let tag = EventTag::Job(jid(), event).to_string();
        let topic = Event::topic(&tag).unwrap();
        let origin = EventOrigin::master();
        let event = Event { tag, origin, data };
        self.push(Delivery::Message {
            topic,
            payload: event.encode().into(),
        });
    }

    fn push(&self, delivery: Delivery) {
        self.lock().bus.as_ref().unwrap().push(delivery);
    }

    fn asked(&self) -> usize {
        self.lock().asked
    }
}

fn returned_data() -> Value {
    Value::map([
        ("retcode", Value::Int(0)),
        ("success", true.into()),
        ("return", true.into()),
    ])
}

/// Returns the progress of `run` until it has to wait for more than a tick.
async fn told(run: &mut JobFollower) -> Vec<String> {
    let mut told = Vec::new();
    while let Ok(next) = Clock.deadline(Clock.now(), run.next()).await {
        match next {
            Ok(Some(Progress::Returned(answer))) => told.push(answer.minion.to_string()),
            Ok(Some(Progress::Absent(absent))) => {
                told.push(format!("{} {}", absent.name, absent.absence.name()));
            }
            Ok(Some(Progress::HeldUp {
                minions,
                within,
                in_turns,
            })) => {
                let minions: Vec<_> = minions.iter().map(MinionId::as_str).collect();
                told.push(format!("{} gone, {within:?}", minions.join(", ")));
                if in_turns {
                    told.push("in turns".to_owned());
                }
            }
            Ok(None) => {
                told.push("end".to_owned());
                break;
            }
            Err(error) => {
                told.push(error.to_string());
                break;
            }
        }
    }
    told
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

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
    pass(25).await;
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
    pass(30).await;
    let error = told(&mut run).await;
    assert_eq!(error.len(), 1);
    assert!(
        error[0].contains("table://here has been gone for 30 s"),
        "{error:?}"
    );
    table.push(Delivery::Connected);
    table.store("a", false);
    assert_eq!(told(&mut run).await, ["a", "end"]);
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
async fn nobody_matched() {
    let published = Published {
        jid: None,
        expires: 0,
        minions: vec![],
        unknown: vec![],
        without_grains: vec![],
        secrets_by_claims: false,
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
