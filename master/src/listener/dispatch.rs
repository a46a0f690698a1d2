//! Dispatches the decrypted requests of sessions by audience and by what the session may do.

use std::sync::Arc;

use saline_messages::{
    Admission, CallerReply, CallerRequest, Class, MinionReply, MinionRequest, OperatorReply,
    OperatorRequest, PendingRequest, RefusedVerb, decode, encode,
};

use super::Listener;
use crate::keys::KeysUnreadable;
use crate::sessions::{Principal, Session, SessionState};

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
                let reply = match decode::<MinionRequest>(plain) {
                    Ok(MinionRequest::Poll) => {
                        let protocol = session.version.protocol;
                        let told = self.tell(principal, Admission::Accepted(()), protocol);
                        // Looked at after the group key was read: see `add`.
                        match session.state() {
                            SessionState::Accepted => MinionReply::Auth(told),
                            _ => MinionReply::Refused(RefusedVerb::KeyGone),
                        }
                    }
                    Ok(request) => {
                        match request {
                            // Each minion sends one all the time.
                            MinionRequest::Heartbeat(_) => {
                                tracing::trace!("{principal}: Heartbeat, {class}");
                            }
                            _ => tracing::debug!("{principal}: {}, {class}", request.name()),
                        }
                        self.handlers.minion.carry_out(session, id, request).await
                    }
                    Err(error) => {
                        self.handlers.minion.report_malformed(id, class, &error);
                        MinionReply::Refused(RefusedVerb::Malformed)
                    }
                };
                encode(&reply)
            }
            // A caller's sessions do not end with its minion's.
            (Principal::Caller(_), SessionState::Accepted)
                if self.still_accepted(session).await != Ok(true) =>
            {
                refuse(principal, RefusedVerb::KeyGone)
            }
            (Principal::Caller(id), SessionState::Accepted) => {
                let reply = match decode::<CallerRequest>(plain) {
                    Ok(request) => Box::pin(self.handlers.caller.carry_out(id, request)).await,
                    Err(error) => {
                        self.handlers.minion.report_malformed(id, class, &error);
                        CallerReply::Refused(RefusedVerb::Malformed)
                    }
                };
                encode(&reply)
            }
            (Principal::Operator(name), SessionState::Accepted) => {
                encode(&self.operator(session, name, class, plain).await)
            }
        }
    }

    /// Carries out the request of an operator, whose key is looked up once more.
    async fn operator(
        &self,
        session: &Arc<Session>,
        name: &str,
        class: Class,
        plain: &[u8],
    ) -> OperatorReply {
        match self.handlers.admission.still_accepts(session).await {
            Ok(true) => {}
            Ok(false) => {
                self.handlers.sessions.remove(session);
                return OperatorReply::Refused(RefusedVerb::KeyGone);
            }
            // That says nothing about the operator, whose session stays.
            Err(KeysUnreadable) => {
                let why = "the master cannot read the operators' keys now, and its log says why: try again";
                return OperatorReply::Failed(why.to_owned());
            }
        }
        match decode::<OperatorRequest>(plain) {
            // Boxed as a handshake is.
            Ok(request) => {
                tracing::debug!("operator {name}: {}, {class}", request.name());
                Box::pin(self.handlers.operator.carry_out(name, request)).await
            }
            Err(error) => {
                tracing::warn!(
                    "operator {name} sent a request that cannot be decoded ({class}): {error}"
                );
                OperatorReply::Refused(RefusedVerb::Malformed)
            }
        }
    }
}

fn refuse(principal: &Principal, why: RefusedVerb) -> Vec<u8> {
    match principal {
        Principal::Minion(_) => encode(&MinionReply::Refused(why)),
        Principal::Caller(_) => encode(&CallerReply::Refused(why)),
        Principal::Operator(_) => encode(&OperatorReply::Refused(why)),
    }
}
