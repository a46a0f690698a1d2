//! The connecting side: requests and subscriptions over one link, and the task that keeps it up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::Lifetime;
use saline_protocol::transport::{
    Client, Context, Endpoint, Error, ErrorKind, Instant, Metric, Result, Subscriber, TopicFilter,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::line::Line;
use crate::link::Link;
use crate::subscriber::Subscriptions;
use crate::tls::Connector;
use crate::{GRACE, lock};

/// A client of one server. Dropping it without a shutdown ends it as well.
#[derive(Debug)]
struct TcpClient {
    line: Arc<Line>,
    subscriptions: Arc<Subscriptions>,
    /// Of the last link that stood.
    certificate: Arc<Mutex<Option<[u8; 32]>>>,
    lifetime: Arc<Lifetime>,
    _alive: DropGuard,
}

/// Connects, and keeps connected.
pub(crate) async fn connect(endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
    let connector = Connector::new(endpoint, &context)?;
    let until = context.clock.after(context.limits.connect_timeout);
    let link = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(Error::closed()),
        link = Link::dial(endpoint, &context, connector.as_ref(), until) => link?,
    };
    let line = Arc::new(Line::default());
    let subscriptions = Subscriptions::new(context.clone(), Arc::clone(&line));
    let lifetime = Lifetime::new(context, GRACE);
    let open = Open {
        line: Arc::clone(&line),
        subscriptions: Arc::clone(&subscriptions),
    };
    let certificate = Arc::new(Mutex::new(link.certificate));
    let keeper = Keeper {
        open,
        endpoint: endpoint.clone(),
        connector,
        certificate: Arc::clone(&certificate),
        lifetime: Arc::clone(&lifetime),
    };
    lifetime.spawn(keeper.run(link));
    let (watched, stop, clock) = (
        Arc::clone(&line),
        lifetime.stop.clone(),
        lifetime.context.clock,
    );
    lifetime.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = watched.watch_deadlines(clock) => {}
        }
    });
    Ok(Arc::new(TcpClient {
        line,
        subscriptions,
        certificate,
        _alive: lifetime.cut.clone().drop_guard(),
        lifetime,
    }))
}

#[async_trait]
impl Client for TcpClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        self.line.ask(payload, deadline).await
    }

    async fn subscribe(
        &self,
        at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        if at.is_some() {
            return Err(Error::new(
                ErrorKind::Config,
                "TCP publishes where requests go, so no other place can be given",
            ));
        }
        // Dropping the subscriber withdraws what was not confirmed.
        let (subscriber, confirmed) = self.subscriptions.add(topics)?;
        match self
            .lifetime
            .context
            .clock
            .deadline(deadline, confirmed)
            .await
        {
            Ok(Ok(confirmed)) => confirmed.map(|()| subscriber as Box<dyn Subscriber>),
            Ok(Err(_)) => Err(Error::closed()),
            Err(_) => Err(Error::new(
                ErrorKind::Unreachable,
                "the subscription was not confirmed before the deadline",
            )),
        }
    }

    fn peer_certificate(&self) -> Option<[u8; 32]> {
        *lock(&self.certificate)
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.line.close();
        self.subscriptions.close();
        self.lifetime.shutdown(deadline).await
    }
}

/// Lives in the client's task, so that nobody waits for ever however that ends.
#[derive(Debug)]
struct Open {
    line: Arc<Line>,
    subscriptions: Arc<Subscriptions>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.line.close();
        self.subscriptions.close();
    }
}

/// The task that keeps the link up.
struct Keeper {
    open: Open,
    endpoint: Endpoint,
    connector: Option<Connector>,
    certificate: Arc<Mutex<Option<[u8; 32]>>>,
    lifetime: Arc<Lifetime>,
}

impl Keeper {
    async fn run(self, first: Link) {
        let stop = self.lifetime.stop.clone();
        let mut link = first;
        loop {
            self.serve(link).await;
            if stop.is_cancelled() {
                return;
            }
            tracing::debug!(endpoint = %self.endpoint, "the link broke");
            link = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                link = self.redial() => link,
            };
            tracing::debug!(endpoint = %self.endpoint, "the link stands again");
        }
    }

    /// Uses a link until it breaks or the client is shut down.
    async fn serve(&self, link: Link) {
        let Open {
            line,
            subscriptions,
        } = &self.open;
        let context = &self.lifetime.context;
        context.count(Metric::Connected);
        subscriptions.link_up();
        let over = CancellationToken::new();
        let (reader, writer) = link.tasks(context, line, subscriptions, &over);
        let ends = [
            over.clone(),
            CancellationToken::new(),
            CancellationToken::new(),
        ];
        let [_, read, written] = &ends;
        self.lifetime.spawn(ending(reader, &over, read));
        self.lifetime.spawn(ending(writer, &over, written));
        tokio::select! {
            () = over.cancelled() => {}
            () = self.lifetime.stop.cancelled() => over.cancel(),
        }
        // Both are gone before anybody is told, so that nothing comes after the news.
        read.cancelled().await;
        written.cancelled().await;
        context.count(Metric::Disconnected);
        subscriptions.link_down();
        line.lose_link();
    }

    async fn redial(&self) -> Link {
        let context = &self.lifetime.context;
        let mut backoff = context.backoff.clone();
        loop {
            context.clock.pause(backoff.next_delay()).await;
            let until = context.clock.after(context.limits.connect_timeout);
            match Link::dial(&self.endpoint, context, self.connector.as_ref(), until).await {
                Ok(link) => {
                    *lock(&self.certificate) = link.certificate;
                    return link;
                }
                Err(error) => {
                    tracing::debug!(endpoint = %self.endpoint, %error, "could not reconnect");
                }
            }
        }
    }
}

/// `task`, which cancels both tokens when it is gone, however it ends.
fn ending(
    task: impl Future<Output = ()> + Send + 'static,
    over: &CancellationToken,
    gone: &CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    let (over, gone) = (over.clone().drop_guard(), gone.clone().drop_guard());
    async move {
        // In this order: a task that has ended has let go of its socket first.
        let _gone = gone;
        let _over = over;
        task.await;
    }
}
