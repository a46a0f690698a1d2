//! Admits, decrypts and dispatches what comes over one listener.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use saline_protocol::channel::noise::{HalfOpen, Proven, Responder, SplitKeys};
use saline_protocol::channel::{ChannelError, PublicIdentity};
use saline_protocol::message::{
    AuthAnswer, Class, Header, Kind, MinionReply, MinionRequest, OperatorReply, OperatorRequest,
    PendingRequest, Publications, Refusal, RefusedVerb, Role, SessionId, busy, decode, encode,
    refusal,
};
use saline_protocol::transport::{Context, Instant, Peer, Request, Requests};

use crate::admission;
use crate::rooms::Rooms;
use crate::sessions::{FirstRecord, Principal, Session, Standing, UNPROVEN, UNPROVEN_FOR};
use crate::verbs;

/// The largest message in bytes that is looked at before its sender has a session.
const UNAUTHENTICATED_MOST: usize = 64 * 1024;

/// How long somebody is asked to wait when the table of handshakes is full.
const BUSY_MS: u32 = 1000;

/// One listener's gate.
#[derive(Debug)]
pub struct Gate {
    rooms: Arc<Rooms>,
    responder: Responder,
    /// Its number, which its sessions carry.
    listener: usize,
    /// Whether it is on a local endpoint.
    local: bool,
    /// Where its publications are.
    publications: Publications,
    half_open: Mutex<HashMap<SessionId, HalfOpenEntry>>,
}

struct HalfOpenEntry {
    state: HalfOpen,
    since: Instant,
}

impl std::fmt::Debug for HalfOpenEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "since {:?}", self.since)
    }
}

impl Gate {
    /// A gate for listener `listener`.
    pub fn new(
        rooms: Arc<Rooms>,
        responder: Responder,
        listener: usize,
        local: bool,
        publications: Publications,
    ) -> Self {
        Self {
            rooms,
            responder,
            listener,
            local,
            publications,
            half_open: Mutex::default(),
        }
    }

    /// Serves until the listener has been shut down. Each request is a task of `context`'s; how
    /// many there are at once is bounded by the transport's unanswered requests.
    pub async fn serve(self: Arc<Self>, mut requests: Box<dyn Requests>, context: Context) {
        while let Some(request) = requests.next().await {
            let gate = Arc::clone(&self);
            context.spawn(async move { gate.answer(request).await });
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
                return refusal(None, Refusal::Malformed);
            }
        };
        if header.kind == Kind::Record {
            return self.record(&header, body).await;
        }
        if payload.len() > UNAUTHENTICATED_MOST {
            return refusal(Some(&header), Refusal::Malformed);
        }
        let answered = match header.kind {
            Kind::First => self.first(&header, body),
            Kind::FirstFinish => self.first_finish(&header, body).await,
            Kind::Resume => self.resume(&header, body).await,
            _ => Err(ChannelError::Mismatch),
        };
        answered.unwrap_or_else(|error| {
            tracing::debug!("{peer}: {:?} refused: {error}", header.kind);
            refusal(Some(&header), Refusal::Handshake)
        })
    }

    fn first(&self, header: &Header, body: &[u8]) -> Result<Bytes, ChannelError> {
        let now = self.rooms.clock.now();
        let full = {
            let mut half_open = self.lock_half_open();
            if half_open.len() >= UNPROVEN {
                half_open.retain(|_, entry| now - entry.since <= UNPROVEN_FOR);
            }
            half_open.len() >= UNPROVEN
        };
        if full || !self.rooms.sessions.has_room() {
            return Ok(busy(header, BUSY_MS));
        }
        let (state, reply) = self.responder.first(body)?;
        let mut answer = *header;
        answer.kind = Kind::FirstReply;
        answer.session = SessionId::random().map_err(|_| ChannelError::Mismatch)?;
        self.lock_half_open()
            .insert(answer.session, HalfOpenEntry { state, since: now });
        Ok(answer.with_body(&reply))
    }

    async fn first_finish(&self, header: &Header, body: &[u8]) -> Result<Bytes, ChannelError> {
        let now = self.rooms.clock.now();
        let entry = self.lock_half_open().remove(&header.session);
        let Some(entry) = entry.filter(|entry| now - entry.since <= UNPROVEN_FOR) else {
            return Ok(refusal(Some(header), Refusal::UnknownSession));
        };
        let (proven, keys) = entry.state.finish(body)?;
        let (answer, session) = self.admit(&proven, header.session, &keys).await;
        // The third message of XX answers a number that the master chose: it cannot be a replay.
        self.arrived(&session, self.rooms.sessions.heard(&session));
        let mut record = *header;
        record.kind = Kind::Record;
        record.counter = 0;
        Ok(session.seal(&record, &encode(&answer)))
    }

    async fn resume(&self, header: &Header, body: &[u8]) -> Result<Bytes, ChannelError> {
        if !self.rooms.sessions.has_room() {
            return Ok(busy(header, BUSY_MS));
        }
        let resuming = self.responder.resume(body)?;
        let mut answer = *header;
        answer.kind = Kind::ResumeReply;
        answer.session = SessionId::random().map_err(|_| ChannelError::Mismatch)?;
        let proven = resuming.proven.clone();
        // This may be a replayed message, so nothing is changed for it: a key that is not accepted
        // now comes again with a first contact.
        let Some(decided) = admission::recognise(&self.rooms, &proven, self.local).await else {
            return Ok(refusal(Some(header), Refusal::Handshake));
        };
        let told = self.tell(&decided.answer);
        let (reply, keys) = resuming.reply(&encode(&told))?;
        let session = self.add(answer.session, decided.principal, &proven, &keys, &told);
        if !self.still_accepted(&session, &told).await {
            return Ok(refusal(Some(header), Refusal::Handshake));
        }
        Ok(answer.with_body(&reply))
    }

    async fn admit(
        &self,
        proven: &Proven,
        id: SessionId,
        keys: &SplitKeys,
    ) -> (AuthAnswer, Arc<Session>) {
        let decided = admission::decide(&self.rooms, proven, self.local).await;
        let answer = self.tell(&decided.answer);
        let session = self.add(id, decided.principal, proven, keys, &answer);
        if self.still_accepted(&session, &answer).await {
            (answer, session)
        } else {
            (AuthAnswer::Rejected, session)
        }
    }

    fn add(
        &self,
        id: SessionId,
        principal: Principal,
        proven: &Proven,
        keys: &SplitKeys,
        told: &AuthAnswer,
    ) -> Arc<Session> {
        let (identity, standing) = (proven.identity, standing(told));
        let sessions = &self.rooms.sessions;
        sessions.add(id, principal, identity, self.listener, keys, standing)
    }

    /// Between the look at a minion's key and the moment in which its session can be ended with the
    /// key, the key may have gone. So it is looked at once more, with the group key in hand: whoever
    /// takes the key away from here on finds the session, and the group key is another then.
    async fn still_accepted(&self, session: &Session, told: &AuthAnswer) -> bool {
        let (AuthAnswer::Accepted(_), Principal::Minion(id)) = (told, &session.principal) else {
            return true;
        };
        let accepted = admission::is_accepted(&self.rooms, id, session.identity).await;
        if !accepted {
            self.rooms.sessions.remove(session);
        }
        accepted
    }

    /// What is told to the peer: to an accepted one, all that it needs.
    fn tell(&self, answer: &admission::Answer) -> AuthAnswer {
        match answer {
            admission::Answer::Accepted(role) => {
                AuthAnswer::Accepted(saline_protocol::message::Welcome {
                    clock: self.rooms.now(),
                    heartbeat_ms: verbs::minion::heartbeat_ms(&self.rooms),
                    max_message: self.rooms.config.max_message_size as u64,
                    publications: self.publications.clone(),
                    group: (*role == Role::Minion).then(|| self.rooms.publications.current()),
                })
            }
            admission::Answer::Pending => AuthAnswer::Pending,
            admission::Answer::Rejected => AuthAnswer::Rejected,
            admission::Answer::Denied => AuthAnswer::Denied,
            admission::Answer::Full => AuthAnswer::Full,
        }
    }

    fn arrived(&self, session: &Session, first: FirstRecord) {
        match first {
            FirstRecord::No => {}
            FirstRecord::Arrived => tracing::info!("{} is here", session.principal),
            FirstRecord::Replaced => {
                tracing::info!("{} is here with a new session", session.principal);
            }
        }
    }

    async fn record(&self, header: &Header, body: &[u8]) -> Bytes {
        let Some(session) = self.rooms.sessions.get(header.session) else {
            return refusal(Some(header), Refusal::UnknownSession);
        };
        let (plain, standing) = match session.open(header, body) {
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
        self.arrived(&session, self.rooms.sessions.heard(&session));
        let answer = self
            .carry_out(&session, standing, header.class, &plain)
            .await;
        session.seal(header, &answer)
    }

    async fn carry_out(
        &self,
        session: &Arc<Session>,
        standing: Standing,
        class: Class,
        plain: &[u8],
    ) -> Vec<u8> {
        match (&session.principal, standing) {
            (_, Standing::KeyGone) => refuse(&session.principal, RefusedVerb::KeyGone),
            (_, Standing::Replaced) => {
                verbs::minion::duplicate(&self.rooms, session).await;
                refuse(&session.principal, RefusedVerb::Replaced)
            }
            (_, Standing::Waiting) => match decode::<PendingRequest>(plain) {
                Ok(PendingRequest::Poll) => encode(&MinionReply::Auth(self.poll(session).await)),
                Err(_) => refuse(&session.principal, RefusedVerb::Malformed),
            },
            (Principal::Minion(id), Standing::Accepted) => {
                let reply = match decode::<MinionRequest>(plain) {
                    Ok(MinionRequest::Poll) => {
                        MinionReply::Auth(self.tell(&admission::Answer::Accepted(Role::Minion)))
                    }
                    Ok(request) => {
                        verbs::minion::carry_out(&self.rooms, session, id, request).await
                    }
                    Err(error) => {
                        tracing::warn!("minion {id} asked something else ({class:?}): {error}");
                        MinionReply::Refused(RefusedVerb::Malformed)
                    }
                };
                encode(&reply)
            }
            (Principal::Operator(name), Standing::Accepted) => {
                let reply = match decode::<OperatorRequest>(plain) {
                    Ok(request) => verbs::operator::carry_out(&self.rooms, name, request).await,
                    Err(error) => {
                        tracing::warn!("operator {name} asked something else: {error}");
                        OperatorReply::Refused(RefusedVerb::Malformed)
                    }
                };
                encode(&reply)
            }
        }
    }

    async fn poll(&self, session: &Arc<Session>) -> AuthAnswer {
        let answer = admission::decide_again(&self.rooms, session).await;
        let told = self.tell(&answer);
        if matches!(told, AuthAnswer::Accepted(_)) {
            let first = self.rooms.sessions.accept(session);
            if !self.still_accepted(session, &told).await {
                return AuthAnswer::Rejected;
            }
            self.arrived(session, first);
        }
        told
    }

    fn lock_half_open(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, HalfOpenEntry>> {
        self.half_open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn standing(answer: &AuthAnswer) -> Standing {
    match answer {
        AuthAnswer::Accepted(_) => Standing::Accepted,
        _ => Standing::Waiting,
    }
}

fn refuse(principal: &Principal, why: RefusedVerb) -> Vec<u8> {
    match principal {
        Principal::Minion(_) => encode(&MinionReply::Refused(why)),
        Principal::Operator(_) => encode(&OperatorReply::Refused(why)),
    }
}

/// What a peer of this identity is called in the log.
pub fn named(identity: &PublicIdentity) -> String {
    let finger = identity.fingerprint();
    finger.chars().take(23).collect()
}
