//! A master that is just large enough for one minion: it accepts every key, has no store, and keeps what the
//! minion says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use saline_protocol::transport::{
    Clock, Context, Endpoint, HostPort, Publisher, Requests, ServeAt, ServerControl, Transport,
};

use super::cipher::Key;
use super::handshake::{HalfOpen, Oneself, Proven, Resuming, Split, role};
use super::header::{Header, class, kind, refusal};
use super::keys::{Identity, NoiseKey};
use super::messages::{
    Admission, Body, Claims, Extension, GroupKey, HeartbeatReply, Job, JobsPage, Lease,
    MinionReply, MinionRequest, NO_ARGUMENTS, PeerVersion, PublicationAddress, ReconciliationReply,
    Return, ReturnVerdict, SignedJob, Target, TargetKind, Versions, Welcome, decode, encode,
};
use super::publication::{own_key, sign, topic_all, topic_of};
use super::session::VERSION_1;
use super::{TEST_TIMEOUT, random};

/// How often it is looked whether the minion has said something.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Answers a request that version 1 does not have, in a session of a later one.
pub type SuccessorHandler = fn(&[u8]) -> Option<Vec<u8>>;

/// What a master speaks. What it speaks beside version 1 is for a successor that is built on it.
#[derive(Debug)]
pub struct MasterProtocol {
    /// The versions: [`VERSION_1`].
    pub versions: Versions,
    /// What it says to minions in sessions of version 2 and later: nothing.
    pub extensions: Vec<Extension>,
    /// Answers requests in sessions of version 2 and later before version 1 does.
    pub later: Option<SuccessorHandler>,
}

/// A running master.
#[derive(Debug)]
pub struct Master {
    /// Where it takes requests.
    pub at: Endpoint,
    identity: Identity,
    noise: NoiseKey,
    protocol: MasterProtocol,
    publications: PublicationAddress,
    publisher: Arc<dyn Publisher>,
    control: Arc<dyn ServerControl>,
    group: GroupKey,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    half_open: HashMap<[u8; 16], HalfOpen>,
    session: Option<Opened>,
    observed: Observed,
    pending: Vec<SignedJob>,
    counter: u64,
    last_all: u64,
}

#[derive(Debug)]
struct Opened {
    id: [u8; 16],
    split: Split,
    version: u16,
    minion: String,
    last_own: u64,
}

/// What the minion has said.
#[derive(Debug, Default, Clone)]
pub struct Observed {
    /// How many first contacts there were, and how many resumptions.
    pub handshakes: (usize, usize),
    /// The versions of the sessions.
    pub versions: Vec<u16>,
    /// What its last introduction had beside what version 1 knows.
    pub extensions: Vec<Extension>,
    /// How many heartbeats, and how many reconciliations.
    pub heartbeats: (usize, usize),
    /// How often it asked what it had missed.
    pub asked: usize,
    /// The jobs that it has begun.
    pub begun: Vec<String>,
    /// The returns.
    pub returns: Vec<Return>,
    /// How many requests a later version answered.
    pub later: usize,
}

fn now() -> u64 {
    let since = Clock.wall().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

impl Master {
    /// Starts a master of version 1 on a free port of this machine. Its tasks are those of `context`.
    pub async fn start(transport: &dyn Transport, context: &Context) -> Arc<Self> {
        let protocol = MasterProtocol {
            versions: VERSION_1,
            extensions: Vec::new(),
            later: None,
        };
        Self::start_with(protocol, transport, context).await
    }

    /// Starts a master that speaks something else.
    pub async fn start_with(
        protocol: MasterProtocol,
        transport: &dyn Transport,
        context: &Context,
    ) -> Arc<Self> {
        let at = || Endpoint::network(transport.scheme(), HostPort::new("127.0.0.1", 0));
        let apart = transport.capabilities().publications_apart;
        let serve = ServeAt {
            requests: at(),
            publications: apart.then(at),
        };
        let server = transport.serve(serve, context.clone()).await.unwrap();
        let publications = match &server.bound.publications {
            Some(at) => PublicationAddress::Port(at.port().unwrap()),
            None => PublicationAddress::SameConnection,
        };
        let master = Arc::new(Self {
            at: server.bound.requests,
            identity: Identity::generate(),
            noise: NoiseKey::generate(),
            protocol,
            publications,
            publisher: server.publisher,
            control: server.control,
            group: GroupKey {
                epoch: 7,
                key: random(),
                last_number: 0,
            },
            state: Mutex::default(),
        });
        let serving = Arc::clone(&master);
        context.spawn(serving.serve(server.requests));
        master
    }

    async fn serve(self: Arc<Self>, mut requests: Box<dyn Requests>) {
        while let Some(request) = requests.next().await {
            let answer = self.answer(&request.payload);
            self.control.admitted(request.peer);
            request.reply.send(answer).unwrap();
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn oneself(&self) -> Oneself<'_> {
        Oneself {
            role: role::MASTER,
            id: "",
            identity: &self.identity,
            noise: &self.noise,
            versions: self.protocol.versions,
            extensions: Vec::new(),
        }
    }

    fn answer(&self, message: &[u8]) -> Bytes {
        let (mut header, body) = Header::decode(message);
        let certificate = self.control.certificate();
        match header.kind {
            kind::FIRST => {
                let (half, reply) = HalfOpen::begin(&self.oneself(), certificate, body);
                header.kind = kind::FIRST_REPLY;
                header.session = random();
                self.state().half_open.insert(header.session, half);
                header.with_body(&reply)
            }
            kind::FIRST_FINISH => {
                let half = self.state().half_open.remove(&header.session).unwrap();
                let (peer, split) = half.finish(body);
                header.kind = kind::RECORD;
                header.counter = 0;
                self.state().observed.handshakes.0 += 1;
                let admission = self.admit(header.session, &peer, split.clone());
                Key::new(&split.responder).seal(&header, &[], &[], &encode(&admission))
            }
            kind::RESUME => {
                let resuming = Resuming::read(&self.oneself(), certificate, body);
                header.kind = kind::RESUME_REPLY;
                header.session = random();
                let admission = self.decide(&resuming.peer);
                let peer = resuming.peer.introduction.clone();
                let noise = resuming.peer.noise;
                let (reply, split) = resuming.reply(&encode(&admission));
                self.state().observed.handshakes.1 += 1;
                let peer = Proven {
                    introduction: peer,
                    noise,
                };
                self.admit(header.session, &peer, split);
                header.with_body(&reply)
            }
            kind::RECORD => self.record(&header, body),
            other => panic!("a minion sends no message of kind {other}"),
        }
    }

    /// Answers a request in the session; another session is not known.
    fn record(&self, header: &Header, body: &[u8]) -> Bytes {
        let mut state = self.state();
        let session = state.session.as_ref().filter(|s| s.id == header.session);
        let Some(Opened { split, version, .. }) = session else {
            let refused = Header {
                kind: kind::REFUSED,
                ..*header
            };
            return refused.with_body(&[refusal::UNKNOWN_SESSION]);
        };
        let (split, is_later) = (split.clone(), *version > 1);
        let plain = Key::new(&split.initiator).open(header, &[], &[], body);
        let plain = plain.expect("a request opens");
        let later = self.protocol.later.filter(|_| is_later);
        let reply = match later.and_then(|later| later(&plain)) {
            Some(reply) => {
                state.observed.later += 1;
                reply
            }
            None => encode(&self.reply(&mut state, decode(&plain))),
        };
        Key::new(&split.responder).seal(header, &[], &[], &reply)
    }

    fn decide(&self, peer: &Proven) -> Admission {
        let (ours, theirs) = (self.protocol.versions, peer.introduction.versions);
        let version = ours.highest.min(theirs.highest);
        if version < ours.lowest.max(theirs.lowest) {
            return Admission::NoCommonVersion {
                versions: ours,
                software: "1.0.0".to_owned(),
            };
        }
        let extensions = match version {
            1 => Vec::new(),
            _ => self.protocol.extensions.clone(),
        };
        Admission::Accepted(Welcome {
            clock: now(),
            heartbeat_ms: 300,
            max_message: 64 * 1024 * 1024,
            publications: self.publications.clone(),
            group: Some(GroupKey {
                last_number: self.state().last_all,
                ..self.group.clone()
            }),
            master: PeerVersion {
                protocol: version,
                software: "1.0.0".to_owned(),
            },
            extensions,
        })
    }

    /// Decides about a minion, and makes its session.
    fn admit(&self, id: [u8; 16], peer: &Proven, split: Split) -> Admission {
        let admission = self.decide(peer);
        let mut state = self.state();
        let mut extensions = peer.introduction.extensions.clone();
        extensions.retain(|extension| extension.number != super::handshake::ATTEMPT_TIME);
        state.observed.extensions = extensions;
        if let Admission::Accepted(welcome) = &admission {
            let version = welcome.master.protocol;
            state.observed.versions.push(version);
            state.session = Some(Opened {
                id,
                split,
                version,
                minion: peer.introduction.id.clone(),
                last_own: 0,
            });
        }
        admission
    }

    fn heartbeat(&self, state: &State) -> HeartbeatReply {
        HeartbeatReply {
            clock: now(),
            heartbeat_ms: 300,
            epoch: self.group.epoch,
            group: None,
            last_all: state.last_all,
            last_own: state.session.as_ref().map_or(0, |s| s.last_own),
            lease: Lease {
                after: 0,
                until: now() + 60_000,
            },
            stated_until: now(),
            cancelled: Vec::new(),
            reconcile: false,
        }
    }

    fn reply(&self, state: &mut State, request: MinionRequest) -> MinionReply {
        match request {
            MinionRequest::Heartbeat(heartbeat) => {
                assert_eq!(heartbeat.epoch, self.group.epoch);
                state.observed.heartbeats.0 += 1;
                MinionReply::Heartbeat(self.heartbeat(state))
            }
            MinionRequest::Reconcile(_) => {
                state.observed.heartbeats.1 += 1;
                MinionReply::Reconciled(ReconciliationReply {
                    heartbeat: self.heartbeat(state),
                    asked: Vec::new(),
                })
            }
            MinionRequest::Started(jids) => {
                state.observed.begun.extend(jids);
                MinionReply::Done
            }
            MinionRequest::Returns(returns) => {
                let verdicts = returns.iter().map(|_| ReturnVerdict::Stored).collect();
                state.observed.returns.extend(returns);
                MinionReply::Verdicts(verdicts)
            }
            MinionRequest::PendingJobs { after: None } => {
                state.observed.asked += 1;
                MinionReply::Jobs(JobsPage {
                    jobs: std::mem::take(&mut state.pending),
                    more: false,
                })
            }
            MinionRequest::Claim { .. } => MinionReply::Claimed(true),
            MinionRequest::FireEvents(_)
            | MinionRequest::Goodbye
            | MinionRequest::Grains(_)
            | MinionRequest::Accounts(_)
            | MinionRequest::Declined { .. } => MinionReply::Done,
            other => panic!("nobody expects {other:?}"),
        }
    }

    /// Forgets the session, as a new master would.
    pub fn forget_session(&self) {
        self.state().session = None;
    }

    /// Hands a job out when the minion asks for what it missed.
    pub fn queue(&self, job: Job) {
        let signed = sign(&self.identity, job);
        self.state().pending.push(signed);
    }

    /// Publishes a job on the minion's own topic, or to all minions.
    pub async fn publish(&self, job: Job, to_all: bool) {
        let body = encode(&Body::Job(sign(&self.identity, job)));
        let (topic, frame) = {
            let mut state = self.state();
            state.counter += 1;
            let counter = state.counter;
            let (topic, key, session, number) = if to_all {
                state.last_all += 1;
                let key = Key::new(&self.group.key);
                (topic_all(), key, [0; 16], state.last_all)
            } else {
                let session = state.session.as_mut().expect("a minion has a session");
                session.last_own += 1;
                let key = own_key(&session.split.responder, self.group.epoch);
                (topic_of(&session.minion), key, session.id, session.last_own)
            };
            let header = Header {
                kind: kind::PUBLICATION,
                session,
                class: class::EVENT,
                counter,
            };
            let clear = [self.group.epoch.to_be_bytes(), number.to_be_bytes()].concat();
            let frame = key.seal(&header, &clear, topic.as_str().as_bytes(), &body);
            (topic, frame)
        };
        self.publisher.publish(&topic, frame).await.unwrap();
    }

    /// Returns what the minion has said, when that is so.
    pub async fn wait(&self, what: &str, is_so: impl Fn(&Observed) -> bool) -> Observed {
        let deadline = Clock.after(TEST_TIMEOUT);
        loop {
            let said = self.state().observed.clone();
            if is_so(&said) {
                return said;
            }
            assert!(
                Clock.now() < deadline,
                "waited in vain for {what}: {said:?}"
            );
            Clock.pause(POLL_INTERVAL).await;
        }
    }
}

/// Returns a job for all minions that runs `test.sleep` for a second.
pub fn sleep(number: u64) -> Job {
    Job {
        fun: "test.sleep".to_owned(),
        // A list of a 1, as MessagePack.
        arg: vec![0x91, 0x01],
        ..ping(number)
    }
}

/// Returns a job for all minions that runs `test.ping`.
pub fn ping(number: u64) -> Job {
    Job {
        jid: format!("20261121{number:012}"),
        target: Target {
            kind: TargetKind::Glob,
            expression: "*".to_owned(),
        },
        fun: "test.ping".to_owned(),
        arg: NO_ARGUMENTS.to_vec(),
        user: "root".to_owned(),
        created: now(),
        expires: now() + 60_000,
        claims: Claims::Of(Vec::new()),
    }
}
