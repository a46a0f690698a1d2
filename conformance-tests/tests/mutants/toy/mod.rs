//! `toy`: a small backend over TCP and Unix sockets, for what concerns the wire. What it has to say
//! about requests and publications it leaves to the in-memory transport: each connection of a
//! server has a client of that, its agent.

mod client;
mod server;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use saline_inproc::InProc;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Result, ServeAt, Server, Transport,
};

use crate::wire_fault::WireFault;

/// The toy, with a fault.
#[derive(Debug)]
pub struct Toy {
    inner: Arc<InProc>,
    fault: WireFault,
    /// What the last connection left, where that is the fault.
    rest: wire::Rest,
}

impl Toy {
    /// A toy with `fault`.
    pub fn new(fault: WireFault) -> Self {
        Self {
            inner: Arc::new(InProc::new()),
            fault,
            rest: wire::Rest::default(),
        }
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
            .with_exact_drops()
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        server::serve(&self.inner, at, context, self.fault, &self.rest).await
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        client::connect(endpoint, context, self.fault).await
    }
}
