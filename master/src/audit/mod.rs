//! The audit file: a line for every order and every decision about a key, whoever gave it, allowed or refused.
//!
//! It is no part of the log: no level silences it, and a line is on the disk before what it is about is published. An
//! order of somebody who is not local root waits until its line is synced, and is refused if that fails; one of local
//! root waits until the line is written, and its job is committed while the line is synced, so that a crash of the
//! master never loses the line, and only a loss of power within these milliseconds can. Root's orders are carried out also
//! when no line can be written: the next line that can be says how many are missing before it.
//!
//! | module | has |
//! |---|---|
//! | `file` | the file: appends, syncs, rotates, and reads the last lines |
//! | `record` | what a line says |
//! | `suppressed_lines` | counts the decisions that have no line, by principal |
//! | `threads` | writes what is queued, and syncs it while more is written |

mod file;
mod record;
mod suppressed_lines;
#[cfg(test)]
mod tests;
mod threads;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_protocol::transport::{Clock, Context};
use tokio::sync::oneshot;

pub(crate) use file::{AuditFile, explain};
pub(crate) use record::{Details, Outcome, Record};
use suppressed_lines::{MAX_PRINCIPALS, SuppressedLines};

use crate::bounds::{Rate, TokenBuckets};
use crate::disk::thread::Thread;
use crate::settings::LiveSettings;

use threads::Line;

/// How many refusals of one principal, and orders of it that reach no minion, are lines of their own. What is above is counted
/// in the next line of that principal.
const WITHOUT_EFFECT: Rate = Rate {
    per_second: 1.0,
    burst: 20.0,
};

/// A line cannot be written, for this reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the audit file cannot be written: {0}")]
pub(crate) struct AuditError(pub(crate) String);

/// The audit file, to which a thread of its own writes. Clones share it; when the last one goes, what is queued is
/// written and synced.
#[derive(Debug, Clone)]
pub(crate) struct Audit(Arc<AuditState>);

struct AuditState {
    writer: Thread<Line>,
    clock: Clock,
    path: PathBuf,
    context: Context,
    without_effect: TokenBuckets<String>,
    suppressed: Arc<Mutex<SuppressedLines>>,
}

impl std::fmt::Debug for AuditState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditState")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A line on its way to the disk.
#[derive(Debug)]
pub(crate) struct Pending {
    written: oneshot::Receiver<Result<(), AuditError>>,
    synced: oneshot::Receiver<Result<(), AuditError>>,
}

impl Pending {
    /// Waits until the line is in the file, where a crash of the master does not lose it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) async fn written(&mut self) -> Result<(), AuditError> {
        (&mut self.written).await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Waits until the line is on the disk.
    ///
    /// # Errors
    /// When it cannot be written or synced.
    pub(crate) async fn synced(self) -> Result<(), AuditError> {
        self.synced.await.unwrap_or_else(|_| Err(stopped()))
    }
}

fn stopped() -> AuditError {
    AuditError("the master stops".to_owned())
}

impl Audit {
    /// Starts the threads that write to the file, which is opened with the first line.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub(crate) fn start(
        path: PathBuf,
        settings: LiveSettings,
        context: &Context,
    ) -> io::Result<Self> {
        let suppressed = Arc::default();
        Ok(Self(Arc::new(AuditState {
            writer: threads::start(path.clone(), settings, Arc::clone(&suppressed))?,
            clock: context.clock,
            path,
            context: context.clone(),
            without_effect: TokenBuckets::new(context.clock, WITHOUT_EFFECT, MAX_PRINCIPALS),
            suppressed,
        })))
    }

    /// Queues the line of a decision. Returns none for one without an effect that is only counted, since the same principal
    /// had too many.
    ///
    /// # Cancel safety
    /// When the future is dropped the line was queued or it was not.
    pub(crate) async fn append(&self, record: Record<'_>) -> Option<Pending> {
        if record.has_no_effect() && !self.0.without_effect.allows(&record.principal) {
            self.suppressed().add(record.principal, 1);
            return None;
        }
        let suppressed = self.suppressed().take(&record.principal);
        let entries = record.entries(self.0.clock.wall(), suppressed);
        let (written, is_written) = oneshot::channel();
        let (synced, is_synced) = oneshot::channel();
        let line = Line {
            entries,
            suppressed,
            goes_on_without: record.goes_on_without,
            principal: record.principal,
            written,
            synced,
        };
        // If the thread has ended, whoever waits is told.
        let _ = self.0.writer.send(line).await;
        Some(Pending {
            written: is_written,
            synced: is_synced,
        })
    }

    fn suppressed(&self) -> MutexGuard<'_, SuppressedLines> {
        let suppressed = self.0.suppressed.lock();
        suppressed.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last lines of the file, the oldest first.
    ///
    /// # Errors
    /// When it cannot be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub(crate) async fn tail(&self, most: usize) -> Result<Vec<String>, String> {
        let path = self.0.path.clone();
        let read = move || file::tail(&path, most).map_err(|error| file::explain(&path, &error));
        let reading = self.0.context.spawn_blocking(read);
        reading.await.map_err(|error| error.to_string())?
    }
}
