//! A skeleton of a transport over a connection, to copy: `docs/writing-a-transport.md`, "A connection".
//!
//! It works as it is, over TCP, and passes the conformance suite. Put your connection in the place of
//! TCP wherever a comment begins with `YOURS`.

mod connection;

use std::sync::Arc;

use async_trait::async_trait;
use saline_engine::Connections;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Result, ServeAt, Server, Transport,
};

/// Your transport.
#[derive(Debug, Clone, Copy, Default)]
pub struct Template;

impl Template {
    /// Returns the transport.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Transport for Template {
    /// YOURS: what the configuration says after `transport:`.
    fn scheme(&self) -> &'static str {
        "template"
    }

    fn capabilities(&self) -> Capabilities {
        // YOURS: `with_local_endpoints` if it can serve a path, `with_encryption` if it takes
        // `Context::tls`. What is declared is tested, what is not is skipped. The engine keeps these:
        Capabilities::new(1 << 30)
            .with_exact_drops()
            .with_admission()
            .with_departures()
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        let (listeners, bound) = self.bind(&at.requests, &context).await?;
        Ok(saline_engine::serve(listeners, bound, None, context))
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        let dialer = self.dialer(endpoint, &context)?;
        saline_engine::connect(dialer, endpoint, context).await
    }
}
