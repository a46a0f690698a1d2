//! The connecting side: requests and subscriptions over one link, and the task that keeps it up.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use saline_engine::{Lifetime};
use saline_protocol::transport::{Client, Clock, Context, Endpoint, Error, ErrorKind, Instant, Metric, Result, Subscriber, TopicFilter};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_util::sync::DropGuard;

use crate::frame::{Frame, Violation};
use crate::line::Line;
use crate::link::{Link, Sink, is_violation, send_all};
use crate::subscriber::Subscriptions;

/// A client of one server. Dropping it without a shutdown ends it as well.
#[derive(Debug)]
struct WsClient {
    line: Arc<Line>,
    subscriptions: Arc<Subscriptions>,
    lifetime: Arc<Lifetime>,
    _alive: DropGuard,
}

/// Connects, and keeps connected.
pub(crate) async fn connect(endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
    let until = context.clock.after(context.limits.connect_timeout);
    let link = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(Error::closed()),
        link = Link::dial(endpoint, &context, until) => link?,
    };
    let line = Arc::new(Line::default());
    let subscriptions = Subscriptions::new(context.clone(), Arc::clone(&line));
    let lifetime = Lifetime::new(context, Duration::ZERO);
    let keeper = Keeper {
        line: Arc::clone(&line),
        subscriptions: Arc::clone(&subscriptions),
        endpoint: endpoint.clone(),
        lifetime: Arc::clone(&lifetime),
    };
    lifetime.spawn(keeper.run(link));
    Ok(Arc::new(WsClient {
        line,
        subscriptions,
        _alive: lifetime.cut.clone().drop_guard(),
        lifetime,
    }))
}

impl WsClient {
    fn clock(&self) -> Clock {
        self.lifetime.context.clock
    }
}

#[async_trait]
impl Client for WsClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        self.line.ask(payload, deadline, self.clock()).await
    }

    async fn subscribe(
        &self,
        _at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        // Dropping the subscriber withdraws what was not confirmed.
        let (subscriber, confirmed) = self.subscriptions.add(topics)?;
        match self.clock().deadline(deadline, confirmed).await {
            Ok(Ok(confirmed)) => confirmed.map(|()| subscriber as Box<dyn Subscriber>),
            Ok(Err(_)) => Err(Error::closed()),
            Err(_) => Err(Error::new(
                ErrorKind::Unreachable,
                "the subscription was not confirmed before the deadline",
            )),
        }
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.line.close();
        self.subscriptions.close();
        self.lifetime.shutdown(deadline).await
    }
}

/// The task of a client. However it ends, nobody waits for ever after it.
struct Keeper {
    line: Arc<Line>,
    subscriptions: Arc<Subscriptions>,
    endpoint: Endpoint,
    lifetime: Arc<Lifetime>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.line.close();
        self.subscriptions.close();
    }
}

impl Keeper {
    /// Keeps the link up until the client is shut down.
    async fn run(self, first: Link) {
        let stop = self.lifetime.stop.clone();
        let mut link = first;
        loop {
            self.lifetime.context.count(Metric::Connected);
            self.subscriptions.link_up();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.serve(link) => {}
            }
            // The socket is closed by now, so that nothing comes after the news.
            self.lifetime.context.count(Metric::Disconnected);
            self.subscriptions.link_down();
            self.line.lose_link();
            link = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                link = self.redial() => link,
            };
        }
    }

    /// Dials until it succeeds.
    async fn redial(&self) -> Link {
        let context = &self.lifetime.context;
        let mut backoff = context.backoff.clone();
        loop {
            context.clock.pause(backoff.next_delay()).await;
            let until = context.clock.after(context.limits.connect_timeout);
            match Link::dial(&self.endpoint, context, until).await {
                Ok(link) => return link,
                Err(error) => {
                    tracing::debug!(endpoint = %self.endpoint, %error, "could not reconnect");
                }
            }
        }
    }

    /// Uses a link until it breaks. Reading and writing go on beside each other: a client that
    /// alternated between them would stand still as soon as both directions are full. Neither has
    /// precedence, so that pings go out while a large message comes in.
    async fn serve(&self, link: Link) {
        let Link {
            source,
            sink,
            heard,
        } = link;
        tokio::select! {
            () = self.read(source, &heard) => {}
            written = self.write(sink) => if let Err(error) = written {
                tracing::debug!(endpoint = %self.endpoint, %error, "the link broke");
            }
        }
    }

    async fn write(&self, mut sink: Sink) -> std::result::Result<(), WsError> {
        let context = &self.lifetime.context;
        // The other side hears from us in time, and its answer is heard by us.
        let mut pings = context.clock.interval(context.limits.ping_interval * 3 / 4);
        loop {
            // What is about subscriptions comes first.
            send_all(&mut sink, || {
                let frame = self.subscriptions.take().or_else(|| {
                    let (id, payload) = self.line.take()?;
                    Some(Frame::Request { id, payload })
                });
                frame.map(|frame| frame.encode())
            })
            .await?;
            tokio::select! {
                biased;
                _ = pings.tick() => sink.send(Message::Ping(Bytes::new())).await?,
                () = self.line.wake.notified() => {}
            }
        }
    }

    async fn read(&self, mut source: crate::link::Source, heard: &crate::link::Heard) {
        let context = &self.lifetime.context;
        heard.note();
        loop {
            let message = tokio::select! {
                // First what has come in: on a busy machine both may be ready.
                biased;
                message = source.next() => message,
                () = heard.silence() => {
                    tracing::debug!(endpoint = %self.endpoint, "the server is silent");
                    return;
                }
            };
            let taken = match message {
                Some(Ok(Message::Binary(bytes))) => self.take(bytes),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                Some(Ok(Message::Close(_))) | None => return,
                Some(Ok(_)) => Err(Violation("a message that is not binary")),
                Some(Err(error)) if is_violation(&error) => {
                    tracing::debug!(endpoint = %self.endpoint, %error, "not a WebSocket any more");
                    Err(Violation("bytes that are no WebSocket's"))
                }
                Some(Err(error)) => {
                    tracing::debug!(endpoint = %self.endpoint, %error, "the link broke");
                    return;
                }
            };
            if let Err(Violation(why)) = taken {
                tracing::warn!(endpoint = %self.endpoint, why, "the server broke the protocol");
                context.count(Metric::PeersRefused);
                return;
            }
        }
    }

    /// Takes a message of the server.
    fn take(&self, bytes: Bytes) -> std::result::Result<(), Violation> {
        match Frame::decode(bytes, 0)? {
            Frame::Reply { id, payload } => self.line.settle(id, Some(payload)),
            Frame::NoReply(id) => self.line.settle(id, None),
            Frame::Subscribed(id) => self.subscriptions.confirmed(id),
            Frame::Denied(id) => self.subscriptions.denied(id),
            Frame::Publication { topic, payload } => self.subscriptions.publish(&topic, &payload),
            Frame::Lagged { id, count } => self.subscriptions.lagged(id, count),
            Frame::Request { .. } | Frame::Subscribe { .. } | Frame::Unsubscribe(_) => {
                return Err(Violation("a message that only a client sends"));
            }
        }
        Ok(())
    }
}
