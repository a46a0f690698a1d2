//! The way of events to the local publisher. The daemon's own events wait in one queue, those of its sources in another, in
//! which each source has its own share and its turns; both queues have half of the bus while both have something. So what one
//! source fires delays that source, and nobody else. On a master the sources are minions.

use std::hash::Hash;
use std::sync::Arc;

use saline_messages::Event;
use saline_protocol::transport::{Context, Publisher, Topic};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::{EncodedEvent, FairQueue, Room};

/// The largest number of the daemon's own events that wait to be published.
const QUEUE: usize = 4096;

/// The most that the daemon's own waiting events may come to, in bytes.
pub const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// An event of the daemon that waits to be published.
struct QueuedEvent {
    event: EncodedEvent,
    /// Holds the event's share of `QUEUE_BYTES`.
    _room: OwnedSemaphorePermit,
}

/// The events that wait to be published. Clones share them.
#[derive(Debug)]
pub struct Bus<K> {
    own: mpsc::Sender<QueuedEvent>,
    own_room: Arc<Semaphore>,
    sources: Arc<FairQueue<K, EncodedEvent>>,
    publisher: Arc<dyn Publisher>,
}

impl<K> Clone for Bus<K> {
    fn clone(&self) -> Self {
        Self {
            own: self.own.clone(),
            own_room: Arc::clone(&self.own_room),
            sources: Arc::clone(&self.sources),
            publisher: Arc::clone(&self.publisher),
        }
    }
}

impl<K: Clone + Eq + Hash + Send + std::fmt::Debug + 'static> Bus<K> {
    /// Starts a bus over `publisher`, with this room for the events of sources; its task belongs to `context`.
    pub fn start(publisher: Arc<dyn Publisher>, room: Room, context: &Context) -> Self {
        let (own, mut owns) = mpsc::channel::<QueuedEvent>(QUEUE);
        let sources = Arc::new(FairQueue::new(room));
        let (out, of_sources) = (Arc::clone(&publisher), Arc::clone(&sources));
        context.spawn(async move {
            loop {
                // Neither goes first, so that neither waits for the end of the other.
                tokio::select! {
                    queued = owns.recv() => match queued {
                        Some(queued) => publish(&*out, queued.event).await,
                        None => return,
                    },
                    taken = of_sources.next() => publish(&*out, taken.item).await,
                }
            }
        });
        Self {
            own,
            own_room: Arc::new(Semaphore::new(QUEUE_BYTES)),
            sources,
            publisher,
        }
    }

    /// Returns the numbers of events that wait to be published: the daemon's own, and those of sources.
    pub fn queued(&self) -> (usize, usize) {
        let own = self.own.max_capacity() - self.own.capacity();
        (own, self.sources.len())
    }

    /// Returns the number of subscriptions to all events.
    pub fn subscribers(&self) -> usize {
        let all = Topic::parse("event");
        all.map_or(0, |topic| self.publisher.subscriptions(&topic))
    }

    /// Whether anybody listens to this tag.
    pub fn has_listener(&self, tag: &str) -> bool {
        Event::topic(tag).is_ok_and(|topic| self.publisher.subscriptions(&topic) > 0)
    }

    /// Queues an event of the daemon when there is room for it.
    pub async fn publish(&self, event: EncodedEvent) {
        let size = u32::try_from(event.bytes.len().min(QUEUE_BYTES)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let Ok(room) = Arc::clone(&self.own_room).acquire_many_owned(size).await else {
            return;
        };
        // The task ends with the daemon, when no listener is left.
        let _ = self.own.send(QueuedEvent { event, _room: room }).await;
    }

    /// Queues an event of a source when there is room for it.
    pub async fn publish_of(&self, source: &K, event: EncodedEvent) {
        self.sources.push(source, event.bytes.len(), event).await;
    }
}

/// Publishes an event; the log says when it cannot be.
pub async fn publish(publisher: &dyn Publisher, EncodedEvent { topic, bytes }: EncodedEvent) {
    if let Err(error) = publisher.publish(&topic, bytes).await {
        tracing::warn!("an event of {topic} was not fired: {error}");
    }
}
