//! The parts of a minion that its functions may use.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use saline_config::MinionConfig;
use saline_exec::Launcher;

use crate::event_queue::EventQueue;
use crate::grains::GrainStore;
use crate::job::{Running, Stop};
use crate::refused_returns::RefusedReturns;

/// The parts of a minion that its functions may use.
#[derive(Debug)]
pub struct Host {
    /// The facts about the machine.
    pub grains: GrainStore,
    /// The jobs that run now.
    pub running: Running,
    /// The events that wait to be sent to the master.
    pub events: EventQueue,
    /// The jobs that were begun, and the returns that are not stored; none beside a running minion, which
    /// has them.
    pub refused_returns: Option<Arc<dyn RefusedReturns>>,
    /// Interrupts functions when the minion stops.
    pub stop: Stop,
    /// `cachedir`, where outputs that are too large to be sent are stored.
    pub cache_dir: PathBuf,
    /// Starts commands.
    pub launcher: Launcher,
    limit: AtomicUsize,
    output_file_size: AtomicU64,
}

/// An upper bound of the bytes of a return beside its payload and its arguments.
const PAYLOAD_OVERHEAD: usize = 1024;

impl Host {
    /// Creates a host whose messages have at most `max_message` bytes.
    pub fn new(
        grains: GrainStore,
        events: EventQueue,
        refused_returns: Option<Arc<dyn RefusedReturns>>,
        stop: Stop,
        cache_dir: PathBuf,
        launcher: Launcher,
        max_message: usize,
    ) -> Self {
        Self {
            grains,
            events,
            refused_returns,
            running: Running::default(),
            stop,
            cache_dir,
            launcher,
            limit: AtomicUsize::new(max_message),
            output_file_size: AtomicU64::new(MinionConfig::default().output_file_size),
        }
    }

    /// Returns the largest message that can be sent, in bytes.
    pub fn max_message(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the largest message, in bytes.
    pub fn set_max_message(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns the largest file of the output of a command, in bytes.
    pub fn output_file_size(&self) -> u64 {
        self.output_file_size.load(Ordering::Relaxed)
    }

    /// Sets the largest file of the output of a command, in bytes.
    pub fn set_output_file_size(&self, bytes: u64) {
        self.output_file_size.store(bytes, Ordering::Relaxed);
    }

    /// Returns the largest payload of a return, in bytes.
    pub fn max_payload(&self) -> usize {
        self.max_message().saturating_sub(PAYLOAD_OVERHEAD)
    }
}
