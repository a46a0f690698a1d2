//! Starts and stops the rooms, and nothing else.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use saline_config::MasterConfig;
use saline_daemon::InstanceLock;
use saline_protocol::channel::noise::Responder;
use saline_protocol::channel::{Identity, MasterKeys, NoiseKey};
use saline_protocol::message::Publications as Where;
use saline_protocol::transport::{
    Address, Clock, Context, Counters, Endpoint, HostPort, Limits, Options, Registry, ServeAt,
    Server, ServerControl,
};

use crate::error::MasterError;
use crate::events::Events;
use crate::gate::Gate;
use crate::jobs::JobStore;
use crate::keys::{KeyStore, OperatorStore, root_key};
use crate::maintenance;
use crate::publisher::Publications;
use crate::rate::RatePerId;
use crate::rooms::Rooms;
use crate::sessions::Sessions;

/// A running master.
#[derive(Debug)]
pub struct Master {
    rooms: Arc<Rooms>,
    context: Context,
    listeners: Vec<Listener>,
    /// Given back last, when everything else is down.
    _lock: InstanceLock,
}

#[derive(Debug)]
struct Listener {
    control: Arc<dyn ServerControl>,
    bound: ServeAt,
}

impl Master {
    /// Starts everything; when it returns, minions and operators are served.
    ///
    /// # Errors
    /// One line that says what is in the way: another instance, a port in use, a key or a store
    /// that cannot be read.
    ///
    /// # Cancel safety
    /// When the future is dropped nothing keeps running.
    pub async fn start(config: MasterConfig, registry: &Registry) -> Result<Self, MasterError> {
        let lock = InstanceLock::take(&config.lock_file())?;
        let identity = Arc::new(Identity::load_or_create(&config.paths.pki_dir)?);
        let noise = NoiseKey::load_or_create(&config.paths.pki_dir)?;
        MasterKeys {
            identity: identity.public(),
            noise: Some(noise.public()),
        }
        .write(&config.paths.pki_dir.join("identity.pub"))?;
        let keys = Arc::new(KeyStore::open(&config.paths.pki_dir, Clock)?);
        let operators = OperatorStore::open(&config.paths.pki_dir, root_key(&config)?)?;
        let operators = Arc::new(operators);
        let store = JobStore::open(&config.job_store(), Clock)?;

        let counters = Counters::new();
        let context = context(&config, &counters);
        let mut servers = Vec::new();
        for (at, scheme) in places(&config, registry)? {
            let transport = registry.get(&scheme)?;
            let given = config.transport_options.get(&scheme).cloned();
            let options = Options::check(transport.options(), given.unwrap_or_default())?;
            let at = ServeAt {
                requests: at.requests.with_options(options.clone()),
                publications: at.publications.map(|p| p.with_options(options)),
            };
            servers.push(transport.serve(at, context.clone()).await?);
        }
        let publishers = servers.iter().map(|s| Arc::clone(&s.publisher)).collect();
        // The local one is the last; the bus is its publisher.
        let local = servers.len() - 1;
        let sessions = Arc::new(Sessions::new(
            context.clock,
            config.heartbeat_interval,
            config.max_pending_keys,
        ));
        let rooms = Arc::new(Rooms {
            clock: context.clock,
            context: context.clone(),
            publications: Publications::start(publishers, Arc::clone(&sessions), &context)?,
            sessions,
            events: Events::start(Arc::clone(&servers[local].publisher), &context),
            identity: Arc::clone(&identity),
            auth_rate: RatePerId::new(context.clock),
            keys,
            operators,
            store,
            counters,
            config,
            // Looked at in the first beat: jobs may have expired while the master was down.
            next_expiry: AtomicU64::new(0),
        });
        let mut listeners = Vec::new();
        for (number, server) in servers.into_iter().enumerate() {
            let Server {
                requests,
                control,
                bound,
                ..
            } = server;
            let responder =
                Responder::new(Arc::clone(&identity), noise.clone(), control.certificate());
            let gate = Gate::new(
                Arc::clone(&rooms),
                responder,
                number,
                number == local,
                publications_at(&bound),
            );
            tracing::info!("requests on {}", bound.requests);
            if let Some(publications) = &bound.publications {
                tracing::info!("publications on {publications}");
            }
            context.spawn(Arc::new(gate).serve(requests, context.clone()));
            listeners.push(Listener { control, bound });
        }
        context.spawn(maintenance::run(Arc::clone(&rooms)));
        tracing::info!("master {} is up", identity.public().fingerprint());
        Ok(Self {
            rooms,
            context,
            listeners,
            _lock: lock,
        })
    }

    /// What was bound: the network's listeners in the order of the configuration, the local one last.
    pub fn bound(&self) -> impl Iterator<Item = &ServeAt> {
        self.listeners.iter().map(|listener| &listener.bound)
    }

    /// Logs what every part is doing.
    pub fn report(&self) {
        let rooms = &self.rooms;
        for listener in &self.listeners {
            tracing::warn!("report: listening on {}", listener.bound.requests);
        }
        tracing::warn!(
            "report: {} minions, {} sessions, epoch {:?}, {} tasks",
            rooms.sessions.minions(),
            rooms.sessions.len(),
            rooms.publications.current(),
            self.context.tracker.len()
        );
        tracing::warn!("report: transports: {}", rooms.counters);
    }

    /// Ends everything: no more requests are taken, those that came are answered until `deadline`,
    /// the store is closed.
    ///
    /// # Cancel safety
    /// A shutdown that was begun goes on in part when the future is dropped; do not drop it.
    pub async fn shutdown(self, deadline: Duration) {
        for listener in &self.listeners {
            if let Err(error) = listener.control.shutdown(deadline).await {
                tracing::warn!("{}: {error}", listener.bound.requests);
            }
        }
        self.context.cancel.cancel();
        self.context.tracker.close();
        let end = self.context.clock.after(deadline);
        let ended = self.context.tracker.wait();
        if self.context.clock.deadline(end, ended).await.is_err() {
            let left = self.context.tracker.len();
            tracing::warn!("{left} tasks did not end in time and are left behind");
        }
        self.rooms.store.close().await;
        tracing::info!("master is down");
    }
}

fn context(config: &MasterConfig, counters: &Arc<Counters>) -> Context {
    let mut limits = Limits::default();
    limits.max_message = config.max_message_size;
    Context::new(limits)
        .with_metrics(Arc::clone(counters) as _)
        .with_tls(config.tls.clone())
}

/// Where to serve, and with what: every transport of the configuration on the network, then the
/// local endpoint.
fn places(
    config: &MasterConfig,
    registry: &Registry,
) -> Result<Vec<(ServeAt, String)>, MasterError> {
    let mut schemes = config.transport.clone();
    if schemes.is_empty() {
        schemes.push(registry.network_default()?.to_owned());
    }
    let mut places = Vec::new();
    for scheme in schemes {
        let apart = registry.get(&scheme)?.capabilities().publications_apart;
        let at = |port| Endpoint::network(scheme.clone(), HostPort::new(&config.interface, port));
        let serve = ServeAt {
            requests: at(config.ret_port),
            publications: apart.then(|| at(config.publish_port)),
        };
        places.push((serve, scheme));
    }
    let scheme = match &config.ipc_transport {
        Some(scheme) => scheme.clone(),
        None => registry.local_default()?.to_owned(),
    };
    let apart = registry.get(&scheme)?.capabilities().publications_apart;
    let serve = ServeAt {
        requests: Endpoint::local(scheme.clone(), config.local_requests()),
        publications: apart.then(|| Endpoint::local(scheme.clone(), config.local_publications())),
    };
    places.push((serve, scheme));
    Ok(places)
}

/// What those who come over this listener are told about publications.
fn publications_at(bound: &ServeAt) -> Where {
    match &bound.publications {
        None => Where::SameConnection,
        Some(at) => match &at.address {
            Address::Network { .. } => Where::Port(at.port().unwrap_or_default()),
            Address::Local(path) => Where::Path(path.display().to_string()),
        },
    }
}
