//! A job's walk through the minion, up to its spooled return.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_protocol::message::{Class, Jid, Job, MinionRequest};

use super::Minion;
use super::returning::{Returned, not_begun, run_and_spool};

/// Jobs that wait for a place; one more is not taken.
const MOST_WAITING: usize = 1024;

/// A run longer than this is announced.
const ANNOUNCED_AFTER: Duration = Duration::from_millis(500);

/// How long an announcement may take. Heartbeats say the same.
const ANNOUNCEMENT: Duration = Duration::from_secs(10);

/// How a job came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// To everybody.
    All,
    /// On the minion's own topic, or because it asked: so it was offered.
    Own,
}

/// The jobs that were taken and have no spooled return yet.
#[derive(Debug, Default)]
pub struct Taken(Mutex<BTreeSet<Jid>>);

impl Taken {
    fn add(&self, jid: &Jid) -> bool {
        self.lock().insert(jid.clone())
    }

    fn remove(&self, jid: &Jid) {
        self.lock().remove(jid);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<Jid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Minion {
    /// Takes a job that the master signed: runs it, unless it is for others, too late, or has been
    /// here. Does not wait.
    pub(super) fn take(self: &Arc<Self>, job: Job, origin: Origin) {
        let jid = job.jid.clone();
        if self.draining.is_cancelled() || self.spool.is_seen(&jid) {
            return;
        }
        let matches = match job.target.compile() {
            Ok(matcher) => matcher.matches(&self.id),
            Err(error) => {
                tracing::warn!("job {jid}: its target cannot be read: {error}");
                false
            }
        };
        if !matches {
            // On everybody's topic only those that match are offered a job; the others are silent.
            if origin == Origin::Own {
                tracing::info!("job {jid}: declined {}, it is for others", job.fun);
                self.tell(MinionRequest::Declined { jid });
            }
            return;
        }
        if self.is_late(&job) {
            return;
        }
        if self.taken.len() >= MOST_WAITING + self.config.process_count_max {
            tracing::warn!("job {jid}: not taken, {} wait already", self.taken.len());
            return;
        }
        if !self.taken.add(&jid) {
            return;
        }
        tracing::info!("job {jid}: received {} from {}", job.fun, job.user);
        let this = Arc::clone(self);
        self.jobs.spawn(async move {
            this.carry_out(job).await;
            this.taken.remove(&jid);
        });
    }

    fn is_late(&self, job: &Job) -> bool {
        let late = self.clock.now().is_some_and(|now| now > job.expires);
        if late {
            tracing::warn!("job {}: not begun, its time has passed", job.jid);
        }
        late
    }

    async fn carry_out(self: &Arc<Self>, job: Job) {
        let jid = job.jid.clone();
        let place = tokio::select! {
            biased;
            () = self.draining.cancelled() => None,
            place = self.pool.place() => place,
        };
        let Some(place) = place else {
            tracing::warn!("job {jid}: not begun, the minion stops");
            return;
        };
        if self.is_late(&job) {
            return;
        }
        tracing::info!("job {jid}: running {}", job.fun);
        let announcement = self.announce_start(&jid);
        let (host, spool) = (Arc::clone(&self.host), Arc::clone(&self.spool));
        let copy = job.clone();
        let work = move || run_and_spool(&host, &spool, &copy);
        let returned = self.pool.run(place, work).await;
        announcement.abort();
        match returned {
            Some(Returned::Spooled(retcode)) => {
                tracing::info!("job {jid}: returned, retcode {retcode}");
            }
            Some(Returned::Seen) => tracing::debug!("job {jid}: has been here"),
            None => {
                tracing::error!("job {jid}: lost by the minion itself");
                let spool = Arc::clone(&self.spool);
                let lost = move || not_begun(&spool, &job, "the minion lost track of this job");
                // An error means that this, too, panicked; it has been told.
                let _ = self.context.spawn_blocking(lost).await;
            }
        }
    }

    fn announce_start(self: &Arc<Self>, jid: &Jid) -> tokio::task::JoinHandle<()> {
        let (this, jid) = (Arc::clone(self), jid.clone());
        self.jobs.spawn(async move {
            this.context.clock.pause(ANNOUNCED_AFTER).await;
            this.ask_somehow(&MinionRequest::Started { jid }).await;
        })
    }

    /// Tells the master something that it can do without.
    fn tell(self: &Arc<Self>, request: MinionRequest) {
        let this = Arc::clone(self);
        self.context
            .spawn(async move { this.ask_somehow(&request).await });
    }

    async fn ask_somehow(&self, request: &MinionRequest) {
        let link = self.links.borrow().clone();
        let Some(link) = link else { return };
        if let Err(error) = link.ask(Class::Event, request, ANNOUNCEMENT).await {
            tracing::debug!("the master was not told: {error}");
        }
    }
}
