//! The values of secret arguments at rest: sealed, beside the job, and only while it is under way.
//!
//! Their key is a file of its own, outside of the state folder, in the folder of sockets: neither the store nor a copy
//! of it can be read without it. That folder is usually in memory, so the key is gone after the machine has started
//! again; a job that is still open then goes out without its secrets, and its minions refuse it and say why.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use rusqlite::{Connection, OptionalExtension, params};
use saline_channel::SecretsKey;
use saline_messages::Secrets;
use saline_messages::random;

use super::{JobStore, StoreError, jid, lock};
use crate::disk::writer::StoreFile;

/// The secrets in the store.
#[derive(Debug)]
pub(super) struct StoredSecrets {
    key: SecretsKey,
    /// The jobs that have some on the disk.
    jobs: Mutex<BTreeSet<i64>>,
}

impl StoredSecrets {
    /// Reads the key, and makes one (0600) if there is none.
    pub(super) fn open(key: &Path) -> Result<Self, StoreError> {
        let key = read_key(key).map_err(|error| StoreError::io(key, error))?;
        Ok(Self {
            key: SecretsKey::new(&key),
            jobs: Mutex::default(),
        })
    }

    /// Notes the jobs of a partition that have secrets.
    pub(super) fn note_all(&self, connection: &Connection) -> Result<(), StoreError> {
        let mut statement = connection.prepare("SELECT jid FROM job_secrets")?;
        for job in statement.query_map([], |row| row.get(0))? {
            self.note(job?);
        }
        Ok(())
    }

    /// Notes that a job has secrets on the disk, after it was noted as under way.
    pub(super) fn note(&self, job: i64) {
        lock(&self.jobs).insert(job);
    }

    /// Seals the secrets of a job for [`insert`].
    pub(super) fn seal(&self, job: i64, secrets: &Secrets) -> Result<Vec<u8>, StoreError> {
        let sealed = self.key.seal(&jid::from_micros(job), secrets);
        sealed.map_err(|_| StoreError::NoRandomness)
    }

    /// Reads the secrets of a job; none if it has none, or if they were sealed under a key that is gone.
    pub(super) fn read(
        &self,
        connection: &Connection,
        job: i64,
    ) -> Result<Option<Secrets>, StoreError> {
        if !lock(&self.jobs).contains(&job) {
            return Ok(None);
        }
        let sealed: Option<Vec<u8>> = connection
            .prepare_cached("SELECT sealed FROM job_secrets WHERE jid = ?1")?
            .query_row([job], |row| row.get(0))
            .optional()?;
        let Some(sealed) = sealed else {
            return Ok(None);
        };
        let jid = jid::from_micros(job);
        let secrets = self.key.open(&jid, &sealed);
        if secrets.is_none() {
            tracing::warn!(
                "job {jid}: its secrets are lost, since the key under which they were stored is gone; minions that \
                 have not begun it refuse it"
            );
        }
        Ok(secrets)
    }
}

/// Stores the sealed secrets of a job.
pub(super) fn insert(connection: &Connection, job: i64, sealed: &[u8]) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT INTO job_secrets (jid, sealed) VALUES (?1, ?2)")?
        .execute(params![job, sealed])?;
    Ok(())
}

/// Removes all secrets from a copy of a partition, and writes zeros in their place.
pub(super) fn remove_all(copy: &Connection) -> Result<(), StoreError> {
    copy.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    copy.execute("DELETE FROM job_secrets", [])?;
    Ok(())
}

impl JobStore {
    /// Removes the secrets of jobs that are not under way any more, and writes zeros in their place.
    pub(super) async fn remove_unneeded_secrets(&self) -> Result<(), StoreError> {
        let stored: Vec<i64> = lock(&self.secrets.jobs).iter().copied().collect();
        if stored.is_empty() {
            return Ok(());
        }
        let mut unneeded: BTreeMap<Option<i64>, Vec<i64>> = BTreeMap::new();
        {
            let open = lock(&self.open);
            for job in stored.into_iter().filter(|job| !open.has(*job)) {
                let start = self.partitions.holding(job);
                unneeded.entry(start).or_default().push(job);
            }
        }
        for (start, jobs) in unneeded {
            if let Some(start) = start {
                let removed = jobs.clone();
                let remove = move |connection: &Connection| remove(connection, &removed);
                let settled = |_: &Result<(), StoreError>| {};
                let place = StoreFile::Partition(start);
                match self.writer.call(place, 0, remove, settled).await {
                    Ok(()) | Err(StoreError::Removed) => {}
                    Err(error) => return Err(error),
                }
            }
            lock(&self.secrets.jobs).retain(|job| !jobs.contains(job));
        }
        Ok(())
    }
}

fn remove(connection: &Connection, jobs: &[i64]) -> Result<(), StoreError> {
    let zeros =
        |on: bool| connection.pragma_update_and_check(None, "secure_delete", on, |_| Ok(()));
    zeros(true)?;
    let mut statement = connection.prepare_cached("DELETE FROM job_secrets WHERE jid = ?1")?;
    let removed = jobs
        .iter()
        .try_for_each(|job| statement.execute([job]).map(|_| ()));
    zeros(false)?;
    Ok(removed?)
}

fn read_key(path: &Path) -> io::Result<[u8; SecretsKey::LEN]> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = saline_private_files::options();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600);
    let mut bytes = Vec::new();
    saline_private_files::open(path, &options)?
        .take(SecretsKey::LEN as u64 + 1)
        .read_to_end(&mut bytes)?;
    if let Ok(key) = bytes.try_into() {
        return Ok(key);
    }
    // It was created now, or its writing was interrupted: nothing was sealed under it.
    let key = random::bytes().map_err(io::Error::other)?;
    saline_private_files::write(path, &key)?;
    Ok(key)
}
