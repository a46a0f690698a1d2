//! A master whose replies a test prescribes, and that records the requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use saline_channel::publication::{Body, PublicationKey, topic_all, topic_of};
use saline_channel::{Identity, NoiseKey};
use saline_config::{MinionConfig, Paths};
use saline_data::{Packed, Value};
use saline_inproc::InProc;
use saline_messages::{
    Admission, Arguments, FileReply, FileRequest, FilesPage, GroupKeyMaterial, Header,
    HeartbeatReply, Jid, Job, JobsPage, Kind, Lease, MinionId, MinionPillar, MinionReply,
    MinionRequest, MustClaim, Outgoing, PillarRefusal, PillarReply, PillarRequest,
    ReconciliationReply, Return, ReturnVerdict, SessionId, SignedJob, TransferId, decode, encode,
};
use saline_minion::Minion;
use saline_minion::modules::Modules;
use saline_protocol::transport::{
    Clock, Context, Endpoint, HostPort, Publisher, Registry, Requests, ServeAt, Transport,
};
use saline_targeting::Target;
use saline_testing::scripted::{Opened, Sessions, welcome};
use tokio_util::sync::CancellationToken;

/// How long a test waits for anything before it fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The time of this master.
pub const NOW: u64 = 1_000_000;

pub struct ScriptedMaster {
    pub identity: Arc<Identity>,
    sessions: Mutex<Sessions>,
    publisher: Mutex<Option<Arc<dyn Publisher>>>,
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    /// The latest session.
    session: SessionId,
    said: Vec<MinionRequest>,
    answers: VecDeque<MinionReply>,
    pending: Vec<SignedJob>,
    /// The jobs for every minion that were published. They are offered as well until they return, as a
    /// master does it: a reply to a heartbeat that overtakes a publication makes the minion drop that one,
    /// and ask for what it missed.
    published: Vec<SignedJob>,
    counter: u64,
    last_all: u64,
    last_own: u64,
    /// What the next reconciliation asks for.
    pub asked: Vec<Jid>,
    pub cancelled: Vec<Jid>,
    pub lease: Lease,
    /// Whether claims are granted.
    pub grants: bool,
    /// Whether the minion's key waits to be accepted.
    pub waits: bool,
    /// The polls of a minion whose key waits.
    pub polls: usize,
    /// The next message of this kind is answered by somebody on the path, in the clear.
    pub interference: Option<(Kind, Bytes)>,
    pub heartbeats: usize,
    /// How often the minion is to send heartbeats.
    pub heartbeat_ms: u64,
    /// The minion's pillar.
    pub pillar: Value,
    /// Why there is no pillar, and what went wrong with it.
    pub pillar_errors: Vec<String>,
    /// Whether the master has no time for pillars.
    pub is_busy_with_pillars: bool,
    /// Whether the master refuses to compile pillars.
    pub refuses_pillars: bool,
    /// How many pillars it refused.
    pub pillars_refused: usize,
    /// Whether the master has no time for reports of functions.
    pub is_busy_with_functions: bool,
    /// The reports of functions that it had no time for.
    pub functions_put_off: usize,
    /// The pillars that were asked for, each with the one that the minion had.
    pub pillars_asked: Vec<Option<TransferId>>,
}

fn material(last_number: u64) -> GroupKeyMaterial {
    GroupKeyMaterial {
        epoch: 7,
        key: [7; 32],
        last_number,
    }
}

pub fn job(number: u64, fun: &str, positional: &[Value]) -> Job {
    let arguments = Arguments {
        positional: positional.to_vec(),
        named: Vec::new(),
    };
    Job {
        jid: Jid::parse(&format!("20261121{number:012}")).unwrap(),
        target: Target::glob("*"),
        fun: fun.into(),
        arg: arguments.pack(),
        user: "root".into(),
        created: NOW,
        expires: NOW + 60_000,
        claims: MustClaim::NOBODY,
    }
}

impl ScriptedMaster {
    pub async fn start(registry: &Registry) -> Arc<Self> {
        let identity = Arc::new(Identity::generate().unwrap());
        let noise = NoiseKey::generate().unwrap();
        let master = Arc::new(Self {
            sessions: Mutex::new(Sessions::new(Arc::clone(&identity), noise)),
            identity,
            publisher: Mutex::default(),
            state: Mutex::new(State {
                lease: Lease {
                    after: 0,
                    until: u64::MAX,
                },
                heartbeat_ms: 100,
                ..State::default()
            }),
        });
        let transport = registry.get("inproc").unwrap();
        let at = ServeAt {
            requests: Endpoint::network("inproc", HostPort::new("master", 4506)),
            publications: None,
        };
        let context = Context::default();
        let server = transport.serve(at, context.clone()).await.unwrap();
        *master.publisher.lock().unwrap() = Some(server.publisher);
        let serving = Arc::clone(&master);
        context.spawn(async move { serving.serve(server.requests).await });
        master
    }

    /// Returns the pillars that were asked for, each with the one that the minion had.
    pub fn pillars_asked(&self) -> Vec<Option<TransferId>> {
        self.state.lock().unwrap().pillars_asked.clone()
    }

    /// Changes what the master says from now on.
    pub fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    async fn serve(&self, mut requests: Box<dyn Requests>) {
        while let Some(request) = requests.next().await {
            let answer = self.answer(&request.payload);
            request.reply.send(answer).unwrap();
        }
    }

    fn answer(&self, payload: &[u8]) -> Bytes {
        let (header, _) = Header::decode(payload).unwrap();
        let mut state = self.state.lock().unwrap();
        if let Some((_, answer)) = state.interference.take_if(|(kind, _)| *kind == header.kind) {
            return answer;
        }
        let admission = match state.waits {
            true => Admission::Pending(None),
            false => welcome(NOW, state.heartbeat_ms, Some(material(state.last_all))),
        };
        let mut sessions = self.sessions.lock().unwrap();
        match sessions.open(payload, &admission) {
            Opened::Answered(reply) => reply,
            Opened::Began(id, reply) => {
                // A minion has one session at a time.
                sessions.retain(|other| *other == id);
                state.session = id;
                state.last_own = 0;
                reply
            }
            Opened::Request(asked, plain) => {
                let reply = match decode(&plain).unwrap() {
                    MinionRequest::Poll => {
                        state.polls += 1;
                        MinionReply::Auth(admission)
                    }
                    request => state.reply(request),
                };
                sessions.seal(&asked, &encode(&reply))
            }
        }
    }

    /// The session is not known any more.
    pub fn forget_session(&self) {
        self.sessions.lock().unwrap().retain(|_| false);
    }

    pub fn polls(&self) -> usize {
        self.state.lock().unwrap().polls
    }

    pub fn functions_put_off(&self) -> usize {
        self.state.lock().unwrap().functions_put_off
    }

    pub fn heartbeats(&self) -> usize {
        self.state.lock().unwrap().heartbeats
    }

    /// Whether what was to be said in the clear has been said.
    pub fn has_interfered(&self) -> bool {
        self.state.lock().unwrap().interference.is_none()
    }

    pub fn sessions(&self) -> usize {
        self.sessions.lock().unwrap().made()
    }

    /// What the next return is answered; after these, `Stored`.
    pub fn answer_return(&self, reply: MinionReply) {
        self.state.lock().unwrap().answers.push_back(reply);
    }

    /// What `PendingJobs` is answered beside the jobs that were published.
    pub fn set_pending(&self, jobs: Vec<SignedJob>) {
        self.state.lock().unwrap().pending = jobs;
    }

    pub fn sign(&self, job: Job) -> SignedJob {
        saline_channel::publication::sign_job(&self.identity, job)
    }

    /// Publishes to everybody; without `deliver` it is lost on the way.
    pub async fn to_all(&self, job: SignedJob, deliver: bool) {
        let frame = {
            let mut state = self.state.lock().unwrap();
            state.counter += 1;
            state.last_all += 1;
            if deliver {
                state.published.push(job.clone());
            }
            let key = PublicationKey::group(&material(0));
            let (counter, number) = (state.counter, state.last_all);
            key.seal(
                &topic_all(),
                SessionId::default(),
                counter,
                number,
                &Body::Job(job).encode(),
            )
        };
        if deliver {
            self.publish(&topic_all(), frame).await;
        }
    }

    /// Publishes to one minion.
    pub async fn to_one(&self, id: &str, job: SignedJob) {
        let topic = topic_of(&MinionId::parse(id).unwrap());
        let frame = {
            let mut state = self.state.lock().unwrap();
            state.counter += 1;
            state.last_own += 1;
            state.published.push(job.clone());
            let sessions = self.sessions.lock().unwrap();
            let records = sessions.records(&state.session).unwrap();
            let key = records.publications.key(7);
            key.seal(
                &topic,
                state.session,
                state.counter,
                state.last_own,
                &Body::Job(job).encode(),
            )
        };
        self.publish(&topic, frame).await;
    }

    async fn publish(&self, topic: &saline_protocol::transport::Topic, frame: Bytes) {
        let publisher = self.publisher.lock().unwrap().clone().unwrap();
        publisher.publish(topic, frame).await.unwrap();
    }

    /// What it was told, heartbeats aside.
    pub fn said(&self) -> Vec<MinionRequest> {
        self.state.lock().unwrap().said.clone()
    }

    pub fn returns(&self) -> Vec<Return> {
        let said = self.said().into_iter();
        said.flat_map(|request| match request {
            MinionRequest::Returns(returns) => returns,
            _ => Vec::new(),
        })
        .collect()
    }

    pub async fn wait_for_returns(&self, count: usize) -> Vec<Return> {
        self.wait("returns", |master| master.returns().len() >= count)
            .await;
        self.returns()
    }

    pub async fn wait(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let deadline = Clock.after(TEST_TIMEOUT);
        while !is_so(self) {
            assert!(
                Clock.now() < deadline,
                "waited in vain for {what}: {:?}",
                self.said()
            );
            Clock.pause(Duration::from_millis(5)).await;
        }
    }
}

impl State {
    fn heartbeat(&self) -> HeartbeatReply {
        HeartbeatReply {
            clock: NOW,
            heartbeat_ms: self.heartbeat_ms,
            epoch: 7,
            group: None,
            last_all: self.last_all,
            last_own: self.last_own,
            lease: self.lease,
            expiry_acked_until: NOW,
            cancelled: self.cancelled.clone(),
            reconcile: false,
        }
    }

    fn reply(&mut self, request: MinionRequest) -> MinionReply {
        let reply = match &request {
            MinionRequest::Heartbeat(_) => {
                self.heartbeats += 1;
                return MinionReply::Heartbeat(self.heartbeat());
            }
            MinionRequest::Reconcile(_) => {
                let asked = std::mem::take(&mut self.asked);
                let heartbeat = self.heartbeat();
                self.said.push(request);
                return MinionReply::Reconciled(ReconciliationReply { heartbeat, asked });
            }
            MinionRequest::Claim { .. } => MinionReply::Claimed(self.grants),
            MinionRequest::PendingJobs { .. } => MinionReply::Jobs(JobsPage {
                jobs: self.offered(),
                more: false,
            }),
            MinionRequest::Returns(returns) => self.answers.pop_front().unwrap_or_else(|| {
                MinionReply::Verdicts(vec![ReturnVerdict::Stored; returns.len()])
            }),
            MinionRequest::Pillar(request) => return self.pillar(request),
            MinionRequest::Functions(_) if self.is_busy_with_functions => {
                self.functions_put_off += 1;
                return MinionReply::busy(Duration::from_millis(5));
            }
            // It serves no file.
            MinionRequest::Files(FileRequest::List { .. }) => {
                MinionReply::Files(FileReply::Listed(FilesPage {
                    entries: Vec::new(),
                    more: false,
                }))
            }
            _ => MinionReply::Done,
        };
        self.said.push(request);
        reply
    }
}

impl State {
    /// Returns the jobs that a minion which asks for what it missed is offered.
    fn offered(&self) -> Vec<SignedJob> {
        let is_returned = |jid: &Jid| {
            self.said.iter().any(|request| match request {
                MinionRequest::Returns(returns) => returns.iter().any(|one| one.jid == *jid),
                _ => false,
            })
        };
        let published = self.published.iter().filter(|signed| {
            signed.job.target == Target::glob("*") && !is_returned(&signed.job.jid)
        });
        self.pending.iter().chain(published).cloned().collect()
    }

    fn pillar(&mut self, request: &PillarRequest) -> MinionReply {
        if self.is_busy_with_pillars {
            return MinionReply::busy(Duration::from_millis(5));
        }
        if self.refuses_pillars {
            self.pillars_refused += 1;
            return MinionReply::Pillar(PillarReply::Refused(PillarRefusal::Failed));
        }
        let whole = Outgoing::new(
            MinionPillar {
                entries: (self.pillar != Value::Null).then(|| Packed::pack(&self.pillar)),
                errors: self.pillar_errors.clone(),
            }
            .to_bytes(),
        );
        let id = TransferId::of(whole.bytes());
        MinionReply::Pillar(match request {
            PillarRequest::Compile { known, bytes, .. } => {
                self.pillars_asked.push(*known);
                match *known == Some(id) {
                    true => PillarReply::Unchanged,
                    false => PillarReply::Part(whole.part(0, *bytes as usize)),
                }
            }
            PillarRequest::Part { transfer, .. } if *transfer != id => PillarReply::Changed,
            PillarRequest::Part { offset, bytes, .. } => {
                PillarReply::Part(whole.part(*offset, *bytes as usize))
            }
        })
    }
}

/// A minion of a scripted master.
pub struct Fixture {
    pub master: Arc<ScriptedMaster>,
    pub root: tempfile::TempDir,
    registry: Registry,
}

pub struct RunningMinion {
    pub minion: Arc<Minion>,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::over(InProc::new()).await
    }

    /// The same over another transport of the scheme `inproc`.
    pub async fn over(transport: impl Transport + 'static) -> Self {
        let registry = Registry::new().with(transport);
        Self {
            master: ScriptedMaster::start(&registry).await,
            root: tempfile::tempdir().unwrap(),
            registry,
        }
    }

    pub fn config(&self) -> MinionConfig {
        let mut config = MinionConfig::default();
        config.paths = Paths::minion().under(self.root.path());
        config.id = Some(MinionId::parse("m1").unwrap());
        config.master = vec![HostPort::new("master", 4506)];
        config.reconnect_first = Duration::from_millis(10);
        config.reconnect_max = Duration::from_millis(50);
        config
    }

    /// Starts the minion.
    pub fn begin(&self, config: MinionConfig) -> RunningMinion {
        let modules = Modules::built_in().with_executables(config.all_module_dirs());
        let minion = Minion::new(config, &self.registry, modules).unwrap();
        let stop = CancellationToken::new();
        let serving = Context::default().spawn(Arc::clone(&minion).serve(stop.clone()));
        RunningMinion {
            minion,
            stop,
            serving,
        }
    }

    /// Starts the minion, and waits until it has asked what it missed.
    pub async fn start(&self, config: MinionConfig) -> RunningMinion {
        let asked = |master: &ScriptedMaster| {
            let said = master.said();
            said.iter()
                .filter(|r| matches!(r, MinionRequest::PendingJobs { .. }))
                .count()
        };
        let before = asked(&self.master);
        let minion = self.begin(config);
        self.master
            .wait("a minion", |master| asked(master) > before)
            .await;
        minion
    }
}

impl RunningMinion {
    pub async fn stop(self) {
        self.stop.cancel();
        self.serving.await.unwrap();
    }
}
