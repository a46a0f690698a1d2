//! The events that wait to be sent to the master.
//!
//! Events are numbered within a start of the minion, and the master remembers the last number of each minion: no
//! event needs a row.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use saline_data::{Packed, Value};
use saline_messages::{
    Event, EventTag, MAX_EVENT_DATA, MAX_EVENTS, MinionEvent, MinionId, StartId,
};
use saline_protocol::transport::TopicError;
use tokio::sync::Notify;

/// The size in bytes of the events that wait for a master. Beyond it no more are taken.
const WAITING_BYTES: usize = 16 * 1024 * 1024;

/// The size in bytes of the events in one request, unless the first has more.
const BATCH_BYTES: usize = 256 * 1024;

/// The bytes of an event in memory beside its tag and its data, about.
const OVERHEAD: usize = 96;

/// The reason why an event is not fired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The tag cannot be one.
    #[error("bad event tag: {0}")]
    Tag(#[from] TopicError),
    /// The data are too large.
    #[error("the data of an event have at most {MAX_EVENT_DATA} bytes, these have {0}")]
    TooLarge(usize),
    /// No master takes part in the call of the function.
    #[error("no master takes part in this call (--local), so nobody would get the event")]
    NoMaster,
    /// Too many events wait for the master.
    #[error("{0} events wait for the master already")]
    Full(usize),
    /// Too many events wait for the minion's own bus.
    #[error("too many events wait for the minion's event bus already")]
    LocalFull,
    /// The minion does not run, or this is not the minion.
    #[error(
        "the event bus belongs to the running minion: fire the event with `saline`, or over its socket"
    )]
    NoBus,
}

/// The events of one start of a minion, in the order in which they were fired. The master fires each
/// below `salt/minion/<id>/`. An event is lost when the minion stops before the master took it.
#[derive(Debug)]
pub struct EventQueue {
    id: MinionId,
    start: StartId,
    waiting: Mutex<Waiting>,
    grown: Notify,
    /// Whether a master will take the events.
    has_master: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<MinionEvent>,
    bytes: usize,
    /// The number of events that were taken.
    taken: u64,
}

impl EventQueue {
    /// Creates an empty queue of a minion that has just started.
    pub fn new(id: MinionId, start: StartId) -> Self {
        Self {
            id,
            start,
            waiting: Mutex::default(),
            grown: Notify::new(),
            has_master: true,
        }
    }

    /// Creates a queue that takes no events, for a call of a function in which no master takes part.
    pub fn without_master(id: MinionId, start: StartId) -> Self {
        Self {
            has_master: false,
            ..Self::new(id, start)
        }
    }

    /// Returns the number of events that wait for the master.
    pub fn waiting(&self) -> usize {
        self.lock().events.len()
    }

    /// Returns the id of the minion.
    pub fn id(&self) -> &MinionId {
        &self.id
    }

    /// Returns the id of this start of the minion.
    pub fn start_id(&self) -> StartId {
        self.start
    }

    /// Queues an event whose tag ends with `tag` and whose data are these entries.
    ///
    /// # Errors
    /// See [`EventError`]; nothing was queued.
    pub fn fire(&self, tag: &str, data: Vec<(String, Value)>) -> Result<(), EventError> {
        let whole = EventTag::Minion(self.id.clone(), tag.to_owned());
        Event::topic(&whole.to_string())?;
        let data = Packed::pack(&Value::Map(data));
        let size = data.as_bytes().len();
        if size > MAX_EVENT_DATA {
            return Err(EventError::TooLarge(size));
        }
        if !self.has_master {
            return Err(EventError::NoMaster);
        }
        let event = MinionEvent {
            tag: tag.to_owned(),
            data,
        };
        let mut waiting = self.lock();
        if waiting.bytes >= WAITING_BYTES {
            return Err(EventError::Full(waiting.events.len()));
        }
        waiting.bytes += size_of(&event);
        waiting.events.push_back(event);
        drop(waiting);
        self.grown.notify_one();
        Ok(())
    }

    /// Waits for events, and takes as many as fit into one request of `most_bytes`, but at least one. Returns
    /// them with the number of the first; the first event of a start has number 1.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next_batch(&self, most_bytes: usize) -> (u64, Vec<MinionEvent>) {
        loop {
            let grown = self.grown.notified();
            if let Some(batch) = self.try_next_batch(most_bytes) {
                return batch;
            }
            grown.await;
        }
    }

    /// Does the same without waiting; none when no event waits.
    pub fn try_next_batch(&self, most_bytes: usize) -> Option<(u64, Vec<MinionEvent>)> {
        let most_bytes = most_bytes.min(BATCH_BYTES);
        let mut waiting = self.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(event) = waiting.events.front() {
            let size = size_of(event);
            if !batch.is_empty() && (bytes + size > most_bytes || batch.len() == MAX_EVENTS) {
                break;
            }
            bytes += size;
            waiting.bytes -= size;
            batch.extend(waiting.events.pop_front());
        }
        let first = waiting.taken + 1;
        waiting.taken += batch.len() as u64;
        (!batch.is_empty()).then_some((first, batch))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size_of(event: &MinionEvent) -> usize {
    event.tag.len() + event.data.as_bytes().len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> EventQueue {
        EventQueue::new(MinionId::parse("m1").unwrap(), StartId([1; 16]))
    }

    fn data(size: usize) -> Vec<(String, Value)> {
        vec![("bytes".to_owned(), Value::Bytes(vec![1; size]))]
    }

    #[tokio::test]
    async fn events_are_numbered_and_come_in_batches() {
        let queue = queue();
        for number in 0..MAX_EVENTS + 10 {
            queue.fire(&format!("tag/{number}"), data(1)).unwrap();
        }
        let (first, batch) = queue.next_batch(usize::MAX).await;
        assert_eq!((first, batch.len()), (1, MAX_EVENTS));
        let (first, batch) = queue.next_batch(usize::MAX).await;
        assert_eq!((first, batch.len()), (1 + MAX_EVENTS as u64, 10));
        assert_eq!(batch[9].tag, format!("tag/{}", MAX_EVENTS + 9));
        for _ in 0..10 {
            queue.fire("large", data(60_000)).unwrap();
        }
        assert_eq!(queue.next_batch(usize::MAX).await.1.len(), 4);
        assert_eq!(queue.next_batch(4_096).await.1.len(), 1);
    }

    #[test]
    fn what_the_master_would_refuse_is_refused_here() {
        let queue = queue();
        let refused = |tag: &str, size| queue.fire(tag, data(size)).unwrap_err().to_string();
        for bad in ["", "a b", &"x".repeat(600)] {
            let why = refused(bad, 1);
            assert!(why.starts_with("bad event tag: "), "{why}");
        }
        assert_eq!(
            refused("tag", MAX_EVENT_DATA),
            "the data of an event have at most 65536 bytes, these have 65548"
        );
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_goes_on_when_there_is_room() {
        let queue = queue();
        let full = loop {
            if let Err(error) = queue.fire("tag", data(60_000)) {
                break error;
            }
        };
        assert_eq!(full, EventError::Full(280));
        queue.next_batch(usize::MAX).await;
        queue.fire("tag", data(60_000)).unwrap();
    }
}
