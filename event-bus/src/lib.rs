//! The event bus of a daemon: what master and minion share of it. Frames and events are described in `docs/event-bus.md`.
//!
//! | module | has |
//! |---|---|
//! | `local_endpoint` | where a daemon serves its bus on this machine |
//! | `encoded_event` | an event as it travels, with its time |
//! | `fair_queue` | a queue in which each source has room and a turn of its own |
//! | `bus` | the way of events to the publisher |

mod bus;
mod encoded_event;
mod fair_queue;
mod local_endpoint;

pub use bus::{Bus, QUEUE_BYTES, publish};
pub use encoded_event::{EncodedEvent, STAMP, encode, stamp};
pub use fair_queue::{FairQueue, Full, Room, Taken};
pub use local_endpoint::local_endpoint;
