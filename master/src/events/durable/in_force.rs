//! Which events are kept now: those that the filter of the configuration in force matches. It changes while the master runs,
//! so the store is opened when there is something to keep for the first time.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::EventStore;
use super::filter::{ReturnedTags, TagFilter, is_in_job_store};
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
    store: OnceLock<Arc<EventStore>>,
}

impl DurableEvents {
    /// Opens the store of events. Creates nothing when the filter matches nothing. Blocks on the disk, so for the start of a
    /// daemon.
    ///
    /// # Errors
    /// When a file cannot be opened, or was written by a later version.
    pub(crate) fn open(settings: DurableSettings, clock: MasterClock) -> Result<Self, StoreError> {
        let is_wanted =
            !settings.filter.is_empty() || settings.is_followed || settings.folder.exists();
        let events = Self {
            folder: settings.folder,
            most_bytes: settings.most_bytes,
            clock,
            filter: RwLock::new(settings.filter),
            returned: settings.returned,
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
        let is_wanted = !filter.is_empty();
        *self.filter.write().unwrap_or_else(PoisonError::into_inner) = filter;
        if is_wanted && let Err(error) = self.open_store() {
            tracing::error!("durable_events: no events are kept: {error}");
        }
    }

    fn open_store(&self) -> Result<(), StoreError> {
        if self.store.get().is_none() {
            let store = EventStore::open(&self.folder, self.most_bytes, self.clock.clone())?;
            // One task takes filters over.
            let _ = self.store.set(Arc::new(store));
        }
        Ok(())
    }

    /// Returns the store; none while no filter has matched anything.
    pub(crate) fn store(&self) -> Option<&Arc<EventStore>> {
        self.store.get()
    }

    /// Whether the filter matches a tag.
    pub(crate) fn matches(&self, tag: &str) -> bool {
        let filter = self.filter.read().unwrap_or_else(PoisonError::into_inner);
        filter.matches(tag)
    }

    /// Whether destinations outside of the master get an event with this tag.
    pub(crate) fn returns(&self, tag: &str) -> bool {
        let returned = self.returned.as_ref();
        returned.is_some_and(|returned| returned.matches(tag))
    }

    /// Returns the store if events with this tag are kept there.
    pub(crate) fn keeps(&self, tag: &str) -> Option<&Arc<EventStore>> {
        let store = self.store()?;
        let is_kept = (self.matches(tag) || self.returns(tag)) && !is_in_job_store(tag);
        is_kept.then_some(store)
    }
}
