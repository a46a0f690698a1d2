//! Finding a master: the transports of the configuration in order, each with all its addresses.

use std::collections::BTreeSet;
use std::sync::Arc;

use saline_protocol::transport::{
    Address, Backoff, Client, Context, Endpoint, Error, ErrorKind, Options, Result, Transport,
};

use super::Minion;
use super::stage::Stage;

/// How many different errors are remembered as told.
const MOST_TOLD: usize = 32;

/// A way to the master.
#[derive(Debug, Clone)]
pub struct Way {
    transport: Arc<dyn Transport>,
    /// Where.
    pub endpoint: Endpoint,
}

/// The ways that the configuration names, the preferred one first.
///
/// # Errors
/// `Config` for a transport that there is not.
pub fn ways(
    config: &saline_config::MinionConfig,
    registry: &saline_protocol::transport::Registry,
) -> Result<Vec<Way>> {
    let schemes = if config.transport.is_empty() {
        vec![registry.network_default()?.to_owned()]
    } else {
        config.transport.clone()
    };
    if config.master.is_empty() {
        return Err(Error::new(ErrorKind::Config, "no master is configured"));
    }
    let way = |scheme: String| {
        let transport = registry.get(&scheme)?;
        let given = config.transport_options.get(&scheme).cloned();
        let options = Options::check(transport.options(), given.unwrap_or_default())?;
        Ok(Way {
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
    schemes.into_iter().map(way).collect()
}

/// A client that is connected, and what its tasks hang on.
#[derive(Debug)]
pub struct Connected {
    /// To ask with.
    pub client: Arc<dyn Client>,
    /// Where the master is.
    pub endpoint: Endpoint,
    /// The client's own part of the minion's context.
    pub context: Context,
}

impl Minion {
    /// Connects to the first that answers; tries for ever.
    ///
    /// # Cancel safety
    /// When the future is dropped nothing stays connected.
    pub(super) async fn connect(&self) -> Connected {
        let mut backoff = self.reconnect();
        let mut told = BTreeSet::new();
        loop {
            if told.len() > MOST_TOLD {
                told.clear();
            }
            for way in &self.ways {
                let to = way.endpoint.to_string();
                tracing::debug!("connecting to {to}");
                self.stage.set(Stage::Connecting(to));
                let context = self.context.child();
                match way.transport.connect(&way.endpoint, context.clone()).await {
                    Ok(client) => {
                        tracing::info!("connected to {}", way.endpoint);
                        return Connected {
                            client,
                            endpoint: way.endpoint.clone(),
                            context,
                        };
                    }
                    Err(error) => {
                        let text = format!("no master at {}: {error}", way.endpoint);
                        // Once, not at every attempt: it may take days.
                        if told.insert(text.clone()) {
                            tracing::warn!("{text}; the minion goes on trying");
                        } else {
                            tracing::debug!("{text}");
                        }
                    }
                }
            }
            self.context.clock.pause(backoff.next_delay()).await;
        }
    }

    /// How long to wait between attempts to reach the master, anew.
    pub(super) fn reconnect(&self) -> Backoff {
        Backoff::new(self.config.reconnect_first, self.config.reconnect_max)
    }
}
