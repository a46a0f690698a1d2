//! The conformance suite on this transport.

use std::sync::Arc;

use saline_conformance::{Backend, UnixSocket, Wire, conformance_main};
use saline_protocol::transport::Transport;
use saline_seqpacket::SeqPacket;

#[derive(Debug)]
struct OverSeqPacket;

impl Backend for OverSeqPacket {
    fn name(&self) -> &'static str {
        "seqpacket"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(SeqPacket::new())
    }
    fn wire(&self) -> Option<Wire> {
        Some(Wire::UnixPath(UnixSocket::SeqPacket))
    }
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("skips.txt"))
    }
}

conformance_main!(OverSeqPacket);
