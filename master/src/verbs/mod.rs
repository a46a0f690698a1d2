//! Carries out requests: one type for each audience, with the pieces of the master that it needs.

mod call_store;
mod caller;
mod events;
mod heartbeat;
mod last_seen;
mod login_verbs;
mod minion;
mod netapi_clients;
mod operator;
mod queries;
mod runner;
mod target_queries;
mod token_verbs;
mod upload_verbs;

pub(crate) use call_store::CallStore;
pub use caller::CallerVerbs;
pub use events::EventsVerb;
pub use last_seen::LastSeenQueries;
pub use login_verbs::LoginVerbs;
pub use minion::MinionVerbs;
pub use operator::OperatorVerbs;
pub use queries::JobQueries;
pub use runner::RunnerVerb;
pub use target_queries::TargetQueries;
pub use token_verbs::TokenVerbs;
pub use upload_verbs::UploadVerbs;
