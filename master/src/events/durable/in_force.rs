//! Which events are kept now: those that the filter of the configuration in force matches. It changes while the master runs,
//! so the store is opened when there is something to keep for the first time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use tokio::sync::Notify;

use super::EventStore;
use super::filter::{ReturnedTags, TagFilter, is_in_job_store, is_read_from_job_store};
use crate::clock::MasterClock;
use crate::disk::StoreError;

/// Which events are kept, where, and how many.
#[derive(Debug, Clone)]
pub(crate) struct DurableSettings {
    /// The folder of the file.
    pub(crate) folder: PathBuf,
    /// The tags of the events that are kept.
    pub(crate) filter: TagFilter,
    /// The tags of the events that destinations outside of the master get, which are kept too; none without one.
    pub(crate) returned: Option<ReturnedTags>,
    /// Whether something follows the stores, so that its place is kept.
    pub(crate) is_followed: bool,
    /// The tags of the events to which the reactor reacts, which are kept too.
    pub(crate) reacted: TagFilter,
    /// The size in bytes of all kept events.
    pub(crate) most_bytes: u64,
}

/// The filter that is in force, and the store behind it.
#[derive(Debug)]
pub(crate) struct DurableEvents {
    folder: PathBuf,
    most_bytes: u64,
    clock: MasterClock,
    filter: RwLock<TagFilter>,
    returned: Option<ReturnedTags>,
    reacted: RwLock<TagFilter>,
    /// Told when an event to which the reactor reacts can be read.
    reacted_stored: Notify,
    /// Held by whoever opens the store.
    opening: Mutex<()>,
    store: OnceLock<Arc<EventStore>>,
}

impl DurableEvents {
    /// Opens the store of events. Creates nothing when the filter matches nothing. Blocks on the disk, so for the start of a
    /// daemon.
    ///
    /// # Errors
    /// When a file cannot be opened, or was written by a later version.
    pub(crate) fn open(settings: DurableSettings, clock: MasterClock) -> Result<Self, StoreError> {
        let is_wanted = !settings.filter.is_empty()
            || !settings.reacted.is_empty()
            || settings.is_followed
            || settings.folder.exists();
        let events = Self {
            folder: settings.folder,
            most_bytes: settings.most_bytes,
            clock,
            filter: RwLock::new(settings.filter),
            returned: settings.returned,
            reacted: RwLock::new(settings.reacted),
            reacted_stored: Notify::new(),
            opening: Mutex::default(),
            store: OnceLock::new(),
        };
        if is_wanted {
            events.open_store()?;
        }
        Ok(events)
    }

    /// Takes another filter over. The first one that matches something has the store opened, which blocks on the disk; if it
    /// cannot be, that is logged, and nothing is kept until the next time that a filter is taken over.
    pub(crate) fn set_filter(&self, filter: TagFilter) {
        self.put(&self.filter, filter, "durable_events");
    }

    /// Takes over which events the reactor reacts to, as [`set_filter`](Self::set_filter) does.
    pub(crate) fn set_reacted(&self, filter: TagFilter) {
        self.put(&self.reacted, filter, "reactor");
    }

    fn put(&self, place: &RwLock<TagFilter>, filter: TagFilter, option: &str) {
        let is_wanted = !filter.is_empty();
        *place.write().unwrap_or_else(PoisonError::into_inner) = filter;
        if is_wanted && let Err(error) = self.open_store() {
            tracing::error!("{option}: no events are kept: {error}");
        }
    }

    /// Whether the reactor reacts to events with this tag.
    pub(crate) fn is_reacted_to(&self, tag: &str) -> bool {
        let reacted = self.reacted.read().unwrap_or_else(PoisonError::into_inner);
        reacted.matches(tag)
    }

    /// Returns what is told when an event to which the reactor reacts can be read.
    pub(crate) fn reacted_stored(&self) -> &Notify {
        &self.reacted_stored
    }

    fn open_store(&self) -> Result<(), StoreError> {
        // A signal and a runner may both change what is kept.
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.store.get().is_none() {
            let store = EventStore::open(&self.folder, self.most_bytes, self.clock.clone())?;
            let _ = self.store.set(Arc::new(store));
        }
        Ok(())
    }

    /// Returns the store; none while no filter has matched anything.
    pub(crate) fn store(&self) -> Option<&Arc<EventStore>> {
        self.store.get()
    }

    /// Returns the number of the last kept event, or 0.
    pub(crate) fn last_number(&self) -> i64 {
        self.store().map_or(0, |store| store.last_number())
    }

    /// Whether the filter matches a tag.
    pub(crate) fn matches(&self, tag: &str) -> bool {
        let filter = self.filter.read().unwrap_or_else(PoisonError::into_inner);
        filter.matches(tag) || self.is_reacted_to(tag)
    }

    /// Whether destinations outside of the master get an event with this tag, whatever the reactor reacts to.
    pub(crate) fn returns(&self, tag: &str) -> bool {
        let returned = self.returned.as_ref();
        returned.is_some_and(|returned| returned.matches(tag))
    }

    /// Returns the store if events with this tag are kept there.
    pub(crate) fn keeps(&self, tag: &str) -> Option<&Arc<EventStore>> {
        let store = self.store()?;
        let filter = self.filter.read().unwrap_or_else(PoisonError::into_inner);
        // The reactor and destinations read events of runs and batches that only a look at the job store would tell to others.
        let is_kept = (filter.matches(tag) && !is_in_job_store(tag))
            || ((self.returns(tag) || self.is_reacted_to(tag)) && !is_read_from_job_store(tag));
        is_kept.then_some(store)
    }
}
