//! Salt's LocalClient: run a function on minions and follow its returns.
//!
//! ```no_run
//! # async fn example(registry: saline_protocol::transport::Registry) -> Result<(), Box<dyn std::error::Error>> {
//! use saline_client::{Client, JobSpec, Progress};
//! use saline_config::MasterConfig;
//!
//! let client = Client::connect(&MasterConfig::default(), &registry).await?;
//! let mut run = client.run(JobSpec::glob("*", "test.ping")?).await?;
//! while let Some(progress) = run.next().await? {
//!     match progress {
//!         Progress::Returned(answer) => println!("{}: {:?}", answer.minion, answer.value),
//!         Progress::Absent(absent) => println!("{}: {}", absent.name, absent.absence.name()),
//!         _ => {}
//!     }
//! }
//! client.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! Embedding programs need this crate, which has the values, targets and messages that its methods take and return as [`data`],
//! [`targeting`], [`messages`] and [`transport`], and `saline-config` for the configuration.

mod acting;
mod client;
mod credentials;
mod error;
mod event_polls;
mod events;
mod job;
mod job_call;
mod job_follower;
mod job_progress;
mod master;
mod master_absence;
mod minion_progress;
mod operator_session;
mod progress;
mod runner;
mod secret_arguments;
mod store_polls;

pub use client::Client;
pub use error::ClientError;
pub use events::{BusEvent, EventFilter, Events};
pub use job::JobSpec;
pub use job_call::{JobCall, ParametersOf, SecretsOfSeveral};
pub use job_follower::JobFollower;
pub use progress::{Absence, Absent, Contact, MinionReturn, Progress};
pub use runner::{RunnerRun, RunnerSpec};
pub use saline_protocol::transport;
pub use secret_arguments::SecretArguments;
pub use {saline_data as data, saline_messages as messages, saline_targeting as targeting};
