//! What is known of minions, and who says it: root, or the minions themselves.
//!
//! A function that decides about secrets takes [`IncludedBy<Trusted>`](IncludedBy), or the [`Trusted`] facts of one minion.

mod reader;
mod target_verdict;
mod trusted;

pub(crate) use reader::{FactsError, FactsReader};
pub(crate) use target_verdict::TargetVerdict;
pub use target_verdict::{IncludedBy, IncludedMinions, KnownMinion, PillarVerdict};
pub use trusted::{Claimed, Trusted};
