//! The conformance suite through a leaf node: servers serve at the hub, and clients connect to the leaf.

mod support;

use std::process::ExitCode;

use saline_testing::NatsServer;

fn main() -> ExitCode {
    support::suite::run("nats-leaf", || {
        let hub = NatsServer::start("leafnodes { listen: \"127.0.0.1:-1\" }\n")?;
        let leaf = NatsServer::leaf_of(&hub)?;
        let (serve, connect) = (hub.address(), leaf.address());
        Some(((hub, leaf), serve, connect))
    })
}
