//! The verbs that read jobs and returns.

use std::sync::Arc;

use saline_channel::record::OVERHEAD;
use saline_messages::{Jid, MinionId, MinionJobState, OperatorReply, StatesPage};

use crate::authorize::{About, Action, Authorizer, Principal};
use crate::clock::MasterClock;
use crate::jobs::{JobStore, StoreError};
use crate::sessions::Sessions;

/// The bytes of a message that a page of returns or events leaves free for its seal and its other fields.
pub(super) const PAGE_OVERHEAD: usize = OVERHEAD + 4096;

/// The largest size of one minion in a page of states, in bytes: its id four times, since it may be silent, disputed or
/// busy, unconfirmed and used twice.
const STATE_BYTES: usize = 4 * 257 + 12;

/// Answers questions about jobs and returns.
#[derive(Debug)]
pub struct JobQueries {
    pub(crate) authorizer: Authorizer,
    pub(crate) clock: MasterClock,
    /// The largest message in bytes.
    pub(crate) max_message: usize,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) sessions: Arc<Sessions>,
}

impl JobQueries {
    /// Returns why the principal may not read a job; none if it may, or there is no such job.
    pub(super) async fn refuse(
        &self,
        principal: &Principal,
        jid: &Jid,
    ) -> Result<Option<OperatorReply>, StoreError> {
        if self.authorizer.sees_all(principal) {
            return Ok(None);
        }
        let Some(owner) = self.jobs.owner(jid).await? else {
            return Ok(None);
        };
        let about = About::Owner(&owner);
        let decided = self.authorizer.authorize(principal, Action::ReadJob, about);
        Ok(decided
            .err()
            .map(|refusal| OperatorReply::NotAllowed(refusal.line)))
    }

    pub(super) async fn returns(&self, jid: &Jid, after: u64) -> Result<OperatorReply, StoreError> {
        let page_bytes = self.max_message.saturating_sub(PAGE_OVERHEAD) / 2;
        let page = self.jobs.returns(jid, after, page_bytes).await?;
        Ok(page.map_or(OperatorReply::NoSuchJob, OperatorReply::Returns))
    }

    pub(super) async fn states(
        &self,
        jid: &Jid,
        after: Option<MinionId>,
    ) -> Result<OperatorReply, StoreError> {
        let most = (self.max_message.saturating_sub(PAGE_OVERHEAD) / STATE_BYTES).max(1);
        let Some(page) = self.jobs.states(jid, after.as_ref(), most).await? else {
            return Ok(OperatorReply::NoSuchJob);
        };
        let (mut silent, mut disputed, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        for (id, state) in &page.states {
            if state.is_final() || *state == MinionJobState::Queued {
                continue;
            }
            match self.sessions.alive(id) {
                None if self.jobs.is_arriving(id, jid) => {}
                None => silent.push(id.clone()),
                Some(session) if *state == MinionJobState::Offered && session.is_busy() => {
                    busy.push(id.clone());
                }
                Some(session)
                    if *state == MinionJobState::Running
                        && self.jobs.is_disputed(id, jid)
                        && !session.running().contains(jid) =>
                {
                    disputed.push(id.clone());
                }
                Some(_) => {}
            }
        }
        let planned = silent
            .iter()
            .filter_map(|id| Some((id.clone(), self.sessions.planned_end(id)?)));
        let planned = planned.collect();
        let duplicates = self.sessions.duplicates().into_iter().map(|(id, _)| id);
        let is_here = |id: &MinionId| page.states.binary_search_by(|(at, _)| at.cmp(id)).is_ok();
        let duplicates = duplicates.filter(is_here).collect();
        Ok(OperatorReply::States(StatesPage {
            silent,
            planned,
            disputed,
            busy,
            more: page.more,
            states: page.states,
            clock: self.clock.now(),
            expires: page.expires,
            unconfirmed_since: page.unconfirmed_since,
            duplicates,
        }))
    }
}
