//! Sets the master's time back to the machine's clock, after a start with a clock that was far ahead: the time never goes
//! back by itself, and would be ahead until that day.
//!
//! It is ordered while a master runs and carried out by the next start, since nobody knows the time then: within a run it
//! never goes back. Jobs are stored by their times, so those from the time ahead are set aside with the files that hold
//! them, and also those that expire after the machine's time: they may have been told to have expired, and would be
//! offered again. While a job is open nothing is set back.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rusqlite::Connection;
use saline_messages::MasterTime;

use super::{JobStore, StoreError, StoreSettings, lock, lookup, minion_records, received};
use crate::clock::MasterClock;
use crate::disk::file::{self, Access};
use crate::disk::partitions::{Connections, Partitions};
use crate::disk::set_aside::rename_with_log;
use crate::jobs::tables::schema::JOBS;

/// The file in the store's folder that has the next start set the time back.
const ORDER: &str = "set-back";

/// What the name of a file that is set aside ends with.
const ENDING: &str = "ahead";

/// By how much the time must be ahead, in milliseconds. What is less is made up for slowly.
const LEAST: MasterTime = 60_000;

/// The reason why the master's time is not set back.
#[derive(Debug, thiserror::Error)]
pub enum SetBackError {
    /// The time is right, or nearly.
    #[error(
        "nothing is set back: the master's time is {0} s ahead of this machine's clock, and less than a minute is made up for \
         slowly; there is nothing to do"
    )]
    NotAhead(u64),
    /// Minions may begin or run jobs.
    #[error(
        "the master's time was not set back, since minions may begin or run jobs (open jobs: {0}): `saline-run jobs.active` \
         and `saline-run jobs.list_jobs` show them; wait until they have ended, or cancel them with `saline-run \
         jobs.cancel`, and order it again"
    )]
    JobsOpen(usize),
    /// The order cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl JobStore {
    /// Has the next start of the master set its time back to the machine's clock. Returns by how much it is ahead.
    ///
    /// # Errors
    /// When the time is not ahead, a job is open, or the disk fails.
    ///
    /// # Cancel safety
    /// It may be ordered or not.
    pub async fn order_set_back(&self) -> Result<Duration, SetBackError> {
        let ahead = self.may_set_back()?;
        let path = self.settings.folder.join(ORDER);
        let write = move |_: &mut Connections| {
            let written = saline_private_files::write(&path, b"")
                .and_then(|()| fs::File::open(path.parent().unwrap_or(&path))?.sync_all());
            written.map_err(|error| StoreError::io(&path, error))
        };
        self.upkeep.call(write).await?;
        Ok(ahead)
    }

    /// Returns by how much the master's time is ahead, if it may be set back.
    ///
    /// # Errors
    /// When it is not ahead, or a job is open.
    pub fn may_set_back(&self) -> Result<Duration, SetBackError> {
        let ahead = self.clock.ahead();
        if ahead < LEAST {
            return Err(SetBackError::NotAhead(ahead / 1_000));
        }
        match lock(&self.open).under_way() {
            0 => Ok(Duration::from_millis(ahead)),
            open => Err(SetBackError::JobsOpen(open)),
        }
    }

    /// Sets the time back if that was ordered, and opens the store again. Blocks on the disk, so for the start of a daemon.
    pub(super) fn set_back_if_ordered(self) -> Result<Self, StoreError> {
        let order = self.settings.folder.join(ORDER);
        if !order.exists() {
            return Ok(self);
        }
        let clock = self.clock.clone();
        let remove_order =
            || fs::remove_file(&order).map_err(|error| StoreError::io(&order, error));
        if let Err(why) = self.may_set_back() {
            tracing::error!("what clock.set_back ordered was not done: {why}");
            remove_order()?;
            return Ok(self);
        }
        let settings = self.settings.clone();
        let requests = std::mem::take(&mut *lock(&self.request_log));
        // Its threads close the files.
        drop(self);
        carry_out(&settings, &clock)?;
        remove_order()?;
        let store = Self::try_open(settings, clock.clone())?;
        // A client may repeat one of them, which must not act again.
        *lock(&store.request_log) = requests.redated(clock.now());
        Ok(store)
    }
}

/// Sets aside what lies after the machine's time, and begins the master's time there. Done again after a crash in between,
/// it does the rest.
fn carry_out(settings: &StoreSettings, clock: &MasterClock) -> Result<(), StoreError> {
    let since = clock.clock().wall().duration_since(UNIX_EPOCH);
    let now = since.unwrap_or_default();
    let (micros, millis) = (
        i64::try_from(now.as_micros()).unwrap_or(i64::MAX),
        MasterTime::try_from(now.as_millis()).unwrap_or(MasterTime::MAX),
    );
    let cache = settings.cache_bytes;
    let partitions = Partitions::list(&settings.folder, JOBS, cache)?;
    let mut aside = Vec::new();
    for start in partitions.all() {
        let path = partitions.path(start);
        let is_ahead = || -> Result<bool, StoreError> {
            let connection = file::open(&path, Access::Write, cache, &JOBS)?;
            Ok(last_time(&connection)? > micros)
        };
        if start > micros || is_ahead().map_err(|error| error.of_file(&path))? {
            let renamed = rename_with_log(&path, ENDING);
            aside.push(renamed.map_err(|error| StoreError::io(&path, error))?);
        }
    }
    minion_records::set_back(&settings.folder, millis)?;
    sync(&settings.folder)?;
    let ahead = clock.ahead();
    clock.restart();
    tracing::warn!(
        "the master's time was set back by {} s to this machine's clock; {} files of the job store with jobs from the time \
         ahead were set aside: {aside:?}",
        ahead / 1_000,
        aside.len()
    );
    Ok(())
}

/// Returns the last time in a partition in microseconds: of a job, a run, an expiry or a return.
fn last_time(connection: &Connection) -> Result<i64, StoreError> {
    let sql = "SELECT max(expires) FROM jobs";
    let expires: Option<i64> = connection.query_row(sql, [], |row| row.get(0))?;
    let last =
        lookup::last_job(connection)?.max(expires.map(|millis| millis.saturating_mul(1_000)));
    Ok(received::last_receipt(connection)?.max(last.unwrap_or(0)))
}

fn sync(folder: &Path) -> Result<(), StoreError> {
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| StoreError::io(folder, error))
}
