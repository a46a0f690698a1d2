//! A client, and the task that keeps its link up.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{
    Backoff, Client, Context, Endpoint, Error, ErrorKind, Instant, Metric, Result, Subscriber,
    TopicFilter,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::line::Line;
use crate::link::{Link, share};
use crate::subscriber::{QuicSubscriber, Subscriptions};
use crate::{certificate, lock, options, socket};

/// Connects, and keeps connected.
pub(crate) async fn connect(endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
    let mut config = quinn::ClientConfig::new(Arc::new(certificate::client(context.tls.as_ref())?));
    config.transport_config(socket::transport(&context.limits, socket::Side::Client));
    let core = Arc::new(ClientCore {
        endpoint: endpoint.clone(),
        udp_buffer: options::udp_buffer(&endpoint.options),
        config,
        closed: CancellationToken::new(),
        line: Line::default(),
        subscriptions: Subscriptions::default(),
        certificate: Mutex::new(None),
        context,
    });
    let link = tokio::select! {
        () = core.context.cancel.cancelled() => return Err(Error::closed()),
        link = core.dial() => link?,
    };
    let keeper = keep(CloseOnDrop(Arc::clone(&core)), link);
    let keeper = core.context.spawn(keeper);
    Ok(Arc::new(QuicClient {
        core,
        keeper: tokio::sync::Mutex::new(Some(keeper)),
    }))
}

/// What a client, its task and its link share.
#[derive(Debug)]
pub(crate) struct ClientCore {
    pub(crate) context: Context,
    pub(crate) endpoint: Endpoint,
    pub(crate) udp_buffer: usize,
    pub(crate) config: quinn::ClientConfig,
    pub(crate) line: Line,
    pub(crate) subscriptions: Subscriptions,
    /// Cancelled by a shutdown.
    closed: CancellationToken,
    /// SHA-256 of the certificate that the server showed last.
    pub(crate) certificate: Mutex<Option<[u8; 32]>>,
}

impl ClientCore {
    /// Tries every address once; each name is looked up anew.
    ///
    /// # Errors
    /// `Unreachable` when none answers; `Config` when the endpoint is not of this backend's kind;
    /// `Closed` when the client is shut down meanwhile. Nothing of an attempt is left.
    ///
    /// # Cancel safety
    /// Nothing stays connected, but something may not be gone yet, when the future is dropped.
    async fn dial(&self) -> Result<Link> {
        let clock = self.context.clock;
        let until = clock.after(self.context.limits.connect_timeout);
        let unreachable =
            |why: &str| Error::new(ErrorKind::Unreachable, format!("{}: {why}", self.endpoint));
        let mut last = unreachable("no address");
        let mut places = Vec::new();
        for address in socket::addresses(&self.endpoint)? {
            let resolving = clock.deadline(until, socket::resolve(address));
            match self.unless_closed(resolving).await? {
                Ok(Ok(found)) => {
                    let name = saline_tls::server_name(&address.host, self.context.tls.as_ref())?;
                    places.extend(found.into_iter().map(|place| (place, name.clone())));
                }
                Ok(Err(error)) => last = unreachable("cannot be resolved").with_source(error),
                Err(_) => last = unreachable("cannot be resolved in time"),
            }
        }
        for (index, (place, name)) in places.iter().enumerate() {
            let deadline = share(clock.now(), until, places.len() - index);
            match Link::open(self, *place, &name.to_str(), deadline).await {
                Ok(link) => {
                    self.context.count(Metric::Connected);
                    return Ok(link);
                }
                Err(error) if error.kind() == ErrorKind::Closed => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// What comes of `future`, unless the client is shut down before.
    ///
    /// # Errors
    /// `Closed` then.
    pub(crate) async fn unless_closed<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(Error::closed()),
            outcome = future => Ok(outcome),
        }
    }

    /// Dials until a link stands; `None` when the client is shut down. It is not to be dropped for
    /// that: an attempt that was begun is cleared away.
    async fn redial(&self, backoff: &mut Backoff) -> Option<Link> {
        loop {
            let pause = self.context.clock.pause(backoff.next_delay());
            self.unless_closed(pause).await.ok()?;
            match self.dial().await {
                Ok(link) => return Some(link),
                Err(_) if self.closed.is_cancelled() => return None,
                Err(error) => tracing::debug!(%error, "could not connect"),
            }
        }
    }

    /// The link is gone: says so to everybody whom it concerns.
    fn down(&self) {
        self.context.count(Metric::Disconnected);
        self.subscriptions.down();
        self.line.lose_sent();
    }

    /// Ends a subscription.
    pub(crate) fn withdraw(&self, subscription: u64) {
        if self.subscriptions.withdraw(subscription) {
            self.line.wake.notify_one();
        }
    }
}

/// Lives in the client's task, so that the client goes however the task ends.
struct CloseOnDrop(Arc<ClientCore>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let core = &self.0;
        core.closed.cancel();
        core.line.close();
        core.subscriptions.close();
    }
}

/// Keeps the link up until the client is shut down.
async fn keep(guard: CloseOnDrop, mut link: Link) {
    let core = &guard.0;
    let mut backoff = core.context.backoff.clone();
    let mut deadlines = pin!(core.line.watch_deadlines(core.context.clock));
    loop {
        let since = core.context.clock.now();
        tokio::select! {
            biased;
            () = core.closed.cancelled() => {
                core.context.count(Metric::Disconnected);
                return link.close(&core.context).await;
            }
            never = &mut deadlines => match never {},
            () = link.carry(core) => {}
        }
        core.down();
        tracing::debug!(endpoint = %core.endpoint, "the link broke");
        link.close(&core.context).await;
        if since.elapsed() > core.context.limits.ping_interval {
            // Else it was no better than an attempt that failed.
            backoff.reset();
        }
        let redialled = tokio::select! {
            biased;
            never = &mut deadlines => match never {},
            redialled = core.redial(&mut backoff) => redialled,
        };
        let Some(stands) = redialled else {
            return;
        };
        link = stands;
        tracing::debug!(endpoint = %core.endpoint, "the link stands again");
    }
}

/// A connected client. Dropping the last handle without a shutdown ends it as well.
#[derive(Debug)]
struct QuicClient {
    core: Arc<ClientCore>,
    /// The client's task, until a shutdown has joined it.
    keeper: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

#[async_trait]
impl Client for QuicClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        let core = &self.core;
        core.line.ask(payload, deadline, core.context.clock).await
    }

    async fn subscribe(
        &self,
        _at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        let core = &self.core;
        let (id, receiver, confirmed) = core.subscriptions.add(topics, &core.context)?;
        // Made before the first await: dropping it withdraws the subscription.
        let subscriber = Box::new(QuicSubscriber {
            receiver,
            id,
            client: Arc::downgrade(core),
        });
        core.line.wake.notify_one();
        match core.context.clock.deadline(deadline, confirmed).await {
            Ok(Ok(confirmed)) => confirmed.map(|()| subscriber as Box<dyn Subscriber>),
            Ok(Err(_)) => Err(Error::closed()),
            Err(_) => Err(Error::new(
                ErrorKind::Unreachable,
                "the subscription was not confirmed before the deadline",
            )),
        }
    }

    fn peer_certificate(&self) -> Option<[u8; 32]> {
        *lock(&self.core.certificate)
    }

    async fn shutdown(&self, _deadline: Duration) -> Result<()> {
        // The end of the link is bounded by itself, so there is nothing to cut at a deadline.
        self.core.line.close();
        self.core.closed.cancel();
        let mut keeper = self.keeper.lock().await;
        if let Some(running) = keeper.as_mut() {
            let _ = running.await;
            *keeper = None;
        }
        Ok(())
    }
}

impl Drop for QuicClient {
    fn drop(&mut self) {
        self.core.line.close();
        self.core.closed.cancel();
    }
}
