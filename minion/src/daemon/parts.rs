//! Makes the parts of a minion out of its configuration.

use std::sync::{Arc, Mutex};

use saline_channel::{Credentials, Identity, NoiseKey};
use saline_config::{MinionConfig, ScheduleConfig};
use saline_daemon::{InstanceLock, create_above, take_over};
use saline_exec::{Launcher, Program};
use saline_messages::{MinionId, ProtocolVersions, Role, encode, random};
use saline_modules::event_queue::EventQueue;
use saline_modules::grains::{GrainStore, host_name};
use saline_modules::job::Stop;
use saline_modules::job_process::{self, JobFolders, JobProcesses, LeftJob};
use saline_modules::pillar::PillarStore;
use saline_modules::{Host, Modules, oversize_output};
use saline_protocol::transport::{Backoff, Clock, Context, Counters, Registry};
use saline_schedule::{Scheduler, SchedulerFiles};

use super::{Minion, StartError};
use crate::jobs::job_runner::{JobResources, JobRunner};
use crate::jobs::pool::Pool;
use crate::jobs::return_sender::ReturnSender;
use crate::link::connect::Connector;
use crate::link::connection_state::CurrentState;
use crate::link::current_session::CurrentSession;
use crate::link::handshake::Authenticator;
use crate::link::master_time::MasterTimeEstimate;
use crate::link::settings::{ConnectionSettings, LiveConnectionSettings};
use crate::local_bus::LocalBus;
use crate::session::master_requests::MasterRequests;
use crate::session::session_loop::SessionLoop;
use crate::spool::Spool;
use crate::spool_location::SpoolLocation;

/// Takes the locks that keep a second minion from the sockets and from the spool.
///
/// # Errors
/// When another instance holds one of them, or one cannot be taken.
pub(super) fn take_locks(config: &MinionConfig) -> Result<[InstanceLock; 2], StartError> {
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
    /// Creates a minion whose locks are held. Jobs get processes of their own if `own_processes` says so.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(super) fn with_locks(
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
        let credentials = credentials(&config, &id, versions)?;
        let place = spool_place(&config);
        let folders = JobFolders::below(&config.paths.sock_dir, &config.paths.state_dir);
        let left = job_process::find(&folders, place.as_deref());
        let spool = Arc::new(open_spool(&config, &left)?);
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
        let master = MasterRequests::new(session.clone(), context.clone());
        // Nobody else sets them.
        let _ = host.master_files.set(Box::new(master.clone()));
        let _ = host.master_pillar.set(Box::new(master.clone()));
        let _ = host.master_mine.set(Box::new(master));
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
        // Nobody else sets them.
        let _ = host.modules.set(jobs.live_modules());
        match config.pillar_cache {
            true => host.open_pillar_cache(config.cached_pillar()),
            false => PillarStore::forget_cache(config.cached_pillar()),
        }
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
}

/// Reads or creates the keys that prove who the minion is.
fn credentials(
    config: &MinionConfig,
    id: &MinionId,
    versions: ProtocolVersions,
) -> Result<Credentials, StartError> {
    Ok(Credentials {
        role: Role::Minion,
        id: id.to_string(),
        identity: Arc::new(Identity::load_or_create(&config.paths.pki_dir)?),
        noise: NoiseKey::load_or_create(&config.paths.pki_dir)?,
        versions,
    })
}

/// Opens the spool of the minion, beside the jobs of an earlier start that are `left`.
fn open_spool(config: &MinionConfig, left: &[LeftJob]) -> Result<Spool, StartError> {
    let spool = Spool::open_beside(
        config.spool(),
        config.spool_sync_always,
        &config.paths.pki_dir,
        &left.iter().map(|job| job.record.jid.clone()).collect(),
    );
    spool.map_err(|source| StartError::Spool {
        path: config.spool().display().to_string(),
        source,
    })
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

/// Returns the context of the minion's connections and tasks.
fn context(config: &MinionConfig, reconnect: &Backoff, counters: &Arc<Counters>) -> Context {
    Context::new(config.limits())
        .with_backoff(reconnect.clone())
        .with_tls(config.tls.clone())
        .with_metrics(Arc::<Counters>::clone(counters))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn connections_have_the_limits_of_the_configuration() {
        let mut config = MinionConfig::default();
        config.max_message_size = 65536;
        config.keepalive_interval = Duration::from_secs(20);
        let limits = context(&config, &Backoff::default(), &Counters::new()).limits;
        assert_eq!(limits.max_message, 65536);
        assert_eq!(limits.ping_interval, Duration::from_secs(20));
    }
}
