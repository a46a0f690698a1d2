//! The connecting side.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Endpoint, Instant, Result, Subscriber, TopicFilter};

/// A connected client, shared by any number of callers.
///
/// # Contract
/// - A request has exactly one outcome: its own reply or one error. A reply that comes too late is
///   discarded, never given to another caller (`REQ-001`, `REQ-004`). So what a request travels with to be told from others is not
///   used again while such a reply may come: numbers have 64 bits, or at least 32 that only count up.
/// - Nothing is ever sent twice, not even what was surely not received. Whether to ask again is
///   decided above.
/// - Reconnecting is the client's own business: backoff with jitter from the context, names
///   resolved afresh, every subscription restored and confirmed.
/// - A peer that is gone without a FIN is noticed within two
///   [`ping_interval`](super::Limits::ping_interval)s (`CON-020`, `CON-027`).
/// - Dropping the last handle without a [`shutdown`](Self::shutdown) ends the client as well, and its
///   subscribers with it (`SHU-014`). A subscriber is no handle: it does not keep its client alive.
#[async_trait]
pub trait Client: Send + Sync + fmt::Debug {
    /// Asks, and waits for the answer until `deadline`. Any number at once through one handle; a
    /// slow one does not delay the others. Waits for a permit when
    /// [`requests_in_flight`](super::Limits::requests_in_flight) are under way, and for the link
    /// while it is down. Requests are sent in the order in which their futures were first polled, but
    /// for those that are larger than the server takes before it has
    /// [admitted](super::ServerControl::admitted) the link: they wait for that, and smaller ones pass
    /// them (`LIM-019`).
    ///
    /// # Errors
    /// - `Unreachable`: the deadline passed and the request was never sent, because there was no link
    ///   or the link was not admitted. It did not run, and never will (`CON-005`).
    /// - `TimedOut`: the deadline passed after it was sent. It may have run, or may still.
    /// - `ConnectionLost`: the link broke after it was sent, noticed at once or within two pings. It
    ///   may have run. One of which nothing was sent waits for the next link (`CON-040`).
    /// - `NoReply`: the handler dropped its reply handle.
    /// - `TooLarge`: the payload is above [`max_message`](super::Limits::max_message); nothing was sent.
    /// - `Closed`: this client has been shut down, or its context was cancelled.
    ///
    /// A reply above this side's `max_message` never reaches the caller: the request ends with an error
    /// (`LIM-018`). A deadline that has passed already is `Unreachable` or `TimedOut`, at once. What is within this
    /// side's `max_message` and above the server's does not run; which of the errors it ends with is
    /// left to the backend, and the requests after it work (`LIM-006`).
    ///
    /// # Cancel safety
    /// Dropping the future forgets the request without a leak: it leaves the queue and never runs;
    /// one that was already sent may still run, and its reply is discarded (`CAN-001`, `CAN-007`).
    ///
    /// # Examples
    /// The kinds tell what a caller may do: a request that did not run may go to another server.
    ///
    /// ```
    /// use std::time::Duration;
    /// use bytes::Bytes;
    /// use saline_protocol::transport::{Client, Clock, ErrorKind, Result};
    ///
    /// async fn ask(first: &dyn Client, second: &dyn Client, question: Bytes) -> Result<Bytes> {
    ///     let soon = Clock.after(Duration::from_secs(2));
    ///     match first.request(question.clone(), soon).await {
    ///         Err(error) if error.kind() == ErrorKind::Unreachable => {
    ///             let later = Clock.after(Duration::from_secs(10));
    ///             second.request(question, later).await
    ///         }
    ///         // After `ConnectionLost` and `TimedOut` it may have run: only what can be repeated
    ///         // is asked again.
    ///         outcome => outcome,
    ///     }
    /// }
    /// ```
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes>;

    /// Subscribes to everything that any of `topics` takes. When it returns, the server has
    /// confirmed: nothing published from then on is missed while the subscriber keeps up and the link
    /// stands (`PUB-001`). Waits for the link while it is down. `at` is given exactly when the
    /// backend declares [`publications_apart`](super::Capabilities::publications_apart).
    ///
    /// Any number of subscribers may be open at once. Each gets what it asked for and nothing of the
    /// others' (`PUB-006`).
    ///
    /// # Errors
    /// - `Unreachable`: no confirmation came before `deadline`.
    /// - `Config`: `topics` is empty, has more than
    ///   [`subscriptions_per_connection`](super::Limits::subscriptions_per_connection) together with
    ///   those that the client holds already, or `at` does not fit.
    /// - `Closed`: this client has been shut down, or its context was cancelled.
    ///
    /// # Cancel safety
    /// A subscription whose future was dropped is withdrawn (`CAN-004`).
    async fn subscribe(
        &self,
        at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>>;

    /// SHA-256 of the certificate (its DER form) that the peer showed on the link that stands, or on
    /// the last one; `None` where links have none. The channel above binds its session to it.
    fn peer_certificate(&self) -> Option<[u8; 32]> {
        None
    }

    /// The address of the server that the link reaches, or that the last one reached, for people to read; `None` where a
    /// backend does not know it. An endpoint may stand for several.
    fn server_address(&self) -> Option<String> {
        None
    }

    /// Ends the client: requests under way fail with `Closed` at once, whatever they wait for,
    /// subscribers end, every task is joined and every socket closed. `deadline` is counted from now;
    /// it is a bound, and a client with nothing to wait for is down long before it. A second call
    /// returns when the first has done its work.
    ///
    /// # Errors
    /// `TimedOut` when something had to be cut at the deadline. The client is down all the same.
    ///
    /// # Cancel safety
    /// A shutdown that was begun goes on when the future is dropped; call again to wait for it
    /// (`CAN-009`).
    async fn shutdown(&self, deadline: Duration) -> Result<()>;
}
