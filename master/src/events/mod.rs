//! The event bus: the local publisher sends events to every listener on this machine.

mod minion_events;
mod reports;

use std::sync::Arc;

use bytes::Bytes;
use saline_data::Value;
use saline_messages::{Event, EventOrigin, EventTag};
use saline_protocol::transport::{Clock, Context, Publisher, Topic};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

pub use minion_events::MinionEventFirer;
pub use reports::ReturnReport;

/// The largest return in an event, in bytes. Larger ones are left out.
pub(crate) const MAX_EVENT_RETURN: usize = 1024 * 1024;

/// The largest number of events that wait to be published.
const QUEUE: usize = 4096;

/// The most that the waiting events may come to, in bytes.
const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// An event that waits to be published.
struct QueuedEvent {
    topic: Topic,
    event: Bytes,
    /// Holds the event's share of `QUEUE_BYTES`.
    _room: OwnedSemaphorePermit,
}

/// The name of the time of an event in its data, which is Salt's.
const STAMP: &str = "_stamp";

/// The form of that time.
const STAMP_FORMAT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]+00:00");

/// Fires events. The bus is best effort; the job store is the truth.
#[derive(Debug, Clone)]
pub struct Events {
    queue: mpsc::Sender<QueuedEvent>,
    room: Arc<Semaphore>,
    publisher: Arc<dyn Publisher>,
    clock: Clock,
}

impl Events {
    /// Starts a bus over `publisher`; its task belongs to `context`.
    pub fn start(publisher: Arc<dyn Publisher>, context: &Context) -> Self {
        let (queue, mut events) = mpsc::channel::<QueuedEvent>(QUEUE);
        let out = Arc::clone(&publisher);
        context.spawn(async move {
            while let Some(QueuedEvent { topic, event, .. }) = events.recv().await {
                if let Err(error) = out.publish(&topic, event).await {
                    tracing::warn!("an event of {topic} was not fired: {error}");
                }
            }
        });
        Self {
            queue,
            room: Arc::new(Semaphore::new(QUEUE_BYTES)),
            publisher,
            clock: context.clock,
        }
    }

    /// Whether anybody listens to this tag, so that costly data are made only for a listener.
    pub fn wanted(&self, tag: &EventTag) -> bool {
        self.wanted_tag(&tag.to_string())
    }

    fn wanted_tag(&self, tag: &str) -> bool {
        Event::topic(tag).is_ok_and(|topic| self.publisher.subscriptions(&topic) > 0)
    }

    /// Fires an event of this origin with these data and a `_stamp`.
    ///
    /// # Cancel safety
    /// A dropped future has fired the event or not.
    pub async fn fire<K: Into<String>>(
        &self,
        tag: EventTag,
        origin: EventOrigin,
        data: impl IntoIterator<Item = (K, Value)>,
    ) {
        self.fire_text(&tag.to_string(), origin, data).await;
    }

    /// Fires an event with any tag.
    async fn fire_text<K: Into<String>>(
        &self,
        tag: &str,
        origin: EventOrigin,
        data: impl IntoIterator<Item = (K, Value)>,
    ) {
        if !self.wanted_tag(tag) {
            return;
        }
        let mut entries: Vec<(String, Value)> =
            data.into_iter().map(|(k, v)| (k.into(), v)).collect();
        // An operator's data may have one.
        entries.retain(|(name, _)| name != STAMP);
        entries.push((STAMP.to_owned(), Value::from(self.stamp())));
        let event = Event {
            tag: tag.to_owned(),
            origin,
            data: Value::Map(entries),
        };
        let topic = match Event::topic(&event.tag) {
            Ok(topic) => topic,
            Err(error) => {
                return tracing::warn!("event {:?} was not fired: {error}", event.tag);
            }
        };
        // Encoded before it waits: as values it takes many times its size.
        let encoded = Bytes::from(event.encode());
        drop(event);
        let size = u32::try_from(encoded.len().min(QUEUE_BYTES)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(size).await else {
            return;
        };
        let waiting = QueuedEvent {
            topic,
            event: encoded,
            _room: room,
        };
        // The task ends with the master, when no listener is left.
        let _ = self.queue.send(waiting).await;
    }

    fn stamp(&self) -> String {
        OffsetDateTime::from(self.clock.wall())
            .format(STAMP_FORMAT)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
