//! The conformance suite on this backend.
use std::sync::Arc;

use saline_conformance::{Backend, Wire, conformance_main};
use saline_protocol::transport::Transport;
use saline_tcp::Tcp;

#[derive(Debug)]
struct OverTcp;

impl Backend for OverTcp {
    fn name(&self) -> &'static str {
        "tcp"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Tcp::new())
    }
    fn wire(&self) -> Option<Wire> {
        Some(Wire::Tcp)
    }
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("skips.txt"))
    }
}

conformance_main!(OverTcp);
