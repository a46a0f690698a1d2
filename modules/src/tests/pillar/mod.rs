//! The pillar that a minion holds, and the functions that show it, with a master whose replies are prescribed.

mod config_get;
mod refreshes;
mod showing;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saline_data::Packed;
use saline_messages::{MinionPillar, Outgoing, PillarReply, PillarRequest, TransferId};
use tokio::sync::oneshot;

use super::*;
use crate::pending_answer::{NotAnswered, PendingAnswer};
use crate::pillar::MasterPillar;

type Reply = Result<PillarReply, NotAnswered>;

/// A master whose replies a test prescribes, and that records the requests.
#[derive(Debug, Default, Clone)]
struct Script(Arc<Mutex<(VecDeque<Reply>, Vec<PillarRequest>)>>);

impl Script {
    fn then(&self, reply: PillarReply) -> &Self {
        self.0.lock().unwrap().0.push_back(Ok(reply));
        self
    }

    fn then_not(&self, why: NotAnswered) -> &Self {
        self.0.lock().unwrap().0.push_back(Err(why));
        self
    }

    /// Answers with a whole pillar, and returns its id.
    fn then_pillar(&self, pillar: &MinionPillar) -> TransferId {
        let outgoing = Outgoing::new(pillar.to_bytes());
        let part = outgoing.part(0, usize::MAX);
        let id = part.transfer;
        self.then(PillarReply::Part(part));
        id
    }

    fn asked(&self) -> Vec<PillarRequest> {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }
}

impl MasterPillar for Script {
    fn send(&self, request: PillarRequest, _: Duration) -> PendingAnswer<PillarReply> {
        let mut script = self.0.lock().unwrap();
        script.1.push(request);
        let (sender, receiver) = oneshot::channel();
        let unscripted = || Err(NotAnswered::Refused("nothing is scripted".to_owned()));
        sender
            .send(script.0.pop_front().unwrap_or_else(unscripted))
            .unwrap();
        PendingAnswer::over(receiver)
    }

    fn part_size(&self) -> u32 {
        100
    }
}

/// Returns a minion of a scripted master.
fn minion() -> (Bench, Script) {
    let mut bench = Bench::new();
    bench.host.has_bus = true;
    let script = Script::default();
    bench
        .host
        .master_pillar
        .set(Box::new(script.clone()))
        .unwrap();
    (bench, script)
}

fn entries() -> Value {
    Value::map([
        ("role", Value::from("web")),
        ("password", Value::from("hunter2")),
        ("port", Value::Int(443)),
        (
            "sites",
            Value::map([("a", Value::texts(["x"])), ("b", Value::Null)]),
        ),
    ])
}

fn pillar(entries: &Value) -> MinionPillar {
    MinionPillar {
        entries: Some(Packed::pack(entries)),
        errors: Vec::new(),
    }
}

fn with_errors(entries: Option<&Value>, errors: &[&str]) -> MinionPillar {
    MinionPillar {
        entries: entries.map(Packed::pack),
        errors: errors.iter().map(|error| (*error).to_owned()).collect(),
    }
}

const UNMASK: (&str, Value) = ("unmask", Value::Bool(true));

fn hidden() -> Value {
    Value::from("**********")
}
