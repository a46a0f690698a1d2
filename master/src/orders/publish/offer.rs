//! How a job is offered: to which minions at once, who must claim it, and until when.

use saline_messages::random::{self, NoRandomness};
use saline_messages::{Batch, MasterTime, MinionId, MinionJobState, MustClaim, PublishRequest};

use super::super::batch_choice;
use super::{OrderedMinions, PublishOrder};
use crate::publisher::MAX_OWN_TOPIC;

/// How a job is offered.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) minions: Vec<(MinionId, MinionJobState)>,
    pub(super) batch: Option<Batch>,
    pub(super) claims: MustClaim,
    pub(super) expires: MasterTime,
}

impl PublishOrder {
    /// Returns how the job is offered: to which minions at once, and until when.
    pub(super) fn offer(&self, request: &PublishRequest, ordered: &OrderedMinions) -> Offer {
        let created = ordered.found;
        let queues = request.ttl_ms.is_some();
        let mut minions = self.states(&ordered.ids, created, queues);
        let settings = self.settings.now();
        let batch =
            batch_choice::choose(&request.batch, settings.safe_batch, minions.len(), queues);
        if batch.is_some() {
            for (_, state) in &mut minions {
                *state = MinionJobState::Waiting;
            }
        }
        let claims = match batch {
            Some(_) => MustClaim::Everybody,
            None => self.claims(ordered.resolved, created, &minions),
        };
        // The turn of the last minion of a batch may come long after the first one's.
        let usual = batch.map_or(settings.job_ttl, |_| settings.keep_jobs);
        // Jobs are not kept longer, whatever `job_ttl` says.
        let ttl = request.ttl_ms.unwrap_or(usual).min(settings.keep_jobs);
        Offer {
            minions,
            batch,
            claims,
            expires: MasterTime::saturating_add(created, ttl),
        }
    }

    /// Returns who must claim a job for these minions, sorted by id. A job that goes to the topic of all reaches minions too
    /// whose keys were accepted after its target was resolved. Such a minion may match the target and have a lease that covers
    /// the job, so it has to ask, and is refused: the principal's rules were judged without it.
    pub(super) fn claims(
        &self,
        resolved_at: MasterTime,
        created: MasterTime,
        minions: &[(MinionId, MinionJobState)],
    ) -> MustClaim {
        let mut newcomers = match minions.len() > MAX_OWN_TOPIC {
            true => self.sessions.leased_since(resolved_at),
            false => Vec::new(),
        };
        newcomers.retain(|id| minions.binary_search_by(|(own, _)| own.cmp(id)).is_err());
        let away = minions
            .iter()
            .filter(|(_, state)| *state != MinionJobState::Offered);
        let away = away.map(|(id, _)| id);
        self.sessions.claims(created, away.chain(&newcomers))
    }

    /// Returns the state in which the job is offered to each of these minions.
    fn states(
        &self,
        minions: &[MinionId],
        created: MasterTime,
        queues: bool,
    ) -> Vec<(MinionId, MinionJobState)> {
        let state = |id| match self.sessions.is_offered(id, created) {
            true => MinionJobState::Offered,
            false if queues => MinionJobState::Queued,
            false => MinionJobState::NotConnected,
        };
        minions.iter().map(|id| (id.clone(), state(id))).collect()
    }

    /// Chooses at random `most` of the minions that are present, or all of them if there are fewer.
    pub(super) fn choose(
        &self,
        mut left: Vec<MinionId>,
        most: u32,
        created: MasterTime,
    ) -> Result<Vec<MinionId>, NoRandomness> {
        left.retain(|id| self.sessions.is_offered(id, created));
        let mut chosen = Vec::new();
        for _ in 0..most.min(u32::try_from(left.len()).unwrap_or(u32::MAX)) {
            let number = u64::from_be_bytes(random::bytes()?) % left.len() as u64;
            // Below the length of a list in memory.
            chosen.push(left.swap_remove(usize::try_from(number).unwrap_or(0)));
        }
        chosen.sort_unstable();
        Ok(chosen)
    }
}
