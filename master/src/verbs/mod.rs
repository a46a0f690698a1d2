//! Carries out requests: one type for each audience, with the pieces of the master that it needs.

mod batch_choice;
mod caller;
mod cancel;
mod event_budget;
mod heartbeat;
mod key_holders;
mod key_verbs;
mod minion;
mod operator;
mod publish;
mod queries;
mod reconciliation_budget;
mod runner;
mod store;
mod target_queries;

pub(crate) use batch_choice::SafeBatch;
pub use caller::CallerVerbs;
pub use cancel::CancelVerb;
pub(crate) use event_budget::EventBudget;
pub use event_budget::EventRates;
pub use key_holders::KeyHolderQueries;
pub use key_verbs::KeyVerbs;
pub use minion::MinionVerbs;
pub use operator::OperatorVerbs;
pub(crate) use publish::PublishOptions;
pub use publish::PublishVerb;
pub use queries::JobQueries;
pub(crate) use reconciliation_budget::ReconciliationBudget;
pub use runner::RunnerVerb;
pub use store::StoreVerbs;
pub use target_queries::TargetQueries;
