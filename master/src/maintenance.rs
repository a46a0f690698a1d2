//! Regular upkeep: expires offers, writes what changed, forgets silent sessions, prunes old jobs, and runs the
//! watch over the keys.

use std::sync::Arc;
use std::time::Duration;

use saline_data::printable::number_of;
use saline_messages::{EventOrigin, MAX_RUNNING, MinionJobState};
use saline_protocol::transport::Clock;
use tokio::time::Interval;

use crate::bounds::Accounts;
use crate::clock::MasterClock;
use crate::decisions::Decisions;
use crate::events::{DurableEvents, Events};
use crate::fileserver::FileServer;
use crate::functions::FunctionsTable;
use crate::grains::GrainsTable;
use crate::jobs::JobStore;
use crate::keys::{KeyAccess, KeyStore};
use crate::logins::PamAccounts;
use crate::peers::{EndedConnections, KeyWatch, PresenceReporter};
use crate::publisher::MinionPublisher;
use crate::sessions::Sessions;
use crate::settings::LiveSettings;

/// How often sessions are swept and expiry is checked.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);

/// How often it is looked for minions whose connections have ended.
const CUTS: Duration = Duration::from_millis(250);

/// How often the present minions are listed on the event bus: Salt's `loop_interval`.
const PRESENT: Duration = Duration::from_secs(60);

/// How often old jobs are pruned.
const PRUNING: Duration = Duration::from_secs(300);

/// When they are pruned first after a start: minions that run jobs have said so by then.
const FIRST_PRUNING: Duration = Duration::from_secs(60);

/// How long no job is removed after a start at which the clock was far from the newest entry of the job store: it may be wrong,
/// or the entry may be from a time when it was.
const IN_DOUBT: Duration = Duration::from_secs(3_600);

/// The upkeep of one master.
#[derive(Debug)]
pub struct Maintenance {
    pub(crate) clock: MasterClock,
    pub(crate) settings: LiveSettings,
    pub(crate) decisions: Decisions,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) grains: Arc<GrainsTable>,
    pub(crate) functions: Arc<FunctionsTable>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) events: Events,
    pub(crate) durable: Arc<DurableEvents>,
    pub(crate) files: FileServer,
    pub(crate) presence: PresenceReporter,
    pub(crate) ended_connections: EndedConnections,
    pub(crate) keys: KeyAccess,
    pub(crate) key_watch: KeyWatch,
    pub(crate) publisher: MinionPublisher,
    pub(crate) pam_accounts: PamAccounts,
}

/// Returns the timer by which old jobs are pruned.
fn pruning_timer(clock: Clock) -> Interval {
    clock.interval_after(FIRST_PRUNING, PRUNING)
}

impl Maintenance {
    /// Runs until the future is dropped.
    pub async fn run(self) {
        // Apart, so that none waits for another: a full disk must not keep the dead present.
        tokio::join!(
            self.expiries(),
            self.flushes(),
            self.grains_flushes(),
            self.sweeps(),
            self.presence(),
            self.key_watch.run(),
            self.prunings(),
            self.rotations(),
            self.pam_accounts.run()
        );
    }

    async fn expiries(&self) {
        let mut timer = self.clock.clock().interval(MAINTENANCE_INTERVAL);
        loop {
            timer.tick().await;
            self.expire().await;
        }
    }

    async fn flushes(&self) {
        let mut timer = self.clock.clock().interval(MAINTENANCE_INTERVAL);
        loop {
            timer.tick().await;
            self.flush().await;
        }
    }

    /// Writes the grains that minions reported, and the names of their own functions.
    async fn grains_flushes(&self) {
        let mut timer = self.clock.clock().interval(MAINTENANCE_INTERVAL);
        loop {
            timer.tick().await;
            self.grains.flush().await;
            self.functions.flush().await;
        }
    }

    async fn sweeps(&self) {
        let mut timer = self.clock.clock().interval(MAINTENANCE_INTERVAL);
        loop {
            timer.tick().await;
            self.tick();
            self.sessions.forget_leases(self.clock.now());
            let mut reporting = std::pin::pin!(async {
                self.presence.gone(&self.sessions.sweep()).await;
                self.presence.arrived(&self.sessions.take_arrived()).await;
            });
            // Events that wait for slow listeners do not count as time in which the master did not run.
            loop {
                tokio::select! {
                    () = &mut reporting => break,
                    _ = timer.tick() => self.tick(),
                }
            }
            self.jobs.sweep_transfers();
            self.accounts.sweep(self.settings.now().event_rates);
        }
    }

    /// Notes that the master runs.
    fn tick(&self) {
        if let Some(stood) = self.sessions.tick() {
            tracing::warn!(
                "the master did not run for {} s: minions get time to speak before they count as gone",
                stood.as_secs()
            );
        }
    }

    /// Looks often for minions whose connections have ended, and for connections whose sessions have; lists the
    /// minions that are present now and then.
    async fn presence(&self) {
        let mut cuts = self.clock.clock().interval(CUTS);
        let mut present = self.clock.clock().interval(PRESENT);
        loop {
            tokio::select! {
                _ = cuts.tick() => {
                    self.ended_connections.cut();
                    self.presence.gone(&self.sessions.take_cut()).await;
                }
                _ = present.tick() => self.presence.present().await,
            }
        }
    }

    /// Begins a new group key when the one before was used for `publish_session`, so that whoever reads it once reads what is
    /// published of one session alone. Rotations for other reasons do not put this one off.
    async fn rotations(&self) {
        let clock = self.clock.clock();
        let mut timer = clock.interval(MAINTENANCE_INTERVAL);
        let mut rotated = clock.now();
        loop {
            timer.tick().await;
            let session = self.settings.now().publish_session;
            if clock.now().duration_since(rotated) >= session {
                rotated = clock.now();
                self.publisher.rotate().await;
            }
        }
    }

    async fn prunings(&self) {
        let clock = self.clock.clock();
        let credible = match self.jobs.started_in_doubt() {
            true => clock.after(IN_DOUBT),
            false => clock.now(),
        };
        let mut timer = pruning_timer(clock);
        loop {
            timer.tick().await;
            if clock.now() >= credible {
                self.prune().await;
            }
            self.expire_keys().await;
            self.files.remove_expired_uploads().await;
        }
    }

    /// Expires what was queued for minions that did not come in time, and fires an event for each.
    async fn expire(&self) {
        let expired = self.jobs.expire(self.clock.now());
        for (jid, id) in &expired {
            tracing::info!("job {jid}: minion {id} did not begin in time");
        }
        self.events.jobs_expired(&expired).await;
        for (jid, id) in self.jobs.take_given_up() {
            tracing::warn!(
                "job {jid}: minion {id} runs more than {MAX_RUNNING} jobs: the master does not follow this one any more and shows it as \"lost track\""
            );
            let state = MinionJobState::LostTrack;
            self.events.job_state(&jid, &id, state).await;
        }
    }

    /// Writes the states that minions reported.
    async fn flush(&self) {
        if let Err(error) = self.jobs.flush_due().await {
            tracing::debug!("the states of jobs were not written: {error}");
        }
    }

    /// Removes the pending and denied keys that are not presented any more.
    async fn expire_keys(&self) {
        let Some(kept) = self.settings.now().pending_key_expiry else {
            return;
        };
        let expire_apis = move |keys: &KeyStore| keys.apis().expire(kept);
        match self.keys.with_minions(expire_apis).await {
            Some(Ok(expired)) => {
                for name in expired {
                    tracing::info!("removed the pending key of API {name}: pending_key_days");
                }
            }
            Some(Err(error)) => tracing::error!("old keys of APIs were not removed: {error}"),
            // The runtime logs why.
            None => {}
        }
        let expire = move |keys: &KeyStore| keys.expire(kept);
        match self.keys.with_minions(expire).await {
            Some(Ok(expired)) => {
                for (state, id) in expired {
                    let adjective = state.adjective();
                    tracing::info!("removed the {adjective} key of minion {id}: pending_key_days");
                    let origin = EventOrigin::master();
                    self.events.key(origin, &id, "delete").await;
                    let subject = format!("delete, {adjective}");
                    let noted = self
                        .decisions
                        .note_key_refused(&id, subject, "pending_key_days");
                    noted.await;
                }
            }
            Some(Err(error)) => tracing::error!("old keys were not removed: {error}"),
            // The runtime logs why.
            None => {}
        }
    }

    async fn prune(&self) {
        let oldest = self
            .clock
            .now()
            .saturating_sub(self.settings.now().keep_jobs);
        if let Some(store) = self.durable.store() {
            let before = i64::try_from(oldest.saturating_mul(1_000)).unwrap_or(i64::MAX);
            if let Err(error) = store.remove_older(before).await {
                tracing::error!("old events were not removed: {error}");
            }
        }
        let pruned = match self.jobs.prune(oldest).await {
            Ok(pruned) => pruned,
            Err(error) => return tracing::error!("old jobs were not removed: {error}"),
        };
        for part in pruned {
            let before = part.before;
            let kept = match part.kept {
                0 => String::new(),
                kept => format!(
                    "; kept: {} that minions run or may begin, without large returns",
                    number_of(kept, "job")
                ),
            };
            match (part.early, part.under_way) {
                (false, _) => tracing::info!(
                    "removed the jobs before {before}, which are older than keep_jobs_seconds{kept}"
                ),
                (true, false) => tracing::warn!(
                    "removed the jobs before {before} early: the job store reached job_store_size{kept}"
                ),
                (true, true) => tracing::warn!(
                    "removed the jobs before {before} early, though minions still run some: the job \
                     store reached job_store_size"
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests;
