//! The way of events to the local publisher. The master's own events wait in one queue, those of minions in another, in
//! which each minion has its own share and its turns; both queues have half of the bus while both have something. So what a
//! minion fires delays that minion, and nobody else.

use std::sync::Arc;

use bytes::Bytes;
use saline_messages::{Event, MinionId};
use saline_protocol::transport::{Context, Publisher, Topic};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::bounds::{FairQueue, Room};

/// The largest number of the master's own events that wait to be published.
const QUEUE: usize = 4096;

/// The most that the master's own waiting events may come to, in bytes.
pub(super) const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// The room of the waiting events of minions: 256 events of each that are not large, and 64 minions that use all of theirs.
pub(super) const MINIONS_ROOM: Room = Room {
    least: 4 * 1024,
    share: 1024 * 1024,
    total: 64 * 1024 * 1024,
};

/// An event as it travels.
#[derive(Debug)]
pub(super) struct EncodedEvent {
    pub(super) topic: Topic,
    pub(super) bytes: Bytes,
}

/// An event of the master that waits to be published.
struct QueuedEvent {
    event: EncodedEvent,
    /// Holds the event's share of `QUEUE_BYTES`.
    _room: OwnedSemaphorePermit,
}

/// The events that wait to be published. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Bus {
    own: mpsc::Sender<QueuedEvent>,
    own_room: Arc<Semaphore>,
    minions: Arc<FairQueue<MinionId, EncodedEvent>>,
    publisher: Arc<dyn Publisher>,
}

impl Bus {
    /// Starts a bus over `publisher`; its task belongs to `context`.
    pub(super) fn start(publisher: Arc<dyn Publisher>, context: &Context) -> Self {
        let (own, mut owns) = mpsc::channel::<QueuedEvent>(QUEUE);
        let minions = Arc::new(FairQueue::new(MINIONS_ROOM));
        let (out, of_minions) = (Arc::clone(&publisher), Arc::clone(&minions));
        context.spawn(async move {
            loop {
                // Neither goes first, so that neither waits for the end of the other.
                tokio::select! {
                    queued = owns.recv() => match queued {
                        Some(queued) => publish(&*out, queued.event).await,
                        None => return,
                    },
                    taken = of_minions.next() => publish(&*out, taken.item).await,
                }
            }
        });
        Self {
            own,
            own_room: Arc::new(Semaphore::new(QUEUE_BYTES)),
            minions,
            publisher,
        }
    }

    /// Returns the numbers of events that wait to be published: the master's own, and those of minions.
    pub(super) fn queued(&self) -> (usize, usize) {
        let own = self.own.max_capacity() - self.own.capacity();
        (own, self.minions.len())
    }

    /// Returns the number of subscriptions to all events.
    pub(super) fn subscribers(&self) -> usize {
        let all = Topic::parse("event");
        all.map_or(0, |topic| self.publisher.subscriptions(&topic))
    }

    /// Whether anybody listens to this tag.
    pub(super) fn has_listener(&self, tag: &str) -> bool {
        Event::topic(tag).is_ok_and(|topic| self.publisher.subscriptions(&topic) > 0)
    }

    /// Queues an event of the master when there is room for it.
    pub(super) async fn publish(&self, event: EncodedEvent) {
        let size = u32::try_from(event.bytes.len().min(QUEUE_BYTES)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let Ok(room) = Arc::clone(&self.own_room).acquire_many_owned(size).await else {
            return;
        };
        // The task ends with the master, when no listener is left.
        let _ = self.own.send(QueuedEvent { event, _room: room }).await;
    }

    /// Queues an event of a minion when there is room for it.
    pub(super) async fn publish_of(&self, minion: &MinionId, event: EncodedEvent) {
        self.minions.push(minion, event.bytes.len(), event).await;
    }
}

async fn publish(publisher: &dyn Publisher, EncodedEvent { topic, bytes }: EncodedEvent) {
    if let Err(error) = publisher.publish(&topic, bytes).await {
        tracing::warn!("an event of {topic} was not fired: {error}");
    }
}
