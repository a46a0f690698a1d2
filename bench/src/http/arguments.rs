//! The command line of `saline-bench http`.

use std::path::PathBuf;

use saline_protocol::transport::Registry;

use crate::Result;

/// The most logins in each of two ways: the master takes 100 logins of an API at once, and a few a second from then on.
const MAX_LOGINS: usize = 45;

/// The most jobs for each login: a user may start 200 at once, and some have two logins.
const JOBS_OF_LOGIN: usize = 90;

/// The most listeners: an API has 768 at once.
const MAX_LISTENERS: usize = 700;

/// The arguments of `http`.
#[derive(Debug, clap::Args)]
pub(crate) struct HttpArguments {
    /// Write a JSON object a line to FILE
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// The transport between the minion and its master
    #[arg(long, value_name = "NAME", default_value = "tcp")]
    pub(super) transport: String,
    /// How many users log in, each in two ways
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(super) logins: usize,
    /// How many jobs are started, through the API and without it
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(super) jobs: usize,
    /// How many listeners of /events there are
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,500"
    )]
    pub(super) listeners: Vec<usize>,
    /// How many events are delivered to all listeners together
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(super) deliveries: usize,
    /// How often jobs and events are repeated
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(super) repeat: usize,
}

impl HttpArguments {
    /// Checks that the arguments make sense.
    ///
    /// # Errors
    /// When a transport is not built in, or a number makes no sense.
    pub(super) fn check(&self, registry: &Registry) -> Result<()> {
        registry.get(&self.transport)?;
        if !(1..=MAX_LOGINS).contains(&self.logins) {
            return Err(format!("--logins is from 1 to {MAX_LOGINS}").into());
        }
        let jobs = self.logins * 2 * JOBS_OF_LOGIN;
        if self.repeat == 0 || self.jobs == 0 || self.jobs.saturating_mul(self.repeat) > jobs {
            return Err(format!(
                "--jobs times --repeat is from 1 to {jobs} for the users of --logins {}",
                self.logins
            )
            .into());
        }
        let listeners = |listeners: &usize| (1..=MAX_LISTENERS).contains(listeners);
        if !self.listeners.iter().all(listeners) || self.deliveries == 0 {
            return Err(format!(
                "--listeners is from 1 to {MAX_LISTENERS}, and --deliveries at least 1"
            )
            .into());
        }
        Ok(())
    }
}
