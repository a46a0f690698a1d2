//! What is zeromq's alone; the conformance suite has what every transport promises.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod departures;
mod documented_listener;
mod lifecycle;
mod publications;
mod requests;
mod strangers;
mod support;
