//! The verbs that read jobs and returns.

use std::sync::Arc;

use saline_protocol::channel::record::OVERHEAD;
use saline_protocol::message::{
    FleetVersions, Jid, MinionId, OfferState, OperatorReply, ProtocolVersions, SOFTWARE, StatesPage,
};
use saline_protocol::transport::Clock;

use crate::jobs::{JobStore, StoreError};
use crate::sessions::Sessions;
use crate::wire_time::master_time;

/// The bytes of a message that a page of returns leaves free for its seal and its other fields.
const BESIDE_PAGE: usize = OVERHEAD + 4096;

/// The largest size of one minion in a page of states, in bytes: its id twice, since it may be silent.
const STATE_BYTES: usize = 2 * 257 + 1;

/// Answers questions about jobs and returns.
#[derive(Debug)]
pub struct JobQueries {
    pub(crate) clock: Clock,
    /// The largest message in bytes.
    pub(crate) max_message: usize,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) sessions: Arc<Sessions>,
}

impl JobQueries {
    pub(super) async fn returns(&self, jid: &Jid, after: u64) -> Result<OperatorReply, StoreError> {
        let page_bytes = self.max_message.saturating_sub(BESIDE_PAGE) / 2;
        let page = self.jobs.returns(jid, after, page_bytes).await?;
        Ok(page.map_or(OperatorReply::NoSuchJob, OperatorReply::Returns))
    }

    pub(super) async fn states(
        &self,
        jid: &Jid,
        after: Option<MinionId>,
    ) -> Result<OperatorReply, StoreError> {
        let most = (self.max_message.saturating_sub(BESIDE_PAGE) / STATE_BYTES).max(1);
        let Some(page) = self.jobs.states(jid, after.as_ref(), most).await? else {
            return Ok(OperatorReply::NoSuchJob);
        };
        let is_silent = |(id, state): &&(MinionId, OfferState)| {
            matches!(state, OfferState::Offered | OfferState::Running)
                && self.sessions.alive(id).is_none()
        };
        let silent = page.states.iter().filter(is_silent);
        Ok(OperatorReply::States(StatesPage {
            silent: silent.map(|(id, _)| id.clone()).collect(),
            more: page.more,
            states: page.states,
            clock: master_time(self.clock),
            expires: page.expires,
        }))
    }

    pub(super) async fn list(
        &self,
        limit: u32,
        before: Option<Jid>,
    ) -> Result<OperatorReply, StoreError> {
        let jobs = self.jobs.list(limit, before.as_ref()).await?;
        Ok(OperatorReply::Jobs(jobs))
    }

    pub(super) async fn lookup(&self, jid: &Jid) -> Result<OperatorReply, StoreError> {
        let job = self.jobs.job(jid).await?;
        Ok(job.map_or(OperatorReply::NoSuchJob, OperatorReply::Job))
    }

    /// Lists the versions of the master and of the connected minions.
    pub(super) fn versions(&self) -> OperatorReply {
        let sessions = self.sessions.all_alive();
        let mut minions: Vec<_> = sessions
            .iter()
            .filter_map(|session| {
                Some((session.principal.minion()?.clone(), session.version.clone()))
            })
            .collect();
        minions.sort_by(|a, b| a.0.cmp(&b.0));
        OperatorReply::Versions(FleetVersions {
            software: SOFTWARE.to_owned(),
            versions: ProtocolVersions::OURS,
            minions,
        })
    }

    /// Lists the jobs that each connected minion runs, by its last heartbeat.
    pub(super) fn running(&self) -> OperatorReply {
        let sessions = self.sessions.all_alive();
        let mut running: Vec<_> = sessions
            .iter()
            .filter_map(|session| Some((session.principal.minion()?.clone(), session.running())))
            .collect();
        running.sort();
        OperatorReply::Running(running)
    }
}
