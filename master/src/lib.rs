//! The master daemon as a library: [`run()`] is the whole of a `saline-master`'s main.
//!
//! | module | does |
//! |---|---|
//! | [`server`] | starts and stops the other parts |
//! | `state` | holds what the parts share, and gives each part the pieces that it needs |
//! | [`gate`] | decrypts requests and dispatches them |
//! | `ended_connections` | cuts the connections whose sessions have ended |
//! | [`admission`] | decides which peers are let in |
//! | [`verbs`] | carries out requests, one type for each audience |
//! | [`keys`] | stores the keys of minions and operators |
//! | `key_watch` | notices keys that were removed or replaced by hand |
//! | `revocation` | ends what a minion had whose key was removed or replaced |
//! | [`sessions`] | keeps the table of sessions, which is presence |
//! | [`jobs`] | stores jobs, the states of minions in them, and returns |
//! | [`runners`] | carries out the functions that run on the master |
//! | `batch_scheduler` | gives the minions of batches their turns |
//! | [`grains`] | keeps the grains that minions reported |
//! | [`target_resolver`] | finds the minions that a target includes |
//! | [`partial_returns`] | holds large returns until all of their parts are there |
//! | `presence_reporter` | tells who came and who is gone |
//! | [`master_clock`] | the master's time, which never goes back |
//! | [`publisher`] | seals and numbers the publications to minions |
//! | `events` | fires the events of the local bus |
//! | [`report_limiter`] | limits the events that unaccepted minions cause |
//! | `token_bucket` | counts what a source or a minion may still ask for |
//! | `denied_peers` | remembers where denied keys came from |
//! | `key_warnings` | bounds the warnings about keys of strangers |
//! | `waiting_polls` | holds the polls of minions whose keys wait for an operator |
//! | `live_settings` | the settings that change when the configuration is read again |
//! | [`maintenance`] | expires offers, forgets silent sessions, writes grains, prunes old jobs |

pub mod admission;
mod batch_scheduler;
mod denied_peers;
mod ended_connections;
mod error;
mod events;
pub mod gate;
pub mod grains;
pub mod jobs;
mod key_warnings;
mod key_watch;
pub mod keys;
mod live_settings;
pub mod maintenance;
pub mod master_clock;
pub mod partial_returns;
mod presence_reporter;
pub mod publisher;
pub mod report_limiter;
mod revocation;
mod run;
pub mod runners;
pub mod server;
pub mod sessions;
mod state;
pub mod target_resolver;
mod token_bucket;
pub mod verbs;
mod waiting_polls;
mod wire_time;

pub use error::MasterError;
pub use run::run;
pub use server::Master;
