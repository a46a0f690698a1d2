//! What peers of several addresses may ask of a listener: none keeps those of another source out.

mod handshakes;
mod polls;
mod sessions;

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
        let keys = MasterKeys::of(master.identity.public(), &noise);
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

    async fn kind_of_answer(&self, peer: Peer, message: &Bytes) -> Kind {
        let reply = self.listener.respond(peer, message.clone()).await;
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
        let reply = listener.respond(peer, message).await;
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
        Ok(self.listener.respond(self.peer, payload).await)
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
        waiting: 0,
        epoch: 0,
        heartbeats_noted: 0,
        expiry: ExpiryAck::default(),
    }
}

fn reconciliation() -> Reconciliation {
    Reconciliation {
        start: StartId([1; 16]),
        predecessors: Vec::new(),
        predecessor_ended: false,
        power_lost: false,
        heartbeats_before: 0,
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
