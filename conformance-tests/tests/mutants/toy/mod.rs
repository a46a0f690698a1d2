//! `toy`: a small backend over TCP, UDP and Unix sockets, for what concerns the wire, departures and
//! admission. It shares nothing with the engine, so that a mistake there is not made here too. An end
//! of it cuts what stands: graceful shutdowns are tested with the in-memory transport.

mod admission;
mod client;
mod connection;
mod connections;
mod datagrams;
mod hub;
mod queue;
mod server;
mod socket;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use saline_conformance::UnixSocket;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Result, ServeAt, Server, Transport,
};

use crate::wire_fault::WireFault;

/// The toy, with a fault.
#[derive(Debug)]
pub struct Toy {
    kind: socket::Kind,
    /// What the last connection left, where that is the fault.
    rest: wire::Rest,
}

impl Toy {
    /// A toy with `fault`, whose paths are of this kind.
    pub fn new(fault: WireFault, socket: UnixSocket) -> Self {
        Self {
            kind: socket::Kind {
                fault,
                socket,
                datagrams: false,
            },
            rest: wire::Rest::default(),
        }
    }

    /// A toy with `fault` over UDP.
    pub fn over_datagrams(fault: WireFault) -> Self {
        let mut toy = Self::new(fault, UnixSocket::Stream);
        toy.kind.datagrams = true;
        toy
    }
}

#[async_trait]
impl Transport for Toy {
    fn scheme(&self) -> &'static str {
        "toy"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1 << 30)
            .with_local_endpoints()
            .with_local_users()
            .with_exact_drops()
            .with_admission()
            .with_departures()
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        server::serve(at, context, self.kind, &self.rest).await
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        client::connect(endpoint, context, self.kind).await
    }
}
