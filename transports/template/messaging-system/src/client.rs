//! The client, and the task that keeps it connected.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::{ClientRequests, IdleTimer, Keepalive, Lifetime};
use saline_protocol::transport::{
    Client, Context, Endpoint, Instant, Metric, Result, Subscriber, TopicFilter,
};
use tokio_util::sync::DropGuard;

use crate::connection::Connection;
use crate::message::Message;
use crate::subscriber;

/// The requests of a client and their outcomes. What is taken from them counts as sent.
type Requests = ClientRequests<()>;

/// A client of one server. Dropping it without a shutdown ends it as well.
#[derive(Debug)]
pub(crate) struct TemplateClient {
    lifetime: Arc<Lifetime>,
    requests: Arc<Requests>,
    _alive: DropGuard,
}

impl TemplateClient {
    pub(crate) fn new(lifetime: Arc<Lifetime>) -> Self {
        Self {
            _alive: lifetime.cut.clone().drop_guard(),
            requests: Arc::default(),
            lifetime,
        }
    }
}

/// Connects, and keeps connected.
pub(crate) async fn connect(endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
    let until = context.clock.after(context.limits.connect_timeout);
    let first = Connection::open(endpoint, &context, until).await?;
    let client = TemplateClient::new(Lifetime::new(context, Duration::ZERO));
    let supervisor = Supervisor {
        lifetime: Arc::clone(&client.lifetime),
        requests: Arc::clone(&client.requests),
        endpoint: endpoint.clone(),
    };
    // Boxed: a future that is moved into another one takes its room twice.
    client.lifetime.spawn(Box::pin(supervisor.run(first)));
    Ok(Arc::new(client))
}

/// Keeps one client connected, and ends its requests however its task ends.
struct Supervisor {
    lifetime: Arc<Lifetime>,
    requests: Arc<Requests>,
    endpoint: Endpoint,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.requests.close();
    }
}

impl Supervisor {
    async fn run(self, first: Connection) {
        let clock = self.lifetime.context.clock;
        tokio::select! {
            biased;
            () = self.lifetime.stop.cancelled() => {}
            () = self.requests.watch_deadlines(clock) => {}
            () = self.keep_connected(first) => {}
        }
    }

    async fn keep_connected(&self, first: Connection) {
        let context = &self.lifetime.context;
        let mut connection = first;
        loop {
            context.count(Metric::Connected);
            let _ = self.serve(connection).await;
            context.count(Metric::Disconnected);
            self.requests.disconnected();
            // Subscribers hear `Disconnected` here, and not when the client itself ends.
            let mut backoff = context.backoff.clone();
            connection = loop {
                context.clock.pause(backoff.next_delay()).await;
                let until = context.clock.after(context.limits.connect_timeout);
                if let Ok(next) = Connection::open(&self.endpoint, context, until).await {
                    break next;
                }
            };
        }
    }

    /// Uses a connection until it breaks or the server is silent. Write what is missing: take what
    /// comes in ("10. The client"), call `idle.heard` for each byte of it, ping, and subscribe again
    /// ("11. Subscriptions").
    async fn serve(&self, mut connection: Connection) -> Result<()> {
        let context = &self.lifetime.context;
        let keepalive = Keepalive::new(&context.limits, context.limits.ping_interval);
        let mut idle = IdleTimer::new(context.clock.now(), keepalive.dead_after);
        let mut requests = VecDeque::new();
        loop {
            // Take no more than the messaging system has room for.
            self.requests.take(1, context.clock.now(), &mut requests);
            if let Some((id, payload)) = requests.pop_front() {
                connection.send(&Message::Request { id, payload }).await?;
                continue;
            }
            tokio::select! {
                biased;
                () = self.requests.woken() => {}
                () = context.clock.until(idle.deadline()) => {
                    if idle.is_dead(context.clock.now()) {
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[async_trait]
impl Client for TemplateClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        self.requests.ask(payload, deadline).await
    }

    async fn subscribe(
        &self,
        _at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        subscriber::subscribe(&self.lifetime.context, topics, deadline).await
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        // The subscribers end here as well.
        self.requests.close();
        self.lifetime.shutdown(deadline).await
    }
}
