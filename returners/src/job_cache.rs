//! Reads jobs and returns back from the database that `master_job_cache` names.

use std::sync::Arc;

use saline_config::{PostgresReturner, ReturnerConfig, ReturnerName};
use saline_protocol::transport::Context;
use tokio::sync::Semaphore;

use crate::cached_job::{CachedJob, CachedReturn};
use crate::postgres::PostgresJobs;
use crate::sqlite3::Sqlite3Jobs;

/// How many read at once.
const READERS: usize = 2;

/// The database from which jobs and returns are read. Clones share the bound on readers.
#[derive(Debug, Clone)]
pub struct JobCache {
    name: ReturnerName,
    source: Source,
    context: Context,
    readers: Arc<Semaphore>,
}

/// Where the database is.
#[derive(Debug, Clone)]
enum Source {
    Postgres(Box<PostgresReturner>),
    Sqlite3(std::path::PathBuf),
}

/// A database that was opened to read.
#[derive(Debug)]
pub struct OpenJobCache(Opened);

#[derive(Debug)]
enum Opened {
    Postgres(Box<PostgresJobs>),
    Sqlite3(Box<Sqlite3Jobs>),
}

impl JobCache {
    /// Returns the database that `master_job_cache` names; none if the master reads its own store alone.
    pub fn of(config: &ReturnerConfig, context: &Context) -> Option<Self> {
        let name = config.master_job_cache?;
        let source = match name {
            ReturnerName::Postgres => Source::Postgres(Box::new(config.postgres.clone())),
            ReturnerName::Sqlite3 => Source::Sqlite3(config.sqlite3_database.clone()?),
            // The configuration refuses them: nothing can be read back there.
            ReturnerName::Executable | ReturnerName::Http | ReturnerName::Local => return None,
        };
        Some(Self {
            name,
            source,
            context: context.clone(),
            readers: Arc::new(Semaphore::new(READERS)),
        })
    }

    /// Returns its name in the configuration.
    pub fn name(&self) -> ReturnerName {
        self.name
    }

    /// Opens the database, once fewer than two others read.
    ///
    /// # Errors
    /// One line that says why it cannot be opened.
    ///
    /// # Cancel safety
    /// Nothing is kept.
    pub async fn open(&self) -> Result<OpenJobCache, String> {
        let turn = Arc::clone(&self.readers).acquire_owned().await;
        let turn = turn.map_err(|_| "the master stops".to_owned())?;
        let opened = match &self.source {
            Source::Postgres(settings) => {
                let jobs = PostgresJobs::open(settings, &self.context, turn).await?;
                Opened::Postgres(Box::new(jobs))
            }
            Source::Sqlite3(path) => {
                let jobs = Sqlite3Jobs::open(path, &self.context, turn).await?;
                Opened::Sqlite3(Box::new(jobs))
            }
        };
        Ok(OpenJobCache(opened))
    }
}

impl OpenJobCache {
    /// Returns a job; none if the database has none of this jid.
    ///
    /// # Errors
    /// One line that says why it cannot be read. The database is to be opened again then.
    ///
    /// # Cancel safety
    /// The database is to be opened again when the future was dropped.
    pub async fn job(&mut self, jid: &str) -> Result<Option<CachedJob>, String> {
        match &mut self.0 {
            Opened::Postgres(jobs) => jobs.job(jid).await,
            Opened::Sqlite3(jobs) => jobs.job(jid).await,
        }
    }

    /// Returns the next jobs whose jids are at least `from` and below `before`, the newest first; none when there are no more.
    ///
    /// # Errors
    /// As [`job`](Self::job).
    ///
    /// # Cancel safety
    /// As [`job`](Self::job).
    pub async fn jobs(&mut self, from: &str, before: &str) -> Result<Vec<CachedJob>, String> {
        match &mut self.0 {
            Opened::Postgres(jobs) => jobs.jobs(from, before).await,
            Opened::Sqlite3(jobs) => jobs.jobs(from, before).await,
        }
    }

    /// Returns the next returns of a job, of the minions after this id in the order of the database; none when there are no more.
    ///
    /// # Errors
    /// As [`job`](Self::job).
    ///
    /// # Cancel safety
    /// As [`job`](Self::job).
    pub async fn returns(&mut self, jid: &str, after: &str) -> Result<Vec<CachedReturn>, String> {
        match &mut self.0 {
            Opened::Postgres(jobs) => jobs.returns(jid, after).await,
            Opened::Sqlite3(jobs) => jobs.returns(jid, after).await,
        }
    }
}
