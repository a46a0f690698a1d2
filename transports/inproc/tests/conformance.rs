//! The conformance suite on this backend.
use std::sync::Arc;

use saline_conformance::{Backend, RawTransport, conformance_main};
use saline_inproc::InProc;
use saline_protocol::transport::Transport;

#[derive(Debug)]
struct InMemory;

impl Backend for InMemory {
    fn name(&self) -> &'static str {
        "inproc"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(InProc::new())
    }
    fn raw(&self) -> Option<RawTransport> {
        Some(RawTransport::of(InProc::new()))
    }
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("skips.txt"))
    }
    fn time_may_be_paused(&self) -> bool {
        true
    }
}

conformance_main!(InMemory);
