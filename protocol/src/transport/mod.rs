//! The transport contract: how messages travel, and nothing else.
//!
//! A backend implements [`Transport`]; [`serve`](Transport::serve) gives a [`Server`] and
//! [`connect`](Transport::connect) a [`Client`]. Between them there are two roles:
//!
//! | role | does | promises |
//! |---|---|---|
//! | [`Requests`] | yields incoming requests, each with a one-shot [`Reply`] | a dropped reply is told at once; malformed peers cost nothing |
//! | [`Client`] | makes requests, any number at once | exactly one outcome each; nothing is ever replayed |
//! | [`Publisher`] | publishes on a [`Topic`] | never waits for a slow subscriber |
//! | [`Subscriber`] | yields messages and link events | subscribed means subscribed; a loss is told |
//!
//! Identity, secrecy and meaning live above, in `channel` and
//! [`message`](crate::message): a payload is opaque here, and what a peer's connection says about
//! who it is counts for nothing.
//!
//! Everything is object-safe, because the configuration chooses the backend at run time.

mod backoff;
mod capabilities;
mod client;
mod clock;
mod context;
mod delivery_queue;
mod endpoint;
mod error;
mod lifetime;
mod limits;
mod metrics;
mod options;
mod publisher;
mod registry;
mod server;
mod silence;
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
pub use context::Context;
pub use delivery_queue::{DeliveryReceiver, DeliverySender, delivery_queue};
pub use endpoint::{Address, Endpoint, HostPort};
pub use error::{Error, ErrorKind, Result};
pub use lifetime::Lifetime;
pub use limits::Limits;
pub use metrics::{Counters, Metric, MetricsSink};
pub use options::{OptionKind, OptionSpec, OptionValue, Options};
pub use publisher::Publisher;
pub use registry::Registry;
pub use server::{
    Answer, Peer, Reply, ReplyRoute, ReplyToken, Request, Requests, ServeAt, Server, ServerControl,
    no_reply,
};
pub use silence::Silence;
pub use subscriber::{Delivery, Lost, Subscriber};
pub use tls::{Tls, VerifyPeer};
pub use topic::{MAX_BYTES, MAX_SEGMENTS, Topic, TopicError, TopicFilter};
pub use transport::Transport;
