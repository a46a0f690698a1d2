//! The layer round every transport: what would otherwise be written again for each backend.
//!
//! [`Registry::get`](crate::transport::Registry::get) puts every transport into [`wrap`], so that a backend
//! need not implement [`limits`] (sizes, requests in flight, what `at` may be) and [`metrics`] (counts). The
//! suite tests a backend in the layer too, as a daemon uses it.
//!
//! Limits and metrics are one layer, because each layer costs every request a boxed future.
//!
//! A layer is a [`Transport`] over another one, and keeps the contract itself. One of your own goes
//! round a backend before that goes into the registry; it passes on every method, also those with a
//! default, or what the backend does better than the default is lost.

mod client;
pub mod limits;
pub mod metrics;
mod server;

use std::sync::Arc;

use async_trait::async_trait;

use self::client::LayeredClient;
use crate::transport::{
    BrokerUsers, Capabilities, Client, Context, Endpoint, OptionSpec, Options, Result, ServeAt,
    Server, Transport,
};

/// Puts `transport` into the layer. What the limits refuse is counted as a request that failed.
pub fn wrap(transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
    Arc::new(Layered { inner: transport })
}

/// A transport that keeps to its [`limits`] and counts into its context's sink.
#[derive(Debug)]
struct Layered {
    inner: Arc<dyn Transport>,
}

#[async_trait]
impl Transport for Layered {
    fn scheme(&self) -> &'static str {
        self.inner.scheme()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn options(&self) -> &'static [OptionSpec] {
        self.inner.options()
    }

    fn check_options(&self, options: &Options) -> Result<()> {
        self.inner.check_options(options)
    }

    fn broker_permissions(&self, options: &Options, users: &BrokerUsers) -> Option<Result<String>> {
        self.inner.broker_permissions(options, users)
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        limits::check_places(&*self.inner, &at, &context)?;
        let (max_message, sink) = (context.limits.max_message, Arc::clone(&context.metrics));
        let server = self.inner.serve(at, context).await?;
        Ok(server::layered(server, max_message, sink))
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        limits::check_endpoint(&*self.inner, endpoint, &context)?;
        let bounds = LayeredClient::bounds(&*self.inner, &context);
        let inner = self.inner.connect(endpoint, context).await?;
        Ok(Arc::new(LayeredClient::new(inner, bounds)))
    }
}
