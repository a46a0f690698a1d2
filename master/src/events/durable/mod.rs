//! The kept events: what the bus fired and a filter matches, on the disk, in the order of their numbers. Readers go on
//! after the last number that they have seen, also after a restart.
//!
//! Kept are events of minions, keys, authentication and presence, and those that operators send. What happens to jobs,
//! batches and runs is in the job store and not kept once more. Events that no filter matches cost no transaction.
//!
//! The events are one file of SQLite, written by a [`Writer`] as the job store is: what waits is one commit. They are
//! bounded in bytes and in age. Beyond the bytes the source that has most loses its oldest, so that one minion's flood
//! loses nobody else's events; a gap with the number of those that went stands in their place (`tables`).

mod filter;
mod tables;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rusqlite::Connection;

use crate::bounds::Shares;
use crate::clock::MasterClock;
use crate::jobs::StoreError;
use crate::jobs::disk::connection_thread::ConnectionThread;
use crate::jobs::disk::partitions::{Connections, Partitions};
use crate::jobs::disk::schema::Access;
use crate::jobs::disk::writer::{PartitionLimits, StoreFile, Writer};
use crate::jobs::memory::receipts::ReceiptSource;

pub(crate) use filter::TagFilter;
pub(crate) use tables::{EventCursor, KeptEvent};

/// The cache of the connection that writes, in bytes.
const CACHE: usize = 1024 * 1024;

/// The largest number of consumers whose cursors are kept.
const MAX_CONSUMERS: usize = 64;

/// The longest name of a consumer, in bytes.
const MAX_NAME: usize = 64;

/// Which events are kept, where, and how many.
#[derive(Debug, Clone)]
pub(crate) struct DurableSettings {
    /// The folder of the file.
    pub(crate) folder: PathBuf,
    /// The tags of the events that are kept.
    pub(crate) filter: TagFilter,
    /// The size in bytes of all kept events.
    pub(crate) most_bytes: u64,
}

/// The kept events. Every method may be called from any task at once.
pub(crate) struct DurableEvents {
    filter: TagFilter,
    most_bytes: u64,
    numbers: Arc<ReceiptSource>,
    /// The bytes of each source; none when they have to be counted again, after a failure.
    shares: Arc<Mutex<Option<Shares>>>,
    /// The only partition of the store.
    file: i64,
    writer: Writer,
    /// Reads, and moves the log into the file. Dropped after the writer, which gives it work.
    reader: ConnectionThread,
}

/// Events in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventPage {
    /// The events and gaps.
    pub(super) events: Vec<KeptEvent>,
    /// Whether there are more.
    pub(super) more: bool,
}

impl DurableEvents {
    /// Opens the store of events. Returns none, and creates nothing, when the filter matches nothing and nothing was
    /// kept before. Blocks on the disk, so for the start of a daemon.
    ///
    /// # Errors
    /// When a file cannot be opened, is no store of events, or was written by a later version.
    pub(crate) fn open(
        settings: DurableSettings,
        clock: MasterClock,
    ) -> Result<Option<Self>, StoreError> {
        let DurableSettings {
            folder,
            filter,
            most_bytes,
        } = settings;
        if filter.is_empty() && !folder.exists() {
            return Ok(None);
        }
        let partitions = Arc::new(Partitions::list(&folder, tables::EVENTS, CACHE)?);
        let connections = |access| Connections::new(Arc::clone(&partitions), access);
        let file = match partitions.newest() {
            Some(file) => file,
            None => {
                let now = clock.micros();
                drop(partitions.create(now)?);
                now
            }
        };
        let last = connections(Access::Write)
            .of(file)
            .and_then(tables::last_number);
        let last = last.map_err(|error| error.of_file(&partitions.path(file)))?;
        let started = |error| StoreError::io(&folder, error);
        let reader = ConnectionThread::start("saline-events", connections(Access::Upkeep));
        let reader = reader.map_err(started)?;
        // One file: it is bounded by itself, and no other one follows it.
        let no_limits = PartitionLimits {
            time: std::time::Duration::MAX,
            bytes: u64::MAX,
        };
        let writer = Writer::start(
            connections(Access::Write),
            file,
            no_limits,
            reader.0.try_sender(),
        );
        Ok(Some(Self {
            filter,
            most_bytes,
            numbers: Arc::new(ReceiptSource::after(last, clock)),
            shares: Arc::default(),
            file,
            writer: writer.map_err(started)?,
            reader,
        }))
    }

    /// Whether the filter matches a tag.
    pub(crate) fn matches(&self, tag: &str) -> bool {
        self.filter.matches(tag)
    }

    /// Whether events with this tag are kept here.
    pub(crate) fn keeps(&self, tag: &str) -> bool {
        self.filter.matches(tag) && !filter::is_in_job_store(tag)
    }

    /// Keeps encoded events of one source, and returns after their commit.
    ///
    /// # Errors
    /// When SQLite fails; some may be kept.
    ///
    /// # Cancel safety
    /// The events are kept or not when the future is dropped.
    pub(crate) async fn keep(&self, source: String, events: Vec<Bytes>) -> Result<(), StoreError> {
        let bytes = events.iter().map(Bytes::len).sum();
        let (numbers, most) = (Arc::clone(&self.numbers), self.most_bytes);
        self.change(bytes, move |connection, shares| {
            for event in &events {
                let number = numbers.next();
                tables::insert(connection, shares, most, number, (&source, event))?;
            }
            Ok(())
        })
        .await
    }

    /// Removes the events before this time, in microseconds since 1970, a little in each transaction.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) async fn remove_older(&self, before: i64) -> Result<(), StoreError> {
        let has_older = move |connection: &Connection| tables::has_older(connection, before);
        if !self.reader.moment(self.file, has_older).await? {
            return Ok(());
        }
        let remove = move |connection: &Connection, shares: &mut Shares| {
            tables::remove_older(connection, shares, before)
        };
        while self.change(0, remove).await? {}
        Ok(())
    }

    /// Returns the events after number `after`: about `max_bytes`, but at least one if there is one.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(super) async fn page(&self, after: i64, max_bytes: usize) -> Result<EventPage, StoreError> {
        let read = move |connection: &Connection| tables::page(connection, after, max_bytes);
        let (events, more) = self.reader.moment(self.file, read).await?;
        Ok(EventPage { events, more })
    }

    /// Returns how far a consumer has acknowledged: nothing when it is not known.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) async fn cursor(&self, consumer: String) -> Result<EventCursor, StoreError> {
        let read = move |connection: &Connection| tables::cursor(connection, &consumer);
        self.reader.moment(self.file, read).await
    }

    /// Notes how far a consumer has read, and returns after the commit. It never goes back. Returns false when its name is
    /// too long, or too many others are known.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) async fn acknowledge(
        &self,
        consumer: String,
        cursor: EventCursor,
    ) -> Result<bool, StoreError> {
        if consumer.is_empty() || consumer.len() > MAX_NAME {
            return Ok(false);
        }
        self.change(0, move |connection, _| {
            let is_known = tables::cursor(connection, &consumer)? != EventCursor::default();
            if !is_known && tables::consumers(connection)? >= MAX_CONSUMERS {
                return Ok(false);
            }
            tables::acknowledge(connection, &consumer, cursor)?;
            Ok(true)
        })
        .await
    }

    /// Finishes the queued work and ends the threads; later calls fail with [`StoreError::Closed`].
    pub(crate) async fn close(&self) {
        self.reader.0.close().await;
        self.writer.close().await;
    }

    /// Runs `act` on the writer's thread.
    async fn change<T, F>(&self, bytes: usize, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &mut Shares) -> Result<T, StoreError> + Send + 'static,
    {
        let (shares, after) = (Arc::clone(&self.shares), Arc::clone(&self.shares));
        let act = move |connection: &Connection| {
            let mut shares = lock(&shares);
            let counted = match shares.take() {
                Some(counted) => counted,
                None => tables::shares(connection)?,
            };
            act(connection, shares.insert(counted))
        };
        let settled = move |result: &Result<T, StoreError>| {
            if result.is_err() {
                // What the statements did may have been taken back.
                *lock(&after) = None;
            }
        };
        let place = StoreFile::Partition(self.file);
        self.writer.call(place, bytes, act, settled).await
    }
}

fn lock(shares: &Mutex<Option<Shares>>) -> MutexGuard<'_, Option<Shares>> {
    // They are counted again after a panic under this lock.
    shares.lock().unwrap_or_else(|poisoned: PoisonError<_>| {
        let mut shares = poisoned.into_inner();
        *shares = None;
        shares
    })
}

impl std::fmt::Debug for DurableEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurableEvents").finish_non_exhaustive()
    }
}
