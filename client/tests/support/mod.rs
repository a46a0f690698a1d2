//! A master whose replies a test prescribes, over the in-memory transport.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use saline_channel::noise::{PendingHandshake, Responder};
use saline_channel::record::ResponderRecords;
use saline_channel::{Identity, MasterKeys, NoiseKey};
use saline_config::MasterConfig;
use saline_inproc::InProc;
use saline_messages::{
    Admission, Header, Kind, OperatorReply, OperatorRequest, PeerVersion, PublicationAddress,
    Refusal, SessionId, Welcome, decode, encode, refusal,
};
use saline_protocol::transport::{
    Context, Endpoint, Registry, Request, ServeAt, ServerControl, Transport,
};

/// The master's reaction to the next request in a session.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "a test has a handful of them")]
pub enum Act {
    /// Answers.
    Answer(OperatorReply),
    /// Carries it out and never answers.
    Lose,
    /// Says that there is no such session.
    Forget,
}

/// The keys and files of a master, and the transport that it serves on.
pub struct TestMaster {
    pub config: MasterConfig,
    pub registry: Registry,
    transport: InProc,
    identity: Arc<Identity>,
    noise: NoiseKey,
    behaviour: Arc<Mutex<Behaviour>>,
    _folder: tempfile::TempDir,
}

#[derive(Debug, Default)]
struct Behaviour {
    acts: VecDeque<Act>,
    asked: Vec<OperatorRequest>,
    sessions: usize,
    answer: Option<Admission>,
}

/// A master that serves, until it dies.
pub struct Serving {
    context: Context,
    control: Arc<dyn ServerControl>,
}

impl TestMaster {
    pub fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = MasterConfig::default();
        config.paths = config.paths.clone().under(folder.path());
        config.ipc_transport = Some("inproc".to_owned());
        let transport = InProc::new();
        let master = Self {
            registry: Registry::new().with(transport.clone()),
            transport,
            identity: Arc::new(Identity::generate().unwrap()),
            noise: NoiseKey::generate().unwrap(),
            behaviour: Arc::default(),
            _folder: folder,
            config,
        };
        master.behaviour().acts.extend(acts);
        std::fs::create_dir_all(&master.config.paths.cache_dir).unwrap();
        master.write_root_key();
        let keys = MasterKeys {
            identity: master.identity.public(),
            noise: None,
        };
        keys.write(&master.config.paths.pki_dir.join("identity.pub"))
            .unwrap();
        master
    }

    pub fn write_root_key(&self) {
        let key = Identity::generate().unwrap();
        key.write(&self.config.root_key(), 0o400).unwrap();
    }

    fn behaviour(&self) -> MutexGuard<'_, Behaviour> {
        self.behaviour.lock().unwrap()
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<OperatorRequest> {
        self.behaviour().asked.clone()
    }

    /// How many sessions were made so far.
    pub fn sessions(&self) -> usize {
        self.behaviour().sessions
    }

    /// What the master says of keys from now on.
    pub fn says(&self, answer: Admission) {
        self.behaviour().answer = Some(answer);
    }

    /// Starts the master.
    pub async fn serve(&self) -> Serving {
        let context = Context::default();
        let at = ServeAt {
            requests: Endpoint::local("inproc", self.config.local_requests()),
            publications: None,
        };
        let mut server = self.transport.serve(at, context.clone()).await.unwrap();
        let mut gate = Gate {
            responder: Responder::new(Arc::clone(&self.identity), self.noise.clone(), None),
            behaviour: Arc::clone(&self.behaviour),
            half: HashMap::new(),
            sessions: HashMap::new(),
        };
        let publisher = Arc::clone(&server.publisher);
        context.spawn(async move {
            // Held as long as the master lives.
            let _publisher = publisher;
            while let Some(request) = server.requests.next().await {
                gate.take(request);
            }
        });
        Serving {
            context,
            control: server.control,
        }
    }
}

impl Serving {
    /// Ends it; what it holds in memory is gone.
    pub async fn die(self) {
        self.control.shutdown(Duration::ZERO).await.ok();
        self.context.cancel.cancel();
        self.context.tracker.close();
        self.context.tracker.wait().await;
    }
}

struct Gate {
    responder: Responder,
    behaviour: Arc<Mutex<Behaviour>>,
    half: HashMap<SessionId, PendingHandshake>,
    sessions: HashMap<SessionId, ResponderRecords>,
}

impl Gate {
    fn take(&mut self, request: Request) {
        let (mut header, body) = Header::decode(&request.payload).unwrap();
        let reply = match header.kind {
            Kind::First => {
                let (half, body) = self.responder.first(body).unwrap();
                header.session = SessionId::random().unwrap();
                header.kind = Kind::FirstReply;
                self.half.insert(header.session, half);
                Some(header.with_body(&body))
            }
            Kind::FirstFinish => match self.half.remove(&header.session) {
                Some(half) => {
                    let (_, keys) = half.finish(body).unwrap();
                    let records = ResponderRecords::new(&keys);
                    header.kind = Kind::Record;
                    let answer = {
                        let mut behaviour = self.behaviour.lock().unwrap();
                        behaviour.sessions += 1;
                        behaviour.answer.clone().unwrap_or_else(welcome)
                    };
                    let reply = records.seal_reply(&header, &encode(&answer));
                    self.sessions.insert(header.session, records);
                    Some(reply)
                }
                None => Some(refusal(Some(&header), Refusal::Handshake)),
            },
            _ => self.record(&header, body),
        };
        // Without one the handle is dropped.
        if let Some(reply) = reply {
            request.reply.send(reply).unwrap();
        }
    }

    fn record(&mut self, header: &Header, body: &[u8]) -> Option<bytes::Bytes> {
        let Some(records) = self.sessions.get_mut(&header.session) else {
            return Some(refusal(Some(header), Refusal::UnknownSession));
        };
        let plain = records.open_request(header, body).unwrap();
        let mut behaviour = self.behaviour.lock().unwrap();
        behaviour.asked.push(decode(&plain).unwrap());
        match behaviour
            .acts
            .pop_front()
            .expect("more was asked than the behaviour has")
        {
            Act::Answer(reply) => Some(records.seal_reply(header, &encode(&reply))),
            Act::Lose => None,
            Act::Forget => {
                self.sessions.remove(&header.session);
                Some(refusal(Some(header), Refusal::UnknownSession))
            }
        }
    }
}

fn welcome() -> Admission {
    Admission::Accepted(Welcome {
        clock: 0,
        heartbeat_ms: 15_000,
        max_message: 64 << 20,
        publications: PublicationAddress::SameConnection,
        group: None,
        master: PeerVersion {
            protocol: 1,
            software: "0.1.0".into(),
        },
        extensions: Vec::new(),
    })
}
