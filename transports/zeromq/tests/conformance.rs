//! The conformance suite on this backend.
use std::sync::Arc;

use saline_conformance::{Backend, KnownGap, Wire, conformance_main};
use saline_protocol::transport::Transport;
use saline_zeromq::ZeroMq;

/// What it does not keep yet.
const GAPS: &[KnownGap] = &[
    KnownGap {
        id: "LIM-014",
        reason: "libzmq bounds what waits for a dead link in messages, not in bytes: 1,024 messages of \
                 256 KiB are held until the link counts as dead, two pings later",
    },
    KnownGap {
        id: "CON-035",
        reason: "the server does not refuse a subscription: it cuts a connection with more than twice its \
                 limit of topics and 16, and lets the others be",
    },
    KnownGap {
        id: "OBS-002",
        reason: "the server counts no links: libzmq tells of every end, also of what never shook hands",
    },
    KnownGap {
        id: "OBS-010",
        reason: "libzmq gives up what is not ZMTP 3 without saying that the handshake failed",
    },
];

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
    fn skips(&self) -> Option<&'static str> {
        Some(include_str!("skips.txt"))
    }
    fn wire(&self) -> Option<Wire> {
        Some(Wire::Tcp)
    }
}

conformance_main!(OverTcp);
