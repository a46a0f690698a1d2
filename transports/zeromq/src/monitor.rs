//! The monitor of a socket, and how both are closed.

use std::time::Duration;

use saline_protocol::transport::{Context, Metric, Result};

use crate::socket::Socket;

/// A socket with its monitor, in the order in which they must end.
#[derive(Debug)]
pub(crate) struct MonitoredSocket {
    /// The socket itself.
    pub(crate) socket: Socket,
    /// The events of the socket.
    pub(crate) monitor: Monitor,
}

impl MonitoredSocket {
    /// Reports `events` of a socket to a monitor.
    pub(crate) fn new(mut socket: Socket, events: u32) -> Result<Self> {
        let monitor = Monitor {
            socket: socket.report(events)?,
            signalled: true,
        };
        Ok(Self { socket, monitor })
    }

    /// Closes the socket, which may send what it holds for `linger`, and waits until it is gone with
    /// its last connection and descriptor.
    ///
    /// # Cancel safety
    /// The socket closes all the same; a thread of the context waits for it.
    pub(crate) async fn close(self, linger: Duration, context: &Context) {
        let Self { socket, monitor } = self;
        socket.close(i32::try_from(linger.as_millis()).unwrap_or(i32::MAX));
        let mut closing = Closing {
            monitor: Some(monitor),
            context,
        };
        if let Some(monitor) = &mut closing.monitor {
            while monitor.next().await.kind != zmq_sys::ZMQ_EVENT_MONITOR_STOPPED {}
        }
        closing.monitor = None;
    }
}

/// A monitor whose socket is being closed: it must be read until the socket is gone.
struct Closing<'a> {
    monitor: Option<Monitor>,
    context: &'a Context,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if let Some(monitor) = self.monitor.take() {
            let rest = Rest(monitor);
            self.context.spawn_blocking(move || drop(rest));
        }
    }
}

/// Reads a monitor to its end when dropped, wherever that is: also when the runtime is shutting down
/// and runs nothing any more.
struct Rest(Monitor);

impl Drop for Rest {
    fn drop(&mut self) {
        while let Some(message) = self.0.socket.receive_blocking() {
            if self.0.read(message).kind == zmq_sys::ZMQ_EVENT_MONITOR_STOPPED {
                break;
            }
        }
    }
}

/// An event of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// One of `ZMQ_EVENT_*`.
    pub(crate) kind: u32,
    /// The value of the event: a descriptor or an errno.
    pub(crate) value: i32,
}

/// Counts or logs an event of a bound socket.
pub(crate) fn note(context: &Context, event: u32) {
    match event {
        zmq_sys::ZMQ_EVENT_ACCEPT_FAILED => {
            tracing::debug!("a connection was not accepted: no descriptor is left for it");
        }
        zmq_sys::ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
        | zmq_sys::ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
        | zmq_sys::ZMQ_EVENT_HANDSHAKE_FAILED_AUTH => context.count(Metric::PeersRefused),
        _ => {}
    }
}

/// The events of one socket. It must be drained: a full one blocks libzmq's I/O thread.
#[derive(Debug)]
pub(crate) struct Monitor {
    socket: Socket,
    /// Whether there may be an event. Asking libzmq costs a system call, and there rarely is one.
    signalled: bool,
}

impl Monitor {
    /// Makes the next call of [`event`](Self::event) ask libzmq, whatever the runtime knows.
    pub(crate) fn look(&mut self) {
        self.signalled = true;
    }

    /// Returns the next event, if there is one.
    pub(crate) fn event(&mut self) -> Option<Event> {
        if !self.signalled && !self.socket.is_ready() {
            return None;
        }
        let message = self.socket.receive();
        self.signalled = message.is_some();
        message.map(|message| self.read(message))
    }

    fn read(&self, message: zmq::Message) -> Event {
        let event = match message[..] {
            [a, b, c, d, e, f] => Event {
                kind: u32::from(u16::from_ne_bytes([a, b])),
                value: i32::from_ne_bytes([c, d, e, f]),
            },
            _ => Event { kind: 0, value: 0 },
        };
        self.socket.skip_rest(message);
        event
    }

    /// Waits until there may be an event.
    ///
    /// # Cancel safety
    /// As [`Socket::ready`].
    pub(crate) async fn ready(&mut self) {
        if !self.signalled {
            self.socket.ready().await;
            self.signalled = true;
        }
    }

    /// Waits for the next event.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.event() {
                return event;
            }
            self.ready().await;
        }
    }
}
