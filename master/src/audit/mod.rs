//! The audit file: a line for every order and every decision about a key, whoever gave it, allowed or refused.
//!
//! It is no part of the log: no level silences it, and a line is on the disk before what it is about is published. An
//! order of somebody who is not local root waits until its line is synced, and is refused if that fails; one of local
//! root waits until the line is written, and its job is committed while the line is synced, so that a crash of the
//! master never loses the line, and only a loss of power within these milliseconds can.
//!
//! | module | has |
//! |---|---|
//! | `file` | the file: appends, syncs, rotates, and reads the last lines |
//! | `record` | what a line says |
//! | `suppressed_lines` | counts the decisions that have no line, by principal |

mod file;
mod record;
mod suppressed_lines;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_protocol::transport::{Clock, Context};
use tokio::sync::{mpsc, oneshot};

pub(crate) use file::AuditFile;
pub(crate) use record::{Outcome, Record};
pub(crate) use suppressed_lines::Suppressed;
use suppressed_lines::SuppressedLines;

use crate::bounds::{Rate, TokenBuckets};
use crate::settings::LiveSettings;

/// The largest number of lines that wait to be written.
const QUEUE: usize = 1024;

/// The largest number of lines that are synced at once.
const GROUP: usize = 256;

/// How many refusals of one principal, and orders of it that reach no minion, are lines of their own. What is above is counted
/// in the next line of that principal.
const WITHOUT_EFFECT: Rate = Rate {
    per_second: 1.0,
    burst: 20.0,
};

/// The largest number of principals that are told apart in this.
const MAX_PRINCIPALS: usize = 1024;

/// A line cannot be written, for this reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the audit file cannot be written: {0}")]
pub(crate) struct AuditError(pub(crate) String);

/// The audit file, to which a task of the master writes. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    queue: mpsc::Sender<Line>,
    shared: Arc<AuditState>,
}

#[derive(Debug)]
struct AuditState {
    clock: Clock,
    path: PathBuf,
    context: Context,
    without_effect: TokenBuckets<String>,
    suppressed: Mutex<SuppressedLines>,
    /// Whether the last group failed, so that it is logged once.
    fails: AtomicBool,
}

#[derive(Debug)]
struct Line {
    bytes: Vec<u8>,
    written: oneshot::Sender<Result<(), AuditError>>,
    synced: oneshot::Sender<Result<(), AuditError>>,
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
    /// Starts the task that writes to the file, which is opened with the first line.
    pub(crate) fn start(path: PathBuf, settings: LiveSettings, context: &Context) -> Self {
        let (queue, lines) = mpsc::channel(QUEUE);
        let shared = Arc::new(AuditState {
            clock: context.clock,
            path: path.clone(),
            context: context.clone(),
            without_effect: TokenBuckets::new(context.clock, WITHOUT_EFFECT, MAX_PRINCIPALS),
            suppressed: Mutex::default(),
            fails: AtomicBool::new(false),
        });
        context.spawn(write_lines(
            AuditFile::new(path),
            lines,
            settings,
            Arc::clone(&shared),
        ));
        Self { queue, shared }
    }

    /// Queues the line of a decision. Returns none for one without an effect that is only counted, since the same principal
    /// had too many.
    ///
    /// # Cancel safety
    /// When the future is dropped the line was queued or it was not.
    pub(crate) async fn append(&self, record: Record<'_>) -> Option<Pending> {
        if record.has_no_effect() && !self.shared.without_effect.allows(&record.principal) {
            self.suppressed().add(record.principal);
            return None;
        }
        let suppressed = self.suppressed().take(&record.principal);
        let bytes = record.line(self.shared.clock.wall(), suppressed);
        let (written, is_written) = oneshot::channel();
        let (synced, is_synced) = oneshot::channel();
        let line = Line {
            bytes,
            written,
            synced,
        };
        // If the task has ended, whoever waits is told.
        let _ = self.queue.send(line).await;
        Some(Pending {
            written: is_written,
            synced: is_synced,
        })
    }

    fn suppressed(&self) -> MutexGuard<'_, SuppressedLines> {
        let suppressed = self.shared.suppressed.lock();
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
        let path = self.shared.path.clone();
        let read = move || file::tail(&path, most).map_err(|error| file::explain(&path, &error));
        let reading = self.shared.context.spawn_blocking(read);
        reading.await.map_err(|error| error.to_string())?
    }
}

/// Writes what is queued, as one group: one write and one sync for all lines that wait.
async fn write_lines(
    file: AuditFile,
    mut lines: mpsc::Receiver<Line>,
    settings: LiveSettings,
    shared: Arc<AuditState>,
) {
    let file = Arc::new(Mutex::new(file));
    let mut group = Vec::new();
    while lines.recv_many(&mut group, GROUP).await > 0 {
        let bytes: Vec<u8> = group.iter().flat_map(|line| line.bytes.clone()).collect();
        let max_bytes = settings.now().audit_max_bytes;
        let written = on_file(&shared, &file, move |file| file.append(&bytes, max_bytes)).await;
        let mut waiting = Vec::new();
        for line in group.drain(..) {
            // Whoever asked may have gone.
            let _ = line.written.send(written.clone());
            waiting.push(line.synced);
        }
        let synced = match written {
            Ok(()) => on_file(&shared, &file, AuditFile::sync).await,
            failed => failed,
        };
        let has_failed = shared.fails.swap(synced.is_err(), Ordering::Relaxed);
        match &synced {
            Err(error) if !has_failed => tracing::error!(
                "{error}: orders of operators and of local users are refused until it can be; root's are carried out \
                 without a line"
            ),
            Ok(()) if has_failed => tracing::warn!("the audit file can be written again"),
            _ => {}
        }
        for line in waiting {
            let _ = line.send(synced.clone());
        }
    }
}

/// Works on the file where that may block.
async fn on_file(
    shared: &AuditState,
    file: &Arc<Mutex<AuditFile>>,
    act: impl FnOnce(&mut AuditFile) -> std::io::Result<()> + Send + 'static,
) -> Result<(), AuditError> {
    let (held, path) = (Arc::clone(file), shared.path.clone());
    let done = shared.context.spawn_blocking(move || {
        let mut file = held.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut file).map_err(|error| AuditError(file::explain(&path, &error)))
    });
    done.await
        .unwrap_or_else(|error| Err(AuditError(error.to_string())))
}
