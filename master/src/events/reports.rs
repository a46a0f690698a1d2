//! The events that a master fires: one function for each kind, with its tag and its data.

use std::sync::Arc;

use saline_channel::PublicIdentity;
use saline_data::{Packed, Value};
use saline_messages::{
    EventOrigin, EventTag, Jid, Job, JobEvent, MinionId, MinionJobState, PackedArguments,
    PlannedEnd, Return, RunEvent, RunKind, RunnerEnd, shown_functions,
};

use super::{Events, MAX_EVENT_RETURN};
use crate::authorize::origin_of_owner;
use crate::jobs::{BatchReport, JobFunction, StoreError};

/// The number of the master's events that are fired before other tasks have their turn.
const FIRED_TOGETHER: usize = 256;

/// The data of `salt/job/<jid>/ret/<id>` about a stored return.
#[derive(Debug)]
pub struct ReturnReport {
    /// The function and arguments of the job; none when they cannot be read.
    pub call: Option<Arc<JobFunction>>,
    /// The retcode of the return.
    pub retcode: i64,
    /// Whether it succeeded.
    pub success: bool,
    /// The value that was returned; none when it is too large for the bus.
    pub payload: Option<Packed>,
}

impl ReturnReport {
    /// Returns what the event of a return reports, but for what the job calls.
    pub(crate) fn of(returned: &Return) -> Self {
        // A large return is not sent over the bus: clients read it from the store.
        let small = returned.payload.as_bytes().len() <= MAX_EVENT_RETURN;
        Self {
            call: None,
            retcode: returned.retcode,
            success: returned.success,
            payload: small.then(|| returned.payload.clone()),
        }
    }
}

/// What the events of a run say of it.
#[derive(Debug)]
pub(crate) struct RunReport<'a> {
    /// The jid of the run.
    pub(crate) jid: &'a Jid,
    /// The kind of the function.
    pub(crate) kind: RunKind,
    /// The function.
    pub(crate) fun: &'a str,
    /// The arguments of the function.
    pub(crate) arg: &'a PackedArguments,
    /// The user who asked, as the operator's program said.
    pub(crate) user: &'a str,
    /// Who ordered the run: [`Principal::owner`](crate::authorize::Principal::owner).
    pub(crate) owner: &'a str,
}

impl Events {
    /// Fires `salt/auth`: the minion `id` authenticated or tried to. `act` and `result` are Salt's.
    pub async fn auth(&self, id: &MinionId, act: &str, result: bool, identity: PublicIdentity) {
        let mut data = key_data(id, act, result).to_vec();
        data.push(("pub", Value::from(identity.to_pem())));
        self.fire(EventTag::Auth, EventOrigin::master(), data).await;
    }

    /// Fires `salt/key`: `act` was done with the key of the minion `id`, by an operator or by the master itself.
    pub async fn key(&self, origin: EventOrigin, id: &MinionId, act: &str) {
        self.fire(EventTag::Key, origin, key_data(id, act, true))
            .await;
    }

    /// Fires `salt/presence/change`: these minions came, and these fell silent or left; of the latter, the machines of the
    /// `planned` ones do what was planned.
    pub async fn presence_change(
        &self,
        new: &[MinionId],
        lost: &[MinionId],
        planned: &[(MinionId, PlannedEnd)],
    ) {
        let planned = planned.iter();
        let planned = planned.map(|(id, end)| (id.as_str(), Value::from(end.word())));
        let data = [
            ("new", names(new)),
            ("lost", names(lost)),
            ("planned", Value::map(planned)),
        ];
        self.fire(EventTag::PresenceChange, EventOrigin::master(), data)
            .await;
    }

    /// Whether anybody listens to `salt/presence/present`.
    pub fn wants_present(&self) -> bool {
        self.wanted(&EventTag::PresencePresent)
    }

    /// Fires `salt/presence/present`: these are all minions that are present.
    pub async fn presence_present(&self, ids: &[MinionId]) {
        let data = [("present", names(ids))];
        self.fire(EventTag::PresencePresent, EventOrigin::master(), data)
            .await;
    }

    /// Fires `salt/presence/duplicate`: two machines use the id `id`, at these addresses.
    pub async fn duplicate_minion(&self, id: &MinionId, addresses: &[String]) {
        let data = [
            ("id", Value::from(id.as_str())),
            (
                "addresses",
                Value::texts(addresses.iter().map(String::as_str)),
            ),
        ];
        self.fire(EventTag::PresenceDuplicate, EventOrigin::master(), data)
            .await;
    }

    /// Fires `salt/job/<jid>/new`: the operator published the job to these minions.
    pub async fn job_new(&self, job: &Job, operator: &str, minions: &[(MinionId, MinionJobState)]) {
        let tag = EventTag::Job(job.jid.clone(), JobEvent::New);
        if self.recent.is_kept() {
            // Before the event, so that nobody has to look it up.
            self.recent.note_owner(&job.jid, Some(operator));
        }
        let data = job_new_data(job, operator, minions);
        self.fire(tag, origin_of_owner(operator), data).await;
    }

    /// Fires `salt/job/<jid>/start/<id>`: the minion began the job.
    pub async fn job_started(&self, jid: &Jid, id: &MinionId) {
        let origin = EventOrigin::minion(id);
        self.job_event(origin, jid, id, JobEvent::Started).await;
    }

    /// Fires `salt/job/<jid>/declined/<id>`: the minion does not match the target.
    pub async fn job_declined(&self, jid: &Jid, id: &MinionId) {
        let origin = EventOrigin::minion(id);
        self.job_event(origin, jid, id, JobEvent::Declined).await;
    }

    /// Fires `salt/job/<jid>/expired/<id>` for each: the minion did not begin in time.
    pub async fn jobs_expired(&self, expired: &[(Jid, MinionId)]) {
        self.master_job_events(expired, JobEvent::Expired).await;
    }

    /// Fires `salt/job/<jid>/gone/<id>` for each job and minion: the minion, which may still begin or return, is gone.
    pub async fn jobs_gone(&self, gone: &[(Jid, MinionId)]) {
        self.master_job_events(gone, JobEvent::Gone).await;
    }

    /// Fires `salt/job/<jid>/state/<id>`: the minion came into this state.
    pub async fn job_state(&self, jid: &Jid, id: &MinionId, state: MinionJobState) {
        let data = [
            ("id", Value::from(id.as_str())),
            ("jid", Value::from(jid.as_str())),
            ("state", Value::from(state.name())),
        ];
        let tag = EventTag::Job(jid.clone(), JobEvent::State(id.clone()));
        self.fire(tag, EventOrigin::master(), data).await;
    }

    /// Fires `salt/job/<jid>/ret/<id>`: the return of the minion is stored.
    pub async fn job_returned(&self, jid: &Jid, id: &MinionId, report: ReturnReport) {
        let tag = EventTag::Job(jid.clone(), JobEvent::Returned(id.clone()));
        // Asked after the commit: a client that subscribes later reads the return from the store.
        if !self.wanted(&tag) {
            return;
        }
        let data = job_returned_data(jid, id, report);
        self.fire(tag, EventOrigin::minion(id), data).await;
    }

    /// Fires `salt/batch/<jid>/…`: how far a batch has come.
    pub async fn batch(&self, report: &BatchReport) {
        let BatchReport {
            event,
            progress,
            failed,
        } = report;
        let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let mut data = vec![
            ("active", number(progress.active)),
            ("batch", Value::Int(progress.batch.size.into())),
            ("ended", number(progress.ended)),
            ("jid", Value::from(progress.jid.as_str())),
            ("minions", number(progress.minions)),
            ("waiting", number(progress.waiting)),
        ];
        if let Some(failed) = failed {
            data.push(("failed", Value::from(failed.as_str())));
        }
        let tag = EventTag::Batch(progress.jid.clone(), *event);
        self.fire(tag, EventOrigin::master(), data).await;
    }

    /// Fires `salt/run/<jid>/new` or `salt/wheel/<jid>/new`: a run was begun.
    pub(crate) async fn run_new(&self, run: &RunReport<'_>) {
        let tag = EventTag::Run(run.kind, run.jid.clone(), RunEvent::New);
        let origin = EventOrigin::runner(run.jid);
        self.fire_of(Some(run.owner), tag, origin, run_data(run))
            .await;
    }

    /// Fires `salt/run/<jid>/progress`: a runner says what it does.
    pub(crate) async fn run_progress(&self, jid: &Jid, owner: &str, message: &str) {
        let tag = EventTag::Run(RunKind::Runner, jid.clone(), RunEvent::Progress);
        let data = [("message", Value::from(message))];
        self.fire_of(Some(owner), tag, EventOrigin::runner(jid), data)
            .await;
    }

    /// Fires `salt/run/<jid>/ret` or `salt/wheel/<jid>/ret`: a run has ended.
    pub(crate) async fn run_returned(&self, run: &RunReport<'_>, end: &RunnerEnd) {
        let tag = EventTag::Run(run.kind, run.jid.clone(), RunEvent::Returned);
        if !self.wanted(&tag) {
            return;
        }
        let mut data = run_data(run).to_vec();
        let payload = match &end.error {
            Some(error) => Some(Value::from(error.as_str())),
            // What nests too deeply for the bus is left out, as what is too large.
            None if end.payload.as_bytes().len() <= MAX_EVENT_RETURN => end.payload.unpack().ok(),
            None => None,
        };
        data.extend(payload.map(|payload| ("return", payload)));
        data.push(("success", Value::Bool(end.success)));
        let origin = EventOrigin::runner(run.jid);
        self.fire_of(Some(run.owner), tag, origin, data).await;
    }

    /// Fires an event that someone who gives orders sends.
    ///
    /// # Errors
    /// When the event is to be kept and the store does not take it.
    pub(crate) async fn sent_by(
        &self,
        origin: EventOrigin,
        tag: &str,
        data: Vec<(String, Value)>,
    ) -> Result<(), StoreError> {
        self.fire_text(None, tag, origin, data).await
    }

    async fn job_event(
        &self,
        origin: EventOrigin,
        jid: &Jid,
        id: &MinionId,
        event: fn(MinionId) -> JobEvent,
    ) {
        let data = [
            ("id", Value::from(id.as_str())),
            ("jid", Value::from(jid.as_str())),
        ];
        let tag = EventTag::Job(jid.clone(), event(id.clone()));
        self.fire(tag, origin, data).await;
    }

    /// Fires an event of the master about each minion in a job.
    async fn master_job_events(
        &self,
        minions: &[(Jid, MinionId)],
        event: fn(MinionId) -> JobEvent,
    ) {
        for together in minions.chunks(FIRED_TOGETHER) {
            for (jid, id) in together {
                self.job_event(EventOrigin::master(), jid, id, event).await;
            }
            // Where nobody listens, nothing above waits, and there may be millions.
            tokio::task::yield_now().await;
        }
    }
}

/// The data of an event.
pub(super) type EventData = Vec<(&'static str, Value)>;

/// Returns the data of `salt/job/<jid>/new`.
pub(super) fn job_new_data(
    job: &Job,
    operator: &str,
    minions: &[(MinionId, MinionJobState)],
) -> EventData {
    let ids = |which: fn(MinionJobState) -> bool| {
        let chosen = minions.iter().filter(|(_, state)| which(*state));
        Value::texts(chosen.map(|(id, _)| id.as_str()))
    };
    let arg = job.arg.unpack();
    let missing = ids(|state| state == MinionJobState::NotConnected);
    vec![
        ("arg", arg.map_or(Value::Null, |arg| arg.to_salt())),
        ("fun", shown_functions(&job.fun)),
        ("jid", Value::from(job.jid.as_str())),
        ("minions", ids(|_| true)),
        ("missing", missing),
        ("operator", Value::from(operator)),
        ("tgt", Value::from(job.target.expression.as_str())),
        ("tgt_type", Value::from(job.target.kind.name())),
        ("user", Value::from(job.user.as_str())),
    ]
}

/// Returns the data of `salt/job/<jid>/ret/<id>`.
pub(super) fn job_returned_data(jid: &Jid, id: &MinionId, report: ReturnReport) -> EventData {
    let mut data = vec![("cmd", Value::from("_return"))];
    if let Some(call) = &report.call {
        data.push(("fun", shown_functions(&call.fun)));
    }
    data.extend([
        ("id", Value::from(id.as_str())),
        ("jid", Value::from(jid.as_str())),
        ("retcode", Value::from(report.retcode)),
        ("success", Value::from(report.success)),
    ]);
    if let Some(arguments) = report.call.as_ref().and_then(|call| call.arg.as_ref()) {
        data.push(("fun_args", arguments.as_packed().unpack_or_show()));
    }
    if let Some(schedule) = report.call.as_ref().and_then(|call| call.schedule.as_ref()) {
        data.push(("schedule", Value::from(schedule.as_str())));
    }
    if let Some(payload) = report.payload {
        data.push(("return", payload.unpack_or_show()));
    }
    data
}

fn names(ids: &[MinionId]) -> Value {
    Value::texts(ids.iter().map(MinionId::as_str))
}

fn run_data(run: &RunReport<'_>) -> [(&'static str, Value); 4] {
    [
        ("fun", Value::from(run.kind.shown(run.fun))),
        ("fun_args", run.arg.as_packed().unpack_or_show()),
        ("jid", Value::from(run.jid.as_str())),
        ("user", Value::from(run.user)),
    ]
}

fn key_data(id: &MinionId, act: &str, result: bool) -> [(&'static str, Value); 3] {
    [
        ("id", Value::from(id.as_str())),
        ("act", Value::from(act)),
        ("result", Value::from(result)),
    ]
}
