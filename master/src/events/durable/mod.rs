//! The kept events: what the bus fired and a filter matches, on the disk, in the order of their numbers. Readers go on
//! after the last number that they have seen, also after a restart.
//!
//! Kept are events of minions, keys, authentication and presence, and those that operators send. What happens to jobs,
//! batches and runs is in the job store and kept once more only for the reactor, and for destinations outside of the
//! master. Events that no filter matches cost no transaction.
//!
//! The events are one file of SQLite, written by a [`Writer`] as the job store is: what waits is one commit. They are
//! bounded in bytes and in age. Beyond the bytes the source that has most loses its oldest, so that one minion's flood
//! loses nobody else's events; a gap with the number of those that went stands in their place (`tables`). So does one of
//! those that a full disk did not take, from the next time on that it takes something.

mod filter;
mod in_force;
mod tables;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rusqlite::Connection;

use crate::bounds::Shares;
use crate::clock::MasterClock;
use crate::disk::StoreError;
use crate::disk::connection_thread::ConnectionThread;
use crate::disk::damaged::{is_damage, set_aside};
use crate::disk::file::{Access, copy_into};
use crate::disk::partitions::{Connections, Partitions};
use crate::disk::writer::{PartitionLimits, StoreFile, Writer};
use crate::jobs::memory::receipts::ReceiptSource;

pub(crate) use filter::{ReturnedTags, TagFilter};
pub(crate) use in_force::{DurableEvents, DurableSettings};
pub(crate) use tables::{EventCursor, KeptEvent};

/// The cache of the connection that writes, in bytes.
const CACHE: usize = 1024 * 1024;

/// The largest number of consumers whose cursors are kept.
const MAX_CONSUMERS: usize = 64;

/// The longest name of a consumer, in bytes.
const MAX_NAME: usize = 64;

/// The kept events. Every method may be called from any task at once.
pub(crate) struct EventStore {
    most_bytes: u64,
    numbers: Arc<ReceiptSource>,
    /// The bytes of each source; none when they have to be counted again, after a failure.
    shares: Arc<Mutex<Option<Shares>>>,
    /// The events that were not taken, and of which the store does not know yet.
    untold: Arc<AtomicU64>,
    /// The only partition of the store, and its path.
    file: i64,
    path: PathBuf,
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

impl EventStore {
    /// Opens the store in this folder, in which all events have at most `most_bytes`. A file that is damaged is set aside, and
    /// another one takes its place. Blocks on the disk.
    ///
    /// # Errors
    /// When a file cannot be opened, or was written by a later version.
    fn open(folder: &Path, most_bytes: u64, clock: MasterClock) -> Result<Self, StoreError> {
        let partitions = Arc::new(Partitions::list(folder, tables::EVENTS, CACHE)?);
        let connections = |access| Connections::new(Arc::clone(&partitions), access);
        let create = || {
            let now = clock.micros();
            partitions.create(now).map(|_| (now, 0))
        };
        let (file, last) = match partitions.newest() {
            None => create()?,
            Some(file) => {
                let last = connections(Access::Write)
                    .of(file)
                    .and_then(tables::last_number);
                match last {
                    Ok(last) => (file, last),
                    Err(error) if is_damage(&error) => {
                        let path = partitions.path(file);
                        let aside =
                            set_aside(&path).map_err(|error| StoreError::io(&path, error))?;
                        tracing::error!(
                            "the file of kept events {} is damaged ({error}): it was set aside as {}; the events in it are not \
                             read any more, and consumers start over",
                            path.display(),
                            aside.display()
                        );
                        partitions.remove(file);
                        create()?
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let started = |error| StoreError::io(folder, error);
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
        Ok(Self {
            most_bytes,
            numbers: Arc::new(ReceiptSource::after(last, clock)),
            shares: Arc::default(),
            untold: Arc::default(),
            file,
            path: partitions.path(file),
            writer: writer.map_err(started)?,
            reader,
        })
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

    /// Notes that an event was not taken. A gap stands in its place when the store takes something again.
    pub(crate) fn note_lost(&self) {
        self.untold.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the highest number that was given to an event.
    pub(crate) fn last_number(&self) -> i64 {
        self.numbers.last()
    }

    /// Removes the events before this time, in microseconds since 1970, a little in each transaction.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) async fn remove_older(&self, before: i64) -> Result<(), StoreError> {
        self.tell_lost().await?;
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
            if !is_known && tables::consumers(connection)?.len() >= MAX_CONSUMERS {
                return Ok(false);
            }
            tables::acknowledge(connection, &consumer, cursor)?;
            Ok(true)
        })
        .await
    }

    /// Forgets a consumer. Returns false when it is not known.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) async fn forget(&self, consumer: String) -> Result<bool, StoreError> {
        self.change(0, move |connection, _| {
            tables::forget(connection, &consumer)
        })
        .await
    }

    /// Returns the names of the consumers that have acknowledged something.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) async fn consumers(&self) -> Result<Vec<String>, StoreError> {
        self.reader.moment(self.file, tables::consumers).await
    }

    /// Copies the store, with the places of its consumers, into `folder`, which is created (0700). Returns the number of files
    /// and their size in bytes.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    ///
    /// # Cancel safety
    /// The copy is finished.
    pub(crate) async fn copy_into(&self, folder: PathBuf) -> Result<(u64, u64), StoreError> {
        let (file, to) = (
            self.file,
            folder.join(self.path.file_name().unwrap_or_default()),
        );
        let copy = move |connections: &mut Connections| {
            saline_private_files::create_folder(&folder)
                .map_err(|error| StoreError::io(&folder, error))?;
            copy_into(connections.of(file)?, &to)?;
            let copied = to.metadata().map_err(|error| StoreError::io(&to, error))?;
            Ok((1, copied.len()))
        };
        self.reader.call(copy).await
    }

    /// Puts a gap in the place of events that were not taken.
    async fn tell_lost(&self) -> Result<(), StoreError> {
        match self.untold.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => self.change(0, |_, _| Ok(())).await,
        }
    }

    /// Finishes the queued work and ends the threads; later calls fail with [`StoreError::Closed`].
    pub(crate) async fn close(&self) {
        if let Err(error) = self.tell_lost().await {
            tracing::error!(
                "{} events were not kept, and readers are not told: {error}",
                self.untold.load(Ordering::Relaxed)
            );
        }
        self.reader.0.close().await;
        self.writer.close().await;
    }

    /// Runs `act` on the writer's thread, after the gap of events that were not taken before.
    async fn change<T, F>(&self, bytes: usize, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &mut Shares) -> Result<T, StoreError> + Send + 'static,
    {
        let (shares, after) = (Arc::clone(&self.shares), Arc::clone(&self.shares));
        let (untold, numbers) = (Arc::clone(&self.untold), Arc::clone(&self.numbers));
        // What this command tells, to be told again if it is not committed.
        let told = Arc::new(AtomicU64::new(0));
        let (telling, untold_after) = (Arc::clone(&told), Arc::clone(&self.untold));
        let act = move |connection: &Connection| {
            let lost = untold.swap(0, Ordering::Relaxed);
            telling.store(lost, Ordering::Relaxed);
            if lost > 0 {
                tables::note_not_taken(connection, numbers.next(), lost)?;
            }
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
                untold_after.fetch_add(told.load(Ordering::Relaxed), Ordering::Relaxed);
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

#[cfg(test)]
impl EventStore {
    /// Has the disk be full from now on, or not any more.
    pub(super) async fn limit_size(&self, is_full: bool) {
        let limit = move |connection: &Connection, _: &mut Shares| {
            let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
            let most = if is_full {
                pages
            } else {
                i64::from(u32::MAX - 1)
            };
            connection.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()))?;
            Ok(())
        };
        self.change(0, limit).await.unwrap();
    }
}

impl std::fmt::Debug for EventStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStore").finish_non_exhaustive()
    }
}
