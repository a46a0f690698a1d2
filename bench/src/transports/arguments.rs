//! The command line of `saline-bench transports`.

use std::path::PathBuf;

use saline_protocol::transport::Registry;

use crate::Result;
use crate::transports::plan::{Plan, Work};

/// The arguments of `transports`.
#[derive(Debug, clap::Args)]
pub(crate) struct TransportsArguments {
    /// Write a JSON object a line to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Only this transport (may be repeated); all that are built in otherwise
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Vec<String>,
    /// Only this work: requests or fan_out
    #[arg(long, value_name = "WORK", value_parser = ["requests", "fan_out"])]
    pub(crate) only: Option<String>,
    /// Payload sizes
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "64,1024"
    )]
    pub(crate) bytes: Vec<usize>,
    /// Requests outstanding on the one client
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "256")]
    pub(crate) outstanding: Vec<usize>,
    /// Subscribers of a fan-out
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "100,1000"
    )]
    pub(crate) subscribers: Vec<usize>,
    /// How often ours and bare take turns
    #[arg(long, value_name = "N")]
    pub(crate) pairs: Option<usize>,
    /// How long one measurement counts
    #[arg(long, value_name = "S")]
    pub(crate) seconds: Option<f64>,
    /// Threads of the runtime, in each of the two processes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) workers: usize,
    /// Seconds instead of minutes: one pair of 0.2 s each, unless said otherwise
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only our side, to profile it
    #[arg(long)]
    pub(crate) alone: bool,
}

impl TransportsArguments {
    /// Returns the plan of the measurements.
    ///
    /// # Errors
    /// When a transport is not built in, or a number makes no sense.
    pub(crate) fn check(self, registry: &Registry) -> Result<Plan> {
        for name in &self.backend {
            registry.get(name)?;
        }
        let backends = match self.backend.is_empty() {
            true => registry.schemes().map(str::to_owned).collect(),
            false => self.backend,
        };
        let (pairs, seconds) = match self.quick {
            true => (1, 0.2),
            false => (5, 1.0),
        };
        let (pairs, seconds) = (self.pairs.unwrap_or(pairs), self.seconds.unwrap_or(seconds));
        let counts = [&self.bytes, &self.outstanding, &self.subscribers];
        if pairs == 0 || self.workers == 0 || counts.into_iter().flatten().any(|&count| count == 0)
        {
            return Err("every number is at least 1".into());
        }
        if !(0.01..=600.0).contains(&seconds) {
            return Err("--seconds is from 0.01 to 600".into());
        }
        let only = |work: &str| self.only.as_deref().is_none_or(|only| only == work);
        let mut works = Vec::new();
        for &bytes in &self.bytes {
            let requests = self.outstanding.iter().filter(|_| only("requests"));
            works.extend(requests.map(|&outstanding| Work::Requests { outstanding, bytes }));
        }
        for &subscribers in &self.subscribers {
            let sizes = self.bytes.iter().filter(|_| only("fan_out"));
            works.extend(sizes.map(|&bytes| Work::FanOut { subscribers, bytes }));
        }
        Ok(Plan {
            backends,
            works,
            pairs,
            seconds,
            workers: self.workers,
            alone: self.alone,
            json: self.json,
        })
    }
}
