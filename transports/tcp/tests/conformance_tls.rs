//! The conformance suite on this backend, with TLS round every connection.
use std::sync::Arc;

use async_trait::async_trait;
use saline_conformance::{Backend, Wire, conformance_main};
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

#[derive(Debug)]
struct OverTls;

impl Backend for OverTls {
    fn name(&self) -> &'static str {
        "tcp-tls"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Encrypted(Tcp::new()))
    }
    fn wire(&self) -> Option<Wire> {
        Some(Wire::Tcp)
    }
}

conformance_main!(OverTls);
