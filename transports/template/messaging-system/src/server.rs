//! A server: how requests are handed out and answered, publishing, and the end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::Lifetime;
use saline_protocol::transport::{
    AccountName, Answer, Context, Endpoint, Peer, Publisher, Reply, ReplyRoute, ReplyToken,
    Request, Requests, Result, ServeAt, Server, ServerControl, Source, Topic,
};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use crate::unwritten;

/// Requests that were read and wait to be handed out; above, no more are read. Each may have
/// `max_message` bytes: bound what one peer may have waiting in bytes too.
const WAITING: usize = 64;

/// Starts a server at `endpoint`.
pub(crate) async fn serve(endpoint: &Endpoint, context: Context) -> Result<Server> {
    let (listener, bound) = bind(endpoint).await?;
    let (inbox, requests) = mpsc::channel(WAITING);
    let lifetime = Lifetime::new(context, Duration::ZERO);
    lifetime.spawn(Box::pin(take_messages(
        listener,
        inbox,
        Arc::clone(&lifetime),
    )));
    // One guard in all handles: the server ends when the last of them is dropped.
    let alive = Arc::new(lifetime.cut.clone().drop_guard());
    let requests = TemplateRequests {
        requests,
        _alive: Arc::clone(&alive),
    };
    let publisher = TemplatePublisher {
        _alive: Some(Arc::clone(&alive)),
    };
    let control = TemplateControl {
        lifetime,
        _alive: alive,
    };
    Ok(Server::new(
        Box::new(requests),
        Arc::new(publisher),
        Arc::new(control),
        ServeAt {
            requests: bound,
            publications: None,
        },
    ))
}

/// What the server is to the messaging system: a socket, a session with a broker.
#[derive(Debug)]
pub(crate) struct Listener;

/// Takes the place of `endpoint` in the messaging system. Returns what was bound, port 0 replaced.
async fn bind(_endpoint: &Endpoint) -> Result<(Listener, Endpoint)> {
    Err(unwritten(
        "server::bind",
        "listen on every address of the endpoint or on none, and say which port it became",
        "9. The server",
    ))
}

/// The task that owns the socket. Write what is missing: take messages within the limits, hand requests
/// over, send the answers that `AnswerQueue` queues, and say who subscribed. Nothing that a peer sends may
/// end it.
async fn take_messages(_listener: Listener, inbox: mpsc::Sender<Request>, lifetime: Arc<Lifetime>) {
    // A server without clients, until you take some.
    tokio::select! {
        () = lifetime.stop.cancelled() => {}
        () = inbox.closed() => {}
    }
}

/// Hands a request over, with its way back.
#[allow(dead_code, reason = "a skeleton; call it where requests come in")]
async fn hand_over(
    inbox: &mpsc::Sender<Request>,
    token: ReplyToken,
    account: AccountName,
    payload: Bytes,
    max_message: usize,
) {
    let reply = Reply::new(Arc::new(AnswerQueue), token, max_message);
    // The account that the messaging system has authenticated, never what the peer says of itself: peers of one account
    // share what is bounded.
    let peer = Peer::new(token.connection, Source::Account(account));
    let request = Request::new(peer, payload, reply);
    // Waits for room: requests are never dropped. When nobody reads them any more, dropping this one
    // tells its client.
    let _ = inbox.send(request).await;
}

/// Takes the answers to requests.
#[derive(Debug)]
struct AnswerQueue;

impl ReplyRoute for AnswerQueue {
    fn answer(&self, _token: ReplyToken, _answer: Answer) {
        // Queue it for the peer that the token names: this never waits. A peer that asks and does not
        // read makes this queue grow, so read no more of its requests above so many bytes.
    }
}

/// Hands requests out.
#[derive(Debug)]
struct TemplateRequests {
    requests: mpsc::Receiver<Request>,
    _alive: Arc<DropGuard>,
}

#[async_trait]
impl Requests for TemplateRequests {
    async fn next(&mut self) -> Option<Request> {
        self.requests.recv().await
    }
}

/// Publishes for one server.
#[derive(Debug, Default)]
pub(crate) struct TemplatePublisher {
    _alive: Option<Arc<DropGuard>>,
}

#[async_trait]
impl Publisher for TemplatePublisher {
    async fn publish(&self, _topic: &Topic, _payload: Bytes) -> Result<()> {
        Err(unwritten(
            "Publisher::publish",
            "queue it for every peer that subscribed, within its limits in messages and in bytes, and \
             without waiting for any of them",
            "11. Subscriptions",
        ))
    }

    fn subscriptions(&self, _topic: &Topic) -> usize {
        0
    }
}

/// Ends the server. Cutting peers (`disconnect`) and admitting them (`admitted`) have defaults that
/// are right for what declares neither.
#[derive(Debug)]
struct TemplateControl {
    lifetime: Arc<Lifetime>,
    _alive: Arc<DropGuard>,
}

#[async_trait]
impl ServerControl for TemplateControl {
    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        // `stop` asks the tasks to finish what they owe; what is left at the deadline is cut.
        self.lifetime.shutdown(deadline).await
    }
}
