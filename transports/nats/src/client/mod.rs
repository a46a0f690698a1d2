//! A client of NATS: one connection to one server, with a task that reads and writes it.

mod authentication;
mod credentials_file;
mod handshake;
mod link;
mod nkey;

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

pub(crate) use authentication::{Authentication, Login};
pub(crate) use handshake::{Connector, Established};
pub(crate) use link::{Handler, Link, LinkEnd, Next, broken};
pub(crate) use nkey::is_public_key;

/// A connection to a server, in the clear or with TLS.
type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Returns an error that no other attempt would be spared: its text is for an operator.
fn disagrees(why: impl Into<String>) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, why.into())
}
