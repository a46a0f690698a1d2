//! The serving side: requests come in, publications go out.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Endpoint, Error, ErrorKind, Publisher, Result, Source};

/// The endpoints at which a server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeAt {
    /// The endpoint for requests; for publications too, unless they are apart.
    pub requests: Endpoint,
    /// The endpoint for publications: given exactly when the backend declares
    /// `publications_apart`.
    pub publications: Option<Endpoint>,
}

/// A running server. Each part has its own owner, because different parts of a daemon use them. Dropping all of
/// them without a [`shutdown`](ServerControl::shutdown) ends the server as well, without waiting
/// (`SHU-014`). Dropping the requests alone leaves the publisher working; what is asked then ends
/// with `NoReply` or at its deadline (`REQ-012`): its parts share one guard, and each works without the
/// others.
///
/// ```
/// use saline_protocol::transport::{Context, Result, ServeAt, Transport};
///
/// async fn echo(transport: &dyn Transport, at: ServeAt, context: Context) -> Result<()> {
///     let mut server = transport.serve(at, context).await?;
///     println!("serving at {}", server.bound.requests);
///     // Until somebody who holds `server.control` shuts it down.
///     while let Some(request) = server.requests.next().await {
///         // What came in was within the limit, so the same goes out.
///         let _ = request.reply.send(request.payload);
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Server {
    /// Yields what clients ask.
    pub requests: Box<dyn Requests>,
    /// Sends to subscribers.
    pub publisher: Arc<dyn Publisher>,
    /// Cuts and admits peers, and ends the server.
    pub control: Arc<dyn ServerControl>,
    /// Tells which admitted peers have gone.
    pub departures: Box<dyn Departures>,
    /// The bound endpoints: those asked for, with port 0 replaced by the port that the system chose.
    /// A client on this machine can connect to it as it is.
    pub bound: ServeAt,
}

impl Server {
    /// Puts the parts together, with departures that are never told.
    pub fn new(
        requests: Box<dyn Requests>,
        publisher: Arc<dyn Publisher>,
        control: Arc<dyn ServerControl>,
        bound: ServeAt,
    ) -> Self {
        Self {
            requests,
            publisher,
            control,
            departures: Box::new(UntoldDepartures),
            bound,
        }
    }

    /// The same server, telling departures: for a backend that declares
    /// [`departures`](super::Capabilities::departures).
    #[must_use]
    pub fn with_departures(mut self, departures: impl Departures + 'static) -> Self {
        self.departures = Box::new(departures);
        self
    }
}

/// The stream of incoming requests.
///
/// # Contract
/// - A malformed peer costs nothing but its own connection: it never ends the stream and never
///   delays another peer (`SEC`).
/// - At most [`Limits::requests_unanswered`](super::Limits::requests_unanswered) requests are
///   handed out unanswered; above that the backend stops reading, and loses none (`LIM-004`).
/// - Requests of one client come in the order in which it sent them (`REQ-007`).
/// - A request that was not handed out before a shutdown is never run by this server (`SHU-013`).
#[async_trait]
pub trait Requests: Send + fmt::Debug {
    /// The next request; `None` once the server has been shut down or its context was cancelled, and
    /// for ever after.
    ///
    /// # Cancel safety
    /// No request is lost when the future is dropped (`CAN-003`).
    async fn next(&mut self) -> Option<Request>;

    /// Takes up to `most` requests, in the order of [`next`](Self::next): waits for the first, and
    /// adds what is there already (`REQ-013`). Returns how many were added to `into`; 0 means what
    /// `None` means there. For handlers under load: one call hands over many requests. A `most` of 0
    /// counts as 1.
    ///
    /// The default takes one, which is right for a backend without a queue of its own.
    ///
    /// # Cancel safety
    /// No request is lost when the future is dropped: what was taken is in `into`.
    async fn next_batch(&mut self, into: &mut Vec<Request>, most: usize) -> usize {
        let _ = most;
        let request = self.next().await;
        let taken = usize::from(request.is_some());
        into.extend(request);
        taken
    }
}

/// A request as it came in.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// The peer whose connection it came over: a hint for logs and for [`ServerControl::disconnect`], never
    /// an authority. Who is asking is decided by the session inside the payload.
    pub peer: Peer,
    /// The request, at most [`Limits::max_message`](super::Limits::max_message) bytes.
    pub payload: Bytes,
    /// Answers it, once.
    pub reply: Reply,
}

impl Request {
    /// Puts the parts together.
    pub fn new(peer: Peer, payload: Bytes, reply: Reply) -> Self {
        Self {
            peer,
            payload,
            reply,
        }
    }
}

/// A connection, as the serving side knows it: the same for all of its requests, another one for each
/// link of a client. Numbers are not used again while the server runs.
///
/// # Contract
/// - Every peer has a source, which is the same for all connections of one client (`CON-037`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Peer {
    /// The number of the connection.
    pub connection: u64,
    /// The source that the peer counts as where sources share what is bounded.
    pub source: Source,
    /// The peer's remote address, where there is one, for people to read.
    pub address: Option<SocketAddr>,
}

impl Peer {
    /// A connection from this source, whose address nobody knows.
    pub const fn new(connection: u64, source: Source) -> Self {
        Self {
            connection,
            source,
            address: None,
        }
    }

    /// A connection from this address.
    pub fn at(connection: u64, address: SocketAddr) -> Self {
        Self {
            connection,
            source: Source::of(address),
            address: Some(address),
        }
    }

    /// Returns where the peer is, for people: its address without the port, or its source.
    pub fn place(&self) -> String {
        match self.address {
            Some(address) => address.ip().to_string(),
            None => self.source.to_string(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{address}"),
            None => write!(f, "connection {} of {}", self.connection, self.source),
        }
    }
}

/// How a backend recognises the request that an answer belongs to. Both numbers are the backend's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplyToken {
    /// The connection.
    pub connection: u64,
    /// The request within it.
    pub request: u64,
}

/// The answer that goes back to a requester.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This payload.
    Reply(Bytes),
    /// The handler dropped its handle: the requester gets [`ErrorKind::NoReply`] at once.
    NoReply,
}

/// The way back, implemented by a backend.
pub trait ReplyRoute: Send + Sync + fmt::Debug {
    /// Takes the answer and sends it: exactly one for each [`Reply`] that was made. Never blocks and
    /// never waits: the number of answers is bounded by the number of unanswered requests. An answer
    /// for a peer that has gone is dropped, and reaches nobody else (`CON-018`).
    ///
    /// A reply may be dropped anywhere, so this is called from any thread, also outside of a runtime,
    /// and while a panic unwinds.
    fn answer(&self, token: ReplyToken, answer: Answer);
}

/// Answers one request, once. Dropping it tells the requester at once that there will be no reply.
#[derive(Debug)]
#[must_use = "dropping a reply tells the requester that there will be none"]
pub struct Reply {
    route: Option<Arc<dyn ReplyRoute>>,
    token: ReplyToken,
    max_message: usize,
}

impl Reply {
    /// The way back of the request that `token` names; payloads above `max_message` bytes
    /// ([`Limits::max_message`](super::Limits::max_message)) are refused.
    pub fn new(route: Arc<dyn ReplyRoute>, token: ReplyToken, max_message: usize) -> Self {
        Self {
            route: Some(route),
            token,
            max_message,
        }
    }

    /// Sends the answer. That it was taken does not say that it arrived.
    ///
    /// # Errors
    /// `TooLarge` when the payload is above the limit; the requester gets `NoReply` then.
    pub fn send(mut self, payload: Bytes) -> Result<()> {
        if payload.len() > self.max_message {
            return Err(Error::too_large("a reply", payload.len(), self.max_message));
        }
        if let Some(route) = self.route.take() {
            route.answer(self.token, Answer::Reply(payload));
        }
        Ok(())
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(route) = self.route.take() {
            route.answer(self.token, Answer::NoReply);
        }
    }
}

/// A report about peers that have gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Departure {
    /// The connection of this peer has ended, whoever ended it and however.
    Gone(Peer),
    /// This many departures were dropped because nobody read them: any peer may have gone.
    Missed(u64),
}

/// The stream of departures: which peers have gone.
///
/// # Contract
/// - Told once for each peer that was [admitted](ServerControl::admitted), as soon as the server
///   notices: at once after a FIN, a reset or a [`disconnect`](ServerControl::disconnect), within two
///   [`ping_interval`](super::Limits::ping_interval)s of silence else (`CON-030`).
/// - A request of a peer may still be handed out after its departure was told: one that had come before, in line for its turn
///   (`CON-038`). Its answer goes nowhere.
/// - A peer that was never admitted is not told: strangers cannot fill the stream (`CON-032`).
/// - The stream holds at most [`Limits::connections`](super::Limits::connections) departures that
///   nobody has read; those above are counted in one [`Departure::Missed`] (`CON-033`).
#[async_trait]
pub trait Departures: Send + fmt::Debug {
    /// The next departure; `None` once the server has been shut down or its context was cancelled, and
    /// for ever after (`CON-031`). Whether the peers that a shutdown cuts are told before is left to the
    /// backend.
    ///
    /// # Cancel safety
    /// No departure is lost when the future is dropped.
    async fn next(&mut self) -> Option<Departure>;
}

/// The departures of a backend that cannot tell them.
#[derive(Debug)]
struct UntoldDepartures;

#[async_trait]
impl Departures for UntoldDepartures {
    async fn next(&mut self) -> Option<Departure> {
        std::future::pending().await
    }
}

/// Cuts and admits peers, and ends the server.
#[async_trait]
pub trait ServerControl: Send + Sync + fmt::Debug {
    /// Takes note that a session stands with `peer`: from now on the [`Limits`](super::Limits) hold for
    /// its connection instead of [`Limits::admission`](super::Limits::admission), its client is told so,
    /// and its departure is told. Admitting a peer again changes nothing. Returns false when the peer has gone: then its
    /// departure is not told.
    ///
    /// The default does nothing, which is right for a backend that declares neither
    /// [`admission`](super::Capabilities::admission) nor
    /// [`departures`](super::Capabilities::departures).
    fn admitted(&self, peer: Peer) -> bool {
        let _ = peer;
        true
    }

    /// Cuts the connection of `peer` and no other; its requests that are still unanswered go nowhere,
    /// and end with `ConnectionLost` on its side. It may come back, as another peer. Returns false,
    /// having changed nothing, when the backend cannot, or the peer has gone (`CON-015`).
    fn disconnect(&self, peer: Peer) -> bool {
        let _ = peer;
        false
    }

    /// SHA-256 of the certificate (its DER form) that this server shows, where its links have one:
    /// what every client of it sees as [`peer_certificate`](super::Client::peer_certificate).
    fn certificate(&self) -> Option<[u8; 32]> {
        None
    }

    /// Ends the server gracefully: takes no more connections and requests (those already handed
    /// out may be answered until `deadline` has passed), sends the answers and publications that it
    /// holds, closes every connection, joins every task and frees the port. After it returns the
    /// context's tracker holds nothing of this server and the same endpoint can be served again at
    /// once (`SHU-003`, `SHU-004`); a local endpoint's file is gone (`BUS-006`). `deadline` is counted
    /// from now; it is a bound, and a server with nothing to wait for is down long before it. A second
    /// call returns when the first has done its work.
    ///
    /// # Errors
    /// `TimedOut` when something had to be cut at the deadline. The server is down all the same.
    ///
    /// # Cancel safety
    /// A shutdown that was begun goes on when the future is dropped; call again to wait for it
    /// (`CAN-009`).
    async fn shutdown(&self, deadline: Duration) -> Result<()>;
}

/// The error of a request whose handler dropped its reply: what a backend's client makes of
/// [`Answer::NoReply`].
pub fn no_reply() -> Error {
    Error::new(ErrorKind::NoReply, "the other side dropped the request")
}
