//! Events for those who ask for them over a session, since the event bus is on the master's machine alone.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The longest time for which a request waits for an event, in milliseconds: less than a client waits for a reply.
pub const MAX_EVENTS_WAIT: u32 = 10_000;

/// The largest number of tag prefixes in one request, each of at most 256 bytes.
pub const MAX_EVENT_PREFIXES: usize = 16;

/// A place between the events that the master fired since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventCursor {
    /// The start of the master in which the number counts: random.
    pub start: u64,
    /// The number of the last event before this place; the first one has 1.
    pub number: u64,
}

/// A request for events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsRequest {
    /// Returns only events after this place; none for those from now on.
    pub after: Option<EventCursor>,
    /// Returns only events whose tags begin with one of these; all, if there are none.
    pub prefixes: Vec<String>,
    /// How long the master waits while there is none to return, in milliseconds; at most [`MAX_EVENTS_WAIT`].
    pub wait_ms: u32,
}

/// Events that the one who asked may see, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsPage {
    /// The number of each event, and the event as [`Event::encode`](super::Event::encode) writes it.
    pub events: Vec<(u64, Bytes)>,
    /// The place after the last event that was looked at.
    pub next: EventCursor,
    /// Whether events between `after` and these are no longer known: the master was started since, or keeps no more.
    pub gap: bool,
}
