//! The transport contract: how messages travel, and nothing else.
//!
//! Whoever writes a backend implements [`Transport`] and keeps what these pages say; the conformance
//! suite, `saline-conformance`, tells whether it does. Whoever uses one takes it from a
//! [`Registry`]. The unit is a message, not a stream. Identity, secrecy and meaning live above, in
//! `saline-channel` and `saline-messages`: a payload is opaque here, and what a
//! connection says about who its peer is counts for nothing.
//!
//! Everything is object-safe, because the configuration chooses the backend at run time.
//!
//! `docs/writing-a-transport.md` is the guide to keeping this contract, `transports/template` has
//! two skeletons to copy, for a connection and for a messaging system.
//!
//! # The roles
//!
//! [`serve`](Transport::serve) gives a [`Server`], whose parts are owned apart, and
//! [`connect`](Transport::connect) a [`Client`], which opens [`Subscriber`]s:
//!
//! | role | does | promises |
//! |---|---|---|
//! | [`Requests`] | yields incoming requests, each with a one-shot [`Reply`] | a dropped reply is told at once; malformed peers cost nothing |
//! | [`Publisher`] | publishes on a [`Topic`] | never waits for a slow subscriber |
//! | [`ServerControl`] | cuts and admits peers, ends the server | a graceful end that leaves nothing behind |
//! | [`Departures`] | yields the peers that have gone | told once, for admitted peers only |
//! | [`Client`] | makes requests, any number at once | exactly one outcome each; nothing is ever replayed |
//! | [`Subscriber`] | yields messages and link events | subscribed means subscribed; a loss is told |
//!
//! # Using a transport
//!
//! ```
//! use std::time::Duration;
//! use saline_protocol::transport::{Context, Endpoint, HostPort, Registry, Result};
//!
//! async fn ask(registry: &Registry, context: &Context) -> Result<()> {
//!     let transport = registry.get("tcp")?;
//!     let master = HostPort::parse("salt.example.com", 4506)?;
//!     let endpoint = Endpoint::network(transport.scheme(), master);
//!
//!     // A child of its own: its tracker is empty when the client is down.
//!     let client = transport.connect(&endpoint, context.child()).await?;
//!     let deadline = context.clock.after(Duration::from_secs(5));
//!     let answer = client.request("how are you?".into(), deadline).await?;
//!     println!("{} bytes", answer.len());
//!     client.shutdown(Duration::from_secs(1)).await
//! }
//! ```
//!
//! # Where each promise stands
//!
//! Each is said once, under *Contract*, *Errors* or *Cancel safety* of the item in the middle; the
//! requirements of the suite on the right hold a backend to it. `REQ`, say, is all of that area;
//! `docs/transport-contract.md` has every sentence.
//!
//! | promise | read | checked by |
//! |---|---|---|
//! | one outcome a request, never another's, nothing replayed | [`Client`], [`Client::request`] | `REQ`, `CON-002` to `CON-005`, `CON-018` |
//! | a reply that is dropped is told | [`Reply`], [`ReplyRoute`] | `REQ-005`, `REQ-006` |
//! | the order of a client's requests | [`Requests`] | `REQ-007` |
//! | subscribed means subscribed, filters, order, no duplicates | [`Client::subscribe`], [`Subscriber`], [`TopicFilter`] | `PUB`, `CON-007` |
//! | a slow subscriber loses alone, and is told | [`Publisher`], [`Delivery::Lagged`] | `PUB-007` to `PUB-010` |
//! | every size and number is bounded | [`Limits`], [`Requests`] | `LIM`, `SEC-006` |
//! | reconnecting, one event for each change | [`Client`], [`Delivery`] | `CON-003` to `CON-007`, `CON-019` to `CON-021`, `CON-035`, `CON-036` |
//! | a silent peer is noticed | [`Limits::ping_interval`] | `CON-020`, `CON-026`, `CON-027` |
//! | what was bound, port 0 | [`Server::bound`], [`HostPort`] | `CON-009` to `CON-014` |
//! | who has gone is told | [`Departures`] | `CON-030` to `CON-033` |
//! | where a peer comes from is told | [`Peer::source`], [`Source`] | `CON-037` |
//! | tight bounds until a session stands | [`AdmissionLimits`], [`ServerControl::admitted`] | `LIM-015` to `LIM-017`, `LIM-019`, `LIM-020`, `LIM-022` |
//! | hostile peers cost their own connection | [`Requests`], [`Limits::handshake_timeout`] | `SEC` |
//! | any future may be dropped | every *Cancel safety* | `CAN` |
//! | an end that is graceful, complete, and can be waited for twice | [`Client::shutdown`], [`ServerControl::shutdown`], [`Context`] | `SHU` |
//! | who reaches a local endpoint | [`Address::Local`] | `BUS`, `CON-017` |
//! | what is declared, refused and counted | [`Capabilities`], [`Options`], [`Metric`] | `OBS` |
//! | what went wrong | [`ErrorKind`] | all of them |
//!
//! # What is done for a backend
//!
//! A [`Registry`] hands every transport out in the [layer](crate::layer), which checks the sizes of
//! what is sent, bounds the requests in flight, refuses endpoints and limits that the backend does not
//! declare, and counts the traffic. The crate `saline-engine` holds everything else that backends would
//! otherwise write again: a backend over a connection (TCP, QUIC, WebSocket) supplies the connection
//! alone, and a backend over a messaging system takes single parts of it, such as the tasks of one end
//! or the queue in front of a subscriber.
//!
//! # Versions
//!
//! Semantic versioning holds for this module and for the suite (before 1.0.0, a minor version counts
//! as a major one). Within a major version a backend goes on compiling, and keeps every `MUST` that it
//! kept: traits get new methods only with a default, what is `#[non_exhaustive]` gets new variants and
//! fields, and a new requirement begins as a `SHOULD`, which may be declared a known gap. What stands
//! under *Contract*, *Errors* and *Cancel safety* is promised; the text of an error is not.
//! `docs/versions.md` says it in full.

mod backoff;
mod capabilities;
mod client;
mod clock;
mod context;
mod endpoint;
mod error;
mod limits;
mod metrics;
mod options;
mod publisher;
mod registry;
mod server;
mod source;
mod source_places;
mod subscriber;
mod tls;
mod topic;
#[allow(
    clippy::module_inception,
    reason = "the trait that the module is about has a file of its own"
)]
mod transport;

pub use backoff::{Backoff, jitter};
pub use capabilities::{Capabilities, DropAccounting};
pub use client::Client;
pub use clock::{Clock, Elapsed, Instant};
pub use context::{Context, LocalAccess};
pub use endpoint::{Address, Endpoint, HostPort};
pub use error::{Error, ErrorKind, Result};
pub use limits::{AdmissionLimits, Limits};
pub use metrics::{Counters, Metric, MetricsSink};
pub use options::{OptionKind, OptionSpec, OptionValue, Options};
pub use publisher::Publisher;
pub use registry::Registry;
pub use server::{
    Answer, Departure, Departures, Peer, Reply, ReplyRoute, ReplyToken, Request, Requests, ServeAt,
    Server, ServerControl, no_reply,
};
pub use source::{AccountName, MAX_ACCOUNT_NAME, Source, SourceError, SourceNetwork};
pub use source_places::{NoPlace, SourcePlaces};
pub use subscriber::{Delivery, Lost, Subscriber};
pub use tls::{Tls, VerifyPeer};
pub use topic::{MAX_TOPIC_BYTES, MAX_TOPIC_SEGMENTS, Topic, TopicError, TopicFilter};
pub use transport::{BrokerUsers, Transport};
