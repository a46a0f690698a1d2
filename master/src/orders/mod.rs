//! Orders, whoever gives them: publishing a job, cancelling or withdrawing it, changing keys, and the minions that an order is about.
//! Verbs and runners give their orders here.

mod batch_choice;
mod cancel;
mod error;
mod identity_change;
mod key_order;
mod publish;
mod target_resolver;
mod unknown_functions;

pub use cancel::CancelOrder;
pub use error::OrderError;
pub(crate) use identity_change::withdraw_unfollowed;
pub use key_order::KeyOrder;
pub use publish::PublishOrder;
pub use target_resolver::{ResolveError, ResolvedTarget, TargetResolver, resolve_among};
