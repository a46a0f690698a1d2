//! The master daemon as a library: [`run()`] is the whole of a `saline-master`'s main.
//!
//! | module | does |
//! |---|---|
//! | [`server`] | starts and stops the other parts |
//! | `parts` | holds what the parts share, and gives each part the pieces that it needs |
//! | `settings` | the settings that change when the configuration is read again |
//! | [`clock`] | the master's time, which never goes back |
//! | `access_folder` | lets users of the machine reach the access socket |
//! | `audit` | writes the audit file: a line for every order |
//! | [`authorize`] | decides who may do what |
//! | `decisions` | asks `authorize` about an order, and has the line of the decision in the audit file first |
//! | [`listener`] | decrypts requests and dispatches them; handshakes, polls |
//! | [`verbs`] | carries out requests, one type for each audience |
//! | [`orders`] | publishes and cancels jobs, and finds the minions of a target, for verbs and runners alike |
//! | [`peers`] | decides which peers are let in, tells who is here, and ends what a removed key had |
//! | [`sessions`] | keeps the table of sessions, which is presence |
//! | `logins` | logs users in with names and passwords, and keeps who is logged in |
//! | [`keys`] | stores the keys of minions and operators |
//! | [`jobs`] | stores jobs, the states of minions in them, and returns |
//! | `disk` | has the files of the stores, and the threads that own them |
//! | `jid` | makes jids, and reads the time from one |
//! | `batch_scheduler` | gives the minions of batches their turns |
//! | [`runners`] | carries out the functions that run on the master |
//! | [`facts`] | tells what root says of minions from what they say of themselves, and judges targets by it |
//! | [`grains`] | keeps the grains that minions reported |
//! | `functions` | keeps the functions that minions reported |
//! | `mine` | keeps what minions leave for other minions, and gives it out |
//! | `pillar` | compiles the pillars of minions, and gives each its own |
//! | `reactions` | knows which files react to which events, and renders them |
//! | `reactor` | reads events, and carries out what such files order |
//! | [`publisher`] | seals and numbers the publications to minions |
//! | `events` | fires the events of the local bus |
//! | `returners` | delivers what is stored to destinations outside of the master |
//! | `check` | finds out whether a master can start: `--check` |
//! | `health` | checks a running master: `--health`, and the service manager's watchdog |
//! | `metrics` | reads what the parts hold and count: `metrics_listen`, and the report on SIGUSR1 |
//! | `disk_figures` | asks the disk what it alone knows, for `health` and `metrics` |
//! | `bounds` | bounds what sources and minions may ask for: an account for each minion, and places that sources share |
//! | [`maintenance`] | expires offers, forgets silent sessions, writes grains, prunes old jobs |

mod absent_paths;
mod access_folder;
mod audit;
pub mod authorize;
mod batch_scheduler;
mod bounds;
mod check;
pub mod clock;
mod decisions;
mod disk;
mod disk_figures;
mod error;
mod events;
pub mod facts;
mod fileserver;
mod functions;
pub mod grains;
mod health;
mod jid;
mod job_signer;
pub mod jobs;
pub mod keys;
pub mod listener;
mod logins;
pub mod maintenance;
mod metrics;
mod mine;
pub mod orders;
mod parts;
pub mod peers;
mod pillar;
mod programs;
pub mod publisher;
mod reactions;
mod reactor;
mod returners;
mod room;
mod run;
pub mod runners;
mod schedule;
pub mod server;
pub mod sessions;
mod settings;
mod stores;
pub mod verbs;
mod wire_time;

pub use error::MasterError;
pub use run::{command_line, run, run_with};
pub use server::Master;
