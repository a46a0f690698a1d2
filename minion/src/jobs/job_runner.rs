//! Takes jobs and runs them, up to the spooled return.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_messages::{Jid, Job, JobAccount, Known, MinionId, MinionRequest, MustClaim, Secrets};
use saline_protocol::transport::Context;
use saline_targeting::{Candidate, Inclusion};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::announcements::{ANNOUNCED_AFTER, Announcements};
use super::claims::Claims;
use super::job_processes::{Begun, RunningProcess, begin_in_process, take_over};
use super::pool::{Permit, Pool};
use super::run_job::{JobEnd, JobToRun, end_before_start, refuse_job, run_begun, run_job};
use crate::link::current_session::CurrentSession;
use crate::link::master_time::MasterTimeEstimate;
use crate::spool::Spool;
use saline_modules::Host;
use saline_modules::LiveModules;
use saline_modules::Modules;
use saline_modules::job::{Entered, RunningJob};
use saline_modules::job_process::{JobProcesses, LeftJob};

/// The largest number of jobs that wait for a thread; further ones are not taken.
const MAX_WAITING: usize = 1024;

/// How long running jobs may take to finish when the minion stops.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long interrupted jobs may take to spool their returns.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);

/// How a job reached the minion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// On the topic of all minions, and covered by the session's lease.
    All,
    /// On the topic of all minions: the master may have said that this minion will not run it.
    Unleased,
    /// On the minion's own topic, or in answer to its request: the job was offered to it.
    Own,
}

/// The jobs that were taken and have no spooled return yet.
#[derive(Debug, Default)]
struct TakenJobs(Mutex<BTreeSet<Jid>>);

impl TakenJobs {
    fn add(&self, jid: &Jid) -> bool {
        self.lock().insert(jid.clone())
    }

    fn remove(&self, jid: &Jid) {
        self.lock().remove(jid);
    }

    fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Jid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes jobs and runs them on the pool of threads.
#[derive(Debug)]
pub struct JobRunner {
    pub(super) id: MinionId,
    /// The largest number of jobs that are taken and have not returned.
    most_taken: usize,
    pool: Pool,
    /// Starts the processes of jobs that outlive the minion; none where there is no program for them.
    processes: Option<Arc<JobProcesses>>,
    pub(super) modules: Arc<LiveModules>,
    host: Arc<Host>,
    spool: Arc<Spool>,
    taken: TakenJobs,
    /// Whether a job was not taken because too many waited.
    overflowed: AtomicBool,
    /// Notified when there is room again for jobs that were not taken.
    room: Notify,
    /// Notified when a job has waited for a thread for a while.
    waits: Notify,
    announcements: Arc<Announcements>,
    claims: Claims,
    /// Cancelled when no more jobs are taken.
    pub(super) draining: CancellationToken,
    /// The context of tasks that no job waits for.
    context: Context,
    /// The context of the jobs, which a drain waits for.
    pub(super) jobs: Context,
}

/// The parts that a [`JobRunner`] works with.
#[derive(Debug)]
pub struct JobResources {
    /// Runs the functions.
    pub pool: Pool,
    /// Starts the processes of jobs that outlive the minion; none where there is no program for them.
    pub processes: Option<JobProcesses>,
    /// The functions that can be run.
    pub modules: Modules,
    /// The parts of the minion that functions may use.
    pub host: Arc<Host>,
    /// Notes the beginnings of jobs and keeps their returns.
    pub spool: Arc<Spool>,
    /// Tells whether a job has expired.
    pub clock: Arc<MasterTimeEstimate>,
    /// Reports to the master.
    pub session: CurrentSession,
}

impl JobRunner {
    /// Creates a runner that takes more jobs than its pool has `threads`; its tasks belong to `context`.
    pub fn new(id: MinionId, threads: usize, resources: JobResources, context: &Context) -> Self {
        let (spool, session) = (resources.spool, resources.session);
        let announcements = Announcements::new(Arc::clone(&spool), session.clone(), context);
        let draining = CancellationToken::new();
        let claims = Claims {
            session,
            clock: resources.clock,
            draining: draining.clone(),
            context: context.clone(),
        };
        Self {
            id,
            most_taken: MAX_WAITING + threads,
            pool: resources.pool,
            processes: resources.processes.map(Arc::new),
            modules: Arc::new(LiveModules::new(resources.modules)),
            host: resources.host,
            spool,
            taken: TakenJobs::default(),
            overflowed: AtomicBool::new(false),
            room: Notify::new(),
            waits: Notify::new(),
            announcements: Arc::new(announcements),
            claims,
            draining,
            jobs: context.child(),
            context: context.clone(),
        }
    }

    /// Returns the modules, as they change.
    pub fn live_modules(&self) -> Arc<LiveModules> {
        Arc::clone(&self.modules)
    }

    /// Looks again which modules work on this machine.
    pub fn refresh_modules(&self) {
        self.modules.refresh();
        self.host.function_changes.note();
    }

    /// Returns the modules as they are now.
    pub(crate) fn modules(&self) -> Arc<Modules> {
        self.modules.now()
    }

    /// Waits until there is room for jobs that were not taken.
    ///
    /// # Cancel safety
    /// A wake-up is not lost when the future is dropped.
    pub async fn has_room_again(&self) {
        self.room.notified().await;
    }

    /// Waits until a job has to wait, since as many run as may run at once.
    ///
    /// # Cancel safety
    /// A wake-up is not lost when the future is dropped.
    pub async fn has_to_wait(&self) {
        self.waits.notified().await;
    }

    /// Returns how many jobs are taken and have not returned.
    pub fn taken(&self) -> usize {
        self.taken.len()
    }

    /// Whether no job runs or waits.
    pub fn is_idle(&self) -> bool {
        self.jobs.tracker.is_empty()
    }

    /// Takes a job that the master signed, with the values of its secret arguments. Starts to run it unless it is for other minions, has
    /// expired, or was taken before. Does not wait.
    pub fn take(self: &Arc<Self>, job: Job, secrets: Option<Secrets>, origin: Origin) {
        let jid = job.jid.clone();
        if self.draining.is_cancelled() {
            return;
        }
        if self.spool.is_seen(&jid) {
            tracing::debug!("job {jid}: seen before");
            if origin == Origin::Own {
                // The master offers it, so it does not know what became of it.
                let known = match self.spool.known(&jid) {
                    Known::No => Known::Forgotten,
                    known => known,
                };
                self.spool.take_up(&jid);
                self.announcements
                    .tell(MinionRequest::Accounts(vec![JobAccount { jid, known }]));
            }
            return;
        }
        if !self.matches(&job) {
            // On the topic of all minions only matching ones are offered a job; the others ignore it.
            if origin == Origin::Own {
                tracing::info!("job {jid}: declined {}, it is for other minions", job.fun);
                self.announcements.tell(MinionRequest::Declined { jid });
            } else {
                tracing::debug!("job {jid}: {} is for other minions", job.fun);
            }
            return;
        }
        if self.claims.is_late(&job) {
            return;
        }
        if self.taken.len() >= self.most_taken {
            // The master is asked for it again when there is room.
            tracing::warn!(
                "job {jid}: postponed, since {} jobs wait already; the master is asked for it again",
                self.taken.len()
            );
            self.overflowed.store(true, Ordering::Relaxed);
            return;
        }
        if !self.taken.add(&jid) {
            return;
        }
        tracing::info!("job {jid}: received {} from {}", job.fun, job.user);
        let this = Arc::clone(self);
        self.jobs.spawn(async move {
            let must_claim = origin == Origin::Unleased
                || job.claims == MustClaim::Everybody
                || this.claims.may_be_late(&job);
            if !must_claim || this.claims.claim(&job).await {
                let run = JobToRun {
                    job,
                    secrets,
                    scheduled: None,
                };
                this.run(run).await;
            }
            this.taken.remove(&jid);
            let has_room = this.taken.len() <= this.most_taken / 2;
            if has_room && this.overflowed.swap(false, Ordering::Relaxed) {
                this.room.notify_one();
            }
        });
    }

    /// Goes on with the jobs that an earlier start of the minion began, and whose processes run or have ended. Does not wait.
    pub fn take_over(self: &Arc<Self>, left: Vec<LeftJob>) {
        for running in take_over(left, &self.host, &self.spool) {
            self.taken.add(&running.jid);
            // It runs already, so it does not wait for others.
            let permit = self.pool.try_acquire();
            let (jid, schedule) = (running.jid.clone(), running.schedule.clone());
            // Counts for `maxrunning`.
            let counted = schedule.as_ref().and_then(|name| {
                let scheduler = self.host.schedule.as_ref()?;
                Some(scheduler.take_over(name))
            });
            let this = Arc::clone(self);
            self.jobs.spawn(async move {
                let announcement = schedule
                    .is_none()
                    .then(|| this.announcements.report_begun(&jid));
                let end = this.watch(running, permit).await;
                drop(announcement);
                this.log_end(&jid, end.as_ref());
                this.taken.remove(&jid);
                drop(counted);
            });
        }
    }

    /// Takes no more jobs, and waits a few seconds for the running ones: first for their end, then,
    /// interrupted, for their returns. Jobs in processes of their own go on without it.
    pub async fn drain(&self) {
        self.draining.cancel();
        let clock = self.context.clock;
        self.jobs.tracker.close();
        let finished = clock.deadline(clock.after(FINISH_TIMEOUT), self.jobs.tracker.wait());
        if finished.await.is_ok() {
            return;
        }
        for job in self.host.running.list() {
            tracing::warn!("job {}: {} is interrupted", job.jid, job.fun);
        }
        self.host.stop.raise();
        let stopped = clock.deadline(clock.after(INTERRUPT_TIMEOUT), self.jobs.tracker.wait());
        if stopped.await.is_err() {
            // The next start spools their returns.
            tracing::warn!("{} jobs did not stop", self.host.running.list().len());
        }
    }

    fn matches(&self, job: &Job) -> bool {
        let target = match job.target.clone().compile() {
            Ok(target) => target,
            Err(error) => {
                tracing::warn!("job {}: {error}", job.jid);
                return false;
            }
        };
        let grains = self.host.grains.all();
        let this = Candidate {
            id: self.id.as_str(),
            grains: Some(grains.as_ref()),
            pillar: None,
        };
        match target.decide(this) {
            Ok(decided) => decided == Inclusion::Included,
            Err(error) => {
                tracing::warn!("job {}: its target was given up: {error}", job.jid);
                false
            }
        }
    }

    /// Runs a job when there is a thread for it, up to its spooled return.
    pub(super) async fn run(self: &Arc<Self>, run: JobToRun) {
        let job = &run.job;
        let (jid, is_scheduled) = (&job.jid, run.scheduled.is_some());
        let entered = self.host.running.enter(RunningJob::of(job));
        let permit = tokio::select! {
            biased;
            () = self.draining.cancelled() => None,
            ending = entered.control().ended() => {
                tracing::info!("job {jid}: not begun, it was {ending}");
                if !is_scheduled {
                    let (spool, job) = (Arc::clone(&self.spool), job.clone());
                    let refuse = move || end_before_start(&spool, &job, &ending);
                    // None means that the code of the spool panicked, which the runtime logs.
                    let _ = self.pool.run_io(refuse).await;
                }
                return;
            }
            permit = self.acquire(job) => Some(permit),
        };
        let Some(permit) = permit else {
            tracing::warn!("job {jid}: not begun, the minion stops");
            return;
        };
        if self.claims.is_late(job)
            || (self.claims.may_be_late(job) && !self.claims.claim(job).await)
        {
            return;
        }
        tracing::info!("job {jid}: running {}", job.fun);
        // The master knows nothing of a scheduled job before it has the return.
        let announcement = (!is_scheduled).then(|| self.announcements.report_begun(jid));
        let end = match &self.processes {
            Some(processes) if self.modules.now().wants_own_process(&job.fun) => {
                let processes = Arc::clone(processes);
                self.run_in_process(processes, &run, entered, permit).await
            }
            _ => self.run_on_thread(&run, entered, permit, run_job).await,
        };
        drop(announcement);
        self.log_end(jid, end.as_ref());
        if end.is_none() {
            let (spool, job) = (Arc::clone(&self.spool), job.clone());
            let lost = move || refuse_job(&spool, &job, "the minion lost track of this job");
            // An error means that this panicked too, which the runtime logs.
            let _ = self.context.spawn_blocking(lost).await;
        }
    }

    /// Logs the end of a job that has not returned. The spool logs returns.
    fn log_end(&self, jid: &Jid, end: Option<&JobEnd>) {
        match end {
            Some(JobEnd::Spooled) => {}
            Some(JobEnd::NotBegun(error)) => tracing::info!("job {jid}: not begun: {error}"),
            Some(JobEnd::LeftRunning) => {
                tracing::info!(
                    "job {jid}: goes on without this minion; the next one delivers its return"
                );
            }
            None => tracing::error!("job {jid}: the code that runs jobs panicked"),
        }
    }

    /// Runs a job on a thread of the minion, with `carry_out`. Returns none only when the code that does it panicked.
    async fn run_on_thread(
        &self,
        run: &JobToRun,
        entered: Entered,
        permit: Permit,
        carry_out: fn(&Modules, &Host, &Spool, &JobToRun, Entered) -> JobEnd,
    ) -> Option<JobEnd> {
        let (modules, host) = (self.modules.now(), Arc::clone(&self.host));
        let (spool, run) = (Arc::clone(&self.spool), run.clone());
        let work = move || carry_out(&modules, &host, &spool, &run, entered);
        self.pool.run(permit, work).await
    }

    /// Runs a job in a process of its own. Returns none only when the code that does it panicked.
    async fn run_in_process(
        &self,
        processes: Arc<JobProcesses>,
        run: &JobToRun,
        entered: Entered,
        permit: Permit,
    ) -> Option<JobEnd> {
        let (host, spool) = (Arc::clone(&self.host), Arc::clone(&self.spool));
        let (modules, copy) = (self.modules.now(), run.clone());
        let begin = move || begin_in_process(&processes, &modules, &host, &spool, &copy, entered);
        match self.pool.run_io(begin).await? {
            Begun::Running(running) => self.watch(running, Some(permit)).await,
            Begun::Ended(end) => Some(end),
            Begun::NoProcess(entered) => self.run_on_thread(run, entered, permit, run_begun).await,
        }
    }

    /// Waits for the end of a job's process, unless the minion stops before, and puts its return into the spool.
    async fn watch(&self, running: RunningProcess, permit: Option<Permit>) -> Option<JobEnd> {
        let watched = tokio::select! {
            biased;
            watched = running.ended() => watched,
            () = self.draining.cancelled() => return Some(JobEnd::LeftRunning),
        };
        if let Err(error) = watched {
            tracing::error!(
                "job {}: its process cannot be watched, so the next start of the minion delivers its return: {error}",
                running.jid
            );
            self.draining.cancelled().await;
            return Some(JobEnd::LeftRunning);
        }
        let (modules, spool) = (self.modules.now(), Arc::clone(&self.spool));
        let end = self
            .pool
            .run_io(move || running.collect(&modules, &spool))
            .await;
        drop(permit);
        end
    }

    /// Waits for a thread that may run a job. When it takes long, the master is told,
    /// so that nobody takes the minion for dead.
    async fn acquire(&self, job: &Job) -> Permit {
        let acquiring = async {
            match self.modules.now().blocks(&job.fun) {
                true => self.pool.acquire().await,
                false => self.pool.acquire_reserved().await,
            }
        };
        let mut acquiring = std::pin::pin!(acquiring);
        tokio::select! {
            biased;
            permit = &mut acquiring => return permit,
            () = self.context.clock.pause(ANNOUNCED_AFTER) => {}
        }
        tracing::info!(
            "job {}: waits, since as many jobs run as may run at once",
            job.jid
        );
        self.waits.notify_one();
        acquiring.await
    }
}
