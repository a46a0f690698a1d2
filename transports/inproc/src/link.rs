//! One link, as the client holds it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use saline_protocol::transport::Answer;

use crate::state::ServerCore;
use crate::subscriber::Subscription;

/// A link to one server. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Link {
    server: Arc<ServerCore>,
    connection: u64,
    closed: CancellationToken,
}

impl Link {
    /// Opens a link to `server`, unless it takes no more.
    pub(crate) fn open(server: Arc<ServerCore>) -> Option<Arc<Self>> {
        let (connection, closed) = server.accept()?;
        Some(Arc::new(Self {
            server,
            connection,
            closed,
        }))
    }

    /// Hands a request over, waiting while the server holds as many unanswered as it may. What
    /// comes back yields the answer, or an error when the link broke. `None` when the server takes
    /// no more requests over this link: then nothing was handed over.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing was handed over.
    pub(crate) async fn hand_over(&self, payload: Bytes) -> Option<oneshot::Receiver<Answer>> {
        let permit = tokio::select! {
            biased;
            () = self.closed.cancelled() => return None,
            () = self.server.draining() => return None,
            permit = self.server.permit() => permit?,
        };
        self.server.take(self.connection, payload, permit)
    }

    /// Makes the server send to `subscriptions` over this link; `announce` puts a `Connected` before
    /// the first message. False when the link is down.
    pub(crate) fn attach(&self, subscriptions: &[Arc<Subscription>], announce: bool) -> bool {
        self.server.attach(self.connection, subscriptions, announce)
    }

    /// Ends what [`attach`](Self::attach) began.
    pub(crate) fn detach(&self, subscription: &Arc<Subscription>) {
        self.server.detach(self.connection, subscription);
    }

    /// Takes the link down.
    pub(crate) fn close(&self) {
        self.server.cut(self.connection);
    }

    /// Resolves when the link is down.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}
