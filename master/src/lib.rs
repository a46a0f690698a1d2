//! The master daemon as a library: [`run()`] is the whole of a `saline-master`'s main.
//!
//! | module | does |
//! |---|---|
//! | [`server`] | starts and stops the other parts |
//! | `state` | holds what the parts share, and gives each part the pieces that it needs |
//! | [`gate`] | decrypts requests and dispatches them |
//! | [`admission`] | decides which peers are let in |
//! | [`verbs`] | carries out requests, one type for each audience |
//! | [`keys`] | stores the keys of minions and operators |
//! | `key_watch` | notices keys that were removed or replaced by hand |
//! | `revocation` | ends what a minion had whose key was removed or replaced |
//! | [`sessions`] | keeps the table of sessions, which is presence |
//! | [`jobs`] | stores jobs, the states of minions in them, and returns |
//! | `batch_runner` | gives the minions of batches their turns |
//! | [`grains`] | keeps the grains that minions reported |
//! | [`target_resolver`] | finds the minions that a target includes |
//! | [`partial_returns`] | holds large returns until all of their parts are there |
//! | `presence_reporter` | tells who came and who is gone |
//! | [`master_clock`] | the master's time, which never goes back |
//! | [`publisher`] | seals and numbers the publications to minions |
//! | `events` | fires the events of the local bus |
//! | [`report_limiter`] | limits the events that unaccepted minions cause |
//! | `token_bucket` | counts what a source or a minion may still ask for |
//! | [`maintenance`] | expires offers, forgets silent sessions, writes grains, prunes old jobs |

pub mod admission;
mod batch_runner;
mod error;
mod events;
pub mod gate;
pub mod grains;
pub mod jobs;
mod key_watch;
pub mod keys;
pub mod maintenance;
pub mod master_clock;
pub mod partial_returns;
mod presence_reporter;
pub mod publisher;
pub mod report_limiter;
mod revocation;
mod run;
pub mod server;
pub mod sessions;
mod state;
pub mod target_resolver;
mod token_bucket;
pub mod verbs;
mod wire_time;

pub use error::MasterError;
pub use run::run;
pub use server::Master;
