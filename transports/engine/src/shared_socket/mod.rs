//! Connections that share one socket of datagrams: the socket goes in, and virtual connections, which are pipes, come out.
//!
//! A backend over datagrams (UDP, or whatever else loses, doubles and reorders them) supplies a [`DatagramSocket`]. It binds one
//! for each address that it serves and makes a [`VirtualListener`] of it; its dialer opens one for each attempt and hands it to
//! a [`VirtualDialer`]. Those keep what every such backend owes:
//!
//! - **An address is proven before it costs memory.** The first datagram of a stranger is answered with a cookie and nothing
//!   is kept; a client that sends the cookie back receives at its address. No answer to an address that is not proven is larger
//!   than the datagram that asked for it.
//! - **A datagram that is not as a peer would have sent it is dropped.** Each ends with a tag over all of it. What passes that and is still
//!   wrong was made so by its sender, and ends the sender's connection.
//! - **Bytes arrive once and in order**: segments have numbers, are acknowledged, sent again when they are lost, and held back
//!   when the network is congested.
//! - **Everything is bounded**: what waits to be accepted, what a connection holds in each direction, and what is held of all.
//! - **Ends reach the peer**: an end is acknowledged, a connection that is dropped is cut, and a server that does not know a
//!   connection any more says so.
//!
//! A connection is known by its peer's address and a number that its client chose, so that one address can have many, and its
//! datagrams also carry a number of the server's, which nobody knows who does not see them. Nothing is secret or
//! authentic against whoever does see them, as on TCP: that is the matter of the sessions above.
//!
//! | file | holds |
//! |---|---|
//! | `datagram.rs` | the datagrams, and their tag |
//! | `cookie.rs` | what proves an address |
//! | `sending.rs`, `congestion.rs`, `receiving.rs` | segments of one direction: state machines without a socket or a clock |
//! | `connection.rs` | a connection: both directions, and who waits for them |
//! | `connection_key.rs` | the key by which the tables of a socket find a connection |
//! | `driver.rs` | the task of a socket: finds the connection of each datagram, and watches the timers of all |
//! | `backlog.rs` | connections that wait to be accepted |
//! | `listen.rs`, `dial.rs`, `pipe.rs` | listener, dialer and pipe |
//! | `fuzzing.rs` | a socket without a network and a task, for the fuzz target |

mod backlog;
mod congestion;
mod connection;
mod connection_key;
mod cookie;
mod datagram;
mod dial;
mod driver;
pub(crate) mod fuzzing;
mod listen;
mod pipe;
mod receiving;
mod sending;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

pub use dial::VirtualDialer;
pub use listen::{VirtualIncoming, VirtualListener};
pub use pipe::{VirtualPipe, VirtualReadPipe, VirtualWritePipe};

/// The largest datagram that every path of the Internet carries whole (RFC 9000, 14).
const LARGEST_DATAGRAM: usize = 1200;

/// The most bytes of a connection that one end may have sent and the other one not read.
const WINDOW: u64 = 256 * 1024;

/// The window at first, so that a stranger fills little: it grows by what is read.
const FIRST_WINDOW: u64 = 16 * 1024;

/// Bytes that have arrived on all connections of one socket and were not read. Above it, a connection that holds more than
/// [`FIRST_WINDOW`] takes nothing more: its datagrams are dropped, and sent again.
const MOST_UNREAD: usize = 64 * 1024 * 1024;

/// The segments that may be under way at once in one direction of a connection.
const MOST_SEGMENTS: u64 = 256;

/// The longest wait before something is sent again.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A socket of datagrams, as a backend supplies it. Tokio's [`UdpSocket`] is one; a client's should be connected to its server, so that it
/// hears when nobody listens there.
pub trait DatagramSocket: Send + Sync + 'static {
    /// Receives a datagram and returns where it came from. What does not fit is cut off or dropped.
    ///
    /// # Errors
    /// The system's. They end no connection; `ConnectionRefused` ends an attempt to connect.
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>>;

    /// Sends a datagram, or returns at once.
    ///
    /// # Errors
    /// `WouldBlock` when the socket has no room now: [`poll_writable`](Self::poll_writable) tells when it has. After any other
    /// error the datagram counts as lost.
    fn try_send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()>;

    /// Is ready when there may be room for a datagram.
    ///
    /// # Errors
    /// The system's.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Returns the most bytes of a datagram, the same at both ends and always, and at least 200. The default is what every path of the
    /// Internet carries.
    fn largest_datagram(&self) -> usize {
        LARGEST_DATAGRAM
    }
}

impl DatagramSocket for UdpSocket {
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.poll_recv_from(cx, into)
    }

    fn try_send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        self.try_send_to(datagram, to).map(drop)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send_ready(cx)
    }
}

/// Returns bytes that nobody can guess.
///
/// # Errors
/// When the system gives no randomness.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}
