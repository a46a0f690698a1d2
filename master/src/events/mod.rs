//! Events: the local publisher sends each to every listener on this machine, and those that a filter matches are kept on
//! the disk, for readers that must miss none. While somebody asks for events over a session, the last ones are in memory.

mod durable;
mod minion_events;
mod reader;
mod recent;
mod reports;

use std::sync::Arc;

use bytes::Bytes;
use saline_data::Value;
use saline_messages::{EventOrigin, EventTag, MinionId, OriginKind};
use saline_protocol::transport::{Clock, Context, Publisher};

use crate::disk::StoreError;
pub(crate) use durable::{DurableEvents, DurableSettings, EventCursor, ReturnedTags, TagFilter};
pub use minion_events::MinionEventFirer;
pub(crate) use reader::{
    Acknowledged, EventReader, PageLimits, REACTOR, ReadEvent, ReadPage, job_tag,
};
pub(crate) use recent::{RecentEvent, RecentEvents};
pub use reports::ReturnReport;
pub(crate) use reports::RunReport;
use saline_event_bus::{Bus, EncodedEvent, Room};

/// The largest return in an event, in bytes. Larger ones are left out.
pub(crate) const MAX_EVENT_RETURN: usize = 1024 * 1024;

/// The room of the waiting events of minions: 256 events of each that are not large, and 64 minions that use all of theirs.
const MINIONS_ROOM: Room = Room {
    least: 4 * 1024,
    share: 1024 * 1024,
    total: 64 * 1024 * 1024,
};

/// Fires events. The bus is best effort; the job store and the kept events are the truth.
#[derive(Debug, Clone)]
pub struct Events {
    bus: Bus<MinionId>,
    durable: Arc<DurableEvents>,
    recent: RecentEvents,
    clock: Clock,
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy)]
struct Uses {
    /// Somebody listens to it.
    is_heard: bool,
    /// Somebody asks for events over a session.
    is_asked_for: bool,
    /// A filter matches it.
    is_kept: bool,
    /// The reactor reacts to it.
    is_reacted_to: bool,
}

impl Uses {
    fn is_none(self) -> bool {
        !self.is_heard && !self.is_asked_for && !self.is_kept && !self.is_reacted_to
    }
}

impl Events {
    /// Starts a bus over `publisher`; its task belongs to `context`. Events that a filter of `durable` matches are kept
    /// there.
    pub(crate) fn start(
        publisher: Arc<dyn Publisher>,
        durable: Arc<DurableEvents>,
        context: &Context,
    ) -> Self {
        Self {
            bus: Bus::start(publisher, MINIONS_ROOM, context),
            durable,
            recent: RecentEvents::new(context.clock),
            clock: context.clock,
        }
    }

    /// Returns the numbers of events that wait for the bus: the master's own, and those of minions.
    pub(crate) fn queued(&self) -> (usize, usize) {
        self.bus.queued()
    }

    /// Returns the number of subscriptions to all events.
    pub(crate) fn subscribers(&self) -> usize {
        self.bus.subscribers()
    }

    /// Returns the last events.
    pub(crate) fn recent(&self) -> &RecentEvents {
        &self.recent
    }

    /// Whether anybody wants events with this tag, so that costly data are made only for somebody.
    pub fn wanted(&self, tag: &EventTag) -> bool {
        !self.uses(&tag.to_string()).is_none()
    }

    fn uses(&self, tag: &str) -> Uses {
        Uses {
            is_heard: self.bus.has_listener(tag),
            is_asked_for: self.recent.is_kept(),
            is_kept: self.durable.keeps(tag).is_some(),
            is_reacted_to: self.durable.is_reacted_to(tag),
        }
    }

    /// Fires an event of this origin with these data and a `_stamp`. An event that a filter matches is on the disk
    /// afterwards, unless the disk fails.
    ///
    /// # Cancel safety
    /// A dropped future has fired the event or not.
    pub async fn fire<K: Into<String>>(
        &self,
        tag: EventTag,
        origin: EventOrigin,
        data: impl IntoIterator<Item = (K, Value)>,
    ) {
        self.fire_of(None, tag, origin, data).await;
    }

    /// Fires an event as [`fire`](Self::fire) does; the owner is that of the run that it tells of.
    async fn fire_of<K: Into<String>>(
        &self,
        owner: Option<&str>,
        tag: EventTag,
        origin: EventOrigin,
        data: impl IntoIterator<Item = (K, Value)>,
    ) {
        let fired = self.fire_text(owner, &tag.to_string(), origin, data).await;
        if let Err(error) = fired {
            // The store has said so, once.
            tracing::debug!("event {tag} was not kept: {error}");
        }
    }

    /// Fires an event with any tag.
    ///
    /// # Errors
    /// When a filter matches it and the store does not take it. The bus has it all the same.
    async fn fire_text<K: Into<String>>(
        &self,
        owner: Option<&str>,
        tag: &str,
        origin: EventOrigin,
        data: impl IntoIterator<Item = (K, Value)>,
    ) -> Result<(), StoreError> {
        let uses = self.uses(tag);
        if uses.is_none() {
            return Ok(());
        }
        let source = source_of(&origin);
        let Some(event) = self.encode(tag, origin, data) else {
            return Ok(());
        };
        let kept = match uses.is_kept {
            true => self.keep(source, vec![event.bytes.clone()]).await,
            false => Ok(()),
        };
        if kept.is_err()
            && let Some(store) = self.durable.store()
        {
            // Nobody fires it again.
            store.note_lost();
        }
        if uses.is_reacted_to {
            self.durable.reacted_stored().notify_one();
        }
        if uses.is_asked_for {
            self.recent.push(&event, owner);
        }
        if uses.is_heard {
            self.bus.publish(event).await;
        }
        kept
    }

    /// Encodes an event; returns none, with a warning, when its tag cannot be one.
    fn encode<K: Into<String>>(
        &self,
        tag: &str,
        origin: EventOrigin,
        data: impl IntoIterator<Item = (K, Value)>,
    ) -> Option<EncodedEvent> {
        let encoded = saline_event_bus::encode(tag, origin, data, self.clock.wall().into());
        encoded
            .inspect_err(|error| tracing::warn!("event {tag:?} was not fired: {error}"))
            .ok()
    }

    /// Keeps events of one source, and returns after their commit.
    async fn keep(&self, source: String, events: Vec<Bytes>) -> Result<(), StoreError> {
        match self.durable.store() {
            Some(store) => store.keep(source, events).await,
            None => Ok(()),
        }
    }
}

/// Returns the source whose share of the kept events an event takes: a minion with its callers, an operator, or the master.
fn source_of(origin: &EventOrigin) -> String {
    match origin.kind {
        OriginKind::Minion | OriginKind::Caller => format!("minion {}", origin.id),
        OriginKind::Runner => "master".to_owned(),
        _ => origin.to_string(),
    }
}

#[cfg(test)]
mod tests;
