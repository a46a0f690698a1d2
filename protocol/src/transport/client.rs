//! The connecting side.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Endpoint, Instant, Result, Subscriber, TopicFilter};

/// A connected client, shared by any number of callers.
///
/// # Contract
/// - Reconnecting is the client's own business: backoff with jitter from the context, names
///   resolved afresh, every subscription restored and confirmed.
/// - A peer that is gone without a FIN is noticed within two
///   [`ping_interval`](super::Limits::ping_interval)s.
/// - Nothing is ever sent twice. Whether to ask again is decided above.
/// - Dropping the last handle without a [`shutdown`](Self::shutdown) ends the client as well, and its
///   subscribers with it.
#[async_trait]
pub trait Client: Send + Sync + fmt::Debug {
    /// Asks, and waits for the answer until `deadline`. Any number at once through one handle; a
    /// slow one does not delay the others. Waits for a permit when
    /// [`requests_in_flight`](super::Limits::requests_in_flight) are under way, and for the link
    /// while it is down.
    ///
    /// # Errors
    /// Exactly one outcome each:
    /// - `Unreachable`: the deadline passed and the request was never sent. It did not run.
    /// - `TimedOut`: the deadline passed after it was sent. A late reply is discarded.
    /// - `ConnectionLost`: the link broke after it was sent, noticed at once or within two pings.
    /// - `NoReply`: the handler dropped its reply handle.
    /// - `TooLarge`: the payload is above [`max_message`](super::Limits::max_message); nothing was sent.
    /// - `Closed`: this client has been shut down.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the request without a leak: it leaves the queue; one that was
    /// already sent may still run, and its reply is discarded.
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes>;

    /// Subscribes. When it returns, the server has confirmed: nothing published from then on is
    /// missed while the subscriber keeps up, also after a reconnect. `at` is given exactly when the
    /// backend declares `publications_apart`.
    ///
    /// # Errors
    /// `Unreachable` when no confirmation came before `deadline`; `Config` when `topics` is empty,
    /// has more than [`subscriptions_per_connection`](super::Limits::subscriptions_per_connection)
    /// or `at` does not fit; `Closed` after a shutdown.
    ///
    /// # Cancel safety
    /// A subscription whose future was dropped is withdrawn.
    async fn subscribe(
        &self,
        at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>>;

    /// SHA-256 of the certificate that the peer showed, where the link has one.
    fn peer_certificate(&self) -> Option<[u8; 32]> {
        None
    }

    /// Ends the client: requests in flight fail with `Closed`, subscribers end, every task is
    /// joined and every socket closed. A second call returns when the first has done its work.
    ///
    /// # Errors
    /// `TimedOut` when something had to be cut at the deadline. The client is down all the same.
    ///
    /// # Cancel safety
    /// A shutdown that was begun goes on when the future is dropped; call again to wait for it.
    async fn shutdown(&self, deadline: Duration) -> Result<()>;
}
