//! What quinn runs on: tasks, timers and sockets that belong to the [`Context`].

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use saline_protocol::transport::Context;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::lock;
use crate::patience::{Patience, PatientTimer};

/// Tasks that end together. Dropping them aborts them.
pub(crate) struct Tasks {
    context: Context,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Vec<JoinHandle<()>>,
    /// When so many are listed, those that have ended are taken off.
    tidy_at: usize,
    ended: bool,
}

impl Tasks {
    /// None yet.
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            state: Mutex::default(),
        })
    }

    /// Spawns a task on the context. Nothing runs once these tasks have ended.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = lock(&self.state);
        if state.ended {
            return;
        }
        if state.running.len() >= state.tidy_at {
            state.running.retain(|task| !task.is_finished());
            state.tidy_at = 2 * state.running.len() + 16;
        }
        state.running.push(self.context.spawn(task));
    }

    /// Ends every task where it stands, and waits until all are gone.
    ///
    /// # Cancel safety
    /// All are ended, and may not be gone yet, when the future is dropped.
    pub(crate) async fn end(&self) {
        for task in self.abort() {
            // One that panicked has ended too.
            let _ = task.await;
        }
    }

    fn abort(&self) -> Vec<JoinHandle<()>> {
        let mut state = lock(&self.state);
        state.ended = true;
        let running = std::mem::take(&mut state.running);
        for task in &running {
            task.abort();
        }
        running
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.abort();
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = lock(&self.state).running.len();
        f.debug_struct("Tasks").field("running", &running).finish()
    }
}

/// quinn's runtime over a context: spawned on its tracker, paced by its clock. It knows its tasks
/// weakly, because quinn's tasks hold it.
#[derive(Debug)]
pub(crate) struct ContextRuntime {
    tasks: std::sync::Weak<Tasks>,
    patience: Arc<Patience>,
    sent: Arc<Notify>,
}

impl ContextRuntime {
    /// Runs quinn's tasks among `tasks`; `sent` is notified after each packet.
    pub(crate) fn new(tasks: &Arc<Tasks>, sent: Arc<Notify>) -> Arc<Self> {
        let patience = Patience::new(tasks.context.clock, &tasks.context.limits);
        tasks.spawn(Arc::clone(&patience).keep());
        Arc::new(Self {
            tasks: Arc::downgrade(tasks),
            patience,
            sent,
        })
    }
}

impl Runtime for ContextRuntime {
    fn new_timer(&self, at: std::time::Instant) -> Pin<Box<dyn AsyncTimer>> {
        // Beneath is tokio's own timer, which follows its clock.
        let timer = PatientTimer::new(&self.patience, at, |at| TokioRuntime.new_timer(at));
        Box::pin(timer)
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
        self.patience.now()
    }
}

/// A socket that says when something was sent, so that an end can wait for its last packet.
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
