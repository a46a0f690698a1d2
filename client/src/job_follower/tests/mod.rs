mod absences;
mod batches;
mod master_away;
mod returns;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use saline_data::{Packed, Value};
use saline_engine::{DeliveryReceiver, DeliverySender, delivery_queue};
use saline_messages::{EventOrigin, MinionId, ReturnsPage, StatesPage, StoredReturn};
use saline_protocol::transport::{Clock, Limits, Lost};

use super::*;
use crate::master_absence::MasterAbsence;

const TIMEOUT: Duration = Duration::from_secs(5);

/// A master as a table: what it stores, and whom it tells.
#[derive(Debug, Default)]
struct Table {
    state: Mutex<State>,
    sessions: AtomicU64,
    absence: MasterAbsence,
}

#[derive(Debug, Default)]
struct State {
    /// The minions by the receipt numbers of their returns.
    returns: BTreeMap<u64, MinionId>,
    states: BTreeMap<MinionId, MinionJobState>,
    silent: Vec<MinionId>,
    disputed: Vec<MinionId>,
    busy: Vec<MinionId>,
    bus: Option<DeliverySender>,
    asked: usize,
    /// The minions that return one by one, each between a question for returns and the one for states after it.
    return_between: Vec<MinionId>,
}

impl State {
    fn store(&mut self, minion: &MinionId) {
        let receipt = 1 + self.returns.len() as u64;
        self.returns.insert(receipt, minion.clone());
        self.states.insert(minion.clone(), MinionJobState::Returned);
    }
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
                if let Some(minion) = state.return_between.pop() {
                    state.store(&minion);
                }
                let rest = state
                    .states
                    .iter()
                    .filter(|(m, _)| Some(*m) > after.as_ref());
                let page = rest.clone().take(2).map(|(m, s)| (m.clone(), *s));
                let page: Vec<_> = page.collect();
                let is_here = |silent: &&MinionId| page.iter().any(|(m, _)| m == *silent);
                Ok(OperatorReply::States(StatesPage {
                    silent: state.silent.iter().filter(is_here).cloned().collect(),
                    planned: Vec::new(),
                    disputed: state.disputed.iter().filter(is_here).cloned().collect(),
                    busy: state.busy.iter().filter(is_here).cloned().collect(),
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
        self: Arc<Self>,
        _topics: Vec<TopicFilter>,
    ) -> Result<Box<dyn Subscriber>, ClientError> {
        let (sender, receiver) = delivery_queue(&Limits::default());
        self.lock().bus = Some(sender);
        Ok(Box::new(Bus(receiver)))
    }

    fn absence(&self) -> &MasterAbsence {
        &self.absence
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
            without_pillar: Vec::new(),
            warnings: Vec::new(),
            batch: None,
        };
        JobFollower::new(Arc::clone(self) as Arc<dyn Master>, published, timeout)
    }

    fn set(&self, minion: &str, state: MinionJobState) {
        self.lock().states.insert(id(minion), state);
    }

    /// Stores a return; says so on the bus when `loud`.
    fn store(&self, minion: &str, loud: bool) {
        self.lock().store(&id(minion));
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
            payload: event.encode(),
        });
    }

    fn push(&self, delivery: Delivery) {
        self.lock().bus.as_ref().unwrap().push(delivery);
    }

    /// Returns how much longer the client waits for the master, if its absence is reported now.
    async fn away(&self) -> Option<Duration> {
        let told = self.absence.next_reported(Clock);
        Clock.deadline(Clock.now(), told).await.ok()
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
            Ok(Some(Progress::Busy(minions))) => {
                let minions: Vec<_> = minions.iter().map(MinionId::as_str).collect();
                told.push(format!("{} busy", minions.join(", ")));
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
