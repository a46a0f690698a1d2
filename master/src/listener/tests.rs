//! What peers of several addresses may ask of a listener: none keeps those of another source out.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use saline_channel::noise::{FirstContact, InitiatorKeys, Resumption};
use saline_channel::{
    ChannelError, Credentials, Established, Identity, MasterKeys, MasterTrust, NoiseKey, establish,
};
use saline_messages::{
    CallerReply, CallerRequest, Class, ExpiryAck, GrainsReport, Heartbeat, Jid, MinionEvents,
    MinionId, MinionReply, MinionRequest, Outgoing, ProtocolVersions, Reconciliation, ReturnPart,
    Role, StartId,
};
use saline_protocol::transport::{
    Client, Endpoint, Instant, Result, Source, Subscriber, TopicFilter,
};

use super::*;
use crate::parts::testing::TestMaster;
use crate::sessions::MAX_UNPROVEN;

/// The requests of one source that are carried out at once, and in a second.
const BURST: usize = 384;
const PER_SECOND: usize = 100;

struct TestListener {
    master: TestMaster,
    listener: Arc<Listener>,
    /// The listener of the local endpoint.
    local: Arc<Listener>,
    keys: MasterKeys,
}

impl TestListener {
    async fn start(change: impl FnOnce(&mut saline_config::MasterConfig)) -> Self {
        let master = TestMaster::start(change).await;
        let noise = NoiseKey::generate().unwrap();
        let keys = MasterKeys {
            identity: master.identity.public(),
            noise: Some(noise.public()),
        };
        let handlers = Arc::new(Handlers::of(&master.state, Clock));
        let listener = |listener, kind| {
            Arc::new(Listener::new(
                Arc::clone(&handlers),
                Responder::new(Arc::clone(&master.identity), noise.clone(), None),
                listener,
                kind,
                PublicationAddress::SameConnection,
                Arc::clone(&master.control),
            ))
        };
        Self {
            listener: listener(0, ListenerKind::Network),
            local: listener(1, ListenerKind::Local),
            master,
            keys,
        }
    }

    /// Has each poll answered at once, so that what it answers is seen.
    fn hold_no_polls(&self) {
        self.listener.handlers.waiting.close();
    }

    /// Returns a client at 192.0.2.`source`.
    fn at(&self, source: u8) -> AtGate {
        AtGate {
            listener: Arc::clone(&self.listener),
            peer: Peer::at(source.into(), SocketAddr::from(([192, 0, 2, source], 1))),
            sent: Mutex::default(),
        }
    }

    /// A minion at 192.0.2.`source` makes its first contact.
    async fn minion(&self, source: u8, id: &str) -> Minion {
        let trust = MasterTrust::FirstUse { finger: None };
        let made = self.contact(source, credentials(Role::Minion, id), &trust);
        made.await.unwrap()
    }

    async fn contact(
        &self,
        source: u8,
        credentials: Credentials,
        trust: &MasterTrust,
    ) -> std::result::Result<Minion, ChannelError> {
        let client = self.at(source);
        let deadline = Clock.after(Duration::from_secs(30));
        let established = establish(&client, &credentials, trust, deadline).await?;
        Ok(Minion {
            client,
            credentials,
            established,
        })
    }

    /// Sends first contacts that nobody goes on with from 192.0.2.`source`, until it may make no more. Returns how many
    /// were answered.
    async fn leave_first_contacts_unfinished(&self, source: u8) -> usize {
        let peer = self.at(source).peer;
        let stranger = credentials(Role::Minion, "stranger");
        let (_, body) = FirstContact::begin(initiator(&stranger, 1)).unwrap();
        let message = Header::bare(Kind::First, Class::First).with_body(&body);
        let mut answered = 0;
        while self.kind_of_answer(peer, &message).await == Kind::FirstReply {
            answered += 1;
        }
        answered
    }

    async fn kind_of_answer(&self, peer: Peer, message: &[u8]) -> Kind {
        let reply = self.listener.respond(peer, message).await;
        Header::decode(&reply).unwrap().0.kind
    }

    /// Sends a resume that nobody goes on with, from 192.0.2.`source`. Returns the kind of the answer.
    async fn resume(&self, source: u8, credentials: &Credentials, attempted: u64) -> Kind {
        let peer = self.at(source).peer;
        self.resume_at(&self.listener, peer, credentials, attempted)
            .await
    }

    async fn resume_at(
        &self,
        listener: &Listener,
        peer: Peer,
        credentials: &Credentials,
        attempted: u64,
    ) -> Kind {
        let keys = initiator(credentials, attempted);
        let (_, body) = Resumption::begin(keys, &self.keys.noise.unwrap()).unwrap();
        let message = Header::bare(Kind::Resume, Class::Resume).with_body(&body);
        let reply = listener.respond(peer, &message).await;
        Header::decode(&reply).unwrap().0.kind
    }
}

/// A peer whose requests come to the listener from an address.
#[derive(Debug)]
struct AtGate {
    listener: Arc<Listener>,
    peer: Peer,
    /// The requests so far.
    sent: Mutex<Vec<Bytes>>,
}

#[async_trait]
impl Client for AtGate {
    async fn request(&self, payload: Bytes, _: Instant) -> Result<Bytes> {
        self.sent.lock().unwrap().push(payload.clone());
        Ok(self.listener.respond(self.peer, &payload).await)
    }

    async fn subscribe(
        &self,
        _: Option<&Endpoint>,
        _: Vec<TopicFilter>,
        _: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        unreachable!("nobody subscribes here")
    }

    async fn shutdown(&self, _: Duration) -> Result<()> {
        Ok(())
    }
}

struct Minion {
    client: AtGate,
    credentials: Credentials,
    established: Established,
}

impl Minion {
    async fn ask(&self, request: &MinionRequest) -> MinionReply {
        let deadline = Clock.after(Duration::from_secs(30));
        let session = &self.established.session;
        let asked = session.ask(&self.client, Class::Event, request, deadline);
        asked.await.unwrap()
    }

    async fn reconcile(&self) -> MinionReply {
        self.ask(&MinionRequest::Reconcile(reconciliation())).await
    }
}

fn heartbeat() -> Heartbeat {
    Heartbeat {
        running: Vec::new(),
        epoch: 0,
        begun: 0,
        expiry: ExpiryAck::default(),
    }
}

fn reconciliation() -> Reconciliation {
    Reconciliation {
        start: StartId([1; 16]),
        predecessors: Vec::new(),
        predecessor_ended: false,
        power_lost: false,
        heartbeat: heartbeat(),
        accounts: Vec::new(),
    }
}

fn credentials(role: Role, id: &str) -> Credentials {
    Credentials {
        role,
        id: id.to_owned(),
        identity: Arc::new(Identity::generate().unwrap()),
        noise: NoiseKey::generate().unwrap(),
        versions: ProtocolVersions::OURS,
    }
}

fn initiator(credentials: &Credentials, attempted: u64) -> InitiatorKeys<'_> {
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

fn now() -> u64 {
    let since = Clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_nanos().try_into().unwrap()
}

fn accept_all(config: &mut saline_config::MasterConfig) {
    config.auto_accept = true;
}

#[tokio::test]
async fn one_source_does_not_take_what_belongs_to_others() {
    let listener = TestListener::start(accept_all).await;
    let began = Clock.now();
    let answered = listener.leave_first_contacts_unfinished(1).await;
    let passed = (Clock.now() - began).as_secs_f64();
    let most = BURST + (passed * PER_SECOND as f64).ceil() as usize;
    assert!(
        (BURST..=most).contains(&answered),
        "{answered} in {passed} s"
    );
    listener.minion(2, "m1").await;
}

#[tokio::test]
async fn unfinished_first_contacts_of_a_few_sources_keep_no_other_source_out() {
    let listener = TestListener::start(accept_all).await;
    for source in 1..=3 {
        listener.leave_first_contacts_unfinished(source).await;
    }
    let source = |number| listener.at(number).peer.source;
    assert!(
        !listener.listener.pending_handshakes.has_room(source(3)),
        "it has a third"
    );
    listener.minion(4, "m1").await;
}

#[tokio::test]
async fn a_resume_takes_from_its_source_until_a_record_proves_that_it_is_no_replay() {
    let listener = TestListener::start(accept_all).await;
    let mut minions = Vec::new();
    for number in 0..80 {
        minions.push(listener.minion(1, &format!("m{number}")).await);
    }
    // Somebody on the path held their resumes back, and sends them all from its own address.
    let (began, mut answered) = (Clock.now(), 0);
    for round in 0..8 {
        for minion in &minions {
            let kind = listener.resume(2, &minion.credentials, now() + round).await;
            answered += usize::from(kind == Kind::ResumeReply);
        }
    }
    let passed = (Clock.now() - began).as_secs_f64();
    let most = BURST + (passed * PER_SECOND as f64).ceil() as usize;
    assert!(answered >= BURST, "{answered}");
    assert!(answered <= most.min(639), "{answered} in {passed} s");
}

#[tokio::test]
async fn a_fleet_behind_one_address_resumes_at_full_speed() {
    let listener = TestListener::start(accept_all).await;
    let mut minion = listener.minion(1, "m1").await;
    let trust = MasterTrust::Pinned(listener.keys);
    let began = Clock.now();
    let mut made = 0;
    // More than what comes back by itself in any case.
    while made < 2 * BURST + 2 * PER_SECOND * (Clock.now() - began).as_secs() as usize {
        let credentials = minion.credentials;
        minion = listener.contact(1, credentials, &trust).await.unwrap();
        let polled = minion.ask(&MinionRequest::Poll).await;
        assert!(matches!(polled, MinionReply::Auth(_)), "{polled:?}");
        made += 1;
    }
}

#[tokio::test]
async fn a_resume_that_the_master_was_too_busy_for_is_sent_again_as_it_was() {
    let listener = TestListener::start(accept_all).await;
    let minion = listener.minion(1, "m1").await;
    let mut others = Vec::new();
    for number in 0..80 {
        others.push(listener.minion(3, &format!("other{number}")).await);
    }
    // Sessions that nobody proves take all that the source may have.
    let mut resumes = (0..8).flat_map(|round| others.iter().map(move |other| (round, other)));
    while let Some((round, other)) = resumes.next()
        && listener.resume(2, &other.credentials, now() + round).await == Kind::ResumeReply
    {}
    assert!(resumes.next().is_some(), "the source may have no more");
    let trust = MasterTrust::Pinned(listener.keys);
    let made = listener
        .contact(2, minion.credentials, &trust)
        .await
        .unwrap();
    assert!(made.established.answer.is_accepted());
    let sent = made.client.sent.into_inner().unwrap();
    assert!(sent.len() >= 2, "the master was busy");
    assert!(sent.iter().all(|request| *request == sent[0]));
}

#[tokio::test]
async fn unproven_sessions_of_the_network_take_no_places_of_the_local_command_line() {
    let listener = TestListener::start(|_| {}).await;
    let folder = listener.master.pki_dir.join("operators");
    let operators: Vec<_> = (0..=MAX_UNPROVEN / 8)
        .map(|number| {
            let operator = credentials(Role::Operator, &format!("operator{number}"));
            let key = operator.identity.public().to_pem();
            std::fs::write(folder.join(&operator.id), key).unwrap();
            operator
        })
        .collect();
    // Eight of each key, and each from a source of its own.
    let mut answered = 0;
    for round in 0..8 {
        for (number, operator) in operators.iter().enumerate() {
            let source = u8::try_from(number).unwrap();
            let kind = listener.resume(source, operator, now() + round).await;
            answered += usize::from(kind == Kind::ResumeReply);
        }
    }
    assert_eq!(answered, MAX_UNPROVEN);
    let new = credentials(Role::Operator, "new");
    std::fs::write(folder.join(&new.id), new.identity.public().to_pem()).unwrap();
    assert_eq!(listener.resume(250, &new, now()).await, Kind::Busy);
    let peer = Peer::new(1, Source::User(0));
    let local = listener.resume_at(&listener.local, peer, &new, now());
    assert_eq!(local.await, Kind::ResumeReply);
}

#[tokio::test]
async fn a_session_whose_key_waits_polls_as_often_as_it_may() {
    let listener = TestListener::start(|_| {}).await;
    listener.hold_no_polls();
    let waits = listener.minion(1, "waits").await;
    let pending = MinionReply::Auth(Admission::Pending);
    let began = Clock.now();
    let mut answered = 0;
    let after_ms = loop {
        match waits.ask(&MinionRequest::Poll).await {
            MinionReply::Busy { after_ms } => break after_ms,
            reply => assert_eq!(reply, pending),
        }
        answered += 1;
        assert!(answered <= 20 + 10 * (1 + (Clock.now() - began).as_secs()));
    };
    assert!(answered >= 20 && after_ms <= 100, "{answered}, {after_ms}");
    // Others may poll meanwhile, and so may it when it has waited.
    let other = listener.minion(1, "other").await;
    assert_eq!(other.ask(&MinionRequest::Poll).await, pending);
    Clock.pause(Duration::from_millis(after_ms.into())).await;
    assert_eq!(waits.ask(&MinionRequest::Poll).await, pending);
}

#[tokio::test]
async fn polls_of_many_sessions_take_few_threads() {
    let listener = TestListener::start(|_| {}).await;
    listener.hold_no_polls();
    let waits = listener.minion(1, "waits").await;
    let polls = &listener.listener.handlers.polls;
    // As many read the keys.
    let mut reading = Vec::new();
    for _ in 0..16 {
        reading.push(polls.take(Source::User(0)).await.unwrap());
    }
    let poll = waits.ask(&MinionRequest::Poll);
    tokio::pin!(poll);
    tokio::select! {
        biased;
        reply = &mut poll => panic!("not in its turn: {reply:?}"),
        () = Clock.pause(Duration::from_millis(200)) => {}
    }
    drop(reading);
    assert_eq!(poll.await, MinionReply::Auth(Admission::Pending));
}

#[tokio::test]
async fn one_source_does_not_keep_new_minions_of_others_out() {
    let listener = TestListener::start(|config| config.max_pending_keys = 10).await;
    listener.hold_no_polls();
    let mut strangers = Vec::new();
    for number in 0..10 {
        strangers.push(listener.minion(1, &format!("stranger{number}")).await);
    }
    let more = listener.minion(1, "more").await;
    assert_eq!(more.established.answer, Admission::Full);
    // They keep their places by presenting their keys, all but one.
    for stranger in &strangers[1..] {
        let polled = stranger.ask(&MinionRequest::Poll).await;
        assert_eq!(polled, MinionReply::Auth(Admission::Pending));
    }
    let new = listener.minion(2, "new").await;
    assert_eq!(new.established.answer, Admission::Pending);
    let full = MinionReply::Auth(Admission::Full);
    assert_eq!(strangers[0].ask(&MinionRequest::Poll).await, full);
    for waits in strangers[1..].iter().chain([&new]) {
        let polled = waits.ask(&MinionRequest::Poll).await;
        assert_eq!(polled, MinionReply::Auth(Admission::Pending));
    }
}

#[tokio::test]
async fn a_minion_that_reconciles_again_and_again_waits() {
    let listener = TestListener::start(accept_all).await;
    let (minion, other) = (
        listener.minion(1, "m1").await,
        listener.minion(1, "m2").await,
    );
    let began = Clock.now();
    let mut done = 0;
    while let MinionReply::Reconciled(_) = minion.reconcile().await {
        done += 1;
        assert!(done <= 120 + 2 * (1 + (Clock.now() - began).as_secs()));
    }
    assert!(done >= 120, "{done}");
    // It does not get around that by farewells and new sessions.
    let farewell = minion.ask(&MinionRequest::Goodbye).await;
    assert!(matches!(farewell, MinionReply::Busy { .. }), "{farewell:?}");
    let trust = MasterTrust::Pinned(listener.keys);
    let again = listener
        .contact(1, minion.credentials, &trust)
        .await
        .unwrap();
    let reply = again.reconcile().await;
    assert!(matches!(reply, MinionReply::Busy { .. }), "{reply:?}");
    let reply = other.reconcile().await;
    assert!(matches!(reply, MinionReply::Reconciled(_)), "{reply:?}");
}

/// One request of each verb of minions.
fn verbs() -> Vec<MinionRequest> {
    let jid = Jid::parse("20261123000000000000").unwrap();
    vec![
        MinionRequest::Poll,
        MinionRequest::Heartbeat(heartbeat()),
        MinionRequest::Started(vec![jid.clone()]),
        MinionRequest::Returns(Vec::new()),
        MinionRequest::ReturnPart(ReturnPart {
            jid: jid.clone(),
            retcode: 0,
            success: true,
            part: Outgoing::new(vec![0]).part(0, 0),
        }),
        MinionRequest::Declined { jid: jid.clone() },
        MinionRequest::Claim { jid },
        MinionRequest::PendingJobs { after: None },
        MinionRequest::FireEvents(MinionEvents {
            start: StartId([1; 16]),
            first: 1,
            events: Vec::new(),
        }),
        MinionRequest::Reconcile(reconciliation()),
        MinionRequest::Accounts(Vec::new()),
        MinionRequest::Grains(GrainsReport {
            digest: [0; 32],
            grains: None,
        }),
        MinionRequest::Goodbye,
    ]
}

#[tokio::test]
async fn a_request_for_too_much_is_refused_by_every_verb() {
    let listener = TestListener::start(accept_all).await;
    let (greedy, other) = (
        listener.minion(1, "m1").await,
        listener.minion(1, "m2").await,
    );
    let trust = MasterTrust::Pinned(listener.keys);
    let mut caller = greedy.credentials.clone();
    caller.role = Role::Caller;
    let caller = listener.contact(1, caller, &trust).await.unwrap();
    let fires = CallerRequest::FireEvents(MinionEvents {
        start: StartId([2; 16]),
        first: 1,
        events: Vec::new(),
    });
    let deadline = || Clock.after(Duration::from_secs(30));
    let call = async || -> CallerReply {
        let session = &caller.established.session;
        let asked = session.ask(&caller.client, Class::Event, &fires, deadline());
        asked.await.unwrap()
    };
    assert_eq!(call().await, CallerReply::Done);
    let id = MinionId::parse("m1").unwrap();
    let accounts = listener.master.state.accounts();
    accounts.exhaust(&id);
    for request in verbs() {
        let reply = greedy.ask(&request).await;
        assert!(
            matches!(reply, MinionReply::Busy { .. }),
            "{request:?}: {reply:?}"
        );
    }
    assert!(
        matches!(call().await, CallerReply::Busy { .. }),
        "its caller"
    );
    assert_eq!(accounts.report().1, 14, "every refusal is counted");
    // A new session has the same account, and another minion its own.
    let again = listener
        .contact(1, greedy.credentials, &trust)
        .await
        .unwrap();
    let reply = again.reconcile().await;
    assert!(matches!(reply, MinionReply::Busy { .. }), "{reply:?}");
    for request in verbs() {
        let reply = other.ask(&request).await;
        assert!(!matches!(reply, MinionReply::Busy { .. }), "{request:?}");
    }
    // It goes with the key.
    listener
        .listener
        .handlers
        .admission
        .revocation
        .revoke(vec![id])
        .await;
    assert!(
        accounts.report().0 <= 1,
        "only that of the other may be left"
    );
}

/// With `max_minions`, those that are gone make room.
#[tokio::test]
async fn a_master_that_is_full_takes_another_minion_when_one_has_gone() {
    let listener = TestListener::start(|config| {
        config.auto_accept = true;
        config.max_minions = 1;
    })
    .await;
    let first = listener.minion(1, "m1").await;
    assert!(matches!(
        first.reconcile().await,
        MinionReply::Reconciled(_)
    ));
    let second = listener.minion(1, "m2").await;
    assert_eq!(second.established.answer, Admission::Full);
    let trust = MasterTrust::Pinned(listener.keys);
    let credentials = first.credentials.clone();
    let again = listener.contact(1, credentials, &trust).await.unwrap();
    assert!(again.established.answer.is_accepted(), "it is here already");
    assert_eq!(first.ask(&MinionRequest::Goodbye).await, MinionReply::Done);
    let second = listener.minion(1, "m2").await;
    assert!(second.established.answer.is_accepted());
}
