//! A client of NATS: one connection to one server, with a task that reads and writes it.

mod authentication;
mod credentials_file;
mod handshake;
mod link;
mod nkey;
mod stream;

pub(crate) use authentication::{Authentication, Login};
pub(crate) use handshake::{Connector, Established};
pub(crate) use link::{Handler, Link, LinkEnd, Next, broken};

/// Returns an error that no other attempt would be spared: its text is for an operator.
fn disagrees(why: impl Into<String>) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, why.into())
}
