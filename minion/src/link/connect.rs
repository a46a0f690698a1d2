//! Connects to a master: tries the configured transports in order, each with all its addresses.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_config::MinionConfig;
use saline_protocol::transport::{
    Address, Client, Context, Endpoint, Error, ErrorKind, Options, Registry, Result, Transport,
};

use super::connection_state::{ConnectionState, CurrentState};
use super::settings::{Changes, LiveConnectionSettings};

/// The largest number of different errors that are remembered as logged.
const MAX_LOGGED: usize = 32;

/// How long a connection may take to end in order.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A transport and the endpoint at which it may reach the master.
#[derive(Debug, Clone)]
pub struct Candidate {
    transport: Arc<dyn Transport>,
    /// The master's endpoint.
    pub endpoint: Endpoint,
}

impl Candidate {
    /// Whether this is the place of a connection to `endpoint`.
    pub fn is_at(&self, endpoint: &Endpoint) -> bool {
        self.endpoint == *endpoint
    }

    /// Connects, in a part of `context`.
    ///
    /// # Errors
    /// When no master answers there.
    ///
    /// # Cancel safety
    /// When the future is dropped nothing stays connected.
    pub async fn connect(&self, context: &Context) -> Result<Connected> {
        let context = context.child();
        let client = self
            .transport
            .connect(&self.endpoint, context.clone())
            .await?;
        Ok(Connected {
            client,
            endpoint: self.endpoint.clone(),
            context,
        })
    }
}

/// Returns the configured candidates, the preferred one first.
///
/// # Errors
/// `Config` for an unknown transport, or when no master is configured.
pub fn candidates(config: &MinionConfig, registry: &Registry) -> Result<Vec<Candidate>> {
    let schemes = if config.transport.is_empty() {
        vec![registry.network_default()?.to_owned()]
    } else {
        config.transport.clone()
    };
    if config.master.is_empty() {
        return Err(Error::new(ErrorKind::Config, "no master is configured"));
    }
    let candidate = |scheme: String| {
        let transport = registry.get(&scheme)?;
        let given = config.transport_options.get(&scheme).cloned();
        let options = Options::check(transport.options(), given.unwrap_or_default())?;
        Ok(Candidate {
            transport,
            endpoint: Endpoint {
                address: Address::Network {
                    addresses: config.masters(&scheme),
                    path: None,
                },
                scheme,
                options,
            },
        })
    };
    schemes.into_iter().map(candidate).collect()
}

/// A connection to a master, without a session yet. Clones share it.
#[derive(Debug, Clone)]
pub struct Connected {
    /// The transport's client.
    pub client: Arc<dyn Client>,
    /// The master's endpoint.
    pub endpoint: Endpoint,
    /// The part of the minion's context that the client's tasks belong to.
    pub context: Context,
}

impl Connected {
    /// Ends the connection.
    ///
    /// # Cancel safety
    /// A connection that was not ended in order ends when it is dropped.
    pub async fn close(self) {
        // An error means that requests were cut; the minion does not need their answers.
        let _ = self.client.shutdown(CLOSE_TIMEOUT).await;
        self.context.cancel.cancel();
    }
}

/// Connects to the first candidate that answers.
#[derive(Debug)]
pub struct Connector {
    settings: LiveConnectionSettings,
    state: CurrentState,
    context: Context,
    /// The errors that were logged since the last connection.
    logged: Mutex<BTreeSet<String>>,
}

impl Connector {
    /// Creates a connector whose clients belong to `context`.
    pub fn new(settings: LiveConnectionSettings, state: CurrentState, context: Context) -> Self {
        Self {
            settings,
            state,
            context,
            logged: Mutex::default(),
        }
    }

    /// Connects to the first candidate that answers; retries indefinitely, with the settings of each moment. If
    /// there are several candidates, the one at `failed`, which was connected and of no use, is tried last. The
    /// settings that were used are seen by `changes` then.
    ///
    /// # Cancel safety
    /// When the future is dropped nothing stays connected.
    pub async fn connect(&self, failed: Option<&Endpoint>, changes: &mut Changes) -> Connected {
        let is_failed = |candidate: &&Candidate| failed.is_some_and(|at| candidate.is_at(at));
        let mut settings = Arc::clone(&changes.borrow_and_update());
        let mut backoff = settings.delays.reconnect.clone();
        loop {
            let (last, first): (Vec<_>, Vec<_>) = settings.candidates.iter().partition(is_failed);
            for candidate in first.into_iter().chain(last) {
                self.state
                    .set(ConnectionState::Connecting(candidate.endpoint.to_string()));
                if let Some(connected) = self.try_one(candidate).await {
                    return connected;
                }
            }
            tokio::select! {
                () = self.context.clock.pause(backoff.next_delay()) => {}
                // An error is impossible: the connector has the sender.
                _ = changes.changed() => {
                    settings = Arc::clone(&changes.borrow_and_update());
                    backoff = settings.delays.reconnect.clone();
                }
            }
        }
    }

    /// Connects to the first candidate that answers in place of the connection to `current`, which goes on
    /// meanwhile. Returns none when that is the best: if it `may_stay`, no candidate before it answers. Otherwise
    /// retries indefinitely.
    ///
    /// # Cancel safety
    /// When the future is dropped nothing new stays connected.
    pub async fn connect_instead_of(
        &self,
        current: &Endpoint,
        may_stay: bool,
    ) -> Option<Connected> {
        let settings = self.settings.now();
        let mut backoff = settings.delays.reconnect.clone();
        loop {
            for candidate in &settings.candidates {
                if !candidate.is_at(current) {
                    if let Some(connected) = self.try_one(candidate).await {
                        return Some(connected);
                    }
                } else if may_stay {
                    return None;
                }
            }
            self.context.clock.pause(backoff.next_delay()).await;
        }
    }

    /// Whether there is another candidate than the one at `endpoint`.
    pub fn has_alternative(&self, endpoint: &Endpoint) -> bool {
        let settings = self.settings.now();
        settings
            .candidates
            .iter()
            .any(|candidate| !candidate.is_at(endpoint))
    }

    async fn try_one(&self, candidate: &Candidate) -> Option<Connected> {
        let endpoint = &candidate.endpoint;
        tracing::debug!("connecting to {endpoint}");
        let backoff = self.settings.now().delays.reconnect.clone();
        let context = self.context.clone().with_backoff(backoff);
        match candidate.connect(&context).await {
            Ok(connected) => {
                match std::mem::take(&mut *self.logged()).is_empty() {
                    true => tracing::info!("connected to {endpoint}"),
                    // At the level at which the failures before it were logged.
                    false => tracing::warn!("connected to {endpoint}"),
                }
                Some(connected)
            }
            Err(error) => {
                let text = format!("no master at {endpoint}: {error}");
                let mut logged = self.logged();
                if logged.len() > MAX_LOGGED {
                    logged.clear();
                }
                // A warning once, not at every attempt: the master may be away for days.
                if logged.insert(text.clone()) {
                    tracing::warn!("{text}; the minion keeps trying");
                } else {
                    tracing::debug!("{text}");
                }
                None
            }
        }
    }

    fn logged(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
