//! Serves one listener: takes handshakes, decrypts requests and has them carried out.
//!
//! No handshake admits a connection: the first record of an accepted session on it does, also of a session that
//! outlived its last connection. Until then the tight limits hold in both directions. A session has one connection,
//! and the one that it leaves is cut, so that a key has no more admitted connections than sessions. Local endpoints
//! have no such limits, since the permissions of their folder let in root and the master's user alone.

mod dispatch;
mod handshakes;
mod pending_handshakes;
mod polls;
mod resume_times;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use saline_channel::ChannelError;
use saline_channel::noise::Responder;
use saline_messages::{
    Admission, EnvelopeError, HEADER_LEN, Header, Kind, PublicationAddress, Refusal, refusal,
};
use saline_protocol::transport::{
    Clock, Context, Departure, Departures, Peer, Request, Requests, ServerControl,
};

use crate::authorize::{Authorizer, Principal};
use crate::bounds::{Accounts, Turns};
use crate::parts::MasterParts;
use crate::peers::{AdmissionControl, EndedConnections, WaitingPolls};
use crate::sessions::{ListenerKind, Session, SessionState, Sessions};
use crate::settings::LiveSettings;
use crate::verbs::{CallerVerbs, MinionVerbs, OperatorVerbs};
pub use handshakes::HandshakeLimits;
use pending_handshakes::PendingHandshakes;

/// The largest message in bytes that is read from a peer without a session.
const MAX_UNAUTHENTICATED: usize = 64 * 1024;

/// How long a peer is asked to wait when there is no room for what it asks.
const BUSY_DELAY: Duration = Duration::from_secs(1);

/// Requests that are taken at once.
const BATCH: usize = 64;

/// The parts of the master that the gates of all listeners hand requests to.
#[derive(Debug)]
pub struct Handlers {
    pub(crate) clock: Clock,
    pub(crate) settings: LiveSettings,
    /// What each minion may ask for.
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) ended_connections: EndedConnections,
    pub(crate) admission: AdmissionControl,
    pub(crate) minion: MinionVerbs,
    pub(crate) caller: CallerVerbs,
    pub(crate) operator: OperatorVerbs,
    /// Decides who may do what.
    pub(crate) authorizer: Authorizer,
    pub(crate) handshakes: HandshakeLimits,
    pub(crate) waiting: WaitingPolls,
    /// The turns of polls to read the keys.
    pub(crate) polls: Turns,
}

impl Handlers {
    /// Makes the parts of a master.
    pub(crate) fn of(state: &MasterParts, clock: Clock) -> Self {
        let minion = state.minion_verbs();
        Self {
            clock,
            settings: state.settings().clone(),
            accounts: Arc::clone(state.accounts()),
            sessions: Arc::clone(state.sessions()),
            ended_connections: state.ended_connections(),
            admission: state.admission(),
            caller: state.caller_verbs(&minion),
            minion,
            operator: state.operator_verbs(),
            authorizer: state.authorizer(),
            handshakes: HandshakeLimits::new(clock, state.refused_handshakes()),
            waiting: state.polls().clone(),
            polls: polls::turns(),
        }
    }
}

/// The listener of one listener.
#[derive(Debug)]
pub struct Listener {
    handlers: Arc<Handlers>,
    responder: Responder,
    /// The listener's number, which its sessions carry.
    listener: usize,
    kind: ListenerKind,
    /// The address of publications that peers of this listener are told.
    publications: PublicationAddress,
    /// Admits the connections of sessions.
    control: Arc<dyn ServerControl>,
    pending_handshakes: PendingHandshakes,
}

impl Listener {
    /// Creates the listener of number `listener`.
    pub fn new(
        handlers: Arc<Handlers>,
        responder: Responder,
        listener: usize,
        kind: ListenerKind,
        publications: PublicationAddress,
        control: Arc<dyn ServerControl>,
    ) -> Self {
        Self {
            control,
            pending_handshakes: PendingHandshakes::new(handlers.clock),
            handlers,
            responder,
            listener,
            kind,
            publications,
        }
    }

    /// Serves until the listener has been shut down. Each request is a task of `context`; their
    /// number is bounded by the transport's limit of unanswered requests.
    pub async fn serve(self: Arc<Self>, mut requests: Box<dyn Requests>, context: Context) {
        let mut batch = Vec::new();
        while requests.next_batch(&mut batch, BATCH).await > 0 {
            for request in batch.drain(..) {
                let listener = Arc::clone(&self);
                context.spawn(async move { listener.answer(request).await });
            }
        }
    }

    /// Takes note of the connections that end, until the listener has been shut down.
    pub async fn follow_departures(self: Arc<Self>, mut departures: Box<dyn Departures>) {
        while let Some(departure) = departures.next().await {
            match departure {
                Departure::Gone(peer) => {
                    tracing::debug!("{peer}: the connection has ended");
                    self.handlers.sessions.departed(self.listener, peer);
                }
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
        let answer = self.respond(peer, payload).await;
        if let Err(error) = reply.send(answer) {
            tracing::error!("an answer to {peer} was not sent: {error}");
        }
    }

    async fn respond(&self, peer: Peer, mut payload: Bytes) -> Bytes {
        let (header, body) = match Header::decode(&payload) {
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
        tracing::trace!("{peer}: {:?} of {} bytes", header.kind, payload.len());
        if header.kind == Kind::Record {
            payload.advance(HEADER_LEN);
            return self.record(peer, &header, payload).await;
        }
        if payload.len() > MAX_UNAUTHENTICATED {
            return refusal(Some(&header), Refusal::Malformed);
        }
        // Boxed, so that the future of a record, of which there are thousands a second, stays small.
        let answered = match header.kind {
            Kind::First => self.first(peer, &header, body),
            Kind::FirstFinish => Box::pin(self.first_finish(peer, &header, body)).await,
            Kind::Resume => Box::pin(self.resume(peer, &header, body)).await,
            _ => Err(ChannelError::Mismatch),
        };
        let answer = answered.unwrap_or_else(|error| {
            tracing::debug!("{peer}: {:?} refused: {error}", header.kind);
            refusal(Some(&header), Refusal::Handshake)
        });
        self.handlers.handshakes.count(&answer);
        answer
    }

    /// Makes the message about a decision: an accepted peer is also told what it needs.
    fn tell(&self, principal: &Principal, decided: Admission<()>, protocol: u16) -> Admission {
        let admission = &self.handlers.admission;
        decided.map(|()| admission.welcome(principal, &self.publications, protocol))
    }

    async fn record(&self, peer: Peer, header: &Header, body: Bytes) -> Bytes {
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
        let heard = self.handlers.sessions.heard(&session);
        if heard.is_first && state == SessionState::Accepted {
            // Only now: its handshake could have been a replay.
            self.handlers.handshakes.give_back_resume(&session);
        }
        if heard.is_back {
            tracing::info!("{} is back", session.principal);
        }
        let was_accepted = state == SessionState::Accepted;
        if was_accepted {
            self.admit_connection(&session, peer);
        }
        let answer = self.dispatch(&session, state, header.class, &plain).await;
        if !was_accepted && session.state() == SessionState::Accepted {
            // Its key was accepted while it polled.
            self.admit_connection(&session, peer);
        }
        session.seal(header, answer)
    }

    /// Tells the transport that an accepted session stands on a connection. Those of other sessions stay
    /// under the limits for strangers, and the one that the session leaves is cut.
    fn admit_connection(&self, session: &Arc<Session>, peer: Peer) {
        let sessions = &self.handlers.sessions;
        if !sessions.note_connection(session, self.listener, peer) {
            return;
        }
        self.handlers.ended_connections.bound();
        if !self.control.admitted(peer) {
            sessions.departed(self.listener, peer);
        }
    }
}

#[cfg(test)]
mod tests;
