//! The files of the store. Each is a partition: it holds the jobs from its first jid up to that of the
//! next one, with their returns, and its name is that jid. So old jobs go by deleting a file, which
//! costs the same whatever is in it and needs no space on the disk.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use saline_messages::Jid;

use super::schema::{self, Access, Contents};
use crate::jobs::{StoreError, jid};

/// The largest number of partitions that a thread has open.
const MAX_OPEN: usize = 4;

/// The largest number of partitions that the reader has open: searches look through all of them, and opening one
/// takes longer than looking through a small one. Those that were not used last hold no cache.
const MAX_OPEN_TO_READ: usize = 64;

/// The end of a partition's name.
const SUFFIX: &str = ".sqlite";

/// The partitions of a store, shared by its threads. A partition is named by the first jid that it may
/// hold, in microseconds since 1970.
#[derive(Debug)]
pub(crate) struct Partitions {
    folder: PathBuf,
    starts: RwLock<BTreeSet<i64>>,
    contents: Contents,
    /// The size of the cache of each connection in bytes.
    cache: usize,
}

impl Partitions {
    /// Lists the partitions in `folder`, which is created (0700) as needed.
    pub(crate) fn list(
        folder: &Path,
        contents: Contents,
        cache: usize,
    ) -> Result<Self, StoreError> {
        let error = |error| StoreError::io(folder, error);
        saline_private_files::create_folder(folder).map_err(error)?;
        let mut starts = BTreeSet::new();
        for entry in fs::read_dir(folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let name = entry.file_name();
            let jid = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            let jid = jid.and_then(|jid| Jid::parse(jid).ok());
            let start = jid.as_ref().and_then(jid::to_micros);
            if start.is_some() && entry.metadata().is_ok_and(|file| file.len() == 0) {
                // It was created when the disk was full, or power was lost: nothing was in it yet.
                fs::remove_file(entry.path()).map_err(error)?;
                continue;
            }
            starts.extend(start);
        }
        Ok(Self {
            folder: folder.to_owned(),
            starts: RwLock::new(starts),
            contents,
            cache,
        })
    }

    /// Returns the store's name in the log.
    pub(crate) fn name(&self) -> &'static str {
        self.contents.name
    }

    /// Returns the file of a partition.
    pub(crate) fn path(&self, start: i64) -> PathBuf {
        self.folder.join(file_name(start))
    }

    /// Returns all partitions, the oldest first.
    pub(crate) fn all(&self) -> Vec<i64> {
        self.read().iter().copied().collect()
    }

    /// Returns the partition that holds the job if it is in the store.
    pub(crate) fn holding(&self, job: i64) -> Option<i64> {
        self.read().range(..=job).next_back().copied()
    }

    /// Returns the newest partition.
    pub(crate) fn newest(&self) -> Option<i64> {
        self.read().last().copied()
    }

    /// Whether there is a partition that begins at `start`.
    pub(crate) fn has(&self, start: i64) -> bool {
        self.read().contains(&start)
    }

    /// Creates the partition that begins at `start`.
    pub(crate) fn create(&self, start: i64) -> Result<Connection, StoreError> {
        let path = self.path(start);
        let connection = schema::open(&path, Access::Create, self.cache, &self.contents)
            .inspect_err(|_| {
                // An error means that it was not created.
                let _ = self.delete(start);
            })?;
        // The name must survive a loss of power as surely as what is written into the file.
        let synced = fs::File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| StoreError::io(&self.folder, error))?;
        self.write().insert(start);
        Ok(connection)
    }

    /// Takes a partition off the list; no thread opens it from now on.
    pub(crate) fn remove(&self, start: i64) {
        self.write().remove(&start);
    }

    /// Deletes the files of a partition: the database, its log, and copies of it under longer names. Every
    /// thread must have closed it. What is gone already is no error.
    pub(crate) fn delete(&self, start: i64) -> Result<(), StoreError> {
        let error = |error| StoreError::io(&self.folder, error);
        let name = file_name(start);
        for entry in fs::read_dir(&self.folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let found = entry.file_name();
            let beside = found.to_str().and_then(|found| found.strip_prefix(&name));
            if beside.is_some_and(|rest| !rest.is_empty()) {
                absent_is_fine(&entry.path())?;
            }
        }
        // Last: the next start finds what a crash has left by this file.
        absent_is_fine(&self.path(start))
    }

    /// Returns the bytes that a partition takes on the disk, with its log.
    pub(crate) fn size(&self, start: i64) -> u64 {
        let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let path = self.path(start);
        length(&path) + length(&path.with_extension("sqlite-wal"))
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeSet<i64>> {
        self.starts.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeSet<i64>> {
        self.starts.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn absent_is_fine(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io(path, error))
        }
        _ => Ok(()),
    }
}

fn file_name(start: i64) -> String {
    format!("{}{SUFFIX}", jid::from_micros(start))
}

/// The connections of one thread, opened as they are needed; those that were not used for the longest
/// time are closed.
pub(crate) struct Connections {
    partitions: Arc<Partitions>,
    access: Access,
    /// The one that was used last is the last.
    open: Vec<(i64, Connection)>,
    /// Told the number of pages in the write-ahead log after each commit.
    log: Option<Arc<AtomicUsize>>,
}

impl Connections {
    /// Makes a set of connections, none of them open yet.
    pub(crate) fn new(partitions: Arc<Partitions>, access: Access) -> Self {
        Self {
            partitions,
            access,
            open: Vec::new(),
            log: None,
        }
    }

    /// Has every commit tell the number of pages in its log.
    pub(crate) fn tell_log_to(&mut self, log: Arc<AtomicUsize>) {
        self.log = Some(log);
    }

    /// Returns the partitions that can be opened.
    pub(crate) fn partitions(&self) -> &Arc<Partitions> {
        &self.partitions
    }

    /// Returns the connection to a partition.
    ///
    /// # Errors
    /// [`StoreError::Removed`] when the partition was pruned; otherwise when SQLite fails.
    pub(crate) fn of(&mut self, start: i64) -> Result<&Connection, StoreError> {
        if !self.partitions.has(start) {
            return Err(StoreError::Removed);
        }
        if let Some(at) = self.open.iter().position(|(open, _)| *open == start) {
            let found = self.open.remove(at);
            self.open.push(found);
        } else {
            let path = self.partitions.path(start);
            let partitions = &self.partitions;
            let connection =
                schema::open(&path, self.access, partitions.cache, &partitions.contents)?;
            self.keep(start, connection)?;
        }
        if let Some(left) = self.open.len().checked_sub(MAX_OPEN + 1) {
            schema::shrink_cache(&self.open[left].1);
        }
        match self.open.last() {
            Some((_, connection)) => Ok(connection),
            None => Err(StoreError::Removed),
        }
    }

    /// Creates the partition that begins at `start`.
    pub(crate) fn create(&mut self, start: i64) -> Result<(), StoreError> {
        let connection = self.partitions.create(start)?;
        self.keep(start, connection)
    }

    /// Closes the connection to a partition that will be deleted.
    pub(crate) fn forget(&mut self, start: i64) {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == start) {
            let (_, connection) = self.open.remove(at);
            // Moving the log into a file that is about to go would be wasted.
            let spared = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            if let Err(error) = spared {
                tracing::debug!(%error, "the log of a partition is moved before it goes");
            }
        }
    }

    fn keep(&mut self, start: i64, mut connection: Connection) -> Result<(), StoreError> {
        if let Some(log) = self.log.clone() {
            connection.wal_hook(Some(move |_: &mut Wal, pages: c_int| {
                log.store(usize::try_from(pages).unwrap_or(0), Ordering::Relaxed);
                Ok(())
            }))?;
        }
        #[cfg(test)]
        crate::jobs::tests::counts::trace(&mut connection);
        let max = match self.access {
            Access::Read => MAX_OPEN_TO_READ,
            _ => MAX_OPEN,
        };
        if self.open.len() >= max {
            self.open.remove(0);
        }
        self.open.push((start, connection));
        Ok(())
    }
}
