//! One connection on the serving side: what it is sent, and the task that reads and writes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use saline_protocol::transport::{
    Answer, Limits, Metric, Peer, Reply, ReplyRoute, ReplyToken, Request,
};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_util::sync::CancellationToken;

use crate::frame::{Encoded, Frame, Violation};
use crate::link::{Link, Sink, Source, is_violation, send_all};
use crate::lock;
use crate::server::Core;

/// Bytes of replies that may wait for a client that asks and does not read; above, it is not read.
const OWED: usize = 1024 * 1024;
/// What a message that waits costs beside its bytes.
const PLACE: usize = 64;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    /// Ends the task.
    pub(crate) closed: CancellationToken,
    core: Arc<Core>,
    outbox: Mutex<Outbox>,
    /// Tells the writer that there is something to send.
    wake: Notify,
    /// Tells the reader that replies were sent.
    room: Notify,
}

/// What is to be sent.
#[derive(Debug, Default)]
struct Outbox {
    /// Replies, which go first.
    replies: VecDeque<Encoded>,
    /// The bytes of them.
    owed: usize,
    /// Requests that were read and not answered yet.
    unanswered: usize,
    /// Confirmations, publications and losses, in their order.
    rest: VecDeque<Rest>,
    /// How much of the rest is publications.
    messages: usize,
    bytes: usize,
}

#[derive(Debug)]
enum Rest {
    Told(Encoded),
    Publication(Encoded, usize),
    /// How many publications each subscription lost here.
    Lost(BTreeMap<u64, u64>),
}

impl Connection {
    pub(crate) fn new(core: Arc<Core>, peer: Peer) -> Arc<Self> {
        Arc::new(Self {
            peer,
            closed: CancellationToken::new(),
            core,
            outbox: Mutex::default(),
            wake: Notify::new(),
            room: Notify::new(),
        })
    }

    fn limits(&self) -> &Limits {
        &self.core.lifetime.context.limits
    }

    /// Sends a frame behind the publications that are queued. There is one for each that the client
    /// sent, and it is not read while it does not read them.
    pub(crate) fn tell(&self, frame: Frame) {
        let message = frame.encode();
        let mut outbox = lock(&self.outbox);
        outbox.owed += message.len() + PLACE;
        outbox.rest.push_back(Rest::Told(message));
        drop(outbox);
        self.wake.notify_one();
    }

    /// Queues a publication of `size` bytes for these subscriptions; where there is no room it is
    /// lost for each of them. Returns how many lost it.
    pub(crate) fn publish(
        &self,
        message: &Encoded,
        size: usize,
        takers: impl Iterator<Item = u64>,
    ) -> u64 {
        let limits = self.limits();
        let mut outbox = lock(&self.outbox);
        // A single large one is still sent when nothing waits.
        let room = outbox.messages < limits.subscriber_queue_messages
            && (outbox.messages == 0 || outbox.bytes + size <= limits.subscriber_queue_bytes);
        let mut dropped = 0;
        if room {
            outbox.messages += 1;
            outbox.bytes += size;
            let publication = Rest::Publication(message.clone(), size);
            outbox.rest.push_back(publication);
        } else {
            if !matches!(outbox.rest.back(), Some(Rest::Lost(_))) {
                outbox.rest.push_back(Rest::Lost(BTreeMap::new()));
            }
            if let Some(Rest::Lost(lost)) = outbox.rest.back_mut() {
                for taker in takers {
                    *lost.entry(taker).or_default() += 1;
                    dropped += 1;
                }
            }
        }
        drop(outbox);
        self.wake.notify_one();
        dropped
    }

    /// Takes what is to be sent next.
    fn take(&self) -> Option<Encoded> {
        let mut outbox = lock(&self.outbox);
        let message = if let Some(reply) = outbox.replies.pop_front() {
            outbox.owed -= reply.len() + PLACE;
            reply
        } else {
            match outbox.rest.pop_front()? {
                Rest::Told(message) => {
                    outbox.owed -= message.len() + PLACE;
                    message
                }
                Rest::Publication(message, size) => {
                    outbox.messages -= 1;
                    outbox.bytes -= size;
                    message
                }
                Rest::Lost(mut lost) => {
                    let (id, count) = lost.pop_first()?;
                    if !lost.is_empty() {
                        outbox.rest.push_front(Rest::Lost(lost));
                    }
                    Frame::Lagged { id, count }.encode()
                }
            }
        };
        let room = outbox.owed <= OWED;
        drop(outbox);
        if room {
            self.room.notify_one();
        }
        Some(message)
    }

    /// Whether everything was answered and sent.
    fn is_settled(&self) -> bool {
        let outbox = lock(&self.outbox);
        outbox.unanswered == 0 && outbox.replies.is_empty() && outbox.rest.is_empty()
    }

    /// Reads and writes until the connection ends. Both go on beside each other: what alternated
    /// between them would stand still as soon as both directions are full.
    pub(crate) async fn run(self: Arc<Self>, link: Link) {
        let _gone = Gone(Arc::clone(&self));
        let lifetime = Arc::clone(&self.core.lifetime);
        let context = &lifetime.context;
        let reading = self.read(link.source, &link.heard);
        tokio::pin!(reading);
        // Not in a fixed order: a task that has done much is not let further by the runtime, and the
        // one that always came second would never have its turn while a large message comes in.
        let read = tokio::select! {
            () = self.closed.cancelled() => Ok(()),
            read = &mut reading => read,
            written = self.write(link.sink) => {
                if written.is_err() {
                    Ok(())
                } else {
                    // A graceful end: all is said. It is the client who hangs up, if it does so
                    // soon, because a socket closed with unread bytes takes back what it has sent.
                    let patience = context.clock.after(context.limits.ping_interval);
                    context.clock.deadline(patience, reading).await.unwrap_or(Ok(()))
                }
            }
        };
        if let Err(Violation(why)) = read {
            tracing::debug!(peer = %self.peer, why, "a peer broke the protocol");
            context.count(Metric::PeersRefused);
        }
    }

    async fn write(&self, mut sink: Sink) -> Result<(), WsError> {
        let lifetime = &self.core.lifetime;
        let context = &lifetime.context;
        let mut pings = context.clock.interval(context.limits.ping_interval * 3 / 4);
        let mut stopping = false;
        loop {
            send_all(&mut sink, || self.take()).await?;
            if stopping && self.is_settled() {
                return sink.close().await;
            }
            tokio::select! {
                biased;
                _ = pings.tick() => sink.send(Message::Ping(Bytes::new())).await?,
                () = lifetime.stop.cancelled(), if !stopping => stopping = true,
                () = self.wake.notified() => {}
            }
        }
    }

    async fn read(
        self: &Arc<Self>,
        mut source: Source,
        heard: &crate::link::Heard,
    ) -> Result<(), Violation> {
        loop {
            while lock(&self.outbox).owed > OWED {
                self.room.notified().await;
            }
            // Time in which nobody read says nothing about the other side.
            heard.note();
            let message = tokio::select! {
                // First what has come in: on a busy machine both may be ready.
                biased;
                message = source.next() => message,
                () = heard.silence() => {
                    tracing::debug!(peer = %self.peer, "a peer is silent");
                    return Ok(());
                }
            };
            match message {
                Some(Ok(Message::Binary(bytes))) => self.receive(bytes).await?,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Ok(()),
                Some(Ok(_)) => return Err(Violation("a message that is not binary")),
                Some(Err(error)) if is_violation(&error) => {
                    return Err(Violation("bytes that are no WebSocket's, or too many"));
                }
                Some(Err(_)) => return Ok(()),
            }
        }
    }

    async fn receive(self: &Arc<Self>, bytes: Bytes) -> Result<(), Violation> {
        let core = &self.core;
        let most = self.limits().subscriptions_per_connection;
        match Frame::decode(bytes, most)? {
            Frame::Request { id, payload } => {
                // The answer gives it back. None is taken once a shutdown has begun: the client
                // learns from the end of the connection that it was too late.
                if !core.permit().await {
                    return Ok(());
                }
                lock(&self.outbox).unanswered += 1;
                let token = ReplyToken {
                    connection: self.peer.connection,
                    request: id,
                };
                let route = Arc::clone(self) as Arc<dyn ReplyRoute>;
                let reply = Reply::new(route, token, self.limits().max_message);
                let request = Request::new(self.peer, payload, reply);
                core.inbox.push(request, &self.closed).await;
                Ok(())
            }
            Frame::Subscribe { id, filters } => core.hub.subscribe(self, id, filters, most),
            Frame::Unsubscribe(id) => {
                core.hub.unsubscribe(self, id);
                Ok(())
            }
            _ => Err(Violation("a message that only a server sends")),
        }
    }
}

impl ReplyRoute for Connection {
    fn answer(&self, token: ReplyToken, answer: Answer) {
        self.core.give_back();
        let id = token.request;
        let message = match answer {
            Answer::Reply(payload) => Frame::Reply { id, payload }.encode(),
            Answer::NoReply => Frame::NoReply(id).encode(),
        };
        let mut outbox = lock(&self.outbox);
        outbox.unanswered -= 1;
        if !self.closed.is_cancelled() {
            outbox.owed += message.len() + PLACE;
            outbox.replies.push_back(message);
        }
        drop(outbox);
        self.wake.notify_one();
    }
}

/// Lives in the connection's task, so that the server forgets the connection however that ends.
struct Gone(Arc<Connection>);

impl Drop for Gone {
    fn drop(&mut self) {
        let connection = &self.0;
        connection.core.hub.cut(connection.peer.connection);
        connection.closed.cancel();
        let unanswered = {
            let mut outbox = lock(&connection.outbox);
            outbox.replies.clear();
            outbox.rest.clear();
            outbox.unanswered
        };
        tracing::debug!(peer = %connection.peer, unanswered, "a connection ended");
        connection.core.lifetime.context.count(Metric::Disconnected);
    }
}
