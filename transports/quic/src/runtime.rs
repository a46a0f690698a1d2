//! What quinn runs on: tasks that belong to a [`Lifetime`], and sockets that tell what they send.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use saline_engine::Lifetime;
use tokio::sync::Notify;

/// quinn's runtime over a lifetime, which it knows weakly, because quinn's tasks hold it.
#[derive(Debug)]
pub(crate) struct LifetimeRuntime {
    tasks: Weak<Lifetime>,
    sent: Arc<Notify>,
}

impl LifetimeRuntime {
    /// Runs quinn's tasks among `tasks`; `sent` is notified after each packet.
    pub(crate) fn new(tasks: &Arc<Lifetime>, sent: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            tasks: Arc::downgrade(tasks),
            sent,
        })
    }
}

impl Runtime for LifetimeRuntime {
    fn new_timer(&self, at: std::time::Instant) -> Pin<Box<dyn AsyncTimer>> {
        // Tokio's own timer, which follows its clock.
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.spawn(task);
        }
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(WatchedSocket {
            inner: TokioRuntime.wrap_udp_socket(socket)?,
            sent: Arc::clone(&self.sent),
        }))
    }

    fn now(&self) -> std::time::Instant {
        TokioRuntime.now()
    }
}

/// A socket that says when something was sent, so that the end of a connection can wait for its last packet.
#[derive(Debug)]
struct WatchedSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    sent: Arc<Notify>,
}

impl AsyncUdpSocket for WatchedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)?;
        self.sent.notify_one();
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut std::task::Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}
