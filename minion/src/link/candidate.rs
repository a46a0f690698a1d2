//! The places at which the master may be, and a connection to one of them.

use std::sync::Arc;
use std::time::Duration;

use saline_config::MinionConfig;
use saline_protocol::transport::{
    Address, Client, Context, Endpoint, Error, ErrorKind, Registry, Result, Transport,
};

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
    if config.master.is_empty() {
        return Err(Error::new(ErrorKind::Config, "no master is configured"));
    }
    let endpoints = registry.network_endpoints(
        &config.transport,
        |scheme| config.masters(scheme),
        &config.transport_options,
    )?;
    let candidate = |endpoint: Endpoint| {
        Ok(Candidate {
            transport: registry.get(&endpoint.scheme)?,
            endpoint,
        })
    };
    endpoints.into_iter().map(candidate).collect()
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
    /// Returns where the master was reached, for the log: its endpoint, which may have several addresses, with the one that
    /// answered.
    pub fn place(&self) -> String {
        let addresses = match &self.endpoint.address {
            Address::Network { addresses, .. } => addresses.as_slice(),
            Address::Local(_) => &[],
        };
        match self.client.server_address() {
            Some(address) if addresses.len() > 1 => format!(
                "{}://{address}, one of {} addresses",
                self.endpoint.scheme,
                addresses.len()
            ),
            _ => self.endpoint.to_string(),
        }
    }

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
