//! Serves one listener: takes handshakes, decrypts requests and has them carried out.

mod dispatch;
mod half_open;

use std::sync::Arc;

use bytes::Bytes;
use saline_protocol::channel::noise::{Proven, Responder, SplitKeys};
use saline_protocol::channel::{ChannelError, PublicIdentity};
use saline_protocol::message::{
    Admission, EnvelopeError, Header, Kind, PeerVersion, ProtocolVersions, PublicationAddress,
    Refusal, SessionId, busy, encode, refusal,
};
use saline_protocol::transport::{
    Clock, Context, Departure, Departures, Peer, Request, Requests, ServerControl,
};

use crate::admission::AdmissionControl;
use crate::keys::KeysUnreadable;
use crate::sessions::{PresenceChange, Principal, Session, SessionState, Sessions};
use crate::verbs::{MinionVerbs, OperatorVerbs};
use half_open::HalfOpenTable;

/// The largest message in bytes that is read from a peer without a session.
const UNAUTHENTICATED_MOST: usize = 64 * 1024;

/// Requests that are taken at once.
const BATCH: usize = 64;

/// How long a peer is asked to wait when the table of handshakes is full.
const BUSY_MS: u32 = 1000;

/// The parts of the master that the gates of all listeners hand requests to.
#[derive(Debug)]
pub struct Handlers {
    pub(crate) clock: Clock,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) admission: AdmissionControl,
    pub(crate) minion: MinionVerbs,
    pub(crate) operator: OperatorVerbs,
}

/// The gate of one listener.
#[derive(Debug)]
pub struct Gate {
    handlers: Arc<Handlers>,
    responder: Responder,
    /// The listener's number, which its sessions carry.
    listener: usize,
    /// Whether the listener is the local endpoint.
    local: bool,
    /// The address of publications that peers of this listener are told.
    publications: PublicationAddress,
    /// Admits the connections of sessions.
    control: Arc<dyn ServerControl>,
    half_open: HalfOpenTable,
}

impl Gate {
    /// Creates the gate of listener `listener`.
    pub fn new(
        handlers: Arc<Handlers>,
        responder: Responder,
        listener: usize,
        local: bool,
        publications: PublicationAddress,
        control: Arc<dyn ServerControl>,
    ) -> Self {
        Self {
            control,
            half_open: HalfOpenTable::new(handlers.clock),
            handlers,
            responder,
            listener,
            local,
            publications,
        }
    }

    /// Serves until the listener has been shut down. Each request is a task of `context`; their
    /// number is bounded by the transport's limit of unanswered requests.
    pub async fn serve(self: Arc<Self>, mut requests: Box<dyn Requests>, context: Context) {
        let mut batch = Vec::new();
        while requests.next_batch(&mut batch, BATCH).await > 0 {
            for request in batch.drain(..) {
                let gate = Arc::clone(&self);
                context.spawn(async move { gate.answer(request).await });
            }
        }
    }

    /// Takes note of the connections that end, until the listener has been shut down.
    pub async fn follow_departures(self: Arc<Self>, mut departures: Box<dyn Departures>) {
        while let Some(departure) = departures.next().await {
            match departure {
                Departure::Gone(peer) => self.handlers.sessions.departed(self.listener, peer),
                // Those are noticed by their silence.
                other => tracing::debug!("departures were missed: {other:?}"),
            }
        }
    }

    async fn answer(&self, request: Request) {
        let Request {
            peer,
            payload,
            reply,
            ..
        } = request;
        let answer = self.respond(peer, &payload).await;
        if let Err(error) = reply.send(answer) {
            tracing::error!("an answer to {peer} was not sent: {error}");
        }
    }

    async fn respond(&self, peer: Peer, payload: &[u8]) -> Bytes {
        let (header, body) = match Header::decode(payload) {
            Ok(split) => split,
            Err(error) => {
                tracing::debug!("{peer}: {error}");
                let why = match error {
                    EnvelopeError::Version(_) => Refusal::Version,
                    _ => Refusal::Malformed,
                };
                return refusal(None, why);
            }
        };
        if header.kind == Kind::Record {
            return self.record(peer, &header, body).await;
        }
        if payload.len() > UNAUTHENTICATED_MOST {
            return refusal(Some(&header), Refusal::Malformed);
        }
        // Boxed, so that the future of a record, of which there are thousands a second, stays small.
        let answered = match header.kind {
            Kind::First => self.first(&header, body),
            Kind::FirstFinish => Box::pin(self.first_finish(peer, &header, body)).await,
            Kind::Resume => Box::pin(self.resume(peer, &header, body)).await,
            _ => Err(ChannelError::Mismatch),
        };
        answered.unwrap_or_else(|error| {
            tracing::debug!("{peer}: {:?} refused: {error}", header.kind);
            refusal(Some(&header), Refusal::Handshake)
        })
    }

    fn first(&self, header: &Header, body: &[u8]) -> Result<Bytes, ChannelError> {
        if !self.half_open.has_room() || !self.handlers.sessions.has_room() {
            return Ok(busy(header, BUSY_MS));
        }
        let (state, reply) = self.responder.first(body)?;
        let mut answer = *header;
        answer.kind = Kind::FirstReply;
        answer.session = SessionId::random().map_err(|_| ChannelError::Mismatch)?;
        self.half_open.insert(answer.session, state);
        Ok(answer.with_body(&reply))
    }

    async fn first_finish(
        &self,
        peer: Peer,
        header: &Header,
        body: &[u8],
    ) -> Result<Bytes, ChannelError> {
        let Some(state) = self.half_open.take(header.session) else {
            return Ok(refusal(Some(header), Refusal::UnknownSession));
        };
        let (proven, keys) = state.finish(body)?;
        let (answer, session) = self.admit(peer, &proven, header.session, &keys).await;
        // The third message of XX answers a number that the master chose: it cannot be a replay.
        self.handlers.sessions.heard(&session);
        let mut record = *header;
        record.kind = Kind::Record;
        record.counter = 0;
        Ok(session.seal(&record, &encode(&answer)))
    }

    async fn resume(
        &self,
        from: Peer,
        header: &Header,
        body: &[u8],
    ) -> Result<Bytes, ChannelError> {
        if !self.handlers.sessions.has_room() {
            return Ok(busy(header, BUSY_MS));
        }
        let resuming = self.responder.resume(body)?;
        let mut answer = *header;
        answer.kind = Kind::ResumeReply;
        answer.session = SessionId::random().map_err(|_| ChannelError::Mismatch)?;
        let proven = resuming.proven.clone();
        // This message may be a replay, so it changes nothing: a peer whose key is not accepted now
        // is sent back to a first contact.
        let recognised = self.handlers.admission.recognise(&proven, self.local).await;
        let Ok(recognised) = recognised else {
            return Ok(busy(header, BUSY_MS));
        };
        let Some(decision) = recognised else {
            return Ok(refusal(Some(header), Refusal::Handshake));
        };
        let version = version_of(&proven);
        let told = self.tell(&decision.principal, decision.admission, version.protocol);
        let (reply, keys) = resuming.reply(&encode(&told))?;
        let peer = (decision.principal, version);
        let session = self.add(answer.session, from, peer, proven.identity, &keys, &told);
        Ok(match self.still_accepted(&session, &told).await {
            Ok(true) => answer.with_body(&reply),
            Ok(false) => refusal(Some(header), Refusal::Handshake),
            Err(KeysUnreadable) => busy(header, BUSY_MS),
        })
    }

    async fn admit(
        &self,
        from: Peer,
        proven: &Proven,
        id: SessionId,
        keys: &SplitKeys,
    ) -> (Admission, Arc<Session>) {
        let decision = self.handlers.admission.decide(proven, self.local).await;
        let version = version_of(proven);
        let told = self.tell(&decision.principal, decision.admission, version.protocol);
        let peer = (decision.principal, version);
        let session = self.add(id, from, peer, proven.identity, keys, &told);
        let told = match self.still_accepted(&session, &told).await {
            Ok(true) => told,
            Ok(false) => Admission::Rejected,
            // The minion asks again.
            Err(KeysUnreadable) => Admission::Full,
        };
        (told, session)
    }

    fn add(
        &self,
        id: SessionId,
        from: Peer,
        peer: (Principal, PeerVersion),
        identity: PublicIdentity,
        keys: &SplitKeys,
        told: &Admission,
    ) -> Arc<Session> {
        let state = if told.is_accepted() {
            SessionState::Accepted
        } else {
            SessionState::Unaccepted
        };
        let sessions = &self.handlers.sessions;
        sessions.add(
            id,
            peer,
            identity,
            (self.listener, from.address),
            keys,
            state,
        )
    }

    /// Whether an accepted session may stay. An operator may delete a minion's key between its first
    /// lookup and the moment in which its session is in the table and can be ended with the key. So
    /// the key is looked up once more, after the group key was read: an operator who deletes it from
    /// here on finds the session, and rotates the group key. A session that may not stay is removed.
    ///
    /// # Errors
    /// When the keys cannot be read now; the session is removed.
    async fn still_accepted(
        &self,
        session: &Session,
        told: &Admission,
    ) -> Result<bool, KeysUnreadable> {
        if !told.is_accepted() {
            return Ok(true);
        }
        let accepts = self.handlers.admission.still_accepts(session).await;
        if accepts != Ok(true) {
            self.handlers.sessions.remove(session);
        }
        accepts
    }

    /// Makes the message about a decision: an accepted peer is also told what it needs.
    fn tell(&self, principal: &Principal, decided: Admission<()>, protocol: u16) -> Admission {
        let admission = &self.handlers.admission;
        decided.map(|()| admission.welcome(principal, &self.publications, protocol))
    }

    async fn record(&self, peer: Peer, header: &Header, body: &[u8]) -> Bytes {
        let Some(session) = self.handlers.sessions.get(header.session) else {
            return refusal(Some(header), Refusal::UnknownSession);
        };
        let (plain, state) = match session.open(header, body) {
            Ok(opened) => opened,
            Err(error) => {
                tracing::debug!("{}: {error}", session.principal);
                let why = if matches!(error, ChannelError::Replayed) {
                    Refusal::Replayed
                } else {
                    Refusal::Malformed
                };
                return refusal(Some(header), why);
            }
        };
        let sessions = &self.handlers.sessions;
        if matches!(sessions.heard(&session), PresenceChange::Arrived) {
            tracing::info!("{} is back", session.principal);
        }
        if session.principal.minion().is_some()
            && sessions.note_connection(&session, peer)
            && !self.control.admitted(peer)
        {
            sessions.departed(self.listener, peer);
        }
        let answer = self.dispatch(&session, state, header.class, &plain).await;
        session.seal(header, &answer)
    }
}

/// Returns what a peer's session speaks. With a peer that speaks nothing in common there is a session
/// only to tell it so.
fn version_of(proven: &Proven) -> PeerVersion {
    let ours = ProtocolVersions::OURS;
    PeerVersion {
        protocol: ours.common(proven.versions).unwrap_or(PeerVersion::NONE),
        software: proven.software.clone(),
    }
}
