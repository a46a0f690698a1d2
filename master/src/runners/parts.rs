//! The parts of the master that runners work with.

use std::sync::Arc;

use saline_channel::KeyError;
use saline_config::TransportOptions;
use saline_functions::Failure;
use saline_messages::ProtocolVersions;
use saline_protocol::transport::{Clock, Context, Endpoint, Registry};
use saline_returners::JobCache;

use crate::audit::Audit;
use crate::authorize::Authorizer;
use crate::clock::MasterClock;
use crate::events::{DurableEvents, EventReader, Events};
use crate::fileserver::FileServer;
use crate::grains::GrainsTable;
use crate::jobs::JobStore;
use crate::keys::{KeyAccess, KeyStore};
use crate::logins::LoginStore;
use crate::mine::Mine;
use crate::orders::TargetResolver;
use crate::orders::{CancelOrder, KeyOrder, PublishOrder};
use crate::pillar::Pillars;
use crate::reactions::Reactions;
use crate::sessions::Sessions;
use crate::settings::LiveSettings;

/// The parts of the master that runners work with.
#[derive(Debug)]
pub(crate) struct RunnerParts {
    pub(crate) context: Context,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) keys: KeyAccess,
    pub(crate) grains: Arc<GrainsTable>,
    pub(crate) targets: TargetResolver,
    pub(crate) events: Events,
    pub(crate) authorizer: Authorizer,
    pub(crate) audit: Audit,
    pub(crate) durable: Arc<DurableEvents>,
    pub(crate) publish: PublishOrder,
    pub(crate) cancel: CancelOrder,
    pub(crate) key_order: KeyOrder,
    /// The endpoints of requests on the network: a session's listener number is its index.
    pub(crate) listeners: Arc<[Endpoint]>,
    /// The transports of this program.
    pub(crate) registry: Registry,
    /// The sections of transports in the configuration, as the master has read them when it started.
    pub(crate) transport_options: TransportOptions,
    /// The protocol versions that the master speaks.
    pub(crate) versions: ProtocolVersions,
    pub(crate) settings: LiveSettings,
    pub(crate) files: FileServer,
    pub(crate) pillars: Pillars,
    pub(crate) mine: Mine,
    pub(crate) reactions: Reactions,
    /// Who is logged in.
    pub(crate) logins: Arc<LoginStore>,
    /// The master's time, by which logins end.
    pub(crate) master_clock: MasterClock,
    /// The database in which jobs are looked up that the job store has no more.
    pub(crate) job_cache: Option<JobCache>,
}

impl RunnerParts {
    /// Returns the reader of kept events; none while no event was to be kept.
    pub(crate) fn event_reader(&self) -> Option<EventReader> {
        EventReader::new(&self.jobs, &self.durable)
    }

    /// Reads the store of minions' keys.
    ///
    /// # Errors
    /// When it cannot be read.
    ///
    /// # Cancel safety
    /// A `read` that has begun is finished when the future is dropped.
    pub(crate) async fn read_minion_keys<T: Send + 'static>(
        &self,
        read: impl FnOnce(&KeyStore) -> Result<T, KeyError> + Send + 'static,
    ) -> Result<T, Failure> {
        let read = self.keys.with_minions(read).await;
        let read = read.ok_or_else(|| Failure::Execution("the key store failed".to_owned()))?;
        read.map_err(|error| Failure::Execution(error.to_string()))
    }

    /// Returns the clock by which runners wait.
    pub(crate) fn clock(&self) -> Clock {
        self.context.clock
    }
}
