//! An operator's connection to the master and the session in it; both are restored when lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use saline_channel::{ChannelError, Credentials, Session, establish};
use saline_config::{ApiConfig, MasterConfig};
use saline_messages::{Admission, Class, OperatorReply, OperatorRequest, Refusal, RefusedVerb};
use saline_protocol::transport::{
    self, Address, Backoff, Clock, Context, Elapsed, Endpoint, ErrorKind, Instant, Limits,
    Registry, Subscriber, TopicFilter,
};
use tokio::sync::Mutex;

use crate::ClientError;
use crate::credentials::{ApiKeys, KeyFiles, SessionKeys};
use crate::event_polls::EventPolls;
use crate::master::Master;
use crate::master_absence::{MASTER_TIMEOUT, MasterAbsence};

/// How long one attempt waits for its reply: longer than two link pings, so that the transport
/// notices a dead connection first.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);

/// A subscription that is not confirmed within this time says that the master is away.
const CONFIRMATION: Duration = Duration::from_secs(2);

/// How long the keys of one session are used, as a minion's `rekey_interval`: whoever reads them out of memory once reads
/// what was recorded of that time alone.
const SESSION_TIME: Duration = Duration::from_secs(3_600);

/// The number of refusals in a row after which a refusal is final.
const REFUSALS: u32 = 5;

/// How long a shutdown may take.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to a master, over its local endpoint or, as an API, over the network; with a session.
#[derive(Debug)]
pub(crate) struct OperatorSession {
    client: Arc<dyn transport::Client>,
    context: Context,
    endpoint: Endpoint,
    publications: Option<Endpoint>,
    keys: SessionKeys,
    session: Mutex<Option<HeldSession>>,
    sessions: AtomicU64,
    absence: MasterAbsence,
}

/// The session, and when it was made.
#[derive(Debug)]
struct HeldSession {
    session: Arc<Session>,
    since: Instant,
}

/// The reason why one attempt has no reply.
enum Attempt {
    /// The connection or the session was lost; another attempt may succeed.
    Lost(ErrorKind),
    /// An answer in the clear says that the master is busy.
    Busy(Duration),
    /// The master refuses this session, or any. Final only after several refusals: a master that has
    /// just started may still be writing its key files.
    Refused(ClientError),
    /// Another attempt would fail too.
    Final(ClientError),
}

impl OperatorSession {
    /// Connects and makes a first session.
    ///
    /// # Errors
    /// `MasterDown` and `NeverStarted` when there is no master, `NotPermitted` when its operator's
    /// key cannot be read, and what the handshake says.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    pub(crate) async fn connect(
        config: &MasterConfig,
        registry: &Registry,
    ) -> Result<Self, ClientError> {
        let scheme = match &config.ipc_transport {
            Some(scheme) => scheme.as_str(),
            None => registry.local_default().map_err(ClientError::Transport)?,
        };
        let transport = registry.get(scheme).map_err(ClientError::Transport)?;
        let endpoint = Endpoint::local(scheme, config.local_requests());
        let publications = transport
            .capabilities()
            .publications_apart
            .then(|| Endpoint::local(scheme, config.local_publications()));
        let files = KeyFiles::of(config)?;
        match files.read(&shown(&endpoint)) {
            Ok(_) => {}
            Err(denied @ ClientError::NotPermitted { .. }) => {
                return Self::connect_as_user(config, registry, denied).await;
            }
            Err(error) => return Err(error),
        }
        let keys = SessionKeys::Files(files);
        let context = context(config.max_message_size);
        Self::connect_with(context, &*transport, endpoint, publications, keys).await
    }

    /// Connects to the access socket, as a user who cannot read the key of the local operator.
    ///
    /// # Errors
    /// `denied` when no master serves that socket; `NoRule` when no rule is for this user, `Blacklisted` when none
    /// helps.
    async fn connect_as_user(
        config: &MasterConfig,
        registry: &Registry,
        denied: ClientError,
    ) -> Result<Self, ClientError> {
        let Ok(scheme) = registry.for_local_users() else {
            return Err(denied);
        };
        let transport = registry.get(scheme).map_err(ClientError::Transport)?;
        let endpoint = Endpoint::local(scheme, config.access_socket());
        let keys = SessionKeys::fresh()?;
        let context = context(config.max_message_size);
        match Self::connect_with(context, &*transport, endpoint, None, keys).await {
            Err(ClientError::MasterDown { .. }) => Err(denied),
            connected => connected,
        }
    }

    /// Connects to a master on another host as an API, by the first of the configured transports by which it answers, and makes
    /// a first session.
    ///
    /// # Errors
    /// `ApiKeyPending` while the key waits to be accepted; `MasterUnreachable` when no master answers; what the keys and the
    /// handshake say.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    pub(crate) async fn connect_to(
        config: &ApiConfig,
        registry: &Registry,
    ) -> Result<Self, ClientError> {
        let endpoints = registry
            .network_endpoints(
                &config.transport,
                |scheme| config.masters(scheme),
                &config.transport_options,
            )
            .map_err(ClientError::Transport)?;
        let mut tried = Vec::new();
        let mut unreached = None;
        for endpoint in endpoints {
            let transport = registry
                .get(&endpoint.scheme)
                .map_err(ClientError::Transport)?;
            let keys = SessionKeys::Api(ApiKeys::of(config)?);
            let context = context(config.max_message_size).with_tls(config.tls.clone());
            tried.push(shown(&endpoint));
            match Self::connect_with(context, &*transport, endpoint, None, keys).await {
                Err(ClientError::MasterDown { source, .. }) => unreached = source,
                connected => return connected,
            }
        }
        let none = || transport::Error::new(ErrorKind::Config, "no master is configured");
        Err(ClientError::MasterUnreachable {
            endpoints: tried.join(", "),
            source: unreached.unwrap_or_else(none),
        })
    }

    async fn connect_with(
        context: Context,
        transport: &dyn transport::Transport,
        endpoint: Endpoint,
        publications: Option<Endpoint>,
        keys: SessionKeys,
    ) -> Result<Self, ClientError> {
        let client = transport
            .connect(&endpoint, context.clone())
            .await
            .map_err(|error| match error.kind() {
                ErrorKind::Unreachable | ErrorKind::ConnectionLost | ErrorKind::TimedOut => {
                    ClientError::MasterDown {
                        endpoint: shown(&endpoint),
                        source: Some(error),
                    }
                }
                _ => ClientError::Transport(error),
            })?;
        let connected = Self {
            client,
            context,
            endpoint,
            publications,
            keys,
            session: Mutex::new(None),
            sessions: AtomicU64::new(0),
            absence: MasterAbsence::default(),
        };
        match connected.first_session().await {
            Ok(()) => Ok(connected),
            Err(error) => {
                connected.shutdown().await;
                Err(error)
            }
        }
    }

    /// Returns the context of the connection: its tasks end with it.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Whether the event bus is at the other end of this connection. It is not for an API, nor at the access socket, since it tells of
    /// everybody's jobs: a subscription there asks for the events that its user may get.
    fn has_event_bus(&self) -> bool {
        matches!(self.keys, SessionKeys::Files(_))
    }

    /// Ends the connection and every task.
    pub(crate) async fn shutdown(&self) {
        // An error means that requests were cut, which no longer matters.
        let _ = self.client.shutdown(SHUTDOWN_TIMEOUT).await;
        self.context.cancel.cancel();
        self.context.tracker.close();
        self.context.tracker.wait().await;
    }

    /// Makes the first session within the time for a connection, so that a master that accepts
    /// connections and does not answer is reported soon.
    async fn first_session(&self) -> Result<(), ClientError> {
        let deadline = self.clock().after(self.context.limits.connect_timeout);
        loop {
            match self.session(deadline).await {
                Ok(_) => return Ok(()),
                Err(Attempt::Final(error) | Attempt::Refused(error)) => return Err(error),
                Err(Attempt::Lost(kind)) => {
                    return Err(ClientError::MasterDown {
                        endpoint: self.endpoint(),
                        source: Some(transport::Error::new(kind, "no session could be made")),
                    });
                }
                Err(Attempt::Busy(after)) => {
                    if self.clock().after(after) >= deadline {
                        return Err(ClientError::Failed("it is busy".to_owned()));
                    }
                    self.clock().pause(after).await;
                }
            }
        }
    }

    /// Returns the session; makes one if there is none, or the one that is there was used for long enough.
    async fn session(&self, deadline: Instant) -> Result<Arc<Session>, Attempt> {
        let mut slot = self.session.lock().await;
        if let Some(held) = &*slot
            && self.clock().now() < held.since + SESSION_TIME
        {
            return Ok(Arc::clone(&held.session));
        }
        let (credentials, trust) =
            self.keys
                .read(&self.endpoint())
                .map_err(|error| match error {
                    // The file existed when this client connected: the master is writing it again.
                    ClientError::NeverStarted { .. } => Attempt::Lost(ErrorKind::Unreachable),
                    other => Attempt::Final(other),
                })?;
        let established = establish(&*self.client, &credentials, &trust, deadline)
            .await
            .map_err(|error| match (&self.keys, error) {
                (SessionKeys::Api(api), ChannelError::WrongMaster { found, .. }) => {
                    let why = api.pinned.explain_other_key(&trust, &found);
                    Attempt::Final(why.into())
                }
                (SessionKeys::Api(api), old @ ChannelError::OldNoiseKey) => {
                    Attempt::Final(api.pinned.explain_old_noise_key(&old).into())
                }
                (_, error) => self.classify(error),
            })?;
        if let SessionKeys::Api(api) = &self.keys {
            api.pinned.pin(&trust, &established.master);
        }
        match established.answer {
            Admission::Accepted(_) => {
                tracing::debug!(session = %established.session.id(), "session made");
                let session = Arc::new(established.session);
                *slot = Some(HeldSession {
                    session: Arc::clone(&session),
                    since: self.clock().now(),
                });
                self.sessions.fetch_add(1, Ordering::Relaxed);
                Ok(session)
            }
            Admission::NoCommonVersion { versions, software } => {
                Err(Attempt::Final(ClientError::NoCommonVersion {
                    endpoint: self.endpoint(),
                    versions,
                    software,
                }))
            }
            answer => match &self.keys {
                SessionKeys::Files(files) => Err(Attempt::Refused(ClientError::NotAccepted {
                    endpoint: self.endpoint(),
                    path: files.root_key.clone(),
                    answer: format!("{answer:?}").to_ascii_lowercase(),
                })),
                SessionKeys::Api(api) => Err(self.api_refused(&api.credentials, &answer)),
                SessionKeys::Fresh(_) => Err(Attempt::Final(match answer {
                    Admission::Denied => ClientError::Blacklisted,
                    _ => ClientError::NoRule,
                })),
            },
        }
    }

    /// Returns why an API gets no session.
    fn api_refused(&self, credentials: &Credentials, answer: &Admission) -> Attempt {
        let (endpoint, name) = (self.endpoint(), credentials.id.clone());
        let fingerprint = credentials.identity.public().fingerprint();
        let why = match answer {
            Admission::Pending(_) => {
                return Attempt::Final(ClientError::ApiKeyPending {
                    endpoint,
                    name,
                    fingerprint,
                });
            }
            Admission::Denied => "another key waits under its name",
            Admission::Full => "as many keys wait as may, or the master cannot read its keys now",
            _ => "its name is not valid, or its key was deleted a moment ago",
        };
        Attempt::Final(ClientError::ApiKeyRefused {
            endpoint,
            name,
            fingerprint,
            why,
        })
    }

    /// Drops `session`, unless another one has replaced it already.
    async fn forget(&self, session: &Arc<Session>) {
        let mut slot = self.session.lock().await;
        if slot
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(&held.session, session))
        {
            *slot = None;
        }
    }

    async fn attempt(
        &self,
        request: &OperatorRequest,
        deadline: Instant,
    ) -> Result<OperatorReply, Attempt> {
        let session = self.session(deadline).await?;
        let reply = session
            .ask(&*self.client, Class::Event, request, deadline)
            .await
            .map_err(|error| self.classify(error));
        let failed = match reply {
            Ok(OperatorReply::Refused(RefusedVerb::Malformed)) => {
                return Err(Attempt::Final(ClientError::WrongAnswer("a request")));
            }
            // The session has ended, or its master is about to.
            Ok(OperatorReply::Refused(RefusedVerb::ShuttingDown)) => {
                Attempt::Lost(ErrorKind::NoReply)
            }
            Ok(OperatorReply::Refused(_)) => {
                Attempt::Refused(self.refused(Refusal::UnknownSession))
            }
            Ok(reply) => return Ok(reply),
            Err(failed) => failed,
        };
        if matches!(failed, Attempt::Lost(_) | Attempt::Refused(_)) {
            self.forget(&session).await;
        }
        Err(failed)
    }

    fn classify(&self, error: ChannelError) -> Attempt {
        Attempt::Final(match error {
            ChannelError::Transport(error) if error.is_retryable() => {
                return Attempt::Lost(error.kind());
            }
            ChannelError::Refused(Refusal::Version) => self.refused(Refusal::Version),
            ChannelError::Refused(refusal) => return Attempt::Refused(self.refused(refusal)),
            ChannelError::Busy { after } => return Attempt::Busy(after),
            ChannelError::Transport(error) => match error.kind() {
                ErrorKind::Closed => ClientError::Closed,
                ErrorKind::TooLarge => ClientError::TooLarge(error),
                _ => ClientError::Transport(error),
            },
            source @ ChannelError::WrongMaster { .. } => ClientError::WrongMaster {
                endpoint: self.endpoint(),
                path: self.keys.masters_file().unwrap_or_default(),
                source,
            },
            other => ClientError::Channel(other),
        })
    }

    fn refused(&self, refusal: Refusal) -> ClientError {
        ClientError::Refused {
            endpoint: self.endpoint(),
            refusal,
        }
    }

    fn gone(&self) -> ClientError {
        ClientError::MasterGone {
            endpoint: self.endpoint(),
            gone: MASTER_TIMEOUT,
        }
    }
}

#[async_trait]
impl Master for OperatorSession {
    async fn ask(&self, request: &OperatorRequest) -> Result<OperatorReply, ClientError> {
        let clock = self.clock();
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        let mut refusals = 0;
        // Until when the master is waited for, once it is known to be away.
        let mut give_up: Option<Instant> = None;
        loop {
            let begun = clock.now();
            let deadline = begun + ATTEMPT_TIMEOUT;
            let deadline = give_up.map_or(deadline, |give_up| deadline.min(give_up));
            // A connection that was lost was there until now; one that gives no answer was not.
            let mut noticed = None;
            let wait = match self.attempt(request, deadline).await {
                // The master is there, and has carried nothing out.
                Ok(OperatorReply::Busy { after_ms }) => {
                    self.absence.end();
                    give_up = None;
                    clock.pause(Duration::from_millis(after_ms.into())).await;
                    continue;
                }
                Ok(reply) => {
                    self.absence.end();
                    return Ok(reply);
                }
                Err(Attempt::Final(error)) => return Err(error),
                // Anybody on the path can say so: no sign of life.
                Err(Attempt::Busy(after)) => after,
                Err(Attempt::Refused(error)) => {
                    refusals += 1;
                    if refusals >= REFUSALS {
                        return Err(error);
                    }
                    tracing::debug!(%error, "the session was refused, making another");
                    backoff.next_delay()
                }
                Err(Attempt::Lost(kind)) => {
                    refusals = 0;
                    tracing::debug!(kind = kind.name(), "no answer, asking again");
                    noticed = (kind == ErrorKind::TimedOut).then_some(begun);
                    backoff.next_delay()
                }
            };
            let noticed = noticed.unwrap_or_else(|| clock.now());
            let give_up = *give_up.get_or_insert_with(|| self.absence.begin(noticed));
            if clock.after(wait) >= give_up {
                // A later request waits for the same time again.
                self.absence.end();
                return Err(self.gone());
            }
            clock.pause(wait).await;
        }
    }

    async fn subscribe(
        self: Arc<Self>,
        topics: Vec<TopicFilter>,
    ) -> Result<Box<dyn Subscriber>, ClientError> {
        if !self.has_event_bus() {
            let context = self.context.clone();
            let polls = EventPolls::begin(self, context, topics).await?;
            return Ok(Box::new(polls));
        }
        let clock = self.clock();
        let begun = clock.now();
        let deadline = begun + MASTER_TIMEOUT;
        let subscribing = self
            .client
            .subscribe(self.publications.as_ref(), topics, deadline);
        let mut subscribing = std::pin::pin!(subscribing);
        let subscribed = match clock.deadline(begun + CONFIRMATION, &mut subscribing).await {
            Ok(subscribed) => subscribed,
            Err(Elapsed) => {
                self.absence.begin(begun);
                let subscribed = subscribing.await;
                self.absence.end();
                subscribed
            }
        };
        subscribed.map_err(|error| match error.kind() {
            ErrorKind::Closed => ClientError::Closed,
            _ if error.is_retryable() => self.gone(),
            _ => ClientError::Transport(error),
        })
    }

    fn absence(&self) -> &MasterAbsence {
        &self.absence
    }

    fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    fn endpoint(&self) -> String {
        shown(&self.endpoint)
    }

    fn clock(&self) -> Clock {
        self.context.clock
    }
}

/// Returns the context of a connection.
fn context(max_message: usize) -> Context {
    let mut limits = Limits::default();
    limits.max_message = max_message;
    Context::new(limits)
}

/// Returns an endpoint as an operator knows it: the socket of the master on this machine by its path, which no
/// configuration writes as a URL.
fn shown(endpoint: &Endpoint) -> String {
    match &endpoint.address {
        Address::Local(path) => path.display().to_string(),
        Address::Network { .. } => endpoint.to_string(),
    }
}
