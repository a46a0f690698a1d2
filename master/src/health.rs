//! The health of the master: what `--health` prints, and the check before the service manager is told that the master is alive.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_daemon::Health;
use saline_messages::KeyState;
use saline_protocol::transport::{Context, Endpoint};
use tokio::sync::watch;

use crate::disk_figures::DiskReader;
use crate::jobs::JobStore;
use crate::sessions::Sessions;

/// How long a part may take to answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// The free space in bytes below which the disk of the job store is a problem: twice the room that a large return takes.
const LOW_SPACE: u64 = 128 * 1024 * 1024;

/// The task that asks whether tasks get their turns. There is one at most, since one that finds a table locked holds a thread of
/// the runtime until that ends.
#[derive(Debug, Default)]
pub(crate) struct TurnProbe(Mutex<Option<watch::Receiver<()>>>);

impl TurnProbe {
    /// Returns a receiver that is closed when the task has ended: the one that still runs, or a new one with `probe`. The tracker
    /// of the context joins it.
    fn run(
        &self,
        context: &Context,
        probe: impl Future<Output = ()> + Send + 'static,
    ) -> watch::Receiver<()> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = running.as_ref().filter(|it| it.has_changed().is_ok()) {
            return running.clone();
        }
        let (end, ended) = watch::channel(());
        // The tracker joins it.
        drop(context.spawn(async move {
            let _end = end;
            probe.await;
        }));
        *running = Some(ended.clone());
        ended
    }
}

/// The checks of a running master, and the parts that they ask.
#[derive(Debug)]
pub(crate) struct HealthChecks {
    pub(crate) context: Context,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) disk: DiskReader,
    pub(crate) listeners: Arc<[Endpoint]>,
    pub(crate) turn: Arc<TurnProbe>,
}

impl HealthChecks {
    /// Whether a task gets its turn within this time, and the tables of sessions and of open jobs are not locked for good. The
    /// disk does not count: a restart does not help a master whose disk hangs.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn is_alive(&self, within: Duration) -> bool {
        let (sessions, jobs) = (Arc::clone(&self.sessions), Arc::clone(&self.jobs));
        // On another thread of the runtime than the one that asks.
        let mut turn = self.turn.run(&self.context, async move {
            sessions.minions();
            jobs.under_way();
        });
        let clock = self.context.clock;
        let end = clock.after(within);
        // Nothing is sent: an error says that the task has ended.
        clock.deadline(end, turn.changed()).await.is_ok()
    }

    /// Returns the health of the master. Takes nine seconds at most.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn health(&self) -> Health {
        let mut health = Health::of_this_process();
        if !self.is_alive(ANSWER_TIMEOUT).await {
            health.problem("its tasks get no turns: the master has hung, restart it");
            return health;
        }
        let listeners: Vec<String> = self.listeners.iter().map(Endpoint::to_string).collect();
        health.fact("listeners", listeners);
        health.fact("minions_present", self.sessions.minions());
        health.fact("jobs_under_way", self.jobs.under_way());
        let clock = self.context.clock;
        let began = clock.now();
        let parts = async { tokio::join!(self.jobs.commit_nothing(), self.disk.read()) };
        let Ok((committed, Some(disk))) = clock.deadline(clock.after(ANSWER_TIMEOUT), parts).await
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
        health.fact("store_bytes", disk.store);
        if let Err(error) = committed {
            health.problem(format!("the job store: {error}"));
        }
        match disk.free {
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
            None => {
                health.problem("the file system of the job store cannot be asked for its space")
            }
        }
        match (disk.keys(KeyState::Accepted), disk.keys(KeyState::Pending)) {
            (Some(accepted), Some(pending)) => {
                health.fact("keys_accepted", accepted);
                health.fact("keys_pending", pending);
            }
            _ => health.problem("the folders of keys cannot be read: look at pki_dir"),
        }
        health
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::parts::testing::TestMaster;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_master_with_a_table_that_is_locked_for_good_is_not_alive() {
        let master = TestMaster::start(|_| ()).await;
        let checks = master.state.health_checks();
        assert!(checks.is_alive(ANSWER_TIMEOUT).await);
        let (locked, is_locked) = sync_channel(0);
        let (end, ended) = sync_channel::<()>(0);
        let jobs = Arc::clone(&checks.jobs);
        let holder = std::thread::spawn(move || {
            let _guard = jobs.lock_for_good();
            locked.send(()).unwrap();
            // An error means the end of the test.
            let _ = ended.recv();
        });
        is_locked.recv().unwrap();
        let tasks = checks.context.tracker.len();
        for _ in 0..3 {
            // As each question makes them.
            let checks = master.state.health_checks();
            assert!(!checks.is_alive(Duration::from_millis(100)).await);
        }
        assert_eq!(checks.context.tracker.len(), tasks + 1);
        drop(end);
        holder.join().unwrap();
        assert!(checks.is_alive(ANSWER_TIMEOUT).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_closed_store_is_a_problem() {
        let master = TestMaster::start(|_| ()).await;
        let checks = master.state.health_checks();
        assert_eq!(checks.health().await.problems(), [""; 0]);
        checks.jobs.close().await;
        let health = checks.health().await;
        let problem = health.problems().first().cloned().unwrap_or_default();
        assert!(problem.starts_with("the job store: "), "{problem}");
    }
}
