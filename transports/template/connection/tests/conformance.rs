//! The conformance suite on this transport.

use std::sync::Arc;

use saline_conformance::{Backend, RawTransport, Wire, conformance_main};
use saline_protocol::transport::Transport;
use saline_template_connection::Template;

#[derive(Debug)]
struct UnderTest;

impl Backend for UnderTest {
    fn name(&self) -> &'static str {
        "template"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Template::new())
    }
    fn wire(&self) -> Option<Wire> {
        Some(Wire::Tcp)
    }
    fn raw(&self) -> Option<RawTransport> {
        Some(RawTransport::of(Template::new()))
    }
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("skips.txt"))
    }
}

conformance_main!(UnderTest);
