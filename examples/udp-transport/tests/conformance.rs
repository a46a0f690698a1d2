//! The conformance suite on this transport.

use std::sync::Arc;

use saline_conformance::{Backend, RawTransport, Wire, conformance_main};
use saline_protocol::transport::Transport;
use saline_udp::Udp;

#[derive(Debug)]
struct OverUdp;

impl Backend for OverUdp {
    fn name(&self) -> &'static str {
        "udp"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Udp::new())
    }
    fn wire(&self) -> Option<Wire> {
        Some(Wire::Udp)
    }
    fn raw(&self) -> Option<RawTransport> {
        Some(RawTransport::of(Udp::new()))
    }
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("skips.txt"))
    }
}

conformance_main!(OverUdp);
