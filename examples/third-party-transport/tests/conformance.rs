//! The conformance suite on this transport.

use std::sync::Arc;

use saline_conformance::{Backend, RawTransport, Wire, conformance_main};
use saline_protocol::transport::Transport;
use saline_websocket::WebSocket;

#[derive(Debug)]
struct OverWebSocket;

impl Backend for OverWebSocket {
    fn name(&self) -> &'static str {
        "ws"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(WebSocket::new())
    }
    fn wire(&self) -> Option<Wire> {
        Some(Wire::Tcp)
    }
    fn raw(&self) -> Option<RawTransport> {
        Some(RawTransport::of(WebSocket::new()))
    }
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("skips.txt"))
    }
}

conformance_main!(OverWebSocket);
