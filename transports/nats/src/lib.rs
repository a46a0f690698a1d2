//! The NATS transport: virtual connections over the subjects of a NATS server, a cluster of them, or leaf nodes.
//!
//! Both ends are clients of NATS. A client asks for a connection on the subject `hello` of its user, and from then on
//! either end sends numbered messages on a subject of that connection, within a window of bytes. So it is a pipe, and the
//! engine (`saline-engine`) holds everything above: requests, publications, losses, keepalive, reconnecting.
//!
//! | file | holds |
//! |---|---|
//! | `protocol/` | NATS's protocol: the parser of what a server says, and what a client says |
//! | `client/` | a connection to a server: login, TLS, and the link, whose task reads and writes |
//! | `subjects.rs` | the subjects, and the user in them |
//! | `message.rs` | the messages of a virtual connection |
//! | `connection.rs` | its state: numbers, window, end |
//! | `pipe.rs` | a virtual connection as a pipe |
//! | `dial.rs` | connecting |
//! | `patience.rs` | how long a client waits for an answer |
//! | `hello_queue.rs` | greetings that wait to be accepted, bounded, and shared among users |
//! | `serving.rs` | the serving side of a link: what arrives, and the connections that stand |
//! | `claim.rs` | taking a name that nobody else serves |
//! | `listen.rs` | binding, accepting, and dialling NATS again when the link breaks |
//! | `options.rs` | the options of the section `nats` |
//! | `permissions.rs` | what the configuration of NATS lets each user do |
//!
//! The user in a subject is what NATS has authenticated, so that permissions of a server can be about it. It is the
//! *source* of a connection, and never a minion's id, which a transport does not know. Nothing is ever published to a
//! reply subject that a peer chose, since servers do not check those.

mod claim;
mod client;
mod connection;
mod dial;
#[doc(hidden)]
pub mod fuzzing;
mod hello_queue;
mod listen;
mod message;
mod options;
mod patience;
mod permissions;
mod pipe;
mod protocol;
mod serving;
mod subjects;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use saline_engine::Connections;
use saline_protocol::transport::{
    BrokerUsers, Capabilities, Client, Context, Endpoint, OptionSpec, Options, Result, ServeAt,
    Server, Transport,
};

use dial::NatsDialer;
use listen::NatsListener;
use options::NatsOptions;
use patience::Patience;

/// The largest message of a virtual connection, in bytes.
const LARGEST_MESSAGE: usize = 32 * 1024;

/// The most bytes that one end of a connection may have sent and the other one not read.
const WINDOW: u64 = 256 * 1024;

/// The status of a message that says that nobody has subscribed to the subject of a publication.
const NO_RESPONDERS: u16 = 503;

/// How long an end takes to say goodbye.
const FAREWELL: Duration = Duration::from_millis(250);

/// Returns a name that nobody can guess, which is a token of subjects.
///
/// # Errors
/// When the system gives no randomness.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The NATS transport, scheme `nats`.
#[derive(Debug, Clone, Default)]
pub struct Nats {
    patience: Arc<Patience>,
}

impl Nats {
    /// Returns the transport.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Transport for Nats {
    fn scheme(&self) -> &'static str {
        "nats"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1 << 30)
            .with_broker()
            .with_shared_socket()
            .with_encryption()
            .with_exact_drops()
            .with_admission()
            .with_departures()
    }

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    fn check_options(&self, options: &Options) -> Result<()> {
        options::check(options)
    }

    fn broker_permissions(&self, options: &Options, users: &BrokerUsers) -> Option<Result<String>> {
        Some(permissions::text(options, users))
    }

    async fn serve(&self, at: ServeAt, mut context: Context) -> Result<Server> {
        // All connections share the descriptor of the link.
        context.limits.descriptors = None;
        let (listeners, bound) = self.bind(&at.requests, &context).await?;
        Ok(saline_engine::serve(listeners, bound, None, context))
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        let dialer = self.dialer(endpoint, &context)?;
        // Errors name the servers of NATS.
        let servers = dialer.servers().clone();
        saline_engine::connect(dialer, &servers, context).await
    }
}

impl Connections for Nats {
    type Dialer = NatsDialer;
    type Listener = NatsListener;

    fn dialer(&self, endpoint: &Endpoint, context: &Context) -> Result<NatsDialer> {
        let patience = Arc::clone(&self.patience);
        NatsDialer::new(NatsOptions::read(endpoint)?, patience, context)
    }

    async fn bind(
        &self,
        endpoint: &Endpoint,
        context: &Context,
    ) -> Result<(Vec<NatsListener>, Endpoint)> {
        let options = NatsOptions::read_to_serve(endpoint)?;
        let bound = options.endpoint.clone();
        let listener = listen::bind(options, context).await?;
        Ok((vec![listener], bound))
    }
}
