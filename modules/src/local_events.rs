//! The events that wait for the minion's own bus.

use saline_data::{Packed, Value};
use saline_event_bus::{FairQueue, Room, Taken};
use saline_messages::{Event, EventOrigin, MAX_EVENT_DATA, MinionId};

use crate::event_queue::EventError;

/// The room of waiting events: 256 of each source that are not large, and eight sources that use all of theirs.
const ROOM: Room = Room {
    least: 4 * 1024,
    share: 1024 * 1024,
    total: 8 * 1024 * 1024,
};

/// A source of events, which has its own share of the room and its own turns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LocalSource {
    /// The functions that the minion runs.
    Functions,
    /// A connection to the bus, by its number.
    Connection(u64),
}

/// An event that waits for the bus.
#[derive(Debug)]
pub struct LocalEvent {
    /// The tag.
    pub tag: String,
    /// The party that fired it.
    pub origin: EventOrigin,
    /// The data: a packed mapping of at most [`MAX_EVENT_DATA`] bytes.
    pub data: Packed,
}

/// The events that wait for the minion's own bus. They are few and small: what is too much is refused.
#[derive(Debug)]
pub struct LocalEvents {
    id: MinionId,
    queue: FairQueue<LocalSource, LocalEvent>,
}

impl LocalEvents {
    /// Creates an empty queue of this minion.
    pub fn new(id: MinionId) -> Self {
        Self {
            id,
            queue: FairQueue::new(ROOM),
        }
    }

    /// Fires an event of a function.
    ///
    /// # Errors
    /// See [`EventError`]; nothing was fired.
    pub fn fire(&self, tag: &str, data: Vec<(String, Value)>) -> Result<(), EventError> {
        let event = LocalEvent {
            tag: tag.to_owned(),
            origin: EventOrigin::minion(&self.id),
            data: Packed::pack(&Value::Map(data)),
        };
        self.push(LocalSource::Functions, event)
    }

    /// Queues an event of this source.
    ///
    /// # Errors
    /// See [`EventError`]; nothing was queued.
    pub fn push(&self, source: LocalSource, event: LocalEvent) -> Result<(), EventError> {
        Event::topic(&event.tag)?;
        let size = event.data.as_bytes().len();
        if size > MAX_EVENT_DATA {
            return Err(EventError::TooLarge(size));
        }
        let queued = self.queue.try_push(&source, size + event.tag.len(), event);
        queued.map_err(|_| EventError::LocalFull)
    }

    /// Waits for an event and takes it. One task alone may take events.
    ///
    /// # Cancel safety
    /// No event is lost when the future is dropped.
    pub async fn next(&self) -> Taken<LocalEvent> {
        self.queue.next().await
    }

    /// Returns the number of events that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }
}
