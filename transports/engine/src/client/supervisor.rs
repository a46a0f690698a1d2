//! The task that keeps a client connected: serves a connection, and dials again when it is lost.

use std::sync::Arc;

use saline_protocol::transport::{Endpoint, Metric};
use tokio_util::sync::CancellationToken;

use super::ClientCore;
use super::connection_tasks::{Reader, Writer};
use super::dial::{Connection, dial};
use crate::lock;
use crate::pipe::{Dialer, Pipe};
use crate::state::Keepalive;

/// Keeps one client connected.
#[derive(Debug)]
pub(super) struct Supervisor<D> {
    pub(super) core: CloseOnDrop,
    pub(super) endpoint: Endpoint,
    pub(super) dialer: D,
}

/// Lives in the client's task, so that nobody waits for ever however that ends.
#[derive(Debug)]
pub(super) struct CloseOnDrop(pub(super) Arc<ClientCore>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<D: Dialer> Supervisor<D> {
    /// Serves connections, beginning with `first`, until the client is shut down.
    pub(super) async fn run(self, first: Connection<D::Pipe>) {
        self.serve_all(first).await;
        self.dialer.close().await;
    }

    async fn serve_all(&self, first: Connection<D::Pipe>) {
        let stop = self.core.0.lifetime.stop.clone();
        let mut connection = first;
        loop {
            self.serve(connection).await;
            if stop.is_cancelled() {
                return;
            }
            tracing::debug!(endpoint = %self.endpoint, "the connection is lost");
            connection = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                connection = self.redial() => connection,
            };
            tracing::debug!(endpoint = %self.endpoint, "connected again");
        }
    }

    /// Uses a connection until it breaks or the client is shut down.
    async fn serve(&self, connection: Connection<D::Pipe>) {
        let core = &self.core.0;
        let lifetime = &core.lifetime;
        *lock(&core.certificate) = connection.certificate;
        lock(&core.place).clone_from(&connection.place);
        lifetime.context.count(Metric::Connected);
        let before = connection.server.before_admission;
        let largest = before.map_or(usize::MAX, |before| before.max_message);
        core.requests.hold_above(largest);
        let filters = before.map_or(usize::MAX, |before| before.filters);
        core.subscriptions().connected(filters);
        let over = CancellationToken::new();
        let ends = start(core, connection, &over);
        tokio::select! {
            () = over.cancelled() => {}
            () = lifetime.stop.cancelled() => over.cancel(),
        }
        // Both are gone before anybody is told, so that nothing comes after the news.
        for end in ends {
            end.cancelled().await;
        }
        lifetime.context.count(Metric::Disconnected);
        core.subscriptions().disconnected();
        core.requests.reset();
    }

    /// Dials until a server answers.
    async fn redial(&self) -> Connection<D::Pipe> {
        let context = &self.core.0.lifetime.context;
        let mut backoff = context.backoff.clone();
        loop {
            context.clock.pause(backoff.next_delay()).await;
            let until = context
                .clock
                .after(self.dialer.attempt_time(&context.limits));
            match dial(&self.dialer, &self.endpoint, context, until).await {
                Ok(connection) => return connection,
                Err(error) => {
                    tracing::debug!(endpoint = %self.endpoint, %error, "could not reconnect");
                }
            }
        }
    }
}

/// Starts the two tasks of a connection. Each cancels `over` when it ends, and its own token when it
/// is gone.
fn start<P: Pipe>(
    core: &Arc<ClientCore>,
    connection: Connection<P>,
    over: &CancellationToken,
) -> [CancellationToken; 2] {
    let context = &core.lifetime.context;
    let keepalive = Keepalive::new(&context.limits, connection.server.ping);
    let reader = Reader {
        pipe: connection.read,
        frames: connection.frames,
        core: Arc::clone(core),
        keepalive,
    };
    let writer = Writer {
        pipe: connection.write,
        core: Arc::clone(core),
        keepalive,
        largest: connection.server.max_message,
    };
    let ends = [CancellationToken::new(), CancellationToken::new()];
    let [read, written] = &ends;
    core.lifetime
        .spawn(ending(reader.run(over.clone()), over, read));
    core.lifetime
        .spawn(ending(writer.run(over.clone()), over, written));
    ends
}

/// Returns `task`, which cancels both tokens when it is gone, however it ends.
fn ending(
    task: impl Future<Output = ()> + Send + 'static,
    over: &CancellationToken,
    gone: &CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    let (over, gone) = (over.clone().drop_guard(), gone.clone().drop_guard());
    // Boxed: a future that is moved into another one takes its room twice.
    let task = Box::pin(task);
    async move {
        // In this order: a task that has ended has let go of its pipe first.
        let _gone = gone;
        let _over = over;
        task.await;
    }
}
