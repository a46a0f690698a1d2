//! The master as its peers meet it: real messages over the in-memory transport.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod admission;
mod audiences;
mod event_rates;
mod events;
mod handshakes;
mod listener;
mod logins;
mod operator_keys;
mod operator_rules;
mod revocation;
mod runners;
mod security_history;
mod support;
mod targets;
mod unknown_functions;
mod versions;
mod what_peers_claim;
