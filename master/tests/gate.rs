//! The gate and the verbs behind it, over the in-memory transport.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use saline_config::{MasterConfig, Paths};
use saline_inproc::InProc;
use saline_master::Master;
use saline_protocol::channel::noise::{InitiatorKeys, Resumption};
use saline_protocol::channel::publication::{Content, topic_all, topic_of};
use saline_protocol::channel::{
    ChannelError, Credentials, Established, Identity, MasterKeys, MasterTrust, NoiseKey,
    PublicationOpener, establish,
};
use saline_protocol::message::{
    Admission, Arguments, Class, GroupKeyMaterial, Header, Jid, Job, KeyAction, KeyRequest,
    KeyState, Kind, MinionId, MinionReply, MinionRequest, OfferState, OperatorReply,
    OperatorRequest, Packed, PeerVersion, ProtocolVersions, Published, RETURNS_MOST, Refusal,
    RefusedVerb, RequestId, Return, ReturnVerdict, Role, SOFTWARE, Value,
};
use saline_protocol::target::Target;
use saline_protocol::transport::{
    Client, Clock, Context, Delivery, Endpoint, HostPort, Registry, Subscriber, TopicFilter,
};

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

struct Deployment {
    master: Master,
    config: MasterConfig,
    registry: Registry,
    _root: tempfile::TempDir,
}

struct Peer {
    client: Arc<dyn Client>,
    established: Established,
    credentials: Credentials,
}

struct Listener {
    subscriber: Box<dyn Subscriber>,
    opener: PublicationOpener,
}

impl Deployment {
    async fn start(auto_accept: bool) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut config = MasterConfig::default();
        config.paths = Paths::master().under(root.path());
        config.auto_accept = auto_accept;
        let registry = Registry::new().with(InProc::new());
        let master = Master::start(config.clone(), &registry).await.unwrap();
        Self {
            master,
            config,
            registry,
            _root: root,
        }
    }

    async fn client(&self, endpoint: &Endpoint) -> Arc<dyn Client> {
        let transport = self.registry.get("inproc").unwrap();
        transport
            .connect(endpoint, Context::default())
            .await
            .unwrap()
    }

    async fn network(&self) -> Arc<dyn Client> {
        let at = HostPort::new(&self.config.interface, self.config.ret_port);
        self.client(&Endpoint::network("inproc", at)).await
    }

    fn master_keys(&self) -> MasterKeys {
        let path = self.config.paths.pki_dir.join("identity.pub");
        MasterKeys::read(&path).unwrap().unwrap()
    }

    async fn operator(&self) -> Peer {
        let endpoint = Endpoint::local("inproc", self.config.local_requests());
        let credentials = Credentials {
            role: Role::Operator,
            id: "root".into(),
            identity: Arc::new(Identity::read(&self.config.root_key()).unwrap()),
            noise: NoiseKey::generate().unwrap(),
            versions: ProtocolVersions::OURS,
        };
        let trust = MasterTrust::Pinned(self.master_keys());
        Peer::come(self.client(&endpoint).await, credentials, &trust).await
    }

    async fn minion(&self, id: &str) -> Peer {
        let credentials = Credentials {
            role: Role::Minion,
            id: id.into(),
            identity: Arc::new(Identity::generate().unwrap()),
            noise: NoiseKey::generate().unwrap(),
            versions: ProtocolVersions::OURS,
        };
        let trust = MasterTrust::FirstUse { finger: None };
        Peer::come(self.network().await, credentials, &trust).await
    }
}

impl Peer {
    async fn come(client: Arc<dyn Client>, credentials: Credentials, trust: &MasterTrust) -> Self {
        let established = establish(&*client, &credentials, trust, Clock.after(TEST_TIMEOUT))
            .await
            .unwrap();
        Self {
            client,
            established,
            credentials,
        }
    }

    async fn try_ask(&self, request: &MinionRequest) -> Result<MinionReply, ChannelError> {
        let deadline = Clock.after(TEST_TIMEOUT);
        let session = &self.established.session;
        session
            .ask(&*self.client, Class::Event, request, deadline)
            .await
    }

    async fn ask(&self, request: MinionRequest) -> MinionReply {
        self.try_ask(&request).await.unwrap()
    }

    async fn order(&self, request: OperatorRequest) -> OperatorReply {
        let deadline = Clock.after(TEST_TIMEOUT);
        let session = &self.established.session;
        session
            .ask(&*self.client, Class::Event, &request, deadline)
            .await
            .unwrap()
    }

    async fn act(&self, action: KeyAction, state: KeyState, id: &str) -> usize {
        let request = KeyRequest::Act {
            request_id: RequestId::random().unwrap(),
            action,
            keys: vec![(state, MinionId::parse(id).unwrap())],
        };
        match self.order(OperatorRequest::Keys(request)).await {
            OperatorReply::Keys(reply) => reply.keys.len(),
            other => panic!("{other:?}"),
        }
    }

    async fn publish(&self, target: &str) -> Published {
        self.publish_as(target, RequestId::random().unwrap()).await
    }

    async fn publish_as(&self, target: &str, request_id: RequestId) -> Published {
        let request = OperatorRequest::Publish {
            request_id,
            target: Target::glob(target),
            fun: "test.ping".into(),
            arg: Arguments::default().pack(),
            user: "root".into(),
        };
        match self.order(request).await {
            OperatorReply::Published(published) => published,
            other => panic!("{other:?}"),
        }
    }

    fn group(&self) -> GroupKeyMaterial {
        match &self.established.answer {
            Admission::Accepted(welcome) => welcome.group.clone().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn id(&self) -> MinionId {
        MinionId::parse(&self.credentials.id).unwrap()
    }

    async fn listen(&self) -> Listener {
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

    async fn pending(&self) -> Vec<Job> {
        match self.ask(MinionRequest::PendingJobs).await {
            MinionReply::Jobs(jobs) => jobs.into_iter().map(|signed| signed.job).collect(),
            other => panic!("{other:?}"),
        }
    }

    async fn give_back(&self, job: &Job) -> ReturnVerdict {
        let returned = Return {
            jid: job.jid.clone(),
            fun: job.fun.clone(),
            fun_args: job.arg.clone(),
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
    /// What comes next and is meant for this minion.
    async fn next(&mut self) -> Content {
        let next = Clock.deadline(Clock.after(TEST_TIMEOUT), self.subscriber.next());
        match next.await.unwrap().unwrap() {
            Delivery::Message { topic, payload } => {
                self.opener.open(&topic, &payload).unwrap().content
            }
            other => panic!("{other:?}"),
        }
    }

    async fn job(&mut self) -> Job {
        match self.next().await {
            Content::Job(job) => job,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_key_waits_is_accepted_and_a_job_walks() {
    let deployment = Deployment::start(false).await;
    let operator = deployment.operator().await;
    let mut minion = deployment.minion("m1").await;
    assert_eq!(minion.established.answer, Admission::Pending);
    // It may poll, and nothing else.
    assert_eq!(
        minion.ask(MinionRequest::Poll).await,
        MinionReply::Auth(Admission::Pending)
    );
    assert_eq!(
        minion.ask(MinionRequest::PendingJobs).await,
        MinionReply::Refused(RefusedVerb::Malformed)
    );
    let accepted = operator.act(KeyAction::Accept, KeyState::Pending, "m1");
    assert_eq!(accepted.await, 1);
    match minion.ask(MinionRequest::Poll).await {
        MinionReply::Auth(answer @ Admission::Accepted(_)) => minion.established.answer = answer,
        other => panic!("{other:?}"),
    }

    let mut listener = minion.listen().await;
    let published = operator.publish("*").await;
    assert_eq!(published.minions, [(minion.id(), OfferState::Offered)]);
    let job = listener.job().await;
    assert_eq!(Some(&job.jid), published.jid.as_ref());
    assert_eq!(minion.give_back(&job).await, ReturnVerdict::Stored);
    assert_eq!(minion.give_back(&job).await, ReturnVerdict::Duplicate);
    let request = OperatorRequest::JobReturns {
        jid: job.jid,
        after: None,
    };
    match operator.order(request).await {
        OperatorReply::Returns(page) => {
            assert_eq!(page.states, [(minion.id(), OfferState::Returned)]);
            assert_eq!(page.returns.len(), 1);
        }
        other => panic!("{other:?}"),
    }
    deployment.master.shutdown(TEST_TIMEOUT).await;
}

#[tokio::test]
async fn the_same_request_publishes_once() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let mut listener = minion.listen().await;
    let request = RequestId::random().unwrap();
    let first = operator.publish_as("*", request).await;
    let again = operator.publish_as("*", request).await;
    assert_eq!(first, again);
    let other = operator.publish("*").await;
    assert_eq!(Some(listener.job().await.jid), first.jid);
    assert_eq!(Some(listener.job().await.jid), other.jid);
}

#[tokio::test]
async fn a_deleted_key_ends_its_session_at_once_and_the_others_get_a_new_group_key() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let (gone, stays) = (
        deployment.minion("gone").await,
        deployment.minion("stays").await,
    );
    let mut listener = stays.listen().await;
    let before = stays.group().epoch;
    let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "gone");
    assert_eq!(deleted.await, 1);
    assert_eq!(listener.next().await, Content::NewEpoch(before + 1));
    assert_eq!(
        gone.ask(MinionRequest::PendingJobs).await,
        MinionReply::Refused(RefusedVerb::KeyGone)
    );
    // And nobody had to authenticate again.
    operator.publish("*").await;
    assert_eq!(listener.job().await.fun, "test.ping");
}

#[tokio::test]
async fn another_key_under_a_known_id_is_denied() {
    let deployment = Deployment::start(true).await;
    let first = deployment.minion("m1").await;
    let second = deployment.minion("m1").await;
    assert_eq!(second.established.answer, Admission::Denied);
    assert_eq!(first.pending().await, []);
}

#[tokio::test]
async fn a_minion_gives_no_orders_and_an_operator_needs_the_root_key() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let session = &minion.established.session;
    let order = OperatorRequest::Keys(KeyRequest::List);
    let deadline = Clock.after(TEST_TIMEOUT);
    let reply: MinionReply = session
        .ask(&*minion.client, Class::Event, &order, deadline)
        .await
        .unwrap();
    // Its bytes are read as what a minion may ask, whatever that is; no key is ever told.
    assert_eq!(reply, MinionReply::Refused(RefusedVerb::Malformed));

    let trust = MasterTrust::Pinned(deployment.master_keys());
    let mut credentials = Credentials {
        role: Role::Operator,
        id: "root".into(),
        identity: Arc::new(Identity::generate().unwrap()),
        noise: NoiseKey::generate().unwrap(),
        versions: ProtocolVersions::OURS,
    };
    let stranger = Peer::come(deployment.network().await, credentials.clone(), &trust).await;
    assert_eq!(stranger.established.answer, Admission::Rejected);
    // The right key over the network is not enough either: it is the local operator's.
    credentials.identity = Arc::new(Identity::read(&deployment.config.root_key()).unwrap());
    let remote = Peer::come(deployment.network().await, credentials, &trust).await;
    assert_eq!(remote.established.answer, Admission::Rejected);
}

#[tokio::test]
async fn the_highest_common_version_is_spoken_and_none_is_refused_with_what_to_do() {
    let deployment = Deployment::start(true).await;
    let come = async |id: &str, lowest, highest, trust: MasterTrust| {
        let credentials = Credentials {
            role: Role::Minion,
            id: id.into(),
            identity: Arc::new(Identity::generate().unwrap()),
            noise: NoiseKey::generate().unwrap(),
            versions: ProtocolVersions { lowest, highest },
        };
        Peer::come(deployment.network().await, credentials, &trust).await
    };
    let first_use = || MasterTrust::FirstUse { finger: None };
    // A successor that still speaks what this master speaks.
    let newer = come("newer", 1, 2, first_use()).await;
    let Admission::Accepted(welcome) = &newer.established.answer else {
        panic!("{:?}", newer.established.answer);
    };
    assert_eq!(welcome.master.protocol, 1);
    assert_eq!(welcome.master.software, SOFTWARE);
    let poll = newer.ask(MinionRequest::PendingJobs).await;
    assert!(matches!(poll, MinionReply::Jobs(_)), "{poll:?}");
    // One that does not, at its first contact and when it knows the master.
    let known = || MasterTrust::Pinned(deployment.master_keys());
    for trust in [first_use(), known()] {
        let newest = come("newest", 2, 3, trust).await;
        let refused = Admission::NoCommonVersion {
            versions: ProtocolVersions::OURS,
            software: SOFTWARE.to_owned(),
        };
        assert_eq!(newest.established.answer, refused);
        // Asking again in the session that told it changes nothing.
        let poll = newest.ask(MinionRequest::Poll).await;
        assert_eq!(poll, MinionReply::Auth(refused));
    }
    // Its key was not noted: there is no minion of that name.
    let operator = deployment.operator().await;
    let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "newest");
    assert_eq!(deleted.await, 0);
    let versions = operator.order(OperatorRequest::Versions).await;
    let OperatorReply::Versions(fleet) = versions else {
        panic!("{versions:?}");
    };
    let ours = PeerVersion {
        protocol: 1,
        software: SOFTWARE.to_owned(),
    };
    assert_eq!(fleet.minions, [(MinionId::parse("newer").unwrap(), ours)]);
}

#[tokio::test]
async fn more_returns_than_one_request_may_have_are_refused() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let returned = Return {
        jid: Jid::parse("20261121000000000001").unwrap(),
        fun: "test.ping".into(),
        fun_args: Arguments::default().pack(),
        retcode: 0,
        success: true,
        payload: Packed::pack(&Value::Bool(true)),
    };
    let most = vec![returned.clone(); RETURNS_MOST];
    let unknown = MinionReply::Verdicts(vec![ReturnVerdict::UnknownJob; RETURNS_MOST]);
    assert_eq!(
        minion.ask(MinionRequest::Returns(most.clone())).await,
        unknown
    );
    let more = [most, vec![returned]].concat();
    assert_eq!(
        minion.ask(MinionRequest::Returns(more)).await,
        MinionReply::Refused(RefusedVerb::Malformed)
    );
}

#[tokio::test]
async fn an_envelope_of_another_version_is_refused_as_that() {
    let deployment = Deployment::start(true).await;
    let client = deployment.network().await;
    let mut message = Header::bare(Kind::First, Class::First)
        .with_body(&[1; 40])
        .to_vec();
    message[0] = 9;
    let reply = client
        .request(message.into(), Clock.after(TEST_TIMEOUT))
        .await;
    let reply = reply.unwrap();
    let (header, body) = Header::decode(&reply).unwrap();
    assert_eq!(header.kind, Kind::Refused);
    assert_eq!(Refusal::from_body(body), Refusal::Version);
}

#[tokio::test]
async fn a_captured_resume_takes_nobodys_place() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let keys = InitiatorKeys {
        role: Role::Minion,
        id: "m1",
        identity: &minion.credentials.identity,
        noise: &minion.credentials.noise,
        certificate: None,
        versions: ProtocolVersions::OURS,
    };
    let (_, body) = Resumption::begin(keys, &deployment.master_keys().noise.unwrap()).unwrap();
    let captured = Header::bare(Kind::Resume, Class::Resume).with_body(&body);
    for _ in 0..3 {
        let reply = minion
            .client
            .request(captured.clone(), Clock.after(TEST_TIMEOUT))
            .await
            .unwrap();
        assert_eq!(Header::decode(&reply).unwrap().0.kind, Kind::ResumeReply);
    }
    // The session that stood before still stands.
    assert_eq!(minion.pending().await, []);
}

#[tokio::test]
async fn a_new_session_takes_the_place_of_the_old_one_which_is_told() {
    let deployment = Deployment::start(true).await;
    let old = deployment.minion("m1").await;
    let trust = MasterTrust::Pinned(old.established.master);
    let new = Peer::come(deployment.network().await, old.credentials.clone(), &trust).await;
    // Until it speaks nothing has changed.
    assert_eq!(old.pending().await, []);
    assert_eq!(new.pending().await, []);
    assert_eq!(
        old.ask(MinionRequest::PendingJobs).await,
        MinionReply::Refused(RefusedVerb::Replaced)
    );
}

#[tokio::test]
async fn what_was_missed_is_caught_up_by_those_it_was_offered_to() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    assert_eq!(minion.pending().await, []);
    let published = operator.publish("m*").await;
    let jobs = minion.pending().await;
    assert_eq!(Some(&jobs[0].jid), published.jid.as_ref());
    // Nobody else gets it, nor may return it.
    let other = deployment.minion("other").await;
    assert_eq!(other.pending().await, []);
    assert_eq!(other.give_back(&jobs[0]).await, ReturnVerdict::NotOffered);
    assert_eq!(minion.give_back(&jobs[0]).await, ReturnVerdict::Stored);
    assert_eq!(minion.pending().await, []);
}

#[tokio::test]
async fn garbage_is_refused_and_costs_nobody_anything() {
    let deployment = Deployment::start(true).await;
    let client = deployment.network().await;
    let mut unknown_session = vec![1, 8];
    unknown_session.extend([7; 16]);
    unknown_session.extend([3, 0, 0, 0, 0, 0, 0, 0, 0]);
    let too_long = Header::bare(Kind::First, Class::First).with_body(&[1; 70_000]);
    for bytes in [
        Vec::new(),
        vec![0xff; 100],
        vec![1; 27],
        unknown_session,
        too_long.to_vec(),
    ] {
        let reply = client
            .request(bytes.into(), Clock.after(TEST_TIMEOUT))
            .await
            .unwrap();
        assert_eq!(Header::decode(&reply).unwrap().0.kind, Kind::Refused);
    }
    let minion = deployment.minion("m1").await;
    assert!(matches!(minion.established.answer, Admission::Accepted(_)));
}

#[tokio::test]
async fn a_session_does_not_outlive_its_master() {
    let mut deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    deployment.master.shutdown(TEST_TIMEOUT).await;
    deployment.master = Master::start(deployment.config.clone(), &deployment.registry)
        .await
        .unwrap();
    let refused = minion.try_ask(&MinionRequest::PendingJobs).await;
    assert!(
        matches!(refused, Err(ChannelError::Refused(Refusal::UnknownSession))),
        "{refused:?}"
    );
    let trust = MasterTrust::Pinned(minion.established.master);
    let again = Peer::come(minion.client, minion.credentials, &trust).await;
    assert!(matches!(again.established.answer, Admission::Accepted(_)));
}

#[tokio::test]
async fn a_captured_resume_does_not_bring_a_deleted_key_back() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let keys = InitiatorKeys {
        role: Role::Minion,
        id: "m1",
        identity: &minion.credentials.identity,
        noise: &minion.credentials.noise,
        certificate: None,
        versions: ProtocolVersions::OURS,
    };
    let (_, body) = Resumption::begin(keys, &deployment.master_keys().noise.unwrap()).unwrap();
    let captured = Header::bare(Kind::Resume, Class::Resume).with_body(&body);
    let deleted = operator.act(KeyAction::Delete, KeyState::Accepted, "m1");
    assert_eq!(deleted.await, 1);
    let reply = minion
        .client
        .request(captured, Clock.after(TEST_TIMEOUT))
        .await
        .unwrap();
    assert_eq!(Header::decode(&reply).unwrap().0.kind, Kind::Refused);
    match operator
        .order(OperatorRequest::Keys(KeyRequest::List))
        .await
    {
        OperatorReply::Keys(reply) => assert_eq!(reply.keys, []),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_a_minion_fires_is_bounded() {
    let deployment = Deployment::start(true).await;
    let minion = deployment.minion("m1").await;
    let fire = |tag: &str, data: Packed| MinionRequest::FireEvent {
        request_id: RequestId::random().unwrap(),
        tag: tag.into(),
        data,
    };
    let empty = Packed::pack(&Value::Map(Vec::new()));
    let large = Packed::from_bytes(vec![0xc0; 70_000]);
    assert_eq!(
        minion.ask(fire("start", empty.clone())).await,
        MinionReply::Done
    );
    for request in [
        fire("start", large),
        fire("a b", empty.clone()),
        fire("", empty),
    ] {
        assert_eq!(
            minion.ask(request).await,
            MinionReply::Refused(RefusedVerb::BadEvent)
        );
    }
}
