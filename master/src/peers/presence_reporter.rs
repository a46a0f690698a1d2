//! Tells who came, who is gone, and which ids two machines use: in the log and on the event bus.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_data::printable::number_of;
use saline_messages::MinionId;
use saline_protocol::transport::{Clock, Instant};

use crate::events::Events;
use crate::jobs::JobStore;
use crate::publisher::MinionPublisher;
use crate::sessions::{Session, Sessions};

/// The shortest time between two rotations of the group key that two machines of one id cause.
const ROTATIONS: Duration = Duration::from_secs(10);

/// The number of events about jobs that wait for minions which are gone, from which they are fired and not gathered any
/// more.
const GONE_TOGETHER: usize = 1_024;

/// Reports the presence of minions.
#[derive(Debug, Clone)]
pub struct PresenceReporter {
    pub(crate) clock: Clock,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) publisher: MinionPublisher,
    pub(crate) events: Events,
    /// When the group key was rotated last because of two machines with one id.
    pub(crate) rotated: Arc<Mutex<Option<Instant>>>,
}

impl PresenceReporter {
    /// Reports that these minions are gone, and tells whoever waits for their jobs.
    pub async fn gone(&self, ids: &[MinionId]) {
        if ids.is_empty() {
            return;
        }
        tracing::info!(
            "{} gone: {}",
            number_of(ids.len(), "minion"),
            first_names(ids)
        );
        let planned = ids
            .iter()
            .filter_map(|id| Some((id.clone(), self.sessions.planned_end(id)?)));
        let planned: Vec<_> = planned.collect();
        self.events.presence_change(&[], ids, &planned).await;
        let mut gone = Vec::new();
        for id in ids {
            let waiting = self.jobs.waiting_for(id).into_iter();
            gone.extend(waiting.map(|jid| (jid, id.clone())));
            if gone.len() >= GONE_TOGETHER {
                self.events.jobs_gone(&std::mem::take(&mut gone)).await;
            }
        }
        self.events.jobs_gone(&gone).await;
    }

    /// Reports that these minions have come.
    pub async fn arrived(&self, ids: &[MinionId]) {
        if !ids.is_empty() {
            self.events.presence_change(ids, &[], &[]).await;
        }
    }

    /// Fires the list of all minions that are present, if anybody listens to it.
    pub async fn present(&self) {
        if !self.events.wants_present() {
            return;
        }
        let sessions = self.sessions.all_alive();
        let mut ids: Vec<_> = sessions
            .iter()
            .filter_map(|s| s.principal.minion().cloned())
            .collect();
        ids.sort();
        self.events.presence_present(&ids).await;
    }

    /// Reports that two machines use one id, at most once a minute for each.
    pub async fn report_duplicate(&self, id: &MinionId, old: &Session, new: &Session) {
        let addresses = [old, new].map(|session| session.peer.to_string());
        if self.sessions.note_duplicate(id, addresses.clone()) {
            let [old, new] = &addresses;
            tracing::warn!(
                "two machines use the id {id}, at {old} and {new}: give one of them another id and delete its \
                 pki_dir and state_dir, or stop it"
            );
            self.events.duplicate_minion(id, &addresses).await;
        }
    }

    /// Takes the key of publications to all from a session that was replaced and whose minion may live on.
    pub async fn rotate_for_duplicate(&self) {
        let now = self.clock.now();
        let due = {
            let mut rotated = self.rotated.lock().unwrap_or_else(PoisonError::into_inner);
            let due = rotated.is_none_or(|last| now - last >= ROTATIONS);
            if due {
                *rotated = Some(now);
            }
            due
        };
        if due {
            self.publisher.rotate().await;
        }
    }
}

/// Returns the first names, for a line in the log.
fn first_names(ids: &[MinionId]) -> String {
    const SHOWN: usize = 20;
    let mut names: Vec<&str> = ids.iter().take(SHOWN).map(MinionId::as_str).collect();
    if ids.len() > SHOWN {
        names.push("…");
    }
    names.join(", ")
}
