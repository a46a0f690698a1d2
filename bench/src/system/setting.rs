//! The system that is measured, and the ping of most measurements.

use std::time::Duration;

use saline_client::{Client, JobSpec, Progress};

use super::arguments::Only;
use crate::Result;
use crate::fleet::FleetOptions;
use crate::row::Row;
use crate::swarm::options::SwarmOptions;

/// The longest time that a job may take on a busy machine.
pub(super) const JOB_TIMEOUT: Duration = Duration::from_secs(120);

/// One system that is measured.
pub(super) struct Setting<'a> {
    pub(super) transport: &'a str,
    pub(super) minions: usize,
    pub(super) seconds: f64,
    pub(super) repeat: usize,
    /// The size of a large return in bytes.
    pub(super) large: u64,
    /// How long the idle system is watched, in seconds.
    pub(super) idle: f64,
    /// What is measured beside the start.
    pub(super) only: Option<Only>,
    /// The servers of NATS, where that is the transport.
    pub(super) nats_servers: usize,
    /// How the minions run.
    pub(super) swarm: SwarmOptions,
    /// The time between two heartbeats of a minion, in seconds.
    pub(super) heartbeat: f64,
}

impl Setting<'_> {
    /// Returns the fleet of this system.
    pub(super) fn fleet(&self) -> FleetOptions<'_> {
        FleetOptions {
            transport: self.transport,
            minions: self.minions,
            heartbeat: self.heartbeat,
            nats_servers: self.nats_servers,
            swarm: self.swarm,
            master: "",
        }
    }

    pub(super) fn row(&self, bench: &'static str, unit: &'static str, samples: Vec<f64>) -> Row {
        Row::new(bench, (self.transport, self.minions), unit, samples)
    }

    pub(super) fn run(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// Runs `test.ping` on `glob` through `client`, and returns how many minions returned.
pub(super) async fn ping(client: &Client, glob: &str) -> Result<usize> {
    let spec = JobSpec::glob(glob, "test.ping")?.with_timeout(Some(JOB_TIMEOUT));
    let mut run = client.run(spec).await?;
    let mut returned = 0;
    while let Some(progress) = run.next().await? {
        match progress {
            Progress::Returned(_) => returned += 1,
            Progress::Absent(absent) => {
                return Err(format!("{}: {}", absent.name, absent.absence.name()).into());
            }
            // `HeldUp` is followed by a return or an absence of each minion.
            _ => {}
        }
    }
    Ok(returned)
}
