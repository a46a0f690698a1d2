//! A server: its parts, and how it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use async_trait::async_trait;
use saline_engine::Lifetime;
use saline_protocol::transport::{Context, Endpoint, Peer, Result, ServeAt, Server, ServerControl};
use saline_tls::Refusals;
use tokio::sync::Semaphore;
use tokio_util::sync::DropGuard;

use crate::GRACE;
use crate::accept::accept;
use crate::inbox::{Inbox, TcpRequests};
use crate::publisher::{Hub, TcpPublisher};
use crate::stream::bind;
use crate::tls::Acceptor;

/// Starts a server at `endpoint`.
pub(crate) async fn serve(endpoint: &Endpoint, context: Context) -> Result<Server> {
    let acceptor = Acceptor::new(endpoint, &context)?;
    let (listeners, bound) = bind(endpoint).await?;
    let unanswered = context.limits.requests_unanswered;
    let lifetime = Lifetime::new(context, GRACE);
    let core = Arc::new(Core {
        permits: Semaphore::new(unanswered.clamp(1, Semaphore::MAX_PERMITS)),
        inbox: Inbox::default(),
        hub: Arc::new(Hub::new(Arc::clone(&lifetime.context.metrics))),
        connections: AtomicU64::new(0),
        half_open: AtomicUsize::new(0),
        acceptor,
        refusals: Refusals::new(),
        lifetime: Arc::clone(&lifetime),
    });
    let open = Arc::new(Open(Arc::clone(&core)));
    for listener in listeners {
        lifetime.spawn(accept(listener, Arc::clone(&open)));
    }
    let alive = Arc::new(lifetime.cut.clone().drop_guard());
    Ok(Server::new(
        Box::new(TcpRequests {
            core: Arc::clone(&core),
            _alive: Arc::clone(&alive),
        }),
        Arc::new(TcpPublisher {
            hub: Arc::clone(&core.hub),
            _alive: Arc::clone(&alive),
        }),
        Arc::new(TcpControl {
            core,
            _alive: alive,
        }),
        ServeAt {
            requests: bound,
            publications: None,
        },
    ))
}

/// What all parts of one server share.
#[derive(Debug)]
pub(crate) struct Core {
    /// One for each request that may be held unanswered.
    pub(crate) permits: Semaphore,
    pub(crate) inbox: Inbox,
    pub(crate) hub: Arc<Hub>,
    pub(crate) lifetime: Arc<Lifetime>,
    /// The number of the last connection.
    pub(crate) connections: AtomicU64,
    /// Connections that have not shaken hands.
    pub(crate) half_open: AtomicUsize,
    /// Where connections are encrypted.
    pub(crate) acceptor: Option<Acceptor>,
    pub(crate) refusals: Refusals,
}

impl Core {
    /// Takes the permit of one request, if there is one. The answer gives it back.
    pub(crate) fn try_permit(&self) -> bool {
        self.permits
            .try_acquire()
            .map(|permit| permit.forget())
            .is_ok()
    }

    /// Waits for the permit of one request.
    pub(crate) async fn permit(&self) {
        match self.permits.acquire().await {
            Ok(permit) => permit.forget(),
            // Never closed: connections end by their own tokens.
            Err(_) => std::future::pending().await,
        }
    }

    fn close(&self) {
        self.inbox.end();
        self.hub.close();
    }
}

/// Held by every task of a server. When the last is gone, however they ended, nobody waits for ever.
pub(crate) struct Open(pub(crate) Arc<Core>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Cuts peers and ends the server.
#[derive(Debug)]
struct TcpControl {
    core: Arc<Core>,
    _alive: Arc<DropGuard>,
}

#[async_trait]
impl ServerControl for TcpControl {
    fn disconnect(&self, peer: Peer) -> bool {
        self.core.hub.cut(peer.connection)
    }

    fn certificate(&self) -> Option<[u8; 32]> {
        let acceptor = self.core.acceptor.as_ref();
        acceptor.map(|acceptor| acceptor.certificate)
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.core.hub.silence();
        self.core.inbox.end();
        let ended = self.core.lifetime.shutdown(deadline).await;
        self.core.close();
        ended
    }
}
