//! A libzmq socket that a task owns, and its monitor.
//!
//! A socket's descriptor (ZMQ_FD) is signalled on edges, and any call on the socket may consume the
//! signal. So the owner clears the readiness first ([`Socket::ready`]), then works until nothing can
//! be done, and its last call before it waits makes libzmq look at everything that was signalled:
//! a [`Socket::receive`] that finds nothing, or [`Socket::idle`]. Each of these costs a system call,
//! so a loop does one of them.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

use saline_protocol::transport::{Error, ErrorKind, Limits, Result};
use tokio::io::unix::AsyncFd;

use crate::frame::MAX_HEADER;
use crate::native::{self, Descriptor, IntOption, NativeContext};

/// How many messages an owner takes before it lets other tasks have a turn.
pub(crate) const BATCH: usize = 256;

/// How many messages an owner handles before it yields to callers and handlers, so that their next
/// messages are joined. After fewer the owner just waits: a task that yields waits for its own thread,
/// which a caller may hold up with a large copy, and not for the next free one.
pub(crate) const YIELD_AFTER: usize = 8;

/// The state that all sockets of one [`ZeroMq`](crate::ZeroMq) share.
#[derive(Debug)]
pub(crate) struct SharedContext {
    context: NativeContext,
    /// The number of the next monitor: names of monitors are unique in a context.
    monitors: AtomicU64,
}

impl SharedContext {
    pub(crate) fn new(max_sockets: u16) -> io::Result<Self> {
        Ok(Self {
            context: NativeContext::new(max_sockets)?,
            monitors: AtomicU64::new(0),
        })
    }
}

/// The result of trying to send.
#[derive(Debug)]
pub(crate) enum Sent {
    /// libzmq has taken the message.
    Taken,
    /// There is no room; the message is returned.
    Full(zmq::Message),
    /// There is no peer to send it to.
    Gone,
}

/// A socket. Its owner is one task: it may move between threads but is never shared.
pub(crate) struct Socket {
    // Deregistered before the socket closes the descriptor; the context goes last.
    descriptor: AsyncFd<Descriptor>,
    socket: zmq::Socket,
    shared: Arc<SharedContext>,
    /// Whether a monitor must be ended before the socket.
    monitored: bool,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.monitored {
            native::unmonitor(&mut self.socket);
        }
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Socket({})", self.descriptor.get_ref().as_raw_fd())
    }
}

impl Socket {
    /// Opens a socket that does not linger and takes frames of the limits' size.
    pub(crate) fn new(
        shared: &Arc<SharedContext>,
        kind: zmq::SocketType,
        limits: &Limits,
    ) -> Result<Self> {
        Self::open(shared, kind, limits).map_err(|error| {
            Error::new(ErrorKind::Refused, "cannot open a ZeroMQ socket").with_source(error)
        })
    }

    fn open(
        shared: &Arc<SharedContext>,
        kind: zmq::SocketType,
        limits: &Limits,
    ) -> io::Result<Self> {
        let mut socket = shared.context.socket(kind)?;
        socket.set_linger(0)?;
        if kind != zmq::PAIR {
            let largest = limits.max_message.saturating_add(MAX_HEADER);
            socket.set_maxmsgsize(i64::try_from(largest).unwrap_or(i64::MAX))?;
            socket.set_handshake_ivl(millis(limits.handshake_timeout))?;
            // A peer that vanished without a FIN frees its descriptor after about two pings, also
            // when data for it is under way, which stops the kernel's own probes.
            let seconds = i32::try_from(limits.ping_interval.as_secs())
                .unwrap_or(i32::MAX)
                .max(1);
            socket.set_tcp_keepalive(1)?;
            socket.set_tcp_keepalive_idle(seconds)?;
            socket.set_tcp_keepalive_intvl(seconds / 2 + 1)?;
            socket.set_tcp_keepalive_cnt(3)?;
            native::set(
                &mut socket,
                IntOption::TcpMaxrt,
                millis(limits.ping_interval).saturating_mul(4),
            )?;
        }
        Ok(Self {
            descriptor: native::register(&socket)?,
            socket,
            shared: Arc::clone(shared),
            monitored: false,
        })
    }

    /// Returns the socket of the `zmq` crate, to set options.
    pub(crate) fn options(&self) -> &zmq::Socket {
        &self.socket
    }

    /// Sets an option that the crate has no setter for.
    pub(crate) fn set(&mut self, option: IntOption, value: i32) -> io::Result<()> {
        native::set(&mut self.socket, option, value)
    }

    /// Binds; returns the endpoint with the port that the system chose.
    pub(crate) fn bind(&mut self, endpoint: &str) -> io::Result<String> {
        native::bind(&mut self.socket, endpoint)?;
        self.socket
            .get_last_endpoint()?
            .map_err(|_| io::Error::other("the bound endpoint is not text"))
    }

    /// Binds to a socket that listens at `endpoint` already.
    pub(crate) fn bind_to(&mut self, listener: OwnedFd, endpoint: &str) -> io::Result<String> {
        native::set(
            &mut self.socket,
            IntOption::UseDescriptor,
            listener.as_raw_fd(),
        )?;
        let bound = self.bind(endpoint)?;
        // libzmq closes it with the socket.
        let _ = listener.into_raw_fd();
        Ok(bound)
    }

    /// Begins to connect.
    pub(crate) fn connect(&mut self, endpoint: &str) -> io::Result<()> {
        native::connect(&mut self.socket, endpoint)
    }

    /// Reports `events` to a monitor, and returns the socket that the monitor reads. It must be drained: a full one
    /// blocks libzmq's I/O thread.
    pub(crate) fn report(&mut self, events: u32) -> Result<Self> {
        let fail = |error: io::Error| {
            Error::new(ErrorKind::Refused, "cannot monitor a ZeroMQ socket").with_source(error)
        };
        let name = format!(
            "inproc://saline-monitor-{}",
            self.shared.monitors.fetch_add(1, Ordering::Relaxed)
        );
        let mut receiver = Self::open(&self.shared, zmq::PAIR, &Limits::default()).map_err(fail)?;
        let events = events | zmq_sys::ZMQ_EVENT_MONITOR_STOPPED;
        self.socket
            .monitor(&name, events as i32)
            .map_err(|error| fail(error.into()))?;
        self.monitored = true;
        receiver.connect(&name).map_err(fail)?;
        Ok(receiver)
    }

    /// Receives the next frame, if there is one.
    pub(crate) fn receive(&self) -> Option<zmq::Message> {
        loop {
            match self.socket.recv_msg(zmq::DONTWAIT) {
                Ok(message) => return Some(message),
                Err(zmq::Error::EINTR) => {}
                Err(zmq::Error::EAGAIN) => return None,
                Err(error) => {
                    tracing::warn!(%error, "receiving from a ZeroMQ socket failed");
                    return None;
                }
            }
        }
    }

    /// Waits for the next frame, which a task must not do. Returns `None` when there will be none.
    pub(crate) fn receive_blocking(&self) -> Option<zmq::Message> {
        loop {
            match self.socket.recv_msg(0) {
                Ok(message) => return Some(message),
                Err(zmq::Error::EINTR) => {}
                Err(_) => return None,
            }
        }
    }

    /// Closes the socket, which may send what it holds for `linger` milliseconds. Its monitor goes on
    /// until it is gone.
    pub(crate) fn close(mut self, linger: i32) {
        if let Err(error) = self.options().set_linger(linger) {
            tracing::debug!(%error, "could not set how long a socket lingers");
        }
        self.monitored = false;
    }

    /// Throws away what is left of a multipart message; returns whether there was anything.
    pub(crate) fn skip_rest(&self, mut last: zmq::Message) -> bool {
        let had_more = last.get_more();
        while last.get_more() {
            match self.receive() {
                Some(next) => last = next,
                None => break,
            }
        }
        had_more
    }

    /// Sends one frame, to `to` when the socket routes.
    pub(crate) fn send(&mut self, to: Option<&[u8]>, mut message: zmq::Message) -> Sent {
        if let Some(to) = to {
            loop {
                match self.socket.send(to, zmq::DONTWAIT | zmq::SNDMORE) {
                    Ok(()) => break,
                    Err(zmq::Error::EINTR) => {}
                    Err(zmq::Error::EAGAIN) => return Sent::Full(message),
                    Err(_) => return Sent::Gone,
                }
            }
        }
        loop {
            // The message stays ours when libzmq does not take it.
            match native::send(&mut message, &mut self.socket) {
                Ok(()) => return Sent::Taken,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return Sent::Full(message),
                    _ => return Sent::Gone,
                },
            }
        }
    }

    /// Makes libzmq look at everything that was signalled. Returns whether nothing can be received,
    /// nor sent where `sending`: only then may the owner wait.
    pub(crate) fn idle(&self, sending: bool) -> bool {
        match self.socket.get_events() {
            Ok(events) => {
                !events.contains(zmq::POLLIN) && (!sending || !events.contains(zmq::POLLOUT))
            }
            Err(_) => true,
        }
    }

    /// Returns whether the socket may have something to do, as far as the runtime knows. Clears the
    /// readiness.
    pub(crate) fn is_ready(&mut self) -> bool {
        let mut context = std::task::Context::from_waker(Waker::noop());
        match self.descriptor.poll_read_ready(&mut context) {
            Poll::Ready(Ok(mut guard)) => {
                guard.clear_ready();
                true
            }
            _ => false,
        }
    }

    /// Waits until the socket may have something to do.
    ///
    /// # Cancel safety
    /// Nothing is lost: the readiness stays until it has been seen here.
    pub(crate) async fn ready(&mut self) {
        match self.descriptor.readable().await {
            Ok(mut guard) => guard.clear_ready(),
            // The runtime is shutting down and will drop the task.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Returns a duration in the milliseconds that libzmq takes, at least one.
pub(crate) fn millis(duration: std::time::Duration) -> i32 {
    i32::try_from(duration.as_millis())
        .unwrap_or(i32::MAX)
        .max(1)
}
