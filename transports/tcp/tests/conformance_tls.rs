//! The conformance suite on this backend, with TLS round every connection.
use std::sync::Arc;

use async_trait::async_trait;
use saline_conformance::{Backend, RawTransport, Wire, conformance_main};
use saline_engine::Connections;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, OptionSpec, Result, ServeAt, Server, Tls, Transport,
};
use saline_tcp::Tcp;

/// As if `ssl: True` stood in every configuration.
#[derive(Debug)]
struct Encrypted(Tcp);

#[async_trait]
impl Transport for Encrypted {
    fn scheme(&self) -> &'static str {
        self.0.scheme()
    }
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn options(&self) -> &'static [OptionSpec] {
        self.0.options()
    }
    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        self.0.serve(at, context.with_tls(Some(Tls::new()))).await
    }
    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        let context = context.with_tls(Some(Tls::new()));
        self.0.connect(endpoint, context).await
    }
}

impl Connections for Encrypted {
    type Dialer = <Tcp as Connections>::Dialer;
    type Listener = <Tcp as Connections>::Listener;

    fn dialer(&self, endpoint: &Endpoint, context: &Context) -> Result<Self::Dialer> {
        let context = context.clone().with_tls(Some(Tls::new()));
        self.0.dialer(endpoint, &context)
    }
    async fn bind(
        &self,
        endpoint: &Endpoint,
        context: &Context,
    ) -> Result<(Vec<Self::Listener>, Endpoint)> {
        let context = context.clone().with_tls(Some(Tls::new()));
        self.0.bind(endpoint, &context).await
    }
}

#[derive(Debug)]
struct OverTls;

impl Backend for OverTls {
    fn name(&self) -> &'static str {
        "tcp-tls"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Encrypted(Tcp::new()))
    }
    fn raw(&self) -> Option<RawTransport> {
        Some(RawTransport::of(Encrypted(Tcp::new())))
    }
    fn wire(&self) -> Option<Wire> {
        Some(Wire::Tcp)
    }
}

conformance_main!(OverTls);
