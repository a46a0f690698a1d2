//! A server: what listens, whom it takes, how requests are handed out, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{
    Answer, Context, Endpoint, Peer, Reply, ReplyRoute, ReplyToken, Request, Requests, Result,
    ServeAt, Server, ServerControl,
};
use tokio::sync::mpsc;

use crate::publisher::TemplatePublisher;
use crate::unwritten;

/// Requests that were read and wait to be handed out; above, no more are read.
const WAITING: usize = 64;

/// Starts a server at `endpoint`.
pub(crate) async fn serve(endpoint: &Endpoint, context: Context) -> Result<Server> {
    let (listener, bound) = bind(endpoint).await?;
    let (inbox, requests) = mpsc::channel(WAITING);
    let max_message = context.limits.max_message;
    context.spawn(accept(listener, inbox, max_message));
    Ok(Server::new(
        Box::new(TemplateRequests { requests }),
        Arc::new(TemplatePublisher),
        Arc::new(TemplateControl),
        ServeAt {
            requests: bound,
            publications: None,
        },
    ))
}

/// What listens: a socket of yours.
#[derive(Debug)]
pub(crate) struct Listener;

/// Listens at `endpoint`; returns what was bound, port 0 replaced.
async fn bind(_endpoint: &Endpoint) -> Result<(Listener, Endpoint)> {
    Err(unwritten(
        "server::bind",
        "listen on every address of the endpoint or on none, and say which port it became",
        "5. Serving",
    ))
}

/// The task that accepts. Write here what makes a server: take connections within the limits, each
/// read and written by a task of its own from `Context::spawn`; a handshake within its time-out; and
/// nothing that one of them does may end this.
async fn accept(_listener: Listener, inbox: mpsc::Sender<Request>, _max_message: usize) {
    // A server without clients, until you take some.
    inbox.closed().await;
}

/// What a connection does with a request that it has read: it comes with its way back.
#[allow(
    dead_code,
    reason = "a skeleton; your connections call it, from where they read"
)]
async fn hand_over(
    inbox: &mpsc::Sender<Request>,
    token: ReplyToken,
    payload: Bytes,
    max_message: usize,
) {
    let reply = Reply::new(Arc::new(WayBack), token, max_message);
    let request = Request::new(Peer::new(token.connection, None), payload, reply);
    // Waits for room: requests are never dropped. When nobody reads them any more, dropping this one
    // tells its client.
    let _ = inbox.send(request).await;
}

/// Takes the answers of one connection.
#[derive(Debug)]
struct WayBack;

impl ReplyRoute for WayBack {
    fn answer(&self, _token: ReplyToken, _answer: Answer) {
        // Queue it for the connection that the token names: this never waits.
    }
}

/// Hands requests out.
#[derive(Debug)]
pub(crate) struct TemplateRequests {
    pub(crate) requests: mpsc::Receiver<Request>,
}

#[async_trait]
impl Requests for TemplateRequests {
    async fn next(&mut self) -> Option<Request> {
        self.requests.recv().await
    }
}

/// Cuts peers and ends the server.
#[derive(Debug)]
pub(crate) struct TemplateControl;

#[async_trait]
impl ServerControl for TemplateControl {
    async fn shutdown(&self, _deadline: Duration) -> Result<()> {
        Err(unwritten(
            "ServerControl::shutdown",
            "take nothing new, send what is owed until the deadline, join every task (a Lifetime does), \
             free the port",
            "10. The end",
        ))
    }
}
