//! The counters of the file server.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the work of the file server since the master started.
#[derive(Debug, Default)]
pub(crate) struct FileFigures {
    requests: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    hashed: AtomicU64,
    changed: AtomicU64,
}

impl FileFigures {
    pub(super) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_hashed(&self, bytes: u64) {
        self.hashed.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_changed(&self) {
        self.changed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the requests about files.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the bytes of files that were sent to minions.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the bytes of files that minions handed in.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the bytes that were read for hashes.
    pub(crate) fn hashed(&self) -> u64 {
        self.hashed.load(Ordering::Relaxed)
    }

    /// Returns how often a file had changed while it was sent.
    pub(crate) fn changed(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }
}
