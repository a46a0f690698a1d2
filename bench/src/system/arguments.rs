//! The command line of `saline-bench system`.

use std::path::PathBuf;

use saline_protocol::transport::Registry;

use crate::Result;
use crate::swarm::options::SwarmOptions;

/// A measurement that is made alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Only {
    /// What the system needs while nothing happens
    Idle,
    /// The command line's test.ping on all minions
    Pings,
    /// The time until all are back after the master was killed
    Recovery,
}

/// The arguments of `system`.
#[derive(Debug, clap::Args)]
pub(crate) struct SystemArguments {
    /// Write a JSON object a line to FILE
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// How many minions
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,100,1000"
    )]
    pub(super) minions: Vec<usize>,
    /// Over which transports
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "tcp"
    )]
    pub(super) transport: Vec<String>,
    /// How long jobs are counted
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    pub(super) seconds: f64,
    /// How often what is measured one by one is repeated
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(super) repeat: usize,
    /// How long the system is watched while nothing happens
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    pub(super) idle: f64,
    /// Measure only this after the start of all minions
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(super) only: Option<Only>,
    /// The servers of NATS in the cluster between master and minions, where the transport is nats
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) nats_servers: usize,
    #[command(flatten)]
    pub(super) swarm: SwarmOptions,
    /// How often minions send a heartbeat
    #[arg(long, value_name = "S", default_value_t = 15.0)]
    pub(super) heartbeat: f64,
    /// How much a minion returns while another one is pinged
    #[arg(long, value_name = "BYTES", default_value_t = 64_000_000)]
    pub(super) large: u64,
}

impl SystemArguments {
    /// Checks that the arguments make sense.
    ///
    /// # Errors
    /// When a transport is not built in, or a number makes no sense.
    pub(super) fn check(&self, registry: &Registry) -> Result<()> {
        for transport in &self.transport {
            registry.get(transport)?;
        }
        if self.minions.contains(&0) || self.repeat == 0 || self.nats_servers == 0 {
            return Err("every number is at least 1".into());
        }
        self.swarm.check()?;
        if !(0.01..=600.0).contains(&self.seconds) {
            return Err("--seconds is from 0.01 to 600".into());
        }
        if !(1.0..=600.0).contains(&self.idle) || !(0.1..=600.0).contains(&self.heartbeat) {
            return Err("--idle is from 1 to 600, and --heartbeat from 0.1 to 600".into());
        }
        Ok(())
    }
}
