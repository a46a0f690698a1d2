//! What is known of minions, and who says it: root, or the minions themselves.
//!
//! A function that decides about secrets takes [`IncludedBy<Trusted>`](IncludedBy), or the [`Trusted`] facts of one minion.

mod chosen;
mod reader;
mod trusted;

pub(crate) use chosen::TargetVerdict;
pub use chosen::{Chosen, IncludedBy, KnownMinion};
pub(crate) use reader::{FactsError, FactsReader};
pub use trusted::{Claimed, Trusted};
