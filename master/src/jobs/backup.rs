//! Copies the store while it is in use.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use saline_messages::{MasterTime, MinionJobState};

use super::lookup::IS_CANCELLED;
use super::memory::states;
use super::tables::minions::{self, CopyMade};
use super::{JobStore, StoreError, secrets};
use crate::disk::columns;
use crate::disk::file::{self, Access};
use crate::disk::partitions::Connections;
use crate::jobs::tables::schema::JOBS;

/// The end of the name of a copy that is not finished.
const UNFINISHED: &str = "unfinished";

/// A copy of the job store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreBackup {
    /// The folder on the master's machine.
    pub folder: String,
    /// The number of files in it.
    pub files: u64,
    /// The size of the files in bytes.
    pub bytes: u64,
}

impl JobStore {
    /// Copies the store into a new folder (0700) beside its own one, below `backups`, which is named by the
    /// time like a jid. What was committed before the call is in it, but for the secrets of jobs. Moved to the place of the store's
    /// folder, the copy is a store. Its master does not hand out what was queued or waited for its turn when the copy
    /// was made, since this one may have handed it out after that. Several calls make their copies one after the other.
    ///
    /// Before that `beside` gets the folder, to copy into it what belongs to the same copy; it returns the number of files
    /// and their size.
    ///
    /// # Errors
    /// When a file cannot be read or written. What was copied so far is deleted.
    ///
    /// # Cancel safety
    /// The copy of one file is finished, and what was copied is deleted by the next call.
    pub(crate) async fn back_up<F>(
        &self,
        beside: impl FnOnce(PathBuf) -> F + Send,
    ) -> Result<StoreBackup, StoreError>
    where
        F: Future<Output = Result<(u64, u64), StoreError>> + Send,
    {
        // A copy that is not finished is deleted by the next call, which must not find that of another one.
        let _turn = self.copying.acquire().await;
        let backups = self.settings.folder.with_file_name("backups");
        let folder = backups.join(self.next_jid().as_str());
        let unfinished = folder.with_extension(UNFINISHED);
        begin(&backups, &unfinished).map_err(|error| StoreError::io(&backups, error))?;
        let copied = match beside(unfinished.clone()).await {
            Ok(beside) => self.copy_all(&unfinished, beside).await,
            Err(error) => Err(error),
        };
        let done = copied.and_then(|(files, bytes)| {
            finish(&backups, &unfinished, &folder)
                .map_err(|error| StoreError::io(&unfinished, error))?;
            Ok(StoreBackup {
                folder: folder.display().to_string(),
                files,
                bytes,
            })
        });
        done.inspect_err(|_| {
            // It may have filled the disk. If this fails, the next copy deletes it.
            let _ = fs::remove_dir_all(&unfinished);
        })
    }

    /// Copies one partition after the other, so that other upkeep passes between them. Returns the number
    /// of the files and their size, together with those that are there.
    async fn copy_all(
        &self,
        folder: &Path,
        (mut files, mut bytes): (u64, u64),
    ) -> Result<(u64, u64), StoreError> {
        let now = self.now();
        // What was handed over before `now` is in the copy as such.
        self.flush_all().await?;
        // The minions first: a copy must not hold an expiry ack without the states that came before it.
        let (minions, to) = (self.records.path().to_owned(), folder.join(minions::FILE));
        let (copied, noted) = (to.clone(), to.clone());
        let copy = move |_: &mut Connections| {
            file::copy_into(&minions::open(&minions)?, &copied)?;
            minions::mark_copies(&copied)
        };
        self.upkeep.call(copy).await?;
        files += 1;
        bytes += size(&to)?;
        for start in self.partitions.all() {
            let path = self.partitions.path(start);
            let to = folder.join(path.file_name().unwrap_or_default());
            let copied = to.clone();
            let copy = move |connections: &mut Connections| {
                file::copy_into(connections.of(start)?, &copied)?;
                without_secrets(&copied)?;
                close_unoffered(&copied, now)
            };
            match self.upkeep.call(copy).await {
                // It was pruned meanwhile.
                Err(StoreError::Removed) => continue,
                copied => copied?,
            }
            files += 1;
            bytes += size(&to)?;
        }
        let made = CopyMade {
            at: self.now(),
            ahead: self.clock.ahead(),
        };
        let note = move |_: &mut Connections| minions::note_copy(&noted, made);
        self.upkeep.call(note).await?;
        Ok((files, bytes))
    }
}

/// Removes the secrets of open jobs from a copy.
fn without_secrets(copy: &Path) -> Result<(), StoreError> {
    secrets::remove_all(&file::open(copy, Access::Upkeep, 0, &JOBS)?)
}

/// Gives every minion to which its job was not handed over a final state in a copy: the master that goes on hands the
/// job over, or tells operators that it never will, and a master that starts with the copy knows of neither.
fn close_unoffered(copy: &Path, now: MasterTime) -> Result<(), StoreError> {
    let mut connection = file::open(copy, Access::Upkeep, 0, &JOBS)?;
    let transaction = connection.transaction()?;
    for (job, states, end) in unoffered(&transaction, now)? {
        if let Some(states) = states {
            let update = "UPDATE jobs SET states = ?2 WHERE jid = ?1";
            transaction.prepare_cached(update)?.execute((job, states))?;
        }
        let update = "UPDATE state_changes SET state = ?2 WHERE jid = ?1 AND state IN (2, 13)";
        transaction
            .prepare_cached(update)?
            .execute((job, end as u8))?;
    }
    Ok(transaction.commit()?)
}

/// A job, the states of its publication if they become others, and the state that those get to which it was not handed over.
type Unoffered = (i64, Option<Vec<u8>>, MinionJobState);

/// Returns the jobs that were not handed over to all of their minions, with the state that these get at `now`: how the job
/// has ended for them, or that they may have run it.
fn unoffered(connection: &Connection, now: MasterTime) -> Result<Vec<Unoffered>, StoreError> {
    let all = format!(
        "SELECT jid, states, {IS_CANCELLED}, expires <= ?1,
             EXISTS (SELECT 1 FROM state_changes WHERE state_changes.jid = jobs.jid AND state IN (2, 13))
         FROM jobs"
    );
    let mut statement = connection.prepare(&all)?;
    let mut found = statement.query([columns::from_time(now)])?;
    let mut unoffered = Vec::new();
    while let Some(row) = found.next()? {
        let mut states = columns::blob(row, 1)?.to_vec();
        let end = match (row.get(2)?, row.get(3)?) {
            (true, _) => MinionJobState::Cancelled,
            (false, true) => MinionJobState::Expired,
            (false, false) => MinionJobState::MayHaveRun,
        };
        let closed = states::close_unoffered(&mut states, end);
        if closed || row.get(4)? {
            unoffered.push((row.get(0)?, closed.then_some(states), end));
        }
    }
    Ok(unoffered)
}

fn size(file: &Path) -> Result<u64, StoreError> {
    let found = fs::metadata(file).map_err(|error| StoreError::io(file, error))?;
    Ok(found.len())
}

/// Gives a copy its name when all of it is on the disk.
fn finish(backups: &Path, unfinished: &Path, folder: &Path) -> std::io::Result<()> {
    let sync = |folder: &Path| fs::File::open(folder)?.sync_all();
    sync(unfinished)?;
    fs::rename(unfinished, folder)?;
    sync(backups)
}

/// Creates the folder of a copy, and deletes copies that were not finished.
fn begin(backups: &Path, unfinished: &Path) -> std::io::Result<()> {
    saline_private_files::create_folder(backups)?;
    for entry in fs::read_dir(backups)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == UNFINISHED) {
            fs::remove_dir_all(path)?;
        }
    }
    saline_private_files::create_folder(unfinished)
}
