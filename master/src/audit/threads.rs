//! Writes the lines that are queued, and syncs them while the next ones are written, so that an order that only needs its
//! line written waits for no sync of others. Each on a thread of its own: a task would change threads twice for each.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::file::{AppendedFile, explain};
use super::suppressed_lines::{Suppressed, SuppressedLines};
use super::{AuditError, AuditFile, record};
use crate::disk::thread::{TaskQueue, Thread};
use crate::settings::LiveSettings;

/// The largest number of lines that are written at once.
const GROUP: usize = 256;

/// The largest number of groups that wait to be synced.
const GROUPS: usize = 16;

/// A line on its way to the disk, and who waits for it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) entries: record::Entries,
    pub(super) principal: String,
    /// The decisions that this line counts.
    pub(super) suppressed: Suppressed,
    /// Whether what it tells of is carried out also without it.
    pub(super) goes_on_without: bool,
    pub(super) written: oneshot::Sender<Result<(), AuditError>>,
    pub(super) synced: oneshot::Sender<Result<(), AuditError>>,
}

/// Lines that were written together, or could not be.
struct Group {
    file: Result<Arc<AppendedFile>, AuditError>,
    waiting: Vec<oneshot::Sender<Result<(), AuditError>>>,
}

/// Starts both threads. They end when what is returned is dropped, after what is queued. What a line counts that cannot be
/// written is added to `suppressed` again.
///
/// # Errors
/// When there can be no more threads.
pub(super) fn start(
    path: PathBuf,
    settings: LiveSettings,
    suppressed: Arc<Mutex<SuppressedLines>>,
) -> io::Result<Thread<Line>> {
    let (to_sync, groups) = sync_channel(GROUPS);
    let synced = path.clone();
    let sync = std::thread::Builder::new()
        .name("saline-synced".to_owned())
        .spawn(move || sync_groups(&synced, &groups))?;
    Thread::start("saline-audit", move |queue| {
        write_lines(path, queue, &settings, &suppressed, to_sync);
        if sync.join().is_err() {
            tracing::error!("the thread that syncs the audit file panicked");
        }
    })
}

/// Writes what is queued: one write for all lines that wait.
fn write_lines(
    path: PathBuf,
    mut queue: TaskQueue<Line>,
    settings: &LiveSettings,
    suppressed: &Mutex<SuppressedLines>,
    to_sync: SyncSender<Group>,
) {
    let mut file = AuditFile::new(path.clone());
    // Lines of what was carried out without them, since the last line.
    let mut missing = 0;
    while let Some(first) = queue.next() {
        let mut lines = vec![first];
        while lines.len() < GROUP
            && let Some(line) = queue.try_next()
        {
            lines.push(line);
        }
        let mut bytes = Vec::new();
        let mut before = missing;
        for line in &mut lines {
            let entries = std::mem::take(&mut line.entries);
            bytes.extend(record::line(entries, std::mem::take(&mut before)));
        }
        let file = file
            .append(&bytes, settings.now().audit_max_bytes)
            .map_err(|error| AuditError(explain(&path, &error)));
        let written = file.as_ref().map(|_| ()).map_err(AuditError::clone);
        missing = match written {
            Ok(()) => 0,
            Err(_) => {
                let mut all = suppressed.lock().unwrap_or_else(PoisonError::into_inner);
                for line in &mut lines {
                    all.put_back(std::mem::take(&mut line.principal), line.suppressed);
                }
                drop(all);
                missing + lines.iter().filter(|line| line.goes_on_without).count() as u64
            }
        };
        let mut waiting = Vec::new();
        for line in lines {
            // Whoever asked may have gone.
            let _ = line.written.send(written.clone());
            waiting.push(line.synced);
        }
        // If the other thread has ended, whoever waits is told.
        let _ = to_sync.send(Group { file, waiting });
    }
}

/// Syncs what is written: one sync for all groups that wait. Logs when it begins to fail, and when that ends.
fn sync_groups(path: &Path, groups: &Receiver<Group>) {
    let mut fails = false;
    while let Ok(first) = groups.recv() {
        let mut written = vec![first];
        for group in groups.try_iter() {
            match (written.last_mut(), &group.file) {
                (
                    Some(Group {
                        file: Ok(file),
                        waiting,
                    }),
                    Ok(same),
                ) if Arc::ptr_eq(file, same) => waiting.extend(group.waiting),
                _ => written.push(group),
            }
        }
        for Group { file, waiting } in written {
            let synced = file.and_then(|file| {
                file.sync()
                    .map_err(|error| AuditError(explain(path, &error)))
            });
            match &synced {
                Err(error) if !fails => tracing::error!(
                    "{error}: orders of operators and of local users are refused until it can be; root's are carried \
                     out without a line"
                ),
                Ok(()) if fails => saline_daemon::notice!("the audit file can be written again"),
                _ => {}
            }
            fails = synced.is_err();
            for line in waiting {
                let _ = line.send(synced.clone());
            }
        }
    }
}
