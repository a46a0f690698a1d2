//! What is ordered, by whomever: publishing a job, cancelling it, and the minions that an order is about. Verbs and
//! runners give their orders here.

mod batch_choice;
mod cancel;
mod decisions;
mod publish;
mod target_resolver;
mod trusted;

pub use cancel::CancelOrder;
pub(crate) use cancel::Cancelled;
pub(crate) use decisions::{Decisions, Details};
pub use publish::PublishOrder;
pub use target_resolver::{ResolveError, ResolvedTarget, TargetResolver, resolve_among};
pub use trusted::{Chosen, Claimed, IncludedBy, Trusted};
