//! The files of the store. Each is a partition: it holds the jobs from its first jid up to that of the
//! next one, with their returns, and its name is that jid. So old jobs go by deleting a file, which
//! costs the same whatever is in it and needs no space on the disk. A partition that is to be removed while some of its jobs are
//! under way is *reduced* to them: a smaller file replaces it, whose name has the number of the reduction too.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use saline_messages::Jid;

use super::StoreError;
use super::file::{self, Access, Contents};
use crate::jid;

/// The largest number of partitions that a thread has open.
const MAX_OPEN: usize = 4;

/// The largest number of partitions that the reader has open: searches look through all of them, and opening one
/// takes longer than looking through a small one. Those that were not used last hold no cache.
const MAX_OPEN_TO_READ: usize = 64;

/// The end of a partition's name.
const SUFFIX: &str = ".sqlite";

/// The end of the name of a file that is to take the place of a partition and is not finished.
const UNFINISHED: &str = ".sqlite.unfinished";

/// The partitions of a store, shared by its threads. A partition is named by the first jid that it may
/// hold, in microseconds since 1970.
#[derive(Debug)]
pub(crate) struct Partitions {
    folder: PathBuf,
    /// How often each partition was reduced, by the jid that names it.
    starts: RwLock<BTreeMap<i64, u32>>,
    contents: Contents,
    /// The size of the cache of each connection in bytes.
    cache: usize,
}

impl Partitions {
    /// Lists the partitions in `folder`, which is created (0700) as needed. Deletes what an interrupted reduction has left: the
    /// unfinished file, or the file that was replaced.
    pub(crate) fn list(
        folder: &Path,
        contents: Contents,
        cache: usize,
    ) -> Result<Self, StoreError> {
        let error = |error| StoreError::io(folder, error);
        saline_private_files::create_folder(folder).map_err(error)?;
        let mut starts = BTreeMap::new();
        let mut are_replaced = Vec::new();
        for entry in fs::read_dir(folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                continue;
            };
            if name.contains(UNFINISHED) {
                absent_is_fine(&entry.path())?;
                continue;
            }
            let Some((start, reductions)) = parse_name(name) else {
                continue;
            };
            if entry.metadata().is_ok_and(|file| file.len() == 0) {
                // It was created when the disk was full, or power was lost: nothing was in it yet.
                fs::remove_file(entry.path()).map_err(error)?;
                continue;
            }
            if let Some(other) = starts.insert(start, reductions) {
                starts.insert(start, other.max(reductions));
                are_replaced.push(start);
            }
        }
        let partitions = Self {
            folder: folder.to_owned(),
            starts: RwLock::new(starts),
            contents,
            cache,
        };
        for start in are_replaced {
            partitions.delete(start)?;
        }
        Ok(partitions)
    }

    /// Returns the store's name in the log.
    pub(crate) fn name(&self) -> &'static str {
        self.contents.name
    }

    /// Returns the file of a partition.
    pub(crate) fn path(&self, start: i64) -> PathBuf {
        let reductions = self.reductions(start).unwrap_or_default();
        self.folder.join(file_name(start, reductions))
    }

    /// Returns how often a partition was reduced; none if there is no such partition.
    pub(crate) fn reductions(&self, start: i64) -> Option<u32> {
        self.read().get(&start).copied()
    }

    /// Creates the file that is to take the place of a partition. What was there of it before is deleted.
    pub(crate) fn begin_reduction(&self, start: i64) -> Result<Connection, StoreError> {
        self.delete_unfinished(start)?;
        let path = self.unfinished(start);
        file::open(&path, Access::Create, self.cache, &self.contents)
    }

    /// Has the file that is finished and closed take the place of a partition. From now on every thread opens it; the file
    /// whose place it takes is [deleted](Self::delete) when they have closed that.
    pub(crate) fn finish_reduction(&self, start: i64) -> Result<(), StoreError> {
        let Some(reductions) = self.reductions(start) else {
            return Err(StoreError::Removed);
        };
        let (from, reductions) = (self.unfinished(start), reductions.saturating_add(1));
        let to = self.folder.join(file_name(start, reductions));
        let synced = fs::File::open(&from).and_then(|file| file.sync_all());
        synced.map_err(|error| StoreError::io(&from, error))?;
        fs::rename(&from, &to).map_err(|error| StoreError::io(&from, error))?;
        // From here on it must be used, also if this fails: a start would take it.
        self.write().insert(start, reductions);
        if let Err(error) = self.sync_folder() {
            tracing::error!("{error}");
        }
        Ok(())
    }

    /// Deletes the file that was to take the place of a partition.
    pub(crate) fn delete_unfinished(&self, start: i64) -> Result<(), StoreError> {
        let name = self.unfinished(start);
        for beside in ["-wal", "-shm", "-journal", ""] {
            let mut path = name.clone().into_os_string();
            path.push(beside);
            absent_is_fine(Path::new(&path))?;
        }
        Ok(())
    }

    fn unfinished(&self, start: i64) -> PathBuf {
        self.folder
            .join(format!("{}{UNFINISHED}", jid::from_micros(start)))
    }

    fn sync_folder(&self) -> Result<(), StoreError> {
        let synced = fs::File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| StoreError::io(&self.folder, error))
    }

    /// Returns all partitions, the oldest first.
    pub(crate) fn all(&self) -> Vec<i64> {
        self.read().keys().copied().collect()
    }

    /// Returns the partition that holds the job if it is in the store.
    pub(crate) fn holding(&self, job: i64) -> Option<i64> {
        self.read()
            .range(..=job)
            .next_back()
            .map(|(start, _)| *start)
    }

    /// Returns the newest partition.
    pub(crate) fn newest(&self) -> Option<i64> {
        self.read().last_key_value().map(|(start, _)| *start)
    }

    /// Creates the partition that begins at `start`.
    pub(crate) fn create(&self, start: i64) -> Result<Connection, StoreError> {
        let path = self.folder.join(file_name(start, 0));
        let connection = file::open(&path, Access::Create, self.cache, &self.contents)
            .inspect_err(|_| {
                // An error means that it was not created.
                let _ = self.delete(start);
            })?;
        // The name must survive a loss of power as surely as what is written into the file.
        self.sync_folder()?;
        self.write().insert(start, 0);
        Ok(connection)
    }

    /// Takes a partition off the list; no thread opens it from now on.
    pub(crate) fn remove(&self, start: i64) {
        self.write().remove(&start);
    }

    /// Deletes the files of a partition: the database, its log, and copies of it under longer names. Every
    /// thread must have closed it. Of one that is listed, only the files go whose places a reduction has taken. What is gone
    /// already is no error.
    pub(crate) fn delete(&self, start: i64) -> Result<(), StoreError> {
        let error = |error| StoreError::io(&self.folder, error);
        let used = self.reductions(start);
        let used = used.map(|reductions| file_name(start, reductions));
        let (jid, mut last) = (jid::from_micros(start).to_string(), Vec::new());
        for entry in fs::read_dir(&self.folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let found = entry.file_name();
            let Some(found) = found.to_str() else {
                continue;
            };
            let is_used = used.as_ref().is_some_and(|used| found.starts_with(used));
            let rest = found.strip_prefix(jid.as_str());
            if is_used || !rest.is_some_and(|rest| rest.starts_with('.')) {
                continue;
            }
            match parse_name(found) {
                Some(_) => last.push(entry.path()),
                None => absent_is_fine(&entry.path())?,
            }
        }
        // Last: the next start finds what a crash has left by these files.
        last.iter().try_for_each(|path| absent_is_fine(path))
    }

    /// Returns the bytes that a partition takes on the disk, with its log.
    pub(crate) fn size(&self, start: i64) -> u64 {
        let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        let path = self.path(start);
        length(&path) + length(&path.with_extension("sqlite-wal"))
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<i64, u32>> {
        self.starts.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<i64, u32>> {
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

fn file_name(start: i64, reductions: u32) -> String {
    let jid = jid::from_micros(start);
    match reductions {
        0 => format!("{jid}{SUFFIX}"),
        _ => format!("{jid}.{reductions}{SUFFIX}"),
    }
}

/// Returns the beginning of the partition whose file has this name, and how often it was reduced.
fn parse_name(name: &str) -> Option<(i64, u32)> {
    let name = name.strip_suffix(SUFFIX)?;
    let (jid, reductions) = match name.split_once('.') {
        None => (name, 0),
        Some((jid, reductions)) => (jid, reductions.parse().ok()?),
    };
    Some((jid::to_micros(&Jid::parse(jid).ok()?)?, reductions))
}

/// A connection to a file of a partition.
struct OpenPartition {
    start: i64,
    /// How often the partition was reduced before the file was opened.
    reductions: u32,
    connection: Connection,
}

/// The connections of one thread, opened as they are needed; those that were not used for the longest
/// time are closed.
pub(crate) struct Connections {
    partitions: Arc<Partitions>,
    access: Access,
    /// The one that was used last is the last.
    open: Vec<OpenPartition>,
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
        let Some(reductions) = self.partitions.reductions(start) else {
            return Err(StoreError::Removed);
        };
        let is_open = |open: &OpenPartition| open.start == start && open.reductions == reductions;
        if let Some(at) = self.open.iter().position(is_open) {
            let found = self.open.remove(at);
            self.open.push(found);
        } else {
            // Another file may have taken its place.
            self.forget(start);
            let path = self.partitions.folder.join(file_name(start, reductions));
            let partitions = &self.partitions;
            let connection =
                file::open(&path, self.access, partitions.cache, &partitions.contents)?;
            self.keep(start, reductions, connection)?;
        }
        if let Some(left) = self.open.len().checked_sub(MAX_OPEN + 1) {
            file::shrink_cache(&self.open[left].connection);
        }
        match self.open.last() {
            Some(open) => Ok(&open.connection),
            None => Err(StoreError::Removed),
        }
    }

    /// Creates the partition that begins at `start`.
    pub(crate) fn create(&mut self, start: i64) -> Result<(), StoreError> {
        let connection = self.partitions.create(start)?;
        self.keep(start, 0, connection)
    }

    /// Closes the connection to a partition that will be deleted.
    pub(crate) fn forget(&mut self, start: i64) {
        if let Some(at) = self.open.iter().position(|open| open.start == start) {
            let OpenPartition { connection, .. } = self.open.remove(at);
            // Moving the log into a file that is about to go would be wasted.
            let spared = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            if let Err(error) = spared {
                tracing::debug!(%error, "the log of a partition is moved before it goes");
            }
        }
    }

    fn keep(
        &mut self,
        start: i64,
        reductions: u32,
        mut connection: Connection,
    ) -> Result<(), StoreError> {
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
        self.open.push(OpenPartition {
            start,
            reductions,
            connection,
        });
        Ok(())
    }
}
