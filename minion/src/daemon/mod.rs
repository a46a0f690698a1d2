//! The daemon: finds its master, attends to it, and carries jobs through.

mod announce;
mod attend;
mod authenticate;
mod connect;
mod deliveries;
mod drain;
mod jobs;
mod link;
mod master_clock;
mod returning;
mod returns;
mod stage;
mod start;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saline_config::MinionConfig;
use saline_daemon::{InstanceLock, LockError};
use saline_protocol::channel::{Credentials, Identity, KeyError, NoiseKey};
use saline_protocol::message::{IdError, MinionId, Role};
use saline_protocol::transport::{self, Backoff, Context, Counters, Limits, Registry};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::command::orphans;
use crate::executor::{Pool, Stop};
use crate::grains::{GrainStore, host_name};
use crate::host::Host;
use crate::leftover;
use crate::modules::Modules;
use crate::spool::Spool;

pub use start::run;

use connect::Way;
use jobs::Taken;
use link::{Ended, Link};
use master_clock::MasterClock;
use stage::CurrentStage;

/// How long a minion waits whose place was taken by another one with its id, at first and at most.
const REPLACED_FIRST: Duration = Duration::from_secs(5);
const REPLACED_MAX: Duration = Duration::from_secs(60);

/// Why a minion cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another one runs, or the lock cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Its keys cannot be read or made.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The configuration asks for a transport that there is not.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// The host's name is no id.
    #[error("{0}; give the minion an `id` in its configuration")]
    Id(#[from] IdError),
    /// The spool cannot be read.
    #[error("cannot read the spool {path}: {source}")]
    Spool {
        /// Where it lies.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The system gives no descriptor.
    #[error("the system gives the minion nothing to work with: {0}")]
    System(std::io::Error),
}

/// A minion.
#[derive(Debug)]
pub struct Minion {
    id: MinionId,
    config: MinionConfig,
    ways: Vec<Way>,
    credentials: Credentials,
    context: Context,
    /// The part of the context that jobs hang on.
    jobs: Context,
    host: Arc<Host>,
    pool: Pool,
    spool: Arc<Spool>,
    taken: Taken,
    clock: MasterClock,
    stage: CurrentStage,
    /// The accepted session, while there is one.
    links: watch::Sender<Option<Arc<Link>>>,
    /// A return has been acknowledged.
    acknowledged: Notify,
    /// Raised when no more jobs are taken.
    draining: CancellationToken,
    announced: AtomicBool,
    counters: Arc<Counters>,
    /// Given back when the minion has come to rest.
    lock: Mutex<Option<InstanceLock>>,
}

impl Minion {
    /// Takes the lock, reads keys, grains and spool. Connects to nothing yet.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn new(
        config: MinionConfig,
        registry: &Registry,
        modules: Modules,
    ) -> Result<Arc<Self>, StartError> {
        let lock = InstanceLock::take(&config.lock_file())?;
        let id = match &config.id {
            Some(id) => id.clone(),
            None => MinionId::parse(&host_name())?,
        };
        let ways = connect::ways(&config, registry)?;
        let credentials = Credentials {
            role: Role::Minion,
            id: id.to_string(),
            identity: Arc::new(Identity::load_or_create(&config.paths.pki_dir)?),
            noise: NoiseKey::load_or_create(&config.paths.pki_dir)?,
        };
        let spool = Spool::open(config.spool(), config.spool_sync_always).map_err(|source| {
            StartError::Spool {
                path: config.spool().display().to_string(),
                source,
            }
        })?;
        let masters: Vec<&str> = config.master.iter().map(|m| m.host.as_str()).collect();
        let grains = GrainStore::collect(id.clone(), masters.join(","), config.grains.clone());
        let mut limits = Limits::default();
        limits.max_message = config.max_message_size;
        let reconnect = Backoff::new(config.reconnect_first, config.reconnect_max);
        let counters = Counters::new();
        let context = Context::new(limits)
            .with_backoff(reconnect)
            .with_tls(config.tls.clone())
            .with_metrics(Arc::<Counters>::clone(&counters));
        let jobs = context.child();
        leftover::sweep(&config.paths.cache_dir);
        orphans::end_all(&config.paths.cache_dir);
        Ok(Arc::new(Self {
            host: Arc::new(Host::new(
                grains,
                modules,
                Stop::new().map_err(StartError::System)?,
                config.paths.cache_dir.clone(),
                config.max_message_size,
            )),
            pool: Pool::new(context.clone(), config.process_count_max),
            spool: Arc::new(spool),
            taken: Taken::default(),
            clock: MasterClock::default(),
            stage: CurrentStage::default(),
            links: watch::Sender::new(None),
            acknowledged: Notify::new(),
            draining: CancellationToken::new(),
            announced: AtomicBool::new(false),
            counters,
            id,
            config,
            ways,
            credentials,
            context,
            jobs,
            lock: Mutex::new(Some(lock)),
        }))
    }

    /// Its id.
    pub fn id(&self) -> &MinionId {
        &self.id
    }

    /// How far it is on its way to its master, as SIGUSR1 tells it.
    pub fn stage(&self) -> String {
        self.stage.get().to_string()
    }

    /// How many jobs returned without the master having said that it has the return.
    pub fn unacknowledged(&self) -> usize {
        self.spool.unacknowledged()
    }

    /// Serves its master until `stop` is cancelled, then drains.
    ///
    /// # Cancel safety
    /// Meant to be run to its end; what is dropped is cut off, and the spool remembers it.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) {
        tracing::info!(
            "minion {} starts; its key's fingerprint is {}",
            self.id,
            self.credentials.identity.public().fingerprint()
        );
        self.context.spawn(Arc::clone(&self).send_returns());
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.look_after_master() => {}
        }
        self.drain().await;
    }

    /// Connects, authenticates, attends; again and again.
    async fn look_after_master(self: &Arc<Self>) {
        let clock = self.context.clock;
        let mut replaced = Backoff::new(REPLACED_FIRST, REPLACED_MAX);
        loop {
            let connected = self.connect().await;
            let mut lost = self.reconnect();
            while let Some(link) = self.authenticate(&connected).await {
                let began = clock.now();
                let ended = self.attend(link).await;
                if clock.now() - began > REPLACED_MAX {
                    lost.reset();
                    replaced.reset();
                }
                let wait = match ended {
                    Ended::Lost => lost.next_delay(),
                    Ended::KeyGone => {
                        tracing::warn!("the master has deleted or rejected this minion's key");
                        lost.next_delay()
                    }
                    Ended::Replaced => {
                        tracing::error!(
                            "another minion with the id {} has taken this one's place: two machines \
                             share an id, or a key",
                            self.id
                        );
                        replaced.next_delay()
                    }
                };
                clock.pause(wait).await;
            }
            // An error means that something had to be cut; a new one is made all the same.
            let _ = connected.client.shutdown(Duration::from_secs(1)).await;
            connected.context.cancel.cancel();
        }
    }

    /// Logs what every part is doing.
    pub fn report(&self) {
        let running = self.host.running.list();
        tracing::warn!(
            "report: minion {}: {}; {} jobs run, {} wait; {} returns are not acknowledged; limit of a \
             message: {} bytes",
            self.id,
            self.stage.get(),
            running.len(),
            self.taken.len().saturating_sub(running.len()),
            self.spool.unacknowledged(),
            self.host.max_message(),
        );
        tracing::warn!("report: transport: {}", self.counters);
        for job in running {
            tracing::warn!("report: job {} runs {} for {}", job.jid, job.fun, job.user);
        }
    }
}
