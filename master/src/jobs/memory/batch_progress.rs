//! What the batches under way tell of themselves.

use saline_messages::{Batch, BatchEvent, Jid, MasterTime, MinionId, MinionJobState};

/// How far a batch has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchProgress {
    /// The id of the batch's job.
    pub jid: Jid,
    /// The settings of the batch.
    pub batch: Batch,
    /// The number of its minions.
    pub minions: u64,
    /// The number of minions whose turn has not come.
    pub waiting: u64,
    /// The number of minions that hold a slot: they have got their turn, and have not ended.
    pub active: u64,
    /// The number of minions that have ended.
    pub ended: u64,
    /// The reason why no further minion gets its turn; none while minions get theirs.
    pub stopped: Option<BatchStop>,
}

/// The reason why no further minion of a batch gets its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchStop {
    /// A minion failed, and the batch was published with `--failhard`.
    Halted,
    /// An operator cancelled the job.
    Cancelled,
}

/// The outcome of a step of all batches.
#[derive(Debug, Default)]
pub struct BatchStep {
    /// The minions that have got their turn, by job. The caller publishes the job to them.
    pub turns: Vec<(Jid, Vec<MinionId>)>,
    /// The minions whose turn does not come, with their states.
    pub settled: Vec<(Jid, MinionId, MinionJobState)>,
    /// The events of batches that the caller fires, in their order.
    pub reports: Vec<BatchReport>,
    /// When the next step is due, if nothing changes.
    pub next: Option<MasterTime>,
}

/// An event of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchReport {
    /// The kind of the event.
    pub event: BatchEvent,
    /// How far the batch has come.
    pub progress: BatchProgress,
    /// The minion whose failure has halted the batch.
    pub failed: Option<MinionId>,
}
