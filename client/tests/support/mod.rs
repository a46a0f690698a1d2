//! A master whose replies a test prescribes, over the in-memory transport.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use saline_channel::{Identity, MasterKeys, NoiseKey};
use saline_config::MasterConfig;
use saline_inproc::InProc;
use saline_messages::{
    Admission, OperatorReply, OperatorRequest, Refusal, decode, encode, refusal,
};
use saline_protocol::transport::{
    Context, Endpoint, Registry, Request, ServeAt, ServerControl, Transport,
};
use saline_testing::scripted::{Opened, Sessions, welcome};

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
        let keys = MasterKeys::identity_alone(master.identity.public());
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
            sessions: Sessions::new(Arc::clone(&self.identity), self.noise.clone()),
            behaviour: Arc::clone(&self.behaviour),
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
    sessions: Sessions,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Gate {
    fn take(&mut self, request: Request) {
        let mut behaviour = self.behaviour.lock().unwrap();
        let admission = behaviour.answer.clone();
        let admission = admission.unwrap_or_else(|| welcome(0, 15_000, None));
        let reply = match self.sessions.open(&request.payload, &admission) {
            Opened::Answered(reply) => reply,
            Opened::Began(_, reply) => {
                behaviour.sessions += 1;
                reply
            }
            Opened::Request(asked, plain) => {
                behaviour.asked.push(decode(&plain).unwrap());
                let act = behaviour.acts.pop_front();
                match act.expect("more was asked than the behaviour has") {
                    Act::Answer(reply) => self.sessions.seal(&asked, &encode(&reply)),
                    // The handle is dropped.
                    Act::Lose => return,
                    Act::Forget => {
                        self.sessions.retain(|id| *id != asked.session);
                        refusal(Some(&asked), Refusal::UnknownSession)
                    }
                }
            }
        };
        request.reply.send(reply).unwrap();
    }
}
