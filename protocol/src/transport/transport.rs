//! The factory of both sides.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Capabilities, Client, Context, Endpoint, OptionSpec, Result, ServeAt, Server};

/// A way for messages to travel. Implement this, pass the conformance suite, and a master and its
/// minions run on it.
///
/// # Contract
/// - The unit is a message, not a stream.
/// - A backend knows neither minions nor jobs nor keys: who a peer is, and what it may do, is
///   decided above, inside the payload.
/// - Everything that it needs from outside comes with the [`Context`]: tasks, clock, bounds, backoff.
/// - An announced length is checked against [`max_message`](super::Limits::max_message) before
///   anything is allocated for it.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug {
    /// What `transport:` calls it in the configuration, and its scheme in an endpoint: lower-case
    /// letters, digits and `+`.
    fn scheme(&self) -> &'static str;

    /// What it can do, known before anything starts.
    fn capabilities(&self) -> Capabilities;

    /// The options of its section of the configuration.
    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    /// Starts a server. When it returns, the endpoint is bound and connections are taken.
    ///
    /// # Errors
    /// `Refused` when the endpoint is in use or the system says no; `Config` when the endpoint is
    /// not of this backend's kind, or the limits are beyond its capabilities.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays bound.
    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server>;

    /// Connects. When it returns, a first link stands; from then on the client reconnects by
    /// itself. The addresses of an endpoint are tried in order, names are resolved each time.
    ///
    /// # Errors
    /// `Unreachable` when no address answered within
    /// [`connect_timeout`](super::Limits::connect_timeout) (at once when all refuse); `Config` when
    /// the endpoint is not of this backend's kind.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>>;
}
