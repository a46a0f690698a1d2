//! Fires the events of minions, each once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use saline_data::Value;
use saline_messages::{
    Event, EventOrigin, EventTag, MAX_EVENT_DATA, MinionEvent, MinionEvents, MinionId, StartId,
};

use super::Events;
use crate::bounds::TokenBuckets;

/// The number of minions whose last event is remembered. Beyond it all are forgotten, and an event that is
/// repeated then is fired twice.
const REMEMBERED: usize = 200_000;

/// Fires the events of minions.
#[derive(Debug)]
pub struct MinionEventFirer {
    events: Events,
    limiter: Arc<TokenBuckets<MinionId>>,
    /// The start of each minion and the number of the last event of it.
    last: Mutex<HashMap<MinionId, (StartId, u64)>>,
}

impl MinionEventFirer {
    /// Creates one that has fired nothing.
    pub fn new(events: Events, limiter: Arc<TokenBuckets<MinionId>>) -> Self {
        Self {
            events,
            limiter,
            last: Mutex::default(),
        }
    }

    /// Fires, with this origin, those of a minion's events that were not fired before. A tag is put below the minion's own
    /// prefix, so that a minion cannot forge the events of the master or of another minion. What cannot
    /// be an event is left out with a warning.
    ///
    /// # Cancel safety
    /// When the future is dropped some of the events are lost.
    pub async fn fire(&self, origin: EventOrigin, id: &MinionId, sent: MinionEvents) {
        let fired = self.note(id, &sent);
        for event in sent.events.into_iter().skip(fired) {
            self.fire_one(origin.clone(), id, event).await;
        }
    }

    /// Notes that these events are fired, and returns how many of them were fired before. They are noted
    /// before they are fired: events are best effort, and a request that is repeated meanwhile must
    /// not fire them twice.
    fn note(&self, id: &MinionId, sent: &MinionEvents) -> usize {
        let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED && !all.contains_key(id) {
            all.clear();
        }
        let (start, last) = all.entry(id.clone()).or_insert((sent.start, 0));
        if *start != sent.start {
            (*start, *last) = (sent.start, 0);
        }
        let fired = last.saturating_add(1).saturating_sub(sent.first);
        let end = sent.first.saturating_add(sent.events.len() as u64);
        *last = (*last).max(end.saturating_sub(1));
        usize::try_from(fired).unwrap_or(usize::MAX)
    }

    async fn fire_one(&self, origin: EventOrigin, id: &MinionId, event: MinionEvent) {
        let size = event.data.as_bytes().len();
        let whole = EventTag::Minion(id.clone(), event.tag);
        if Event::topic(&whole.to_string()).is_err() || size > MAX_EVENT_DATA {
            if self.limiter.allows(id) {
                tracing::warn!("minion {id}: an event of {size} bytes was not fired: {whole}");
            }
            return;
        }
        if !self.events.wanted(&whole) {
            return;
        }
        let Ok(Value::Map(mut entries)) = event.data.unpack() else {
            if self.limiter.allows(id) {
                tracing::warn!("minion {id}: an event without a mapping was not fired: {whole}");
            }
            return;
        };
        // Who fired it and when is not the minion's to say.
        entries.retain(|(key, _)| key != "id");
        entries.push(("id".to_owned(), Value::from(id.as_str())));
        self.events.fire(whole, origin, entries).await;
    }
}
