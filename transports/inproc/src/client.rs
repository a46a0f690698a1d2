//! Requests, and the task that keeps the link up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use saline_engine::delivery_queue;
use saline_protocol::transport::{
    Answer, Client, Context, Delivery, Endpoint, Error, ErrorKind, Instant, Metric, Result,
    Subscriber, TopicFilter, no_reply,
};

use crate::hub::{Hub, Name, names};
use crate::link::Link;
use crate::lock;
use crate::subscriber::{InProcSubscriber, Subscription};

/// Connects to the first of `endpoint`'s names that answers.
pub(crate) fn connect(
    hub: &Arc<Hub>,
    endpoint: &Endpoint,
    context: Context,
) -> Result<Arc<dyn Client>> {
    let core = Arc::new(ClientCore {
        hub: Arc::clone(hub),
        names: names(endpoint),
        closed: context.cancel.child_token(),
        turn: tokio::sync::Mutex::new(()),
        link: watch::Sender::new(None),
        subscriptions: Mutex::default(),
        context,
    });
    let Some(link) = core.open() else {
        return Err(Error::new(
            ErrorKind::Unreachable,
            format!("nothing is served at {endpoint}"),
        ));
    };
    let keeper = core
        .context
        .spawn(keep(CloseOnDrop(Arc::clone(&core)), link));
    Ok(Arc::new(InProcClient {
        core,
        keeper: tokio::sync::Mutex::new(Some(keeper)),
    }))
}

/// What a client and its task share. Where both are held, `subscriptions` is locked before the server.
#[derive(Debug)]
pub(crate) struct ClientCore {
    hub: Arc<Hub>,
    names: Vec<Name>,
    context: Context,
    /// Cancelled by a shutdown.
    closed: CancellationToken,
    /// Held by the request that is handed over next, so that they go in the order of the calls.
    turn: tokio::sync::Mutex<()>,
    /// The link, while it is up.
    link: watch::Sender<Option<Arc<Link>>>,
    subscriptions: Mutex<Vec<Arc<Subscription>>>,
}

impl ClientCore {
    /// Opens a link and takes it into use: subscriptions first, then requests.
    fn open(&self) -> Option<Arc<Link>> {
        let mut servers = self.names.iter().filter_map(|name| self.hub.find(name));
        let link = servers.find_map(Link::open)?;
        let subscriptions = lock(&self.subscriptions);
        if !link.attach(&subscriptions, true) {
            // It broke at once: nobody is told of it.
            return None;
        }
        self.context.count(Metric::Connected);
        self.link.send_replace(Some(Arc::clone(&link)));
        Some(link)
    }

    fn down(&self) {
        let subscriptions = lock(&self.subscriptions);
        self.context.count(Metric::Disconnected);
        self.link.send_replace(None);
        for subscription in subscriptions.iter() {
            subscription.push(Delivery::Disconnected);
        }
    }

    /// The link, as soon as it is up. It waits for ever when the client is shut down.
    async fn linked(&self) -> Arc<Link> {
        let mut link = self.link.subscribe();
        loop {
            if let Some(link) = link.borrow_and_update().as_ref() {
                return Arc::clone(link);
            }
            // The sender lives in `self`, so this does not fail.
            let _ = link.changed().await;
        }
    }

    /// Resolves when `link` is not the one in use any more.
    async fn replaced(&self, link: &Arc<Link>) {
        let mut current = self.link.subscribe();
        let _ = current
            .wait_for(|current| !current.as_ref().is_some_and(|c| Arc::ptr_eq(c, link)))
            .await;
    }

    /// Hands a request over as soon as it is its turn, the link is up and the server takes it.
    async fn hand_over(&self, payload: &Bytes) -> oneshot::Receiver<Answer> {
        let _turn = self.turn.lock().await;
        loop {
            let link = self.linked().await;
            if let Some(answer) = link.hand_over(payload.clone()).await {
                return answer;
            }
            self.replaced(&link).await;
        }
    }

    /// Adds `subscription` to the link that is up.
    async fn subscribe(&self, subscription: &Arc<Subscription>) -> Result<()> {
        loop {
            let link = self.linked().await;
            {
                let mut subscriptions = lock(&self.subscriptions);
                let held: usize = subscriptions.iter().map(|s| s.filters.len()).sum();
                let most = self.context.limits.subscriptions_per_connection;
                if held + subscription.filters.len() > most {
                    return Err(Error::new(
                        ErrorKind::Config,
                        format!("a connection holds at most {most} subscriptions"),
                    ));
                }
                let is_current = self
                    .link
                    .borrow()
                    .as_ref()
                    .is_some_and(|c| Arc::ptr_eq(c, &link));
                if is_current && link.attach(std::slice::from_ref(subscription), false) {
                    subscriptions.push(Arc::clone(subscription));
                    return Ok(());
                }
            }
            self.replaced(&link).await;
        }
    }

    /// Ends `subscription`.
    pub(crate) fn withdraw(&self, subscription: &Arc<Subscription>) {
        let mut subscriptions = lock(&self.subscriptions);
        subscriptions.retain(|other| !Arc::ptr_eq(other, subscription));
        if let Some(link) = self.link.borrow().as_ref() {
            link.detach(subscription);
        }
    }
}

/// Lives in the client's task, so that the client goes however the task ends.
struct CloseOnDrop(Arc<ClientCore>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let core = &self.0;
        core.closed.cancel();
        // The last handles to their queues, once the link is closed: the subscribers end.
        lock(&core.subscriptions).clear();
        if let Some(link) = core.link.send_replace(None) {
            link.close();
            core.context.count(Metric::Disconnected);
        }
    }
}

/// Keeps the link up until the client is shut down.
async fn keep(guard: CloseOnDrop, mut link: Arc<Link>) {
    let core = &guard.0;
    let reconnect = async {
        loop {
            link.closed().await;
            core.down();
            let mut backoff = core.context.backoff.clone();
            link = loop {
                core.context.clock.pause(backoff.next_delay()).await;
                if let Some(link) = core.open() {
                    break link;
                }
            };
        }
    };
    tokio::select! {
        biased;
        () = core.closed.cancelled() => {}
        () = reconnect => {}
    }
}

/// A connected client. Dropping the last handle without a shutdown ends it as well.
#[derive(Debug)]
struct InProcClient {
    core: Arc<ClientCore>,
    /// The client's task, until a shutdown has joined it.
    keeper: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

#[async_trait]
impl Client for InProcClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        let (core, clock) = (&self.core, self.core.context.clock);
        let unreachable = || Error::new(ErrorKind::Unreachable, "no link until the deadline");
        if core.closed.is_cancelled() {
            return Err(Error::closed());
        }
        if clock.now() >= deadline {
            return Err(unreachable());
        }
        let answer = tokio::select! {
            biased;
            () = core.closed.cancelled() => return Err(Error::closed()),
            answer = clock.deadline(deadline, core.hand_over(&payload)) => {
                answer.map_err(|_| unreachable())?
            }
        };
        tokio::select! {
            biased;
            answer = clock.deadline(deadline, answer) => match answer {
                Ok(Ok(Answer::Reply(reply))) => Ok(reply),
                Ok(Ok(Answer::NoReply)) => Err(no_reply()),
                Ok(Err(_)) if core.closed.is_cancelled() => Err(Error::closed()),
                Ok(Err(_)) => Err(Error::new(
                    ErrorKind::ConnectionLost,
                    "the link broke before the answer came",
                )),
                Err(_) => Err(Error::new(ErrorKind::TimedOut, "no answer until the deadline")),
            },
            () = core.closed.cancelled() => Err(Error::closed()),
        }
    }

    async fn subscribe(
        &self,
        _at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        let core = &self.core;
        if core.closed.is_cancelled() {
            return Err(Error::closed());
        }
        let (queue, receiver) = delivery_queue(&core.context.limits);
        let subscription = Arc::new(Subscription {
            filters: topics,
            queue,
            metrics: Arc::clone(&core.context.metrics),
        });
        // Made before the first await: dropping it withdraws the subscription.
        let subscriber = Box::new(InProcSubscriber {
            receiver,
            subscription: Arc::downgrade(&subscription),
            client: Arc::downgrade(core),
        });
        tokio::select! {
            biased;
            () = core.closed.cancelled() => Err(Error::closed()),
            done = core.context.clock.deadline(deadline, core.subscribe(&subscription)) => {
                match done {
                    Ok(done) => done.map(|()| subscriber as Box<dyn Subscriber>),
                    Err(_) => Err(Error::new(
                        ErrorKind::Unreachable,
                        "the subscription was not confirmed until the deadline",
                    )),
                }
            }
        }
    }

    async fn shutdown(&self, _deadline: Duration) -> Result<()> {
        // Nothing here can take long, so there is nothing to cut at a deadline.
        self.core.closed.cancel();
        let mut keeper = self.keeper.lock().await;
        if let Some(running) = keeper.as_mut() {
            let _ = running.await;
            *keeper = None;
        }
        Ok(())
    }
}

impl Drop for InProcClient {
    fn drop(&mut self) {
        self.core.closed.cancel();
    }
}
