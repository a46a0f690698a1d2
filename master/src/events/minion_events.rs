//! Fires the events of minions, each once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_data::Value;
use saline_messages::{
    Event, EventOrigin, EventTag, MAX_EVENT_DATA, MinionEvent, MinionEvents, MinionId, StartId,
};

use super::{Events, Uses, source_of};
use crate::bounds::{Rate, TokenBucket, TokenBuckets};
use crate::disk::StoreError;
use crate::settings::LiveSettings;
use saline_event_bus::EncodedEvent;

/// The number of minions whose last event is remembered. Beyond it all are forgotten, and an event that is
/// repeated then is fired twice.
const REMEMBERED: usize = 200_000;

/// The number of events of a minion that are published at once; what comes faster than `minion_event_rate` after them is
/// published at that rate. A listener's queue, which drops what does not fit whoever fired it, has room for four times as
/// many.
const PUBLISHED_AT_ONCE: f64 = 256.0;

/// The lowest rate to which events of a minion are held back, a second. So no request waits longer than a tenth of a second.
const LOWEST_PACE: u64 = 2_560;

/// Fires the events of minions.
#[derive(Debug)]
pub struct MinionEventFirer {
    events: Events,
    limiter: Arc<TokenBuckets<MinionId>>,
    settings: LiveSettings,
    last: Mutex<HashMap<MinionId, LastFired>>,
    /// The minions of which a request is being carried out.
    firing: Mutex<HashSet<MinionId>>,
}

/// What is remembered of the events of a minion.
#[derive(Debug)]
struct LastFired {
    /// The start of the minion that numbers its events.
    start: StartId,
    /// The number of the last event.
    number: u64,
    /// What may be published at once.
    pace: Option<TokenBucket>,
}

/// The turn of a request, given back when it is dropped.
struct Turn<'a>(&'a MinionEventFirer, &'a MinionId);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let firing = self.0.firing.lock();
        firing
            .unwrap_or_else(PoisonError::into_inner)
            .remove(self.1);
    }
}

impl MinionEventFirer {
    /// Creates one that has fired nothing.
    pub fn new(
        events: Events,
        limiter: Arc<TokenBuckets<MinionId>>,
        settings: LiveSettings,
    ) -> Self {
        Self {
            events,
            limiter,
            settings,
            last: Mutex::default(),
            firing: Mutex::default(),
        }
    }

    /// Fires, with this origin, those of a minion's events that were not fired before. A tag is put below the minion's own
    /// prefix, so that a minion cannot forge the events of the master or of another minion. What cannot
    /// be an event is left out with a warning. Events that a filter matches are on the disk afterwards.
    ///
    /// One request of a minion is carried out at a time: a request that waits holds a place of all requests of the
    /// listener. Returns false, and has done nothing, when there is another one; the minion should send the events again.
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
    ) -> Result<bool, StoreError> {
        let Some(_turn) = self.take_turn(id) else {
            return Ok(false);
        };
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
        if prepared.iter().any(|(_, (uses, _))| uses.is_reacted_to) {
            self.events.durable.reacted_stored().notify_one();
        }
        let fired = self.note(id, start, first, count);
        let heard = prepared.into_iter();
        let is_heard = |uses: &Uses| uses.is_heard || uses.is_asked_for;
        let heard = heard.filter(|(at, (uses, _))| *at >= fired && is_heard(uses));
        let heard: Vec<_> = heard.map(|(_, prepared)| prepared).collect();
        let delay = self.delay(id, heard.len());
        if !delay.is_zero() {
            self.events.clock.pause(delay).await;
        }
        for (uses, event) in heard {
            if uses.is_asked_for {
                self.events.recent.push(&event, None);
            }
            if uses.is_heard {
                self.events.bus.publish_of(id, event).await;
            }
        }
        Ok(true)
    }

    fn take_turn<'a>(&'a self, id: &'a MinionId) -> Option<Turn<'a>> {
        let mut firing = self.firing.lock().unwrap_or_else(PoisonError::into_inner);
        firing.insert(id.clone()).then(|| Turn(self, id))
    }

    /// Returns how long so many events of a minion are held back.
    fn delay(&self, id: &MinionId, count: usize) -> Duration {
        let Some(rate) = self.settings.now().event_rates.events else {
            return Duration::ZERO;
        };
        let rate = Rate {
            per_second: rate.max(LOWEST_PACE) as f64,
            burst: PUBLISHED_AT_ONCE,
        };
        let now = self.events.clock.now();
        let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = all.get_mut(id) else {
            return Duration::ZERO;
        };
        let pace = last
            .pace
            .get_or_insert_with(|| TokenBucket::full(rate, now));
        let left = pace.refill(rate, now) - count as f64;
        pace.take(count as f64);
        Duration::from_secs_f64((-left / rate.per_second).max(0.0))
    }

    /// Returns how many of the events of this start from number `first` on were fired before.
    fn fired(&self, id: &MinionId, start: StartId, first: u64) -> usize {
        let all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(id) {
            Some(last) if last.start == start => fired_from(first, last.number),
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
        let last = all.entry(id.clone()).or_insert(LastFired {
            start: sent_by,
            number: 0,
            pace: None,
        });
        if last.start != sent_by {
            (last.start, last.number) = (sent_by, 0);
        }
        let fired = fired_from(first, last.number);
        let end = first.saturating_add(count as u64);
        last.number = last.number.max(end.saturating_sub(1));
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
