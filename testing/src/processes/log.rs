//! The log of a process, as it is written.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running; nothing here sleeps"
)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::TIMEOUT;

/// The lines that a process has printed so far.
#[derive(Debug, Default)]
pub struct Log {
    state: Mutex<LogState>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct LogState {
    lines: Vec<String>,
    has_ended: bool,
}

impl Log {
    /// Collects the lines of a stream on a thread, which ends with the stream.
    pub fn follow(stream: impl Read + Send + 'static) -> Arc<Self> {
        Self::collect(stream, None)
    }

    /// The same, and copies the lines into a file.
    pub fn copy(stream: impl Read + Send + 'static, file: File) -> Arc<Self> {
        Self::collect(stream, Some(file))
    }

    fn collect(stream: impl Read + Send + 'static, mut file: Option<File>) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let sink = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if let Some(file) = &mut file {
                    // A full disk costs the copy, not the process.
                    let _ = writeln!(file, "{line}");
                }
                sink.state().lines.push(line);
                sink.grown.notify_all();
            }
            sink.state().has_ended = true;
            sink.grown.notify_all();
        });
        log
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `count` lines contain `needle`, and returns the last of them.
    ///
    /// # Errors
    /// The log so far, when it ends before they come, or `time` is over.
    pub fn find(&self, needle: &str, count: usize, time: Duration) -> Result<String, String> {
        let deadline = Instant::now() + time;
        let mut state = self.state();
        loop {
            let mut found = state.lines.iter().filter(|line| line.contains(needle));
            if let Some(line) = found.nth(count.saturating_sub(1)) {
                return Ok(line.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.has_ended || left.is_zero() {
                return Err(state.lines.join("\n"));
            }
            let waited = self.grown.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits as [`find`](Self::find) does.
    ///
    /// # Panics
    /// When the lines do not come within [`TIMEOUT`].
    #[track_caller]
    pub fn wait_for(&self, needle: &str, count: usize) -> String {
        self.find(needle, count, TIMEOUT).unwrap_or_else(|log| {
            panic!("waited in vain for {count} lines with {needle:?}; the log:\n{log}")
        })
    }

    /// Waits until the process, and all to whom it gave its stream, have closed it.
    ///
    /// # Panics
    /// When that takes longer than [`TIMEOUT`].
    #[track_caller]
    pub fn wait_for_end(&self) {
        let state = self.state();
        let goes_on = |state: &mut LogState| !state.has_ended;
        let waited = self.grown.wait_timeout_while(state, TIMEOUT, goes_on);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let log = state.lines.join("\n");
        assert!(
            state.has_ended,
            "the log goes on after its process; it:\n{log}"
        );
    }

    /// Returns how many lines contain `needle` now.
    pub fn count(&self, needle: &str) -> usize {
        let state = self.state();
        let found = state.lines.iter().filter(|line| line.contains(needle));
        found.count()
    }

    /// Returns the log so far.
    pub fn text(&self) -> String {
        self.state().lines.join("\n")
    }
}
