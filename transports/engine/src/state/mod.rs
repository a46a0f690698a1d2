//! The middle of the engine, without input or output: state machines that take events and the time
//! and return what is to be done. They spawn nothing, wait for nothing and read no clock; the modules
//! `client` and `server` drive them.

mod client_subscriptions;
mod hub;
mod inbox;
mod keepalive;
mod outbound_queue;
mod pending_requests;
mod request_table;
mod staged_requests;
mod subscription_index;
#[cfg(test)]
mod testing;
mod writer_wake;

pub(crate) use client_subscriptions::{AddError, Announcement, ClientSubscriptions};
pub(crate) use hub::{Hub, Published};
pub(crate) use inbox::{Inbox, PushResult};
pub(crate) use keepalive::Ticks;
pub use keepalive::{IdleTimer, Keepalive, PingTimer};
pub(crate) use outbound_queue::{Drained, EnqueueResult, Next, OutboundQueue};
pub use pending_requests::{PendingRequests, QueuedRequest};
pub(crate) use staged_requests::StagedRequests;
pub use staged_requests::Unsent;
pub(crate) use subscription_index::SubscriptionIndex;
pub(crate) use writer_wake::{BATCH, WriterWake};
