//! What functions may use of the minion that they run on.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::executor::{Running, Stop};
use crate::grains::GrainStore;
use crate::modules::Modules;

/// What functions may use of the minion that they run on.
#[derive(Debug)]
pub struct Host {
    /// What the minion knows about its machine.
    pub grains: GrainStore,
    /// What can be run.
    pub modules: Modules,
    /// What runs now.
    pub running: Running,
    /// Tells functions that the minion stops.
    pub stop: Stop,
    /// `cachedir`: outputs that are too large to be sent are left here.
    pub cache_dir: PathBuf,
    limit: AtomicUsize,
}

/// What a return holds beside its payload and its arguments, generously.
const BESIDE_PAYLOAD: usize = 1024;

impl Host {
    /// With messages of at most `max_message` bytes.
    pub fn new(
        grains: GrainStore,
        modules: Modules,
        stop: Stop,
        cache_dir: PathBuf,
        max_message: usize,
    ) -> Self {
        Self {
            grains,
            modules,
            running: Running::default(),
            stop,
            cache_dir,
            limit: AtomicUsize::new(max_message),
        }
    }

    /// The largest message that can be sent, in bytes.
    pub fn max_message(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// The master takes messages of at most that size.
    pub fn set_max_message(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// The largest payload of a return, in bytes.
    pub fn max_payload(&self) -> usize {
        self.max_message().saturating_sub(BESIDE_PAYLOAD)
    }
}
