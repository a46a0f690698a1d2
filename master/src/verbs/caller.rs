//! Carries out the requests of callers: `saline-call` beside a running minion.

use saline_messages::{
    CallerReply, CallerRequest, MAX_EVENTS, MAX_RETURNERS, MineRequest, MinionId, RefusedVerb,
};

use super::call_store::{CallStore, CallStored};
use super::minion::{FIRING_DELAY, NO_ROOM};
use crate::events::MinionEventFirer;
use crate::mine::{Mine, MineAnswer};
use crate::pillar::{PillarAnswer, Pillars};
use crate::sessions::{Session, SessionState};

/// Carries out the requests of callers, which draw on the account of their minion.
#[derive(Debug)]
pub struct CallerVerbs {
    pub(crate) store: CallStore,
    /// Apart from that of the minion, since its events are numbered by another start.
    pub(crate) minion_events: MinionEventFirer,
    pub(crate) pillars: Pillars,
    pub(crate) mine: Mine,
}

impl CallerVerbs {
    /// Carries out the request of a caller with the key of the minion `id`.
    pub async fn carry_out(
        &self,
        session: &Session,
        id: &MinionId,
        request: CallerRequest,
    ) -> CallerReply {
        match request {
            CallerRequest::FireEvents(events) if events.events.len() > MAX_EVENTS => {
                CallerReply::Refused(RefusedVerb::Malformed)
            }
            CallerRequest::FireEvents(events) => {
                match self
                    .minion_events
                    .fire(session.event_origin(), id, events)
                    .await
                {
                    Ok(true) => CallerReply::Done,
                    Ok(false) => CallerReply::busy(FIRING_DELAY),
                    Err(error) => CallerReply::Failed(error.to_string()),
                }
            }
            CallerRequest::Pillar(request) => match self.pillars.answer(id, request).await {
                PillarAnswer::Reply(reply) => CallerReply::Pillar(reply),
                PillarAnswer::Busy(delay) => CallerReply::busy(delay),
                PillarAnswer::Malformed => CallerReply::Refused(RefusedVerb::Malformed),
            },
            CallerRequest::Mine(request) => self.mine(session, id, request).await,
            CallerRequest::CheckReturners(names) if names.len() > MAX_RETURNERS => {
                CallerReply::Refused(RefusedVerb::Malformed)
            }
            CallerRequest::CheckReturners(names) => match self.store.returners.check(&names) {
                Ok(()) => CallerReply::Done,
                Err(why) => CallerReply::Failed(why),
            },
            CallerRequest::Return(returned) if !returned.is_within_bounds() => {
                CallerReply::Refused(RefusedVerb::Malformed)
            }
            CallerRequest::Return(returned) => match self.store.called(id, returned).await {
                Ok(CallStored::Stored(jid)) => CallerReply::Stored(jid),
                Ok(CallStored::NoRoom) => CallerReply::busy(NO_ROOM),
                Ok(CallStored::Refused) => CallerReply::Refused(RefusedVerb::Malformed),
                Ok(CallStored::NoDestination(why)) => CallerReply::Failed(why),
                Ok(CallStored::Failed) => {
                    CallerReply::Failed("it did not take the return".to_owned())
                }
                Err(error) => {
                    tracing::error!("a call on minion {id}: the job store failed: {error}");
                    CallerReply::Failed(error.to_string())
                }
            },
        }
    }

    /// Takes what a caller leaves in the mine for its minion, or gives it what others have left.
    async fn mine(&self, session: &Session, id: &MinionId, request: MineRequest) -> CallerReply {
        let answer = self.mine.answer(id, request).await;
        // As for the minion's own requests.
        if session.state() == SessionState::KeyGone {
            self.mine.forget_removed(id).await;
            return CallerReply::Refused(RefusedVerb::KeyGone);
        }
        match answer {
            MineAnswer::Reply(reply) => CallerReply::Mine(reply),
            MineAnswer::Busy(delay) => CallerReply::busy(delay),
            MineAnswer::Malformed => CallerReply::Refused(RefusedVerb::Malformed),
        }
    }
}
