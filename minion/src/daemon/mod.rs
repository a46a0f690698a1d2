//! The daemon: connects to its master, serves sessions, and runs jobs.
//!
//! A minion whose session was replaced makes another one at once, because the master may have carried out late a
//! handshake that the minion had given up. It reports a second machine under its id when that happens again within
//! 15 minutes.

mod check;
mod handover;
mod health;
mod id_file;
mod metrics;
mod minion_start_event;
mod start;
mod start_error;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_channel::{Credentials, Identity, NoiseKey};
use saline_config::{MetricsAddress, MinionConfig, ScheduleConfig};
use saline_daemon::{InstanceLock, create_above, notice, serve_metrics, take_over};
use saline_data::printable::number_of;
use saline_exec::{Launcher, Program};
use saline_messages::{MinionId, ProtocolVersions, Role, encode, random};
use saline_protocol::transport::{
    self, Backoff, Clock, Context, Counters, Instant, Limits, Registry,
};
use saline_schedule::{Scheduler, SchedulerFiles};
use tokio_util::sync::CancellationToken;

use crate::jobs::job_runner::{JobResources, JobRunner};
use crate::jobs::pool::Pool;
use crate::jobs::return_sender::ReturnSender;
use crate::link::candidate::Connected;
use crate::link::connect::Connector;
use crate::link::connection_state::{ConnectionState, CurrentState};
use crate::link::current_session::CurrentSession;
use crate::link::handshake::Authenticator;
use crate::link::master_time::MasterTimeEstimate;
use crate::link::minion_session::Ended;
use crate::link::settings::{ConnectionSettings, LiveConnectionSettings};
use crate::local_bus::{Counts, LocalBus};
use crate::session::event_sender::EventSender;
use crate::session::file_requests::FileRequests;
use crate::session::pillar_refreshes::PillarRefreshes;
use crate::session::pillar_requests::PillarRequests;
use crate::session::session_loop::SessionLoop;
use crate::spool::Spool;
use crate::spool_location::SpoolLocation;
use saline_modules::Host;
use saline_modules::Modules;
use saline_modules::event_queue::EventQueue;
use saline_modules::grains::{GrainStore, host_name};
use saline_modules::job::Stop;
use saline_modules::job_process::{self, JobFolders, JobProcesses, LeftJob};
use saline_modules::oversize_output;
use saline_modules::pillar::PillarStore;
use saline_modules::planned_end;

pub use start::{command_line, run, run_with};
pub use start_error::StartError;

use handover::{Authenticated, SessionHandover};
use minion_start_event::fire_minion_start;

/// The first and the longest delay of a minion whose place another one with its id has taken.
const FIRST_REPLACED_DELAY: Duration = Duration::from_secs(5);
const MAX_REPLACED_DELAY: Duration = Duration::from_secs(60);

/// How long it is remembered that a session was replaced: a second time within it is another machine.
const REPLACED_KNOWN: Duration = Duration::from_secs(15 * 60);

/// How long the goodbye to the master, and the end of the connection, may each take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

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

/// Takes the locks that keep a second minion from the sockets and from the spool.
///
/// # Errors
/// When another instance holds one of them, or one cannot be taken.
fn take_locks(config: &MinionConfig) -> Result<[InstanceLock; 2], StartError> {
    config.paths.folders().into_iter().for_each(create_above);
    Ok([
        InstanceLock::take(&config.lock_file())?,
        InstanceLock::take(&config.spool_lock_file())?,
    ])
}

/// Returns the boot and the place of the minion's state, by which the next start sees that the jobs of this one are its own;
/// none where boots or folders cannot be told apart.
fn spool_place(config: &MinionConfig) -> Option<Vec<u8>> {
    // It has its number only when it is there. If it cannot be made, the spool says why.
    let folder = &config.paths.state_dir;
    saline_private_files::create_folder(folder).ok()?;
    let place = SpoolLocation::of(Some(folder));
    place.is_surely(&place).then(|| encode(&place))
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

    /// Creates a minion whose locks are held. Jobs get processes of their own if `own_processes` says so.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    fn with_locks(
        config: MinionConfig,
        registry: &Registry,
        modules: Modules,
        program: Program,
        versions: ProtocolVersions,
        locks: [InstanceLock; 2],
        own_processes: bool,
    ) -> Result<Arc<Self>, StartError> {
        take_over(
            &config.paths.cache_dir,
            &config.paths.state_dir,
            &["spool.log"],
        )?;
        config
            .paths
            .folders()
            .into_iter()
            .for_each(saline_private_files::remove_unfinished);
        let id = match &config.id {
            Some(id) => id.clone(),
            None => MinionId::parse(&host_name())?,
        };
        let settings = ConnectionSettings::of(&config, registry)?;
        let settings = LiveConnectionSettings::new(settings);
        let credentials = Credentials {
            role: Role::Minion,
            id: id.to_string(),
            identity: Arc::new(Identity::load_or_create(&config.paths.pki_dir)?),
            noise: NoiseKey::load_or_create(&config.paths.pki_dir)?,
            versions,
        };
        let place = spool_place(&config);
        let folders = JobFolders::below(&config.paths.sock_dir, &config.paths.state_dir);
        let left = job_process::find(&folders, place.as_deref());
        let spool = Spool::open_beside(
            config.spool(),
            config.spool_sync_always,
            &config.paths.pki_dir,
            &left.iter().map(|job| job.record.jid.clone()).collect(),
        );
        let spool = spool.map_err(|source| StartError::Spool {
            path: config.spool().display().to_string(),
            source,
        })?;
        let spool = Arc::new(spool);
        let grains = GrainStore::collect(id.clone(), &config);
        let reconnect = Backoff::new(config.reconnect_first, config.reconnect_max);
        let counters = Counters::new();
        let context = context(&config, &reconnect, &counters);
        oversize_output::sweep(&config.paths.cache_dir);
        let processes = place.filter(|_| own_processes).map(|place| {
            JobProcesses::new(folders, place, spool.start().id, config.all_module_dirs())
        });
        let scheduler = Arc::new(schedule(&config, context.clock));
        let mut host = Host::new(
            &config,
            grains,
            EventQueue::new(id.clone(), spool.start().id),
            Some(spool.clone()),
            Stop::new().map_err(StartError::Eventfd)?,
            Launcher::new(program, config.pass_environment.clone()),
        );
        host.schedule = Some(Arc::clone(&scheduler));
        host.has_bus = true;
        let host = Arc::new(host);
        let state = CurrentState::default();
        let session = CurrentSession::none();
        let files = FileRequests::new(session.clone(), context.clone());
        // Nobody else sets it.
        let _ = host.master_files.set(Box::new(files));
        let pillar = PillarRequests::new(session.clone(), context.clone());
        let _ = host.master_pillar.set(Box::new(pillar));
        match config.pillar_cache {
            true => host.open_pillar_cache(config.cached_pillar()),
            false => PillarStore::forget_cache(config.cached_pillar()),
        }
        let clock = Arc::new(MasterTimeEstimate::default());
        let pool = match modules.return_at_once() {
            true => Pool::in_place(),
            false => Pool::new(context.clone(), config.process_count_max),
        };
        let jobs = Arc::new(JobRunner::new(
            id.clone(),
            config.process_count_max,
            JobResources {
                pool: pool.clone(),
                processes,
                modules,
                host: Arc::clone(&host),
                spool: Arc::clone(&spool),
                clock: Arc::clone(&clock),
                session: session.clone(),
            },
            &context,
        ));
        let bus = LocalBus::new(
            &config,
            &id,
            registry,
            Arc::clone(&host),
            Arc::clone(&jobs),
            context.clone(),
        );
        // A program without local endpoints, such as one of a third party with its own transport alone, has no bus.
        let bus = bus.inspect_err(|error| tracing::info!("no event bus on this machine: {error}"));
        let bus = bus.ok();
        Ok(Arc::new(Self {
            bus_counts: bus.as_ref().map(LocalBus::counts).unwrap_or_default(),
            bus: Mutex::new(bus),
            connector: Connector::new(settings.clone(), state.clone(), context.clone()),
            authenticator: Authenticator::new(
                &config,
                id.clone(),
                credentials,
                settings.clone(),
                state.clone(),
                context.clock,
            ),
            settings,
            session_loop: Arc::new(SessionLoop {
                max_message: config.max_message_size,
                host: Arc::clone(&host),
                clock: Arc::clone(&clock),
                spool: Arc::clone(&spool),
                jobs: Arc::clone(&jobs),
                current: session.clone(),
                context: context.clone(),
                id: id.clone(),
            }),
            scheduler,
            returns: Arc::new(ReturnSender::new(
                Arc::clone(&spool),
                Arc::clone(&host),
                clock,
                session.clone(),
                pool,
                context.clone(),
            )),
            id,
            host,
            spool,
            state,
            session,
            jobs,
            context,
            counters,
            metrics_listen: config.metrics_listen,
            locks: Mutex::new(Some(locks)),
            left: Mutex::new(left),
        }))
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
        let (jobs, context) = (self.jobs.scheduled(), self.context.clone());
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

    /// Connects, authenticates and serves sessions, again and again. Notes the last connection in `last`.
    async fn serve_sessions(&self, last: &mut Option<Connected>) {
        let mut replaced = Replacements::default();
        let mut handover: Option<SessionHandover> = None;
        let mut failed = Vec::new();
        let mut changes = self.settings.subscribe();
        loop {
            let (connected, mut first, mut before) = match handover.take() {
                Some(SessionHandover {
                    connected,
                    session,
                    before,
                }) => (connected, Some(session), before),
                None => {
                    let connected = self.connector.connect(&failed, &mut changes).await;
                    (connected, None, None)
                }
            };
            *last = Some(connected.clone());
            let mut lost = self.settings.now().delays.reconnect.clone();
            let next = loop {
                let session = match first.take() {
                    Some(session) => session,
                    None => match self.authenticate(&connected, &mut changes).await {
                        Authenticated::Session(session) => session,
                        Authenticated::Unreachable => {
                            failed.retain(|at| *at != connected.endpoint);
                            failed.push(connected.endpoint.clone());
                            break None;
                        }
                        Authenticated::SettingsChanged => break None,
                    },
                };
                failed.clear();
                let began = self.context.clock.now();
                let (ended, next) = self
                    .serve_session(&connected, session, before.take(), &mut changes)
                    .await;
                if next.is_some() {
                    break next;
                }
                self.pause_after(ended, began, &mut lost, &mut replaced)
                    .await;
            };
            match next {
                // The old connection stands until the new session is the minion's.
                Some((new, session)) => {
                    let is_another = !Arc::ptr_eq(&new.client, &connected.client);
                    handover = Some(SessionHandover {
                        connected: new,
                        session,
                        before: is_another.then_some(connected),
                    });
                }
                None => connected.close().await,
            }
        }
    }

    /// Waits after the end of a session that was not handed over.
    async fn pause_after(
        &self,
        ended: Ended,
        began: Instant,
        lost: &mut Backoff,
        replaced: &mut Replacements,
    ) {
        let clock = self.context.clock;
        let now = clock.now();
        if now - began > MAX_REPLACED_DELAY && ended != Ended::Replaced {
            lost.reset();
            replaced.backoff.reset();
        }
        let delay = match ended {
            Ended::Lost | Ended::HandedOver => lost.next_delay(),
            Ended::KeyGone => {
                tracing::warn!("the master has deleted or rejected this minion's key");
                lost.next_delay()
            }
            // A handshake that this minion had given up, and the master carried out late,
            // takes the place of its session too: once. Another machine does it again.
            Ended::Replaced
                if replaced
                    .last
                    .replace(now)
                    .is_none_or(|before| now - before > REPLACED_KNOWN) =>
            {
                tracing::info!("the session was replaced by another one of this id");
                lost.next_delay()
            }
            Ended::Replaced => {
                tracing::error!(
                    "another minion with the id {} has taken this one's place: two machines \
                     share an id, or a key; give one of them another id, and delete its pki_dir and state_dir",
                    self.id
                );
                replaced.backoff.next_delay()
            }
        };
        clock.pause(delay).await;
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

/// Opens the schedule of the minion.
fn schedule(config: &MinionConfig, clock: Clock) -> Scheduler {
    let files = SchedulerFiles {
        runs: config.schedule_runs(),
        saved: Some(config.saved_schedule()),
        awaits_pillar: true,
    };
    // Without randomness every minion has the same delays, which harms none.
    let seed = random::bytes().map_or(0, u64::from_le_bytes);
    let ScheduleConfig { jobs, missed } = config.schedule.clone();
    Scheduler::open(files, jobs, missed, seed, clock)
}

/// The sessions that another one of this id has replaced.
#[derive(Debug)]
struct Replacements {
    backoff: Backoff,
    /// When it happened last.
    last: Option<Instant>,
}

impl Default for Replacements {
    fn default() -> Self {
        Self {
            backoff: Backoff::new(FIRST_REPLACED_DELAY, MAX_REPLACED_DELAY),
            last: None,
        }
    }
}

fn context(config: &MinionConfig, reconnect: &Backoff, counters: &Arc<Counters>) -> Context {
    let mut limits = Limits::default();
    limits.max_message = config.max_message_size;
    Context::new(limits)
        .with_backoff(reconnect.clone())
        .with_tls(config.tls.clone())
        .with_metrics(Arc::<Counters>::clone(counters))
}
