//! The conformance suite on this backend, over one server of NATS without authentication. Where nats-server is not
//! installed, that is said, and nothing is tested.

mod support;

use std::process::ExitCode;

use saline_testing::NatsServer;

fn main() -> ExitCode {
    support::suite::run("nats", || {
        let server = NatsServer::start("")?;
        let at = server.address();
        Some((server, at, at))
    })
}
