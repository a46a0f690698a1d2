//! A master over the in-memory transport, and peers that talk to its listener.

pub mod on_path;
pub mod runner;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use saline_channel::noise::InitiatorKeys;
use saline_channel::publication::{Content, topic_all, topic_of};
use saline_channel::{
    ChannelError, Credentials, Established, Identity, MasterKeys, MasterTrust, NoiseKey,
    PublicationOpener, establish,
};
use saline_config::{MasterConfig, Paths};
use saline_data::{Packed, Value};
use saline_inproc::InProc;
use saline_master::Master;
use saline_messages::{
    Admission, Class, ExpiryAck, GroupKeyMaterial, Heartbeat, Job, JobAccount, KeyAction, KeyEntry,
    KeyRequest, KeyState, Known, MinionId, MinionReply, MinionRequest, OperatorReply,
    OperatorRequest, ProtocolVersions, PublishRequest, Published, Reconciliation, RequestId,
    Return, ReturnVerdict, Role, StartId,
};
use saline_protocol::transport::{
    Client, Clock, Context, Delivery, Endpoint, ErrorKind, HostPort, Registry, Subscriber, Topic,
    TopicFilter,
};
use saline_targeting::Target;

/// Keys that were made for a peer of this name.
pub fn credentials(role: Role, id: &str) -> Credentials {
    Credentials {
        role,
        id: id.into(),
        identity: Arc::new(Identity::generate().unwrap()),
        noise: NoiseKey::generate().unwrap(),
        versions: ProtocolVersions::OURS,
    }
}

/// What a peer shows in a handshake that it began then, in nanoseconds since 1970.
pub fn initiator_keys(credentials: &Credentials, attempted: u64) -> InitiatorKeys<'_> {
    InitiatorKeys {
        role: credentials.role,
        id: &credentials.id,
        identity: &credentials.identity,
        noise: &credentials.noise,
        certificate: None,
        versions: ProtocolVersions::OURS,
        attempted,
    }
}

/// The time now in nanoseconds since 1970.
pub fn now() -> u64 {
    let since = Clock.wall().duration_since(UNIX_EPOCH).unwrap();
    since.as_nanos().try_into().unwrap()
}

pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Deployment {
    pub master: Master,
    pub config: MasterConfig,
    pub registry: Registry,
    _root: tempfile::TempDir,
}

pub struct Peer {
    pub client: Arc<dyn Client>,
    pub established: Established,
    pub credentials: Credentials,
    /// What the minion says as the id of its start.
    pub start: [u8; 16],
}

pub struct Listener {
    pub subscriber: Box<dyn Subscriber>,
    pub opener: PublicationOpener,
}

impl Deployment {
    pub async fn start(auto_accept: bool) -> Self {
        Self::start_with(|config| config.auto_accept = auto_accept).await
    }

    pub async fn start_with(change: impl FnOnce(&mut MasterConfig)) -> Self {
        Self::start_as(change, ProtocolVersions::OURS).await
    }

    pub async fn start_with_versions(auto_accept: bool, versions: ProtocolVersions) -> Self {
        Self::start_as(|config| config.auto_accept = auto_accept, versions).await
    }

    async fn start_as(change: impl FnOnce(&mut MasterConfig), versions: ProtocolVersions) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut config = MasterConfig::default();
        config.paths = Paths::master().under(root.path());
        change(&mut config);
        let registry = Registry::new().with(InProc::new());
        let master = Master::start_with_versions(config.clone(), &registry, versions).await;
        Self {
            master: master.unwrap(),
            config,
            registry,
            _root: root,
        }
    }

    /// Stops the master, and starts it again after `meanwhile`.
    pub async fn restart(self, meanwhile: impl FnOnce(&mut MasterConfig)) -> Self {
        let Self {
            master,
            mut config,
            registry,
            _root,
        } = self;
        master.shutdown(TEST_TIMEOUT).await;
        meanwhile(&mut config);
        let master = Master::start(config.clone(), &registry).await.unwrap();
        Self {
            master,
            config,
            registry,
            _root,
        }
    }

    pub async fn client(&self, endpoint: &Endpoint) -> Arc<dyn Client> {
        let transport = self.registry.get("inproc").unwrap();
        transport
            .connect(endpoint, Context::default())
            .await
            .unwrap()
    }

    pub async fn network(&self) -> Arc<dyn Client> {
        let at = HostPort::new(&self.config.interface, self.config.ret_port);
        self.client(&Endpoint::network("inproc", at)).await
    }

    pub fn master_keys(&self) -> MasterKeys {
        let path = self.config.paths.pki_dir.join("identity.pub");
        MasterKeys::read(&path).unwrap().unwrap()
    }

    pub async fn operator(&self) -> Peer {
        let endpoint = Endpoint::local("inproc", self.config.local_requests());
        let credentials = Credentials {
            role: Role::Operator,
            id: "root".into(),
            identity: Arc::new(Identity::read(&self.config.root_key()).unwrap()),
            noise: NoiseKey::generate().unwrap(),
            versions: ProtocolVersions::OURS,
        };
        let trust = MasterTrust::Pinned(self.master_keys());
        let operator = Peer::come(self.client(&endpoint).await, credentials, &trust).await;
        // The master forgets a session that is not used within a few seconds.
        operator.order(OperatorRequest::LastSeen(Vec::new())).await;
        operator
    }

    pub async fn minion(&self, id: &str) -> Peer {
        let credentials = Credentials {
            role: Role::Minion,
            id: id.into(),
            identity: Arc::new(Identity::generate().unwrap()),
            noise: NoiseKey::generate().unwrap(),
            versions: ProtocolVersions::OURS,
        };
        let trust = MasterTrust::FirstUse { finger: None };
        let peer = Peer::come(self.network().await, credentials, &trust).await;
        if peer.established.answer.is_accepted() {
            peer.reconcile().await;
        }
        peer
    }
}

impl Peer {
    pub async fn come(
        client: Arc<dyn Client>,
        credentials: Credentials,
        trust: &MasterTrust,
    ) -> Self {
        let established = establish(&*client, &credentials, trust, Clock.after(TEST_TIMEOUT))
            .await
            .unwrap();
        Self {
            client,
            start: Identity::generate().unwrap().public().0[..16]
                .try_into()
                .unwrap(),
            established,
            credentials,
        }
    }

    pub async fn try_ask(&self, request: &MinionRequest) -> Result<MinionReply, ChannelError> {
        let deadline = Clock.after(TEST_TIMEOUT);
        let session = &self.established.session;
        session
            .ask(&*self.client, Class::Event, request, deadline)
            .await
    }

    pub async fn ask(&self, request: MinionRequest) -> MinionReply {
        self.try_ask(&request).await.unwrap()
    }

    /// Asks in a session that has ended. Its connection is cut a moment later: what is under way then is lost, and
    /// asked again over the next one.
    pub async fn ask_in_ended_session(&self, request: &MinionRequest) -> MinionReply {
        loop {
            match self.try_ask(request).await {
                Err(ChannelError::Transport(error))
                    if error.kind() == ErrorKind::ConnectionLost => {}
                asked => return asked.unwrap(),
            }
        }
    }

    /// Reconciles as a minion that knows nothing of what the master asks for, and is present then.
    pub async fn reconcile(&self) {
        let mut accounts = Vec::new();
        loop {
            let request = MinionRequest::Reconcile(Reconciliation {
                start: StartId(self.start),
                predecessors: Vec::new(),
                predecessor_ended: false,
                power_lost: false,
                heartbeats_before: 0,
                heartbeat: Heartbeat {
                    running: Vec::new(),
                    waiting: 0,
                    epoch: self.group().epoch,
                    heartbeats_noted: 0,
                    expiry: ExpiryAck::default(),
                },
                accounts: std::mem::take(&mut accounts),
            });
            let MinionReply::Reconciled(reply) = self.ask(request).await else {
                panic!("it was not reconciled");
            };
            if reply.asked.is_empty() {
                return;
            }
            accounts.extend(reply.asked.into_iter().map(|jid| JobAccount {
                jid,
                known: Known::No,
            }));
        }
    }

    pub async fn order(&self, request: OperatorRequest) -> OperatorReply {
        let deadline = Clock.after(TEST_TIMEOUT);
        let session = &self.established.session;
        session
            .ask(&*self.client, Class::Event, &request, deadline)
            .await
            .unwrap()
    }

    pub async fn act(&self, action: KeyAction, state: KeyState, id: &str) -> usize {
        let OperatorReply::Keys(listed) = self.order(OperatorRequest::Keys(KeyRequest::List)).await
        else {
            panic!("the keys were not listed");
        };
        let is_it = |key: &KeyEntry| key.state == state && key.id.as_str() == id;
        let Some(shown) = listed.keys.into_iter().find(is_it) else {
            return 0;
        };
        self.act_on(action, vec![shown]).await
    }

    /// Does this to the keys as they were shown. Returns the number of those that were changed.
    pub async fn act_on(&self, action: KeyAction, keys: Vec<KeyEntry>) -> usize {
        let request = KeyRequest::Act {
            request_id: RequestId::random().unwrap(),
            action,
            keys,
        };
        match self.order(OperatorRequest::Keys(request)).await {
            OperatorReply::Keys(reply) => reply.keys.len(),
            other => panic!("{other:?}"),
        }
    }

    pub async fn publish(&self, target: &str) -> Published {
        self.publish_as(target, RequestId::random().unwrap()).await
    }

    pub async fn publish_as(&self, target: &str, request_id: RequestId) -> Published {
        self.publish_job(target, request_id, None).await
    }

    /// Publishes a job that waits as long for minions that are away.
    pub async fn publish_within(&self, target: &str, ttl: Duration) -> Published {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap();
        let request_id = RequestId::random().unwrap();
        self.publish_job(target, request_id, Some(ttl_ms)).await
    }

    async fn publish_job(
        &self,
        target: &str,
        request_id: RequestId,
        ttl_ms: Option<u64>,
    ) -> Published {
        let request = OperatorRequest::Publish(PublishRequest {
            ttl_ms,
            ..PublishRequest::new(request_id, Target::glob(target), "test.ping", "root")
        });
        match self.order(request).await {
            OperatorReply::Published(published) => published,
            other => panic!("{other:?}"),
        }
    }

    pub fn group(&self) -> GroupKeyMaterial {
        match &self.established.answer {
            Admission::Accepted(welcome) => welcome.group.clone().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub fn id(&self) -> MinionId {
        MinionId::parse(&self.credentials.id).unwrap()
    }

    /// Subscribes to the events below a topic of the bus.
    pub async fn events(&self, topic: &str) -> Box<dyn Subscriber> {
        let filter = TopicFilter::Prefix(Topic::parse(topic).unwrap());
        let deadline = Clock.after(TEST_TIMEOUT);
        let subscribed = self.client.subscribe(None, vec![filter], deadline).await;
        subscribed.unwrap()
    }

    pub async fn listen(&self) -> Listener {
        let topics = vec![
            TopicFilter::Exact(topic_all()),
            TopicFilter::Exact(topic_of(&self.id())),
        ];
        let deadline = Clock.after(TEST_TIMEOUT);
        Listener {
            subscriber: self.client.subscribe(None, topics, deadline).await.unwrap(),
            opener: self.established.session.opener(&self.id(), &self.group()),
        }
    }

    pub async fn pending(&self) -> Vec<Job> {
        match self
            .ask(MinionRequest::PendingJobs {
                after: None,
                bytes: u64::MAX,
            })
            .await
        {
            MinionReply::Jobs(page) => page.jobs.into_iter().map(|signed| signed.job).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub async fn give_back(&self, job: &Job) -> ReturnVerdict {
        let returned = Return {
            jid: job.jid.clone(),
            fun: job.fun.clone(),
            retcode: 0,
            success: true,
            payload: Packed::pack(&Value::Bool(true)),
        };
        match self.ask(MinionRequest::Returns(vec![returned])).await {
            MinionReply::Verdicts(verdicts) => verdicts[0],
            other => panic!("{other:?}"),
        }
    }
}

impl Listener {
    /// Receives the next publication and opens it as this minion.
    pub async fn next(&mut self) -> Content {
        let next = Clock.deadline(Clock.after(TEST_TIMEOUT), self.subscriber.next());
        match next.await.unwrap().unwrap() {
            Delivery::Message { topic, payload } => {
                self.opener.open(&topic, &payload).unwrap().content
            }
            other => panic!("{other:?}"),
        }
    }

    pub async fn job(&mut self) -> Job {
        match self.next().await {
            Content::Job(job, _) => job,
            other => panic!("{other:?}"),
        }
    }
}
