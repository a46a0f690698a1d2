//! Carries out requests: one type for each audience, with the pieces of the master that it needs.

mod caller;
mod event_budget;
mod heartbeat;
mod key_verbs;
mod last_seen;
mod minion;
mod operator;
mod queries;
mod reconciliation_budget;
mod runner;
mod target_queries;

pub use caller::CallerVerbs;
pub(crate) use event_budget::EventBudget;
pub use event_budget::EventRates;
pub use key_verbs::KeyVerbs;
pub use last_seen::LastSeenQueries;
pub use minion::MinionVerbs;
pub use operator::OperatorVerbs;
pub use queries::JobQueries;
pub(crate) use reconciliation_budget::ReconciliationBudget;
pub use runner::RunnerVerb;
pub use target_queries::TargetQueries;
