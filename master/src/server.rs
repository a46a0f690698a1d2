//! Starts and stops the parts of a master, and nothing else.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use saline_channel::MasterIdentity;
use saline_channel::noise::Responder;
use saline_config::{MasterConfig, Paths};
use saline_daemon::{Health, InstanceLock, MetricsSource, create_above, serve_metrics, take_over};
use saline_exec::Program;
use saline_messages::{ProtocolVersions, PublicationAddress};
use saline_protocol::transport::{
    self, Address, AdmissionLimits, Context, Counters, Endpoint, HostPort, LocalAccess, Options,
    Registry, ServeAt, Server, ServerControl,
};

use saline_event_bus::local_endpoint;
use saline_schedule::Scheduler;

use crate::access_folder;
use crate::error::MasterError;
use crate::health::ANSWER_TIMEOUT;
use crate::job_signer::JobSigner;
use crate::listener::{Handlers, Listener};
use crate::metrics::MasterMetrics;
use crate::parts::MasterParts;
use crate::peers::warn_of_unknown;
use crate::pillar::PillarPrograms;
use crate::programs::Programs;
use crate::room::{Room, descriptors_of_a_minion};
use crate::sessions::ListenerKind;
use crate::stores::Stores;

/// A running master.
#[derive(Debug)]
pub struct Master {
    state: MasterParts,
    metrics: Arc<MasterMetrics>,
    scheduler: Arc<Scheduler>,
    context: Context,
    listeners: Vec<BoundListener>,
    /// Whether the access socket is served.
    serves_users: bool,
    /// Released last, when everything else has ended.
    _locks: [InstanceLock; 2],
}

#[derive(Debug)]
struct BoundListener {
    control: Arc<dyn ServerControl>,
    bound: ServeAt,
}

/// How long a start waits for whoever holds the lock of the sockets: `saline-key` does for an instant when no master answers it.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Takes the locks that keep a second master from the sockets and from the job store.
///
/// # Errors
/// When another instance holds one of them, or one cannot be taken.
pub(crate) fn take_locks(config: &MasterConfig) -> Result<[InstanceLock; 2], MasterError> {
    config.paths.folders().into_iter().for_each(create_above);
    Ok([
        InstanceLock::take_within(&config.lock_file(), LOCK_WAIT)?,
        InstanceLock::take(&config.store_lock_file())?,
    ])
}

impl Master {
    /// Starts every part. When this returns, minions and operators are served.
    ///
    /// # Errors
    /// One line that names the obstacle: another instance, a port in use, a key or a store that
    /// cannot be read.
    ///
    /// # Cancel safety
    /// When the future is dropped nothing keeps running.
    pub async fn start(config: MasterConfig, registry: &Registry) -> Result<Self, MasterError> {
        Self::start_with_versions(config, registry, ProtocolVersions::OURS).await
    }

    /// Starts a master that speaks other protocol versions than this build does, as a successor will: for the
    /// tests of what both sides agree on.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    pub async fn start_with_versions(
        config: MasterConfig,
        registry: &Registry,
        versions: ProtocolVersions,
    ) -> Result<Self, MasterError> {
        let locks = take_locks(&config)?;
        let programs = Programs::start(Program::beside_this_one(), &config)?;
        Self::start_locked(config, registry, programs, versions, locks).await
    }

    /// Starts a master whose locks are held, with these programs.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    /// As [`start`](Self::start).
    pub(crate) async fn start_locked(
        config: MasterConfig,
        registry: &Registry,
        mut programs: Programs,
        versions: ProtocolVersions,
        locks: [InstanceLock; 2],
    ) -> Result<Self, MasterError> {
        let serves_users = serves_users(&config);
        if serves_users {
            access_folder::open(&config.paths.sock_dir)?;
        }
        let Paths {
            cache_dir,
            state_dir,
            ..
        } = &config.paths;
        take_over(cache_dir, state_dir, &["jobs", "backups"])?;
        config
            .paths
            .folders()
            .into_iter()
            .for_each(saline_private_files::remove_unfinished);
        let MasterIdentity {
            identity,
            noise,
            successors,
            replaced,
        } = MasterIdentity::load_or_create(&config.paths.pki_dir)?;
        if let Some(replaced) = replaced {
            saline_daemon::notice!(
                "the identity of the master is {} from now on, in the place of {}. Minions that trust the old one follow when \
                 they connect. Back up pki_dir",
                identity.public().fingerprint(),
                replaced.fingerprint()
            );
        }
        let identity = Arc::new(identity);
        let counters = Counters::new();
        let context = context(&config, &counters);
        check_named_users(&context, &config);
        let stores = Stores::open(&config, &context)?;
        let metrics_listen = config.metrics_listen.clone();
        let mut servers = Vec::new();
        let addresses = addresses(&config, registry)?;
        let local = addresses.local;
        let descriptors = saline_daemon::connection_descriptors();
        let mut places = 0;
        for (number, (_, scheme)) in addresses.all.iter().enumerate() {
            let able = registry.get(scheme)?.capabilities();
            // Connections of the local endpoint take of the descriptors that are kept back.
            places += usize::from(number != local && descriptors_of_a_minion(&able) > 0);
        }
        for (number, (at, scheme)) in addresses.all.into_iter().enumerate() {
            let access = number > local;
            let transport = registry.get(&scheme)?;
            let network = matches!(at.requests.address, Address::Network { .. });
            let connections = config.connections(&scheme).filter(|_| network);
            let able = transport.capabilities();
            let room = Room::new(connections, &able, descriptors, places);
            let given = config.transport_options.get(&scheme).cloned();
            let options = Options::check(transport.options(), given.unwrap_or_default())?;
            let at = ServeAt {
                requests: at.requests.with_options(options.clone()),
                publications: at.publications.map(|p| p.with_options(options)),
            };
            let mut context = context.clone();
            if access {
                // Every user of the machine is a stranger until a rule admits it.
                context.local_access = LocalAccess::EveryUser;
                context.limits.admission = Some(AdmissionLimits::default());
                context.limits.descriptors = room.descriptors;
            } else if network {
                // Who reaches a local endpoint has passed the permissions of its folder: it is root
                // or the master's own user, who can do worse than hold memory.
                context.limits.admission = Some(AdmissionLimits::default());
                context.limits.connections = room.connections;
                context.limits.descriptors = room.descriptors;
            }
            let taken: Vec<&ServeAt> = servers.iter().map(|s: &Server| &s.bound).collect();
            let shared_port = explain_shared_port(&taken, &at, &scheme);
            let served = transport.serve(at, context).await;
            servers.push(served.map_err(|source| MasterError::Serve {
                hint: explain_bind_error(&source, shared_port),
                source,
            })?);
        }
        // Minions do not come over the access socket.
        let publishers = servers[..=local].iter();
        let publishers = publishers.map(|s| Arc::clone(&s.publisher)).collect();
        let controls = servers.iter().map(|s| Arc::clone(&s.control)).collect();
        let state = MasterParts::start(
            config,
            JobSigner {
                identity: Arc::clone(&identity),
                predecessors: successors.predecessors_of(identity.public()).into(),
            },
            stores,
            publishers,
            controls,
            // The event bus is for root and the master's user alone.
            Arc::clone(&servers[local].publisher),
            servers[..local]
                .iter()
                .map(|s| s.bound.requests.clone())
                .collect(),
            registry.clone(),
            PillarPrograms::beside(&programs.exec),
            &context,
        )?
        .with_versions(versions)
        .with_pam(programs.take_pam()?);
        // Before anybody asks for jobs: what was offered to an old key is withdrawn.
        let key_watch = state.key_watch();
        key_watch.compare_at_start().await?;
        state.withdraw_unfollowed().await?;
        state.begin_to_return(&programs.exec).await?;
        let handlers = Arc::new(Handlers::of(&state, context.clock));
        // Before anybody fires an event.
        let reactor = state.reactor(handlers.operator.runners.runners.clone());
        let mut listeners = Vec::new();
        for (number, server) in servers.into_iter().enumerate() {
            let Server {
                requests,
                control,
                departures,
                bound,
                ..
            } = server;
            let responder =
                Responder::new(Arc::clone(&identity), noise.clone(), control.certificate())
                    .with_versions(versions)
                    .with_successors(successors.clone());
            let listener = Listener::new(
                Arc::clone(&handlers),
                responder,
                number,
                match number.cmp(&local) {
                    std::cmp::Ordering::Less => ListenerKind::Network,
                    std::cmp::Ordering::Equal => ListenerKind::Local,
                    std::cmp::Ordering::Greater => ListenerKind::Access,
                },
                publications_at(&bound),
                Arc::clone(&control),
            );
            tracing::info!("requests on {}", bound.requests);
            if let Some(publications) = &bound.publications {
                tracing::info!("publications on {publications}");
            }
            let listener = Arc::new(listener);
            context.spawn(Arc::clone(&listener).follow_departures(departures));
            context.spawn(listener.serve(requests, context.clone()));
            listeners.push(BoundListener { control, bound });
        }
        context.spawn(state.maintenance(key_watch).run());
        context.spawn(state.batch_scheduler().run());
        context.spawn(reactor.run());
        let schedule = state.schedule(handlers.operator.runners.runners.clone());
        let scheduler = Arc::clone(&schedule.scheduler);
        context.spawn(schedule.run());
        let metrics = Arc::new(state.metrics(&counters, &scheduler));
        let source = Arc::clone(&metrics);
        serve_metrics(metrics_listen.as_ref(), &context, source as _);
        tracing::info!("master {} is up", identity.public().fingerprint());
        Ok(Self {
            state,
            metrics,
            scheduler,
            context,
            listeners,
            serves_users,
            _locks: locks,
        })
    }

    /// Returns the bound addresses: those on the network in the order of the configuration, then the local one, then
    /// the access socket if it is served.
    pub fn bound(&self) -> impl Iterator<Item = &ServeAt> {
        self.listeners.iter().map(|listener| &listener.bound)
    }

    /// Takes over those options of `config` that can change while the master runs.
    pub fn reload(&self, config: &MasterConfig) {
        self.state.reload(config);
        self.scheduler.set_configured(config.schedule.jobs.clone());
        check_named_users(&self.context, config);
        if !self.serves_users && serves_users(config) {
            tracing::warn!(
                "publisher_acl or external_auth names somebody for the first time: the access socket is served from the next start on, \
                 restart saline-master"
            );
        }
    }

    /// Whether the master is alive: its tasks get their turns. Takes four seconds at most, and does not borrow the master.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn is_alive(&self) -> impl Future<Output = bool> + Send + use<> {
        let checks = self.state.health_checks();
        async move { checks.is_alive(ANSWER_TIMEOUT).await }
    }

    /// Returns the health of the master, for `--health`. Takes nine seconds at most, and does not borrow the master.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn health(&self) -> impl Future<Output = Health> + Send + use<> {
        let checks = self.state.health_checks();
        async move { checks.health().await }
    }

    /// Logs what every part is doing.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn report(&self) {
        for listener in &self.listeners {
            saline_daemon::notice!("report: listening on {}", listener.bound.requests);
        }
        saline_daemon::notice!("report: {}", self.metrics.metrics().await);
    }

    /// Ends every part: takes no more requests, answers those it has taken within `deadline`, and
    /// closes the store.
    ///
    /// # Cancel safety
    /// A shutdown that was begun goes on in part when the future is dropped; do not drop it.
    pub async fn shutdown(self, deadline: Duration) {
        self.state.polls().close();
        self.state.event_waits().close();
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
        self.scheduler.stop();
        self.state.close().await;
        tracing::info!("master is down");
    }
}

/// Whether the access socket is served: `publisher_acl` names users of this machine, or `external_auth` somebody whom any of them may
/// log in as.
fn serves_users(config: &MasterConfig) -> bool {
    !config.publisher_acl.is_empty() || config.external_auth.names_anybody()
}

/// Has users and groups in `publisher_acl` that this machine does not know logged, on a thread of its own: the system may ask
/// a directory service.
fn check_named_users(context: &Context, config: &MasterConfig) {
    let rules = config.publisher_acl.clone();
    if !rules.is_empty() {
        // The tracker of the context joins it.
        drop(context.spawn_blocking(move || warn_of_unknown(&rules)));
    }
}

fn context(config: &MasterConfig, counters: &Arc<Counters>) -> Context {
    Context::new(config.limits())
        .with_metrics(Arc::clone(counters) as _)
        .with_tls(config.tls.clone())
}

/// The addresses to serve, each with its scheme.
struct Addresses {
    /// Every configured transport on the network, then the local endpoint, then the access socket.
    all: Vec<(ServeAt, String)>,
    /// Which of them is the local endpoint.
    local: usize,
}

/// Returns the ports on the network that the master serves.
///
/// # Errors
/// When this program lacks a transport that the configuration names, or nothing is named and there is none.
pub(crate) fn network_ports(
    config: &MasterConfig,
    registry: &Registry,
) -> Result<Vec<u16>, MasterError> {
    let served = addresses(config, registry)?.all;
    let ports = |(at, _): &(ServeAt, String)| {
        let publications = at.publications.as_ref().and_then(Endpoint::port);
        [at.requests.port(), publications]
    };
    Ok(served.iter().flat_map(ports).flatten().collect())
}

/// Returns the addresses to serve. The access socket is one of them if it [is served](serves_users), and always
/// that of a transport that tells who the users of this machine are.
fn addresses(config: &MasterConfig, registry: &Registry) -> Result<Addresses, MasterError> {
    let mut schemes = config.transport.clone();
    if schemes.is_empty() {
        schemes.push(registry.network_default()?.to_owned());
    }
    let mut addresses = Vec::new();
    for scheme in schemes {
        let apart = registry.get(&scheme)?.capabilities().publications_apart;
        let at = |port| Endpoint::network(scheme.clone(), HostPort::new(&config.interface, port));
        let (requests, publications) = config.ports(&scheme);
        let serve = ServeAt {
            requests: at(requests),
            publications: apart.then(|| at(publications)),
        };
        addresses.push((serve, scheme));
    }
    let ipc = config.ipc_transport.as_deref();
    let (requests, publications) = (config.local_requests(), config.local_publications());
    let (_, serve) = local_endpoint(registry, ipc, requests, publications)?;
    let scheme = serve.requests.scheme.clone();
    let local = addresses.len();
    addresses.push((serve, scheme));
    let local_users = match registry.for_local_users() {
        _ if !serves_users(config) => None,
        Ok(scheme) => Some(scheme.to_owned()),
        Err(error) if !config.publisher_acl.is_empty() => return Err(error.into()),
        // Users still log in through APIs and by those who may use the local endpoint.
        Err(error) => {
            tracing::warn!("users of this machine cannot log in: {error}");
            None
        }
    };
    if let Some(scheme) = local_users {
        let serve = ServeAt {
            requests: Endpoint::local(scheme.clone(), config.access_socket()),
            publications: None,
        };
        addresses.push((serve, scheme));
    }
    Ok(Addresses {
        all: addresses,
        local,
    })
}

/// Returns what to do when `at` cannot be bound because an earlier transport has the port, or because its own two ports
/// are the same.
fn explain_shared_port(taken: &[&ServeAt], at: &ServeAt, scheme: &str) -> Option<String> {
    let ports = |at: &ServeAt| {
        let publications = at.publications.as_ref().and_then(Endpoint::port);
        [at.requests.port(), publications]
            .into_iter()
            .flatten()
            .filter(|port| *port != 0)
            .collect::<Vec<_>>()
    };
    let wanted = ports(at);
    if let [requests, publications] = wanted.as_slice()
        && requests == publications
    {
        return Some(format!(
            "; ret_port and publish_port are both {requests}, and {scheme} needs two ports: change one of them"
        ));
    }
    let other = taken
        .iter()
        .find(|taken| ports(taken).iter().any(|port| wanted.contains(port)))?;
    Some(format!(
        "; {} has this port already: give {scheme} one of its own, as with `{scheme}: {{ret_port: 4507}}`",
        other.requests.scheme
    ))
}

/// Returns what to do about an address that cannot be bound, for the end of the line that names it: `shared_port`, if there is
/// one, when it is in use.
fn explain_bind_error(error: &transport::Error, shared_port: Option<String>) -> String {
    let cause = std::error::Error::source(error);
    let kind = cause
        .and_then(|cause| cause.downcast_ref::<io::Error>())
        .map(io::Error::kind);
    let remedy = match (kind, shared_port) {
        (Some(io::ErrorKind::AddrInUse), Some(shared_port)) => return shared_port,
        (Some(io::ErrorKind::AddrInUse), None) => {
            "; another program listens there: stop it, or choose other ports (ret_port, publish_port)"
        }
        (Some(io::ErrorKind::AddrNotAvailable), _) => {
            "; `interface` must be an address of this machine"
        }
        (Some(io::ErrorKind::PermissionDenied), _) => {
            "; ports below 1024 are for root alone: choose others (ret_port, publish_port)"
        }
        _ => "",
    };
    remedy.to_owned()
}

/// Returns the address of publications that peers of this listener are told.
fn publications_at(bound: &ServeAt) -> PublicationAddress {
    match &bound.publications {
        None => PublicationAddress::SameConnection,
        Some(at) => match &at.address {
            Address::Network { .. } => PublicationAddress::Port(at.port().unwrap_or_default()),
            Address::Local(path) => PublicationAddress::Path(path.display().to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_the_limits_of_the_configuration() {
        let mut config = MasterConfig::default();
        config.max_message_size = 65536;
        config.keepalive_interval = Duration::from_secs(20);
        let limits = context(&config, &Counters::new()).limits;
        assert_eq!(limits.max_message, 65536);
        assert_eq!(limits.ping_interval, Duration::from_secs(20));
    }

    #[test]
    fn a_shared_port_is_the_remedy_where_an_address_is_in_use_and_nowhere_else() {
        let on = |scheme: &str| ServeAt {
            requests: Endpoint::network(scheme, HostPort::new("127.0.0.1", 4506)),
            publications: None,
        };
        let shared_port = explain_shared_port(&[&on("first")], &on("second"), "second");
        let remedy = |kind: io::ErrorKind, shared_port: Option<String>| {
            let error = transport::Error::new(transport::ErrorKind::Refused, "it failed");
            let error = error.with_source(io::Error::from(kind));
            explain_bind_error(&error, shared_port)
        };
        let in_use = remedy(io::ErrorKind::AddrInUse, shared_port.clone());
        assert!(in_use.contains("first has this port already"), "{in_use}");
        let in_use = remedy(io::ErrorKind::AddrInUse, None);
        assert!(in_use.contains("another program listens"), "{in_use}");
        // A server of NATS that is not there.
        let refused = remedy(io::ErrorKind::ConnectionRefused, shared_port);
        assert_eq!(refused, "");
    }
}
