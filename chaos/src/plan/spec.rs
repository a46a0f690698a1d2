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
    /// The kinds of faults; all of them when it is empty.
    pub(crate) only: Vec<FaultKind>,
}
