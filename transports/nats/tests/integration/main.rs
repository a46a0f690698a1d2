//! What the suite cannot say of a broker: logins, permissions, TLS, links that break, and strangers who have credentials.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod authentication;
mod hostile;
mod links;
mod support;
mod tls;
