//! Connects to a master: tries the configured transports in order, each with all its addresses.

use std::collections::BTreeSet;
use std::sync::Arc;

use saline_config::MinionConfig;
use saline_protocol::transport::{
    Address, Backoff, Client, Context, Endpoint, Error, ErrorKind, Options, Registry, Result,
    Transport,
};

use super::connection_state::{ConnectionState, CurrentState};

/// The largest number of different errors that are remembered as logged.
const MOST_LOGGED: usize = 32;

/// A transport and the endpoint at which it may reach the master.
#[derive(Debug, Clone)]
pub struct Candidate {
    transport: Arc<dyn Transport>,
    /// The master's endpoint.
    pub endpoint: Endpoint,
}

impl Candidate {
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
                scheme,
                address: Address::Network {
                    addresses: config.master.clone(),
                    path: None,
                },
                options,
            },
        })
    };
    schemes.into_iter().map(candidate).collect()
}

/// A connection to a master, without a session yet.
#[derive(Debug)]
pub struct Connected {
    /// The transport's client.
    pub client: Arc<dyn Client>,
    /// The master's endpoint.
    pub endpoint: Endpoint,
    /// The part of the minion's context that the client's tasks belong to.
    pub context: Context,
}

/// Connects to the first candidate that answers.
#[derive(Debug)]
pub struct Connector {
    candidates: Vec<Candidate>,
    /// The delays between rounds, at their beginning.
    backoff: Backoff,
    state: CurrentState,
    context: Context,
}

impl Connector {
    /// Creates a connector whose clients belong to `context`.
    pub fn new(
        candidates: Vec<Candidate>,
        backoff: Backoff,
        state: CurrentState,
        context: Context,
    ) -> Self {
        Self {
            candidates,
            backoff,
            state,
            context,
        }
    }

    /// Connects to the first candidate that answers; retries indefinitely.
    ///
    /// # Cancel safety
    /// When the future is dropped nothing stays connected.
    pub async fn connect(&self) -> Connected {
        let mut backoff = self.backoff.clone();
        let mut logged = BTreeSet::new();
        loop {
            if logged.len() > MOST_LOGGED {
                logged.clear();
            }
            for candidate in &self.candidates {
                let endpoint = &candidate.endpoint;
                tracing::debug!("connecting to {endpoint}");
                let to = endpoint.to_string();
                self.state.set(ConnectionState::Connecting(to));
                match candidate.connect(&self.context).await {
                    Ok(connected) => {
                        tracing::info!("connected to {endpoint}");
                        return connected;
                    }
                    Err(error) => {
                        let text = format!("no master at {endpoint}: {error}");
                        // A warning once, not at every attempt: the master may be away for days.
                        if logged.insert(text.clone()) {
                            tracing::warn!("{text}; the minion keeps trying");
                        } else {
                            tracing::debug!("{text}");
                        }
                    }
                }
            }
            self.context.clock.pause(backoff.next_delay()).await;
        }
    }
}
