//! The conformance suite on this backend.
use std::sync::Arc;

use saline_conformance::{Backend, conformance_main};
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
}

conformance_main!(OverUdp);
