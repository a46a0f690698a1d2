//! What is tcp's alone; the conformance suite has what every transport promises.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod admission;
mod hostile;
mod links;
mod local_endpoints;
mod publication_bursts;
mod support;
mod tls;
