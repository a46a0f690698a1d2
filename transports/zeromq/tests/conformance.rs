//! The conformance suite on this backend.
use std::sync::Arc;

use saline_conformance::{Backend, KnownGap, Wire, conformance_main};
use saline_protocol::transport::Transport;
use saline_zeromq::ZeroMq;

/// What libzmq cannot do, or what is not done yet.
const GAPS: &[KnownGap] = &[];

/// What is a race between a stranger and the sweep that cuts it.
const UNSTEADY: &[KnownGap] = &[KnownGap {
    id: "SEC-009",
    reason: "libzmq takes a stranger's endless 0x01 bytes for frames of a ZMTP 1.0 message that never ends, and keeps all of them: four strangers made it hold 450 MiB before they were cut",
}];

#[derive(Debug)]
struct OverTcp;

impl Backend for OverTcp {
    fn name(&self) -> &'static str {
        "zeromq"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(ZeroMq::new())
    }
    fn known_gaps(&self) -> &[KnownGap] {
        GAPS
    }
    fn unsteady_gaps(&self) -> &[KnownGap] {
        UNSTEADY
    }
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("skips.txt"))
    }
    fn wire(&self) -> Option<Wire> {
        Some(Wire::Tcp)
    }
}

conformance_main!(OverTcp);
