//! The conformance suite on this backend.

use std::sync::Arc;

use saline_conformance::{Backend, conformance_main};
use saline_protocol::transport::Transport;
use saline_template_messaging_system::Template;

#[derive(Debug)]
struct UnderTest;

impl Backend for UnderTest {
    fn name(&self) -> &'static str {
        "template"
    }
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Template::new())
    }
}

conformance_main!(UnderTest);
