//! What is quic's alone; the conformance suite has what every transport promises.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod certificate;
mod hostile;
mod network;
mod support;
