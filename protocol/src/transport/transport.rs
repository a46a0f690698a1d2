//! The factory of both sides.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::{
    Capabilities, Client, Context, Endpoint, OptionSpec, Options, Result, ServeAt, Server,
};

/// The users that log in at the broker of a backend, for both of its sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerUsers {
    /// The user of the serving side; none for the one in the backend's section.
    pub server: Option<String>,
    /// The users of clients, each of which may be shared by several.
    pub clients: Vec<String>,
}

/// A way for messages to travel. Implement this, pass the conformance suite, and a master and its
/// minions run on it.
///
/// # Contract
/// - The unit is a message, not a stream.
/// - A backend knows neither minions nor jobs nor keys: who a peer is, and what it may do, is
///   decided above, inside the payload.
/// - Everything that it needs from outside comes with the [`Context`]: tasks, clock, bounds, backoff.
/// - One value serves and connects any number of times, at once and one after the other.
/// - An announced length is checked against [`max_message`](super::Limits::max_message) before
///   anything is allocated for it, and before anybody has said who it is (`LIM-006`, `SEC-006`).
/// - What [`scheme`](Self::scheme), [`capabilities`](Self::capabilities) and
///   [`options`](Self::options) say is always the same (`OBS-004`).
///
/// The [`limits`](crate::layer::limits) layer around it refuses with `Config` what it does not
/// declare (another scheme, a path, TLS, a place for publications, a limit beyond its own) before it
/// is asked, so that it need not look.
#[async_trait]
pub trait Transport: Send + Sync + fmt::Debug {
    /// Returns the name for `transport:` in the configuration, and the scheme in an endpoint: lower-case
    /// letters, digits and `+`.
    fn scheme(&self) -> &'static str;

    /// Returns what the backend can do, known before anything starts. Declare no more than is kept: what is declared
    /// is tested, what is not is skipped.
    fn capabilities(&self) -> Capabilities;

    /// The options of its section of the configuration, which is named by the scheme. Whoever makes
    /// an endpoint checks what was given against them ([`Options::check`](super::Options::check)), so
    /// that a backend finds in [`Endpoint::options`](super::Endpoint::options) only what it declared.
    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    /// Checks what is wrong with given options though each is [declared](Self::options): values that cannot be, and options that exclude
    /// each other. A daemon asks before it starts, so that it need not find out at each attempt to connect.
    ///
    /// # Errors
    /// `Config`, with what is to be changed.
    fn check_options(&self, options: &Options) -> Result<()> {
        let _ = options;
        Ok(())
    }

    /// Returns what the configuration of the broker says of these users, who reach each other with `options` of its section: each
    /// with what it may do there, and no more. None for a backend without a broker that knows users.
    ///
    /// # Errors
    /// `Config`: the broker could not tell the users apart, or there can be no such user.
    fn broker_permissions(
        &self,
        _options: &Options,
        _users: &BrokerUsers,
    ) -> Option<Result<String>> {
        None
    }

    /// Starts a server. When it returns, every address of the endpoint is bound and connections are
    /// taken; [`Server::bound`] says where.
    ///
    /// # Errors
    /// - `Refused`: an address is in use or cannot be resolved, or the system says no. Nothing stays
    ///   bound, and a server that was there does not notice (`CON-010`).
    /// - `Config`: the endpoint is not of this backend's kind, the limits are beyond its
    ///   capabilities, or the context's TLS cannot be used.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays bound and no task stays (`CAN-005`).
    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server>;

    /// Connects. When it returns, a first link stands; from then on the client reconnects by
    /// itself. The addresses of an endpoint are tried in order, names are resolved each time, now and
    /// at every reconnection.
    ///
    /// It fails fast: whether to try another server, or this one later, is decided above.
    ///
    /// # Errors
    /// - `Unreachable`: no address answered within
    ///   [`connect_timeout`](super::Limits::connect_timeout) (at once when all refuse), or none that
    ///   answered shook hands: it speaks something else, another version, has no room or shows a
    ///   certificate that is not taken.
    /// - `Config`: the endpoint is not of this backend's kind, the limits are beyond its
    ///   capabilities, or the context's TLS cannot be used.
    /// - `Closed`: the context was cancelled meanwhile.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected and no task stays (`CAN-006`).
    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>>;
}
