//! The conformance suite across a cluster of three: servers serve at one node, and clients connect to another one.

mod support;

use std::process::ExitCode;

use saline_testing::NatsServer;

fn main() -> ExitCode {
    support::suite::run("nats-cluster", || {
        let nodes = NatsServer::cluster(3, "")?;
        let (serve, connect) = (nodes[0].address(), nodes[1].address());
        Some((nodes, serve, connect))
    })
}
