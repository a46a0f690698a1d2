//! Carries out handshakes: what they cost is bounded for each source, and nothing is kept for a peer
//! before it is accepted or waits to be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use saline_channel::ChannelError;
use saline_channel::noise::SplitKeys;
use saline_channel::record::ResponderRecords;
use saline_messages::{Admission, Header, Kind, Refusal, SessionId, busy, encode, refusal};
use saline_protocol::transport::{Clock, NoPlace, Peer, Source};

use super::resume_times::ResumeTimes;
use super::{BUSY_DELAY, Listener};
use crate::authorize::Principal;
use crate::bounds::{Rate, TokenBuckets};
use crate::keys::KeysUnreadable;
use crate::peers::AdmissionDecision;
use crate::sessions::{ListenerKind, NewSession, Session, SessionState};

/// The handshakes that one source may have carried out. One that leads to an accepted session is given back, so that a
/// fleet behind one address comes back at full speed. With those that it may have at once, and what it gets back while a
/// handshake waits, a source stays below the number of handshakes that wait.
const HANDSHAKES: Rate = Rate {
    per_second: 100.0,
    burst: 384.0,
};

/// The largest number of sources that are told apart. Those beyond share one bucket.
const MAX_SOURCES: usize = 8192;

/// The limits of handshakes, shared by all listeners.
#[derive(Debug)]
pub struct HandshakeLimits {
    /// First contacts and resumes have buckets of their own: whose resume is refused makes a first contact.
    first_contacts: TokenBuckets<Source>,
    resumes: TokenBuckets<Source>,
    resume_times: ResumeTimes,
    /// How many were refused, or asked to come again later.
    refused: Arc<AtomicU64>,
}

impl HandshakeLimits {
    /// Creates limits that have counted no handshake, and count in `refused` those that are refused.
    pub fn new(clock: Clock, refused: Arc<AtomicU64>) -> Self {
        Self {
            first_contacts: TokenBuckets::new(clock, HANDSHAKES, MAX_SOURCES),
            resumes: TokenBuckets::new(clock, HANDSHAKES, MAX_SOURCES),
            resume_times: ResumeTimes::default(),
            refused,
        }
    }

    /// Counts the answer to a handshake, if the answer refuses it or asks to come again later.
    pub(super) fn count(&self, answer: &[u8]) {
        let is_refusal = |header: &Header| matches!(header.kind, Kind::Refused | Kind::Busy);
        if Header::decode(answer).is_ok_and(|(header, _)| is_refusal(&header)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives back what the resume of a session took from the budget of its source, now that the session has
    /// proven that it was no replay.
    pub(super) fn give_back_resume(&self, session: &Session) {
        self.resumes.give_back(&session.peer.source);
    }
}

/// The result of adding a session.
enum Added {
    Session(Arc<Session>),
    /// The key of the peer is no longer accepted.
    KeyGone,
    /// There is no room, or the keys cannot be read.
    NotNow,
}

impl Listener {
    /// Answers the first message of a first contact.
    pub(super) fn first(
        &self,
        peer: Peer,
        header: &Header,
        body: &[u8],
    ) -> Result<Bytes, ChannelError> {
        let first_contacts = &self.handlers.handshakes.first_contacts;
        if !first_contacts.allows(&peer.source) || !self.pending_handshakes.has_room(peer.source) {
            return Ok(busy(header, BUSY_DELAY));
        }
        let (state, reply) = self.responder.first(body)?;
        let mut answer = *header;
        answer.kind = Kind::FirstReply;
        answer.session = SessionId::random().map_err(|_| ChannelError::Mismatch)?;
        match self
            .pending_handshakes
            .insert(answer.session, state, peer.source)
        {
            Ok(()) => Ok(answer.with_body(&reply)),
            Err(NoPlace) => Ok(busy(header, BUSY_DELAY)),
        }
    }

    /// Answers the last message of a first contact.
    pub(super) async fn first_finish(
        &self,
        peer: Peer,
        header: &Header,
        body: &[u8],
    ) -> Result<Bytes, ChannelError> {
        let Some(state) = self.pending_handshakes.take(header.session) else {
            return Ok(refusal(Some(header), Refusal::UnknownSession));
        };
        let (proven, keys) = state.finish(body)?;
        tracing::debug!("{peer}: first contact of {:?} {:?}", proven.role, proven.id);
        let admission = &self.handlers.admission;
        let AdmissionDecision {
            principal,
            admission: decided,
        } = admission.decide(&proven, peer, self.kind).await;
        let version = admission.version_of(&proven);
        let told = self.tell(&principal, decided, version.protocol);
        let mut record = *header;
        record.kind = Kind::Record;
        record.counter = 0;
        let state = match &told {
            Admission::Accepted(_) => SessionState::Accepted,
            // An API whose key waits tells so and tries again later: nothing is held for it.
            Admission::Pending(_) if !matches!(principal, Principal::Api(_)) => {
                SessionState::Unaccepted
            }
            // Whoever is refused has nothing to ask for in a session.
            _ => return Ok(seal(&keys, &record, &told)),
        };
        // The third message of XX answers a number that the master chose: it cannot be a replay.
        let new = NewSession {
            id: header.session,
            principal,
            version,
            identity: proven.identity,
            listener_kind: self.kind,
            listener: self.listener,
            peer,
            proven: true,
            state,
        };
        let told = match self.add(new, &keys).await {
            Added::Session(session) => {
                if told.is_accepted() {
                    let first_contacts = &self.handlers.handshakes.first_contacts;
                    first_contacts.give_back(&peer.source);
                }
                // The system has named the user already, so the connection stops being a stranger's at once: the first
                // order may be large.
                if self.kind == ListenerKind::Access && told.is_accepted() {
                    self.admit_connection(&session, peer);
                }
                return Ok(session.seal(&record, encode(&told)));
            }
            Added::KeyGone => Admission::Rejected,
            // The minion asks again.
            Added::NotNow => Admission::Full,
        };
        Ok(seal(&keys, &record, &told))
    }

    /// Answers the first message of a peer that knows the master. The message may be a replay, so it
    /// changes nothing, and only an accepted peer gets a session: others are sent to a first contact.
    pub(super) async fn resume(
        &self,
        peer: Peer,
        header: &Header,
        body: &[u8],
    ) -> Result<Bytes, ChannelError> {
        let limits = &self.handlers.handshakes;
        // Before it costs anything: who does not know the master takes nothing from the budget of its source.
        self.responder.check_resume(body)?;
        let has_room = self.handlers.sessions.has_room(self.kind);
        if !has_room || !limits.resumes.allows(&peer.source) {
            return Ok(busy(header, BUSY_DELAY));
        }
        let resuming = self.responder.resume(body)?;
        let proven = resuming.proven.clone();
        tracing::debug!("{peer}: resume of {:?} {:?}", proven.role, proven.id);
        let recognised = self
            .handlers
            .admission
            .recognise(&proven, peer, self.kind)
            .await;
        let Ok(recognised) = recognised else {
            return Ok(busy(header, BUSY_DELAY));
        };
        let Some(decision) = recognised else {
            return Ok(refusal(Some(header), Refusal::Handshake));
        };
        let mut answer = *header;
        answer.kind = Kind::ResumeReply;
        let version = self.handlers.admission.version_of(&proven);
        let principal = decision.principal;
        let told = self.tell(&principal, decision.admission, version.protocol);
        if !told.is_accepted() {
            let (reply, _) = resuming.reply(&encode(&told))?;
            return Ok(answer.with_body(&reply));
        }
        let is_new = |time| limits.resume_times.take(proven.identity, time);
        if !proven.attempted.is_some_and(is_new) {
            return Ok(refusal(Some(header), Refusal::Replayed));
        }
        answer.session = SessionId::random().map_err(|_| ChannelError::Mismatch)?;
        let (reply, keys) = resuming.reply(&encode(&told))?;
        let new = NewSession {
            id: answer.session,
            principal,
            version,
            identity: proven.identity,
            listener_kind: self.kind,
            listener: self.listener,
            peer,
            proven: false,
            state: SessionState::Accepted,
        };
        Ok(match self.add(new, &keys).await {
            Added::Session(_) => answer.with_body(&reply),
            Added::KeyGone => refusal(Some(header), Refusal::Handshake),
            Added::NotNow => busy(header, BUSY_DELAY),
        })
    }

    /// Adds a session, unless its key has gone meanwhile. An operator may delete a minion's key between its
    /// first lookup and the moment in which its session is in the table and can be ended with the key. So
    /// the key is looked up once more, after the group key was read: an operator who deletes it from
    /// here on finds the session, and rotates the group key.
    async fn add(&self, new: NewSession, keys: &SplitKeys) -> Added {
        let is_accepted = new.state == SessionState::Accepted;
        let Some(session) = self.handlers.sessions.add(new, keys) else {
            return Added::NotNow;
        };
        // The key may have lost an older one by it.
        self.handlers.ended_connections.bound();
        if !is_accepted {
            return Added::Session(session);
        }
        match self.still_accepted(&session).await {
            Ok(true) => Added::Session(session),
            Ok(false) => Added::KeyGone,
            Err(KeysUnreadable) => Added::NotNow,
        }
    }

    /// Whether the key of an accepted session is accepted still. A session that may not stay is removed.
    ///
    /// # Errors
    /// When the keys cannot be read now; the session is removed.
    pub(super) async fn still_accepted(&self, session: &Session) -> Result<bool, KeysUnreadable> {
        let accepts = self.handlers.admission.still_accepts(session).await;
        if accepts != Ok(true) {
            self.handlers.sessions.remove(session);
        }
        accepts
    }
}

/// Returns the sealed answer to a peer that gets no session.
fn seal(keys: &SplitKeys, record: &Header, told: &Admission) -> Bytes {
    ResponderRecords::new(keys).seal_reply(record, encode(told))
}
