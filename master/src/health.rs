//! How the master is: what `--health` prints, and whether the service manager is told that the master is alive.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use saline_daemon::Health;
use saline_protocol::transport::{Context, Endpoint};

use crate::jobs::{JobStore, StoreError};
use crate::keys::{KeyAccess, KeyStore};
use crate::sessions::Sessions;

/// How long a part may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// The free space in bytes below which the disk of the job store is a problem: twice the room that a large return takes.
const LOW_SPACE: u64 = 128 * 1024 * 1024;

/// How the master is.
#[derive(Debug)]
pub(crate) struct HealthChecks {
    pub(crate) context: Context,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) keys: KeyAccess,
    pub(crate) listeners: Arc<[Endpoint]>,
}

impl HealthChecks {
    /// Whether tasks get their turns, and the tables that everything goes through are not locked for good. The disk does not
    /// count: a master whose disk hangs is not helped by a restart.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn is_alive(&self) -> bool {
        let (sessions, jobs) = (Arc::clone(&self.sessions), Arc::clone(&self.jobs));
        // On another thread of the runtime than the one that asks.
        let turn = self.context.spawn(async move {
            sessions.minions();
            jobs.under_way();
        });
        let clock = self.context.clock;
        let end = clock.after(ANSWER_TIMEOUT);
        matches!(clock.deadline(end, turn).await, Ok(Ok(_)))
    }

    /// Returns how the master is. Takes nine seconds at most.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn health(&self) -> Health {
        let mut health = Health::of_this_process();
        if !self.is_alive().await {
            health.problem("its tasks get no turns: the master has hung, restart it");
            return health;
        }
        let listeners: Vec<String> = self.listeners.iter().map(Endpoint::to_string).collect();
        health.fact("listeners", listeners);
        health.fact("minions_present", self.sessions.minions());
        health.fact("jobs_under_way", self.jobs.under_way());
        let clock = self.context.clock;
        let began = clock.now();
        let parts = async { tokio::join!(self.store(), self.count_keys(), self.space()) };
        let Ok((store, keys, space)) = clock.deadline(clock.after(ANSWER_TIMEOUT), parts).await
        else {
            health.problem(format!(
                "its disk, or the thread of the job store, did not answer for {} s: look at {}",
                ANSWER_TIMEOUT.as_secs(),
                self.jobs.folder().display()
            ));
            return health;
        };
        let took = (clock.now() - began).as_millis();
        health.fact("store_answer_ms", u64::try_from(took).unwrap_or(u64::MAX));
        match store {
            Ok(bytes) => health.fact("store_bytes", bytes),
            Err(error) => health.problem(format!("the job store: {error}")),
        }
        match space {
            Some(free) => {
                health.fact("store_free_bytes", free);
                if free < LOW_SPACE {
                    let folder = self.jobs.folder().display();
                    health.problem(format!(
                        "the disk of the job store, {folder}, has {} MiB left: make room, or set job_store_size",
                        free >> 20
                    ));
                }
            }
            None => health.problem("the file system of the job store cannot be asked for its space"),
        }
        match keys {
            Some((accepted, pending)) => {
                health.fact("keys_accepted", accepted);
                health.fact("keys_pending", pending);
            }
            None => health.problem("the folders of keys cannot be read: look at pki_dir"),
        }
        health
    }

    /// Has the thread of the job store commit nothing, and returns the size of the store in bytes.
    async fn store(&self) -> Result<u64, StoreError> {
        self.jobs.commit_nothing().await?;
        let jobs = Arc::clone(&self.jobs);
        let bytes = self.context.spawn_blocking(move || jobs.bytes()).await;
        Ok(bytes.unwrap_or_default())
    }

    /// Returns the numbers of accepted and of pending keys.
    async fn count_keys(&self) -> Option<(usize, usize)> {
        let counted = self.keys.with_minions(|store: &KeyStore| {
            let accepted = store.accepted_ids().ok()?.len();
            Some((accepted, store.pending_count().ok()?))
        });
        counted.await.flatten()
    }

    /// Returns the free bytes of the file system that holds the job store.
    async fn space(&self) -> Option<u64> {
        let folder = self.jobs.folder().to_owned();
        let asked = self.context.spawn_blocking(move || free_bytes(&folder));
        asked.await.ok().flatten()
    }
}

/// Returns the bytes that this process may still write in `folder`.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
