//! Dispatches the decrypted requests of sessions by audience and by what the session may do.

use std::sync::Arc;
use std::time::Duration;

use saline_messages::{
    Admission, CallerReply, CallerRequest, Class, Jid, MinionId, MinionReply, MinionRequest,
    OperatorReply, OperatorRequest, PendingRequest, RefusedVerb, decode, encode,
};

use super::Listener;
use crate::authorize::{About, Action, Principal, Verb};
use crate::bounds::Cost;
use crate::keys::KeysUnreadable;
use crate::sessions::{Session, SessionState};

impl Listener {
    /// Carries out the request `plain` of a session in `state`, and returns the encoded reply.
    pub(super) async fn dispatch(
        &self,
        session: &Arc<Session>,
        state: SessionState,
        class: Class,
        plain: &[u8],
    ) -> Vec<u8> {
        let principal = &session.principal;
        match (principal, state) {
            (_, SessionState::KeyGone) => refuse(principal, RefusedVerb::KeyGone),
            (_, SessionState::Replaced) => {
                self.handlers.minion.report_replaced(session).await;
                refuse(principal, RefusedVerb::Replaced)
            }
            (_, SessionState::Unaccepted) => match decode::<PendingRequest>(plain) {
                Ok(PendingRequest::Poll) => encode(&Box::pin(self.poll(session)).await),
                Err(_) => refuse(principal, RefusedVerb::Malformed),
            },
            (Principal::Minion(id), SessionState::Accepted) => {
                let reply = encode(&self.minion(session, id, class, plain).await);
                self.handlers.accounts.note_answer(id, reply.len());
                reply
            }
            // A caller's sessions do not end with its minion's.
            (Principal::Caller(_), SessionState::Accepted)
                if self.still_accepted(session).await != Ok(true) =>
            {
                refuse(principal, RefusedVerb::KeyGone)
            }
            (Principal::Caller(id), SessionState::Accepted) => {
                let reply = encode(&self.caller(session, id, class, plain).await);
                self.handlers.accounts.note_answer(id, reply.len());
                reply
            }
            // It has no session.
            (
                Principal::Schedule(_) | Principal::Reaction(_) | Principal::ExternalUser(_),
                SessionState::Accepted,
            ) => refuse(principal, RefusedVerb::Malformed),
            (
                Principal::LocalRoot
                | Principal::MasterUser
                | Principal::LocalUser(_)
                | Principal::Operator(_)
                | Principal::Api(_),
                SessionState::Accepted,
            ) => encode(&self.operator(session, class, plain).await),
        }
    }

    /// Carries out the request of a minion, if its account allows it.
    async fn minion(
        &self,
        session: &Arc<Session>,
        id: &MinionId,
        class: Class,
        plain: &[u8],
    ) -> MinionReply {
        let principal = &session.principal;
        let request = match decode::<MinionRequest>(plain) {
            Ok(request) => request,
            Err(error) => {
                // Whatever is left: it is refused in any case.
                let _ = self.draw(session, id, &Cost::of_bytes(plain.len()));
                self.handlers.minion.report_malformed(id, class, &error);
                return MinionReply::Refused(RefusedVerb::Malformed);
            }
        };
        if !self.may(principal, Verb::Minion(&request)) {
            return MinionReply::Refused(RefusedVerb::Malformed);
        }
        let closed = |jids: &[&Jid]| self.handlers.minion.jobs.closed_among(id, jids);
        let cost = Cost::of_minion(&request, plain.len(), closed);
        if let Err(delay) = self.draw(session, id, &cost) {
            return MinionReply::busy(delay);
        }
        match request {
            MinionRequest::Poll => {
                let protocol = session.version.protocol;
                let told = self.tell(principal, Admission::Accepted(()), protocol);
                // Looked at after the group key was read: see `add`.
                match session.state() {
                    SessionState::Accepted => MinionReply::Auth(told),
                    _ => MinionReply::Refused(RefusedVerb::KeyGone),
                }
            }
            request => {
                match request {
                    // Each minion sends one all the time.
                    MinionRequest::Heartbeat(_) => {
                        tracing::trace!("{principal}: Heartbeat, {class}");
                    }
                    _ => tracing::debug!("{principal}: {}, {class}", request.name()),
                }
                self.handlers.minion.carry_out(session, id, request).await
            }
        }
    }

    /// Carries out the request of a caller, if the account of its minion allows it.
    async fn caller(
        &self,
        session: &Arc<Session>,
        id: &MinionId,
        class: Class,
        plain: &[u8],
    ) -> CallerReply {
        let request = match decode::<CallerRequest>(plain) {
            Ok(request) => request,
            Err(error) => {
                let _ = self.draw(session, id, &Cost::of_bytes(plain.len()));
                self.handlers.minion.report_malformed(id, class, &error);
                return CallerReply::Refused(RefusedVerb::Malformed);
            }
        };
        if !self.may(&session.principal, Verb::Caller(&request)) {
            return CallerReply::Refused(RefusedVerb::Malformed);
        }
        match self.draw(session, id, &Cost::of_caller(&request, plain.len())) {
            Ok(()) => {
                let caller = &self.handlers.caller;
                Box::pin(caller.carry_out(session, id, request)).await
            }
            Err(delay) => CallerReply::busy(delay),
        }
    }

    /// Whether a peer may have this verb of its own audience.
    fn may(&self, principal: &Principal, verb: Verb<'_>) -> bool {
        let authorizer = &self.handlers.authorizer;
        let decided = authorizer.authorize(principal, Action::of(verb), About::Nothing);
        decided.is_ok()
    }

    /// Draws what a request costs on the account of a minion. Every request of a minion and of its callers comes here.
    ///
    /// # Errors
    /// When something is used up: the delay after which the minion may ask again.
    fn draw(&self, session: &Session, id: &MinionId, cost: &Cost) -> Result<(), Duration> {
        let handlers = &self.handlers;
        let accounts = &handlers.accounts;
        let events = handlers.settings.now().event_rates;
        let most = accounts.limits().open_jobs;
        let may_run = |wanted| handlers.minion.jobs.may_begin_to_run(id, wanted, most);
        let drawn = accounts.draw(id, &session.principal, cost, events, may_run);
        // Looked at afterwards: whoever deletes the minion's key ends the session first, and then forgets the account.
        if session.state() == SessionState::KeyGone {
            accounts.forget(id);
        }
        drawn
    }

    /// Carries out the request of an operator, whose key is looked up once more.
    async fn operator(&self, session: &Arc<Session>, class: Class, plain: &[u8]) -> OperatorReply {
        if let Some(refused) = self.refuse_operator(session).await {
            return refused;
        }
        let reply = self.carry_out(session, class, plain).await;
        match &reply {
            // The request may have waited for them.
            OperatorReply::Events(page) if !page.events.is_empty() => {
                self.refuse_operator(session).await.unwrap_or(reply)
            }
            _ => reply,
        }
    }

    /// Returns the reply to an operator whose key is not accepted now, or cannot be read; none if all is well.
    async fn refuse_operator(&self, session: &Arc<Session>) -> Option<OperatorReply> {
        match self.handlers.admission.still_accepts(session).await {
            Ok(true) => None,
            Ok(false) => {
                self.handlers.sessions.remove(session);
                Some(OperatorReply::Refused(RefusedVerb::KeyGone))
            }
            // That says nothing about the operator, whose session stays.
            Err(KeysUnreadable) => {
                let why = "the master cannot read the operators' keys now, and its log says why: try again";
                Some(OperatorReply::Failed(why.to_owned()))
            }
        }
    }

    async fn carry_out(&self, session: &Arc<Session>, class: Class, plain: &[u8]) -> OperatorReply {
        match decode::<OperatorRequest>(plain) {
            // Boxed as a handshake is.
            Ok(request) => {
                let principal = &session.principal;
                tracing::debug!("{}: {}, {class}", principal.log_name(), request.name());
                Box::pin(self.handlers.operator.carry_out(principal, request)).await
            }
            Err(error) => {
                let operator = &self.handlers.operator;
                operator.report_malformed(&session.principal, class, &error);
                OperatorReply::Refused(RefusedVerb::Malformed)
            }
        }
    }
}

fn refuse(principal: &Principal, why: RefusedVerb) -> Vec<u8> {
    match principal {
        Principal::Minion(_) => encode(&MinionReply::Refused(why)),
        Principal::Caller(_) => encode(&CallerReply::Refused(why)),
        Principal::LocalRoot
        | Principal::MasterUser
        | Principal::LocalUser(_)
        | Principal::ExternalUser(_)
        | Principal::Schedule(_)
        | Principal::Reaction(_)
        | Principal::Operator(_)
        | Principal::Api(_) => encode(&OperatorReply::Refused(why)),
    }
}
