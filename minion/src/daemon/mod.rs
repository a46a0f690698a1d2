//! The daemon: starts the parts that `parts.rs` makes, serves sessions, and drains.

mod check;
mod handover;
mod health;
mod id_file;
mod metrics;
mod minion_start_event;
mod parts;
mod session_cycle;
mod start;
mod start_error;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_config::{MetricsAddress, MinionConfig};
use saline_daemon::{InstanceLock, notice, serve_metrics};
use saline_data::printable::number_of;
use saline_exec::Program;
use saline_messages::{MinionId, ProtocolVersions};
use saline_modules::job_process::LeftJob;
use saline_modules::{Host, Modules, planned_end};
use saline_protocol::transport::{self, Context, Counters, Registry};
use saline_schedule::Scheduler;
use tokio_util::sync::CancellationToken;

use crate::jobs::job_runner::JobRunner;
use crate::jobs::return_sender::ReturnSender;
use crate::jobs::scheduled_jobs::ScheduledJobs;
use crate::link::candidate::Connected;
use crate::link::connect::Connector;
use crate::link::connection_state::{ConnectionState, CurrentState};
use crate::link::current_session::CurrentSession;
use crate::link::handshake::Authenticator;
use crate::link::settings::{ConnectionSettings, LiveConnectionSettings};
use crate::local_bus::{Counts, LocalBus};
use crate::session::event_sender::EventSender;
use crate::session::mine_updates::MineUpdates;
use crate::session::pillar_refreshes::PillarRefreshes;
use crate::session::session_loop::SessionLoop;
use crate::spool::Spool;

pub use start::{command_line, run, run_with};
pub use start_error::StartError;

use minion_start_event::fire_minion_start;
use parts::take_locks;

/// How long the goodbye to the master, and the end of the connection, may each take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the reports that begin a session may take.
const FIRST_REPORTS: Duration = Duration::from_secs(5);

/// A minion: its parts, and the order in which they start, run and stop.
#[derive(Debug)]
pub struct Minion {
    id: MinionId,
    host: Arc<Host>,
    spool: Arc<Spool>,
    state: CurrentState,
    session: CurrentSession,
    connector: Connector,
    authenticator: Authenticator,
    session_loop: Arc<SessionLoop>,
    jobs: Arc<JobRunner>,
    returns: Arc<ReturnSender>,
    scheduler: Arc<Scheduler>,
    /// The minion's own event bus, until it serves.
    bus: Mutex<Option<LocalBus>>,
    bus_counts: Arc<Counts>,
    settings: LiveConnectionSettings,
    context: Context,
    counters: Arc<Counters>,
    metrics_listen: Option<MetricsAddress>,
    /// Released when nothing writes to the minion's files any more.
    locks: Mutex<Option<[InstanceLock; 2]>>,
    /// The jobs that an earlier start began, until this one serves.
    left: Mutex<Vec<LeftJob>>,
}

impl Minion {
    /// Takes the lock, and reads keys, grains and spool. Does not connect yet.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn new(
        config: MinionConfig,
        registry: &Registry,
        modules: Modules,
    ) -> Result<Arc<Self>, StartError> {
        let program = Program::beside_this_one();
        Self::with(config, registry, modules, program, ProtocolVersions::OURS)
    }

    /// Creates a minion whose commands are started by `program`, for executables that contain `saline-exec`; and
    /// that speaks other protocol versions than this build does, as a successor will, for the tests of what
    /// both sides agree on.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(
        config: MinionConfig,
        registry: &Registry,
        modules: Modules,
        program: Program,
        versions: ProtocolVersions,
    ) -> Result<Arc<Self>, StartError> {
        let locks = take_locks(&config)?;
        // The program of job processes may not have the functions of these modules.
        Self::with_locks(config, registry, modules, program, versions, locks, false)
    }

    /// Returns the minion's id.
    pub fn id(&self) -> &MinionId {
        &self.id
    }

    /// Returns the state of the connection to the master, as SIGUSR1 logs it.
    pub fn connection_state(&self) -> String {
        let state = self.state.get();
        match self.session.get() {
            // It is tried to move the minion, whose session serves meanwhile.
            Some(session) if state.is_before_a_session() => format!(
                "connected, session {} over {}; elsewhere: {state}",
                session.session.id(),
                session.endpoint
            ),
            _ => state.to_string(),
        }
    }

    /// Waits until the minion has been present for as long as the reports that begin its first session take.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn has_settled(&self) {
        // The sender lives as long as `self`.
        let _ = self.session.subscribe().wait_for(Option::is_some).await;
        self.context.clock.pause(FIRST_REPORTS).await;
    }

    /// Whether no job runs, waits for a thread or is being claimed.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_idle()
    }

    /// Returns how many returns the master has not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.spool.unacknowledged()
    }

    /// Serves the master until `stop` is cancelled, then drains.
    ///
    /// # Cancel safety
    /// Run it to its end. A dropped future cuts the jobs that run; the spool remembers them.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) {
        tracing::info!(
            "minion {} starts; its key's fingerprint is {}",
            self.id,
            self.authenticator.fingerprint()
        );
        let source = Arc::clone(&self);
        serve_metrics(self.metrics_listen.as_ref(), &self.context, source);
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        // Before a session tells the master what runs.
        self.jobs.take_over(left);
        fire_minion_start(&self.id, &self.host.events);
        if !self.host.grains_dirs.is_empty() {
            let host = Arc::clone(&self.host);
            self.context
                .spawn_blocking(move || host.collect_printed_grains());
        }
        self.context.spawn(Arc::clone(&self.returns).run());
        self.context
            .spawn(Arc::clone(&self.returns).run_scheduled());
        if let Some(bus) = self
            .bus
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            self.context.spawn(bus.run());
        }
        self.run_schedule();
        let events = EventSender::new(
            Arc::clone(&self.host),
            self.session.clone(),
            self.context.clock,
        );
        self.context.spawn(events.run());
        let refreshes = PillarRefreshes::new(
            Arc::clone(&self.host),
            self.session.clone(),
            self.context.clone(),
        );
        self.context.spawn(refreshes.run());
        let updates = MineUpdates {
            host: Arc::clone(&self.host),
            modules: self.jobs.live_modules(),
            session: self.session.clone(),
            context: self.context.clone(),
        };
        self.context.spawn(updates.run());
        let mut last = None;
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.serve_sessions(&mut last) => {}
        }
        self.drain(last).await;
    }

    /// Begins to run jobs by the clock.
    fn run_schedule(&self) {
        let jobs = ScheduledJobs::new(Arc::clone(&self.jobs));
        let context = self.context.clone();
        let begin = move |due, guard| jobs.begin(&due, guard);
        let scheduler = Arc::clone(&self.scheduler);
        self.context.spawn(scheduler.run(context, begin));
    }

    /// Takes over those options of `config` that can change while the minion runs.
    ///
    /// # Errors
    /// `Config` for an unknown transport or a wrong option of one: then nothing has changed.
    pub fn reload(&self, config: &MinionConfig, registry: &Registry) -> transport::Result<()> {
        let settings = ConnectionSettings::of(config, registry)?;
        self.host.reload(config);
        self.settings.set(settings);
        self.scheduler.set_configured(config.schedule.jobs.clone());
        Ok(())
    }

    /// Stops: takes no more jobs, gives running ones a short time, sends the returns that are there, and ends the
    /// last connection, so that the master need not wait for a sign of it. Takes a few seconds at most.
    async fn drain(&self, last: Option<Connected>) {
        let running = self.host.running.list().len();
        match running {
            0 => tracing::info!("stopping: no job is running"),
            running => tracing::info!(
                "stopping, and waiting a few seconds for {}",
                number_of(running, "running job")
            ),
        }
        self.state.set(ConnectionState::Draining);
        self.jobs.drain().await;
        if let Some(session) = self.session.get() {
            self.returns.flush(&session).await;
            let planned = planned_end::due(&self.host.cache_dir, self.context.clock.wall());
            session.leave(planned, LEAVE_TIMEOUT).await;
        } else if let Some(last) = last {
            last.close().await;
        }
        let left = self.spool.unacknowledged();
        if left > 0 {
            tracing::warn!(
                "{} left in the spool for the next start",
                number_of(left, "return")
            );
        }
        self.host.stop.raise();
        self.context.cancel.cancel();
        self.scheduler.stop();
        if self.jobs.is_idle() {
            self.spool.stopped();
            // Nothing writes to the spool any more, so another instance may start.
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.take();
        }
        tracing::info!("the minion has stopped");
    }

    /// Logs what every part is doing.
    pub fn report(&self) {
        let running = self.host.running.list();
        notice!(
            "report: minion {}: {}; limit of a message: {} bytes",
            self.id,
            self.connection_state(),
            self.host.max_message(),
        );
        notice!("report: {}", self.measured());
        for job in running {
            notice!("report: job {} runs {} for {}", job.jid, job.fun, job.user);
        }
    }
}
