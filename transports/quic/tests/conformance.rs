//! The conformance suite on this backend.
use std::sync::Arc;

use saline_conformance::{Backend, RawTransport, Wire, conformance_main};
use saline_protocol::transport::Transport;
use saline_quic::Quic;

#[derive(Debug)]
struct OverUdp;

impl Backend for OverUdp {
    fn name(&self) -> &'static str {
        "quic"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Quic::new())
    }
    fn wire(&self) -> Option<Wire> {
        Some(Wire::Udp)
    }
    fn raw(&self) -> Option<RawTransport> {
        Some(RawTransport::of(Quic::new()))
    }
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("skips.txt"))
    }
}

conformance_main!(OverUdp);
