//! How the minions of a swarm run, which the command lines of `saline-bench system` and `saline-swarm` both say.

use std::time::Duration;

use clap::Args;
use saline_config::MinionConfig;

use crate::Result;

/// The default of `keepalive_interval`, in seconds.
const KEEPALIVE: u64 = 5;

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SwarmOptions {
    /// How many minions begin in a second; all at once otherwise
    #[arg(long, value_name = "N")]
    pub(crate) start_rate: Option<f64>,
    /// Sync the spools of the minions to the disk, as `spool_sync: always` does
    #[arg(long)]
    sync_spools: bool,
    /// The longest time for which an end of a connection says nothing, as `keepalive_interval`
    #[arg(long, value_name = "S", default_value_t = KEEPALIVE)]
    pub(crate) keepalive: u64,
}

impl Default for SwarmOptions {
    /// Returns what the command line has where it says nothing.
    fn default() -> Self {
        Self {
            start_rate: None,
            sync_spools: false,
            keepalive: KEEPALIVE,
        }
    }
}

impl SwarmOptions {
    /// Checks that the numbers make sense.
    ///
    /// # Errors
    /// When one is too small or too large.
    pub(crate) fn check(&self) -> Result<()> {
        match self.start_rate {
            Some(rate) if !(0.01..=1e6).contains(&rate) => {
                Err("--start-rate is from 0.01 to 1000000".into())
            }
            _ if !(1..=300).contains(&self.keepalive) => Err("--keepalive is from 1 to 300".into()),
            _ => Ok(()),
        }
    }

    /// Returns these options as arguments of `saline-swarm`.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![format!("--keepalive={}", self.keepalive)];
        arguments.extend(self.start_rate.map(|rate| format!("--start-rate={rate}")));
        if self.sync_spools {
            arguments.push("--sync-spools".to_owned());
        }
        arguments
    }

    /// Sets what a minion's configuration says of them.
    pub(super) fn configure(&self, config: &mut MinionConfig) {
        config.spool_sync_always = self.sync_spools;
        config.keepalive_interval = Duration::from_secs(self.keepalive);
    }
}
