//! The event bus: the local publisher sends events to every listener on this machine.

mod minion_events;
mod reports;

use std::sync::Arc;

use saline_protocol::message::{Event, EventTag, Value};
use saline_protocol::transport::{Clock, Context, Publisher};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use tokio::sync::mpsc;

pub use minion_events::MinionEventFirer;
pub use reports::ReturnReport;

/// The largest number of events that wait to be published.
const QUEUE: usize = 4096;

/// Salt's `_stamp`.
const STAMP: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]+00:00");

/// Fires events. The bus is best effort; the job store is the truth.
#[derive(Debug, Clone)]
pub struct Events {
    queue: mpsc::Sender<Event>,
    publisher: Arc<dyn Publisher>,
    clock: Clock,
}

impl Events {
    /// Starts a bus over `publisher`; its task belongs to `context`.
    pub fn start(publisher: Arc<dyn Publisher>, context: &Context) -> Self {
        let (queue, mut events) = mpsc::channel::<Event>(QUEUE);
        let out = Arc::clone(&publisher);
        context.spawn(async move {
            while let Some(event) = events.recv().await {
                let published = match Event::topic(&event.tag) {
                    Ok(topic) => out.publish(&topic, event.encode().into()).await,
                    Err(error) => {
                        tracing::warn!("event {:?} was not fired: {error}", event.tag);
                        continue;
                    }
                };
                if let Err(error) = published {
                    tracing::warn!("event {} was not fired: {error}", event.tag);
                }
            }
        });
        Self {
            queue,
            publisher,
            clock: context.clock,
        }
    }

    /// Whether anybody listens to this tag, so that costly data are made only for a listener.
    pub fn wanted(&self, tag: &EventTag) -> bool {
        Event::topic(&tag.to_string()).is_ok_and(|topic| self.publisher.subscriptions(&topic) > 0)
    }

    /// Fires an event with these data and a `_stamp`.
    ///
    /// # Cancel safety
    /// A dropped future has fired the event or not.
    pub async fn fire<K: Into<String>>(
        &self,
        tag: EventTag,
        data: impl IntoIterator<Item = (K, Value)>,
    ) {
        if !self.wanted(&tag) {
            return;
        }
        let mut entries: Vec<(String, Value)> =
            data.into_iter().map(|(k, v)| (k.into(), v)).collect();
        entries.push(("_stamp".to_owned(), Value::from(self.stamp())));
        let event = Event {
            tag: tag.to_string(),
            data: Value::Map(entries),
        };
        // The task ends with the master, when no listener is left.
        let _ = self.queue.send(event).await;
    }

    fn stamp(&self) -> String {
        OffsetDateTime::from(self.clock.wall())
            .format(STAMP)
            .unwrap_or_default()
    }
}
