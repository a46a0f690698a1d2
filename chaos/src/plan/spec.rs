//! What a plan depends on.

use std::time::Duration;

use super::FaultKind;
use crate::sabotage::Sabotage;

/// What a plan depends on.
#[derive(Debug, Clone)]
pub(crate) struct PlanSpec {
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    pub(crate) minions: usize,
    pub(crate) sabotage: Option<Sabotage>,
    /// Whether there are servers of NATS, to which faults are done too.
    pub(crate) with_nodes: bool,
    /// The kinds of faults; all of them when it is empty.
    pub(crate) only: Vec<FaultKind>,
}
