//! Fires the events of minions, each once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use saline_data::Value;
use saline_messages::{
    Event, EventOrigin, EventTag, MAX_EVENT_DATA, MinionEvent, MinionEvents, MinionId, StartId,
};

use super::bus::EncodedEvent;
use super::{Events, Uses, source_of};
use crate::bounds::TokenBuckets;
use crate::jobs::StoreError;

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
    /// be an event is left out with a warning. Events that a filter matches are on the disk afterwards.
    ///
    /// # Errors
    /// When events cannot be kept that a filter matches: nothing was fired, and the minion should send them again.
    ///
    /// # Cancel safety
    /// When the future is dropped some of the events are lost; those that a filter matches are kept when the minion sends
    /// them again, perhaps twice.
    pub async fn fire(
        &self,
        origin: EventOrigin,
        id: &MinionId,
        sent: MinionEvents,
    ) -> Result<(), StoreError> {
        let MinionEvents {
            start,
            first,
            events,
        } = sent;
        let count = events.len();
        let before = self.fired(id, start, first);
        let prepared = events.into_iter().enumerate().skip(before);
        let prepared =
            prepared.filter_map(|(at, event)| Some((at, self.prepare(&origin, id, event)?)));
        let prepared: Vec<_> = prepared.collect();
        let kept = prepared.iter().filter(|(_, (uses, _))| uses.is_kept);
        let kept: Vec<_> = kept.map(|(_, (_, event))| event.bytes.clone()).collect();
        if !kept.is_empty() {
            self.events.keep(source_of(&origin), kept).await?;
        }
        let fired = self.note(id, start, first, count);
        for (at, (uses, event)) in prepared {
            if at >= fired && uses.is_heard {
                self.events.bus.publish_of(id, event).await;
            }
        }
        Ok(())
    }

    /// Returns how many of the events of this start from number `first` on were fired before.
    fn fired(&self, id: &MinionId, start: StartId, first: u64) -> usize {
        let all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(id) {
            Some((of, last)) if *of == start => fired_from(first, *last),
            _ => 0,
        }
    }

    /// Notes that these events are fired, and returns how many of them were fired before. They are noted before they are
    /// published, since the bus is best effort and a request that is repeated meanwhile must not publish them twice; and
    /// after they were kept, since a request that is repeated meanwhile must not be answered before.
    fn note(&self, id: &MinionId, sent_by: StartId, first: u64, count: usize) -> usize {
        let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED && !all.contains_key(id) {
            all.clear();
        }
        let (start, last) = all.entry(id.clone()).or_insert((sent_by, 0));
        if *start != sent_by {
            (*start, *last) = (sent_by, 0);
        }
        let fired = fired_from(first, *last);
        let end = first.saturating_add(count as u64);
        *last = (*last).max(end.saturating_sub(1));
        fired
    }

    /// Returns an event as it is fired, and what becomes of it; none when nobody wants it or it cannot be one.
    fn prepare(
        &self,
        origin: &EventOrigin,
        id: &MinionId,
        event: MinionEvent,
    ) -> Option<(Uses, EncodedEvent)> {
        let size = event.data.as_bytes().len();
        let tag = EventTag::Minion(id.clone(), event.tag).to_string();
        if Event::topic(&tag).is_err() || size > MAX_EVENT_DATA {
            if self.limiter.allows(id) {
                tracing::warn!("minion {id}: an event of {size} bytes was not fired: {tag}");
            }
            return None;
        }
        let uses = self.events.uses(&tag);
        if uses.is_none() {
            return None;
        }
        let Ok(Value::Map(mut entries)) = event.data.unpack() else {
            if self.limiter.allows(id) {
                tracing::warn!("minion {id}: an event without a mapping was not fired: {tag}");
            }
            return None;
        };
        // Who fired it and when is not the minion's to say.
        entries.retain(|(key, _)| key != "id");
        entries.push(("id".to_owned(), Value::from(id.as_str())));
        let encoded = self.events.encode(&tag, origin.clone(), entries)?;
        Some((uses, encoded))
    }
}

/// Returns how many events from number `first` on have numbers up to `last`.
fn fired_from(first: u64, last: u64) -> usize {
    let fired = last.saturating_add(1).saturating_sub(first);
    usize::try_from(fired).unwrap_or(usize::MAX)
}
