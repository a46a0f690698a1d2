//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::plan::FaultKind;
use crate::sabotage::Sabotage;

/// Injects seeded faults into a master and minions that run as real processes, and checks the books
///
/// The same seed, duration and number of minions give the same plan of jobs and faults. Exits with 1
/// when a book does not balance, and with 2 when the run could not be carried out.
#[derive(Debug, Clone, Parser)]
#[command(name = "saline-chaos", version)]
pub(crate) struct Arguments {
    /// The transport between master and minions
    #[arg(long, value_enum)]
    pub(crate) transport: Transport,
    /// How many minutes faults are injected
    #[arg(long, value_name = "M", default_value_t = 1.0, value_parser = positive)]
    minutes: f64,
    /// How many seconds faults are injected, instead of minutes
    #[arg(long, value_name = "S", conflicts_with = "minutes", value_parser = positive)]
    seconds: Option<f64>,
    /// The seed of the plan; without it one is drawn and printed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How many minions
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=50))]
    pub(crate) minions: u16,
    /// How often minions send a heartbeat, in seconds; connections are pinged every 5
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = positive)]
    heartbeat: f64,
    /// Write the faults, the ledger and the verdicts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Make the daemons break this promise, to see that it is noticed
    #[arg(long, value_enum)]
    pub(crate) sabotage: Option<Sabotage>,
    /// Inject only these faults
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULT")]
    pub(crate) only: Vec<FaultKind>,
    /// Print the plan, and start nothing
    #[arg(long)]
    pub(crate) show_plan: bool,
    /// Keep the folder with configurations, logs, ledgers and stores
    #[arg(long)]
    pub(crate) keep: bool,
}

impl Arguments {
    /// Returns how long faults are injected.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.unwrap_or(self.minutes * 60.0))
    }

    /// Returns how often minions send a heartbeat.
    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_secs_f64(self.heartbeat)
    }
}

/// A transport between master and minions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    Tcp,
    Quic,
    Zeromq,
    Nats,
}

impl Transport {
    /// Returns the name that the configuration has for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
            Self::Zeromq => "zeromq",
            Self::Nats => "nats",
        }
    }

    /// Returns how long a minion that is left alone may take to be back. Where nobody tells a peer that
    /// its connection has ended, that is two link pings (10 s), an attempt that was under way (5 s), the
    /// longest pause before the next (1 s). Over NATS the master's connection to its server and then the minion's may each
    /// have an attempt under way. A heartbeat comes on top.
    pub(crate) fn return_bound(self) -> Duration {
        match self {
            Self::Tcp => Duration::from_secs(7),
            Self::Quic | Self::Zeromq => Duration::from_secs(16),
            Self::Nats => Duration::from_secs(22),
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && number <= 100_000.0 => Ok(number),
        _ => Err(format!("{text:?} is not a positive number")),
    }
}
