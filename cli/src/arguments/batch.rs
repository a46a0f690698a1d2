//! The options of `saline` about batches.

use std::time::Duration;

use clap::Args;
use saline_messages::{BatchRequest, BatchSize};

use super::target::minions;

/// The options about batches.
#[derive(Debug, Clone, Args)]
pub(crate) struct BatchOptions {
    /// Offer the job to so many minions at a time, or to so many percent of those that match (10, 10%). When one has
    /// ended, the next one is offered it. The master does it: the batch goes on without this command.
    #[arg(
        short = 'b',
        long = "batch-size",
        alias = "batch",
        value_name = "BATCH",
        value_parser = size
    )]
    size: Option<BatchSize>,

    /// With a batch: keep the slot of a minion that has ended free for this time (5, 0.5, 90s, 15m).
    #[arg(long, value_name = "TIME", value_parser = wait)]
    batch_wait: Option<Duration>,

    /// With a batch: a minion that has had its slot for this time (600, 15m) gives it up, so that it cannot hold up the
    /// others. It may go on with the job. Without this option it has the slot until it has ended.
    #[arg(long, value_name = "TIME", value_parser = slot_time)]
    batch_timeout: Option<Duration>,

    /// With a batch: when a minion fails, offer the job to no further one.
    #[arg(long)]
    failhard: bool,

    /// Make the job a batch if at least so many minions match; 0 for never. Default: the master's
    /// batch_safe_limit.
    #[arg(long, value_name = "MINIONS", value_parser = limit)]
    batch_safe_limit: Option<u32>,

    /// The size of such a batch. Default: the master's batch_safe_size.
    #[arg(long, value_name = "MINIONS", value_parser = minions)]
    batch_safe_size: Option<u32>,
}

impl BatchOptions {
    /// Returns what the master is asked for.
    pub(crate) fn request(&self) -> BatchRequest {
        let milliseconds = |time: Option<Duration>| {
            u64::try_from(time.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
        };
        BatchRequest {
            size: self.size,
            wait_ms: milliseconds(self.batch_wait),
            timeout_ms: milliseconds(self.batch_timeout),
            failhard: self.failhard,
            safe_limit: self.batch_safe_limit,
            safe_size: self.batch_safe_size,
        }
    }

    /// Checks that options which guard a batch do not stand alone: without a batch they would guard nothing. The
    /// master makes batches of jobs for at least `safe_limit` minions, if that is not 0.
    ///
    /// # Errors
    /// One line that says what to write instead.
    pub(crate) fn check(&self, safe_limit: u32) -> Result<(), String> {
        let guards = self.failhard || self.batch_wait.is_some() || self.batch_timeout.is_some();
        let safe_limit = self.batch_safe_limit.unwrap_or(safe_limit);
        match guards && self.size.is_none() && safe_limit == 0 {
            true => Err(
                "--failhard, --batch-wait and --batch-timeout are for batches: give -b or --batch-safe-limit too"
                    .to_owned(),
            ),
            false => Ok(()),
        }
    }

    /// Whether `-b` was given.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.size.is_some()
    }
}

/// Reads a number of minions, or a percentage.
fn size(text: &str) -> Result<BatchSize, String> {
    let read = match text.strip_suffix('%') {
        Some(percent) => percent
            .parse()
            .ok()
            .filter(|percent| (1..=100).contains(percent))
            .map(BatchSize::Percent),
        None => text
            .parse()
            .ok()
            .filter(|size| *size > 0)
            .map(BatchSize::Minions),
    };
    read.ok_or_else(|| {
        format!("'{text}' is not a valid size of a batch; write a number such as 10, or 1% to 100%")
    })
}

/// Reads a number of minions, or 0 for never.
fn limit(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is not a valid number of minions, nor 0 for never"))
}

/// Reads a time, which may be zero.
fn wait(text: &str) -> Result<Duration, String> {
    let wait = saline_data::time_span::parse(text);
    wait.ok_or_else(|| format!("'{text}' is not a time; write 5, 0.5, 90s or 15m"))
}

/// Reads the time of a slot: at least a millisecond, since 0 would be for as long as it takes.
fn slot_time(text: &str) -> Result<Duration, String> {
    let time = wait(text)?;
    match time.as_millis() {
        0 => Err(format!(
            "'{text}' leaves a minion no time: write 600, or leave the option out"
        )),
        _ => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_waits() {
        assert_eq!(size("10"), Ok(BatchSize::Minions(10)));
        assert_eq!(size("10%"), Ok(BatchSize::Percent(10)));
        assert_eq!(size("100%"), Ok(BatchSize::Percent(100)));
        for text in ["", "0", "0%", "101%", "-1", "1.5", "%", "ten", "4294967296"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(wait("1.5"), Ok(Duration::from_millis(1_500)));
        assert_eq!(wait("0"), Ok(Duration::ZERO));
        for text in ["", "-1", "NaN", "inf", "1w", "1e300"] {
            assert!(wait(text).is_err(), "{text}");
            assert!(slot_time(text).is_err(), "{text}");
        }
        assert!(slot_time("0").is_err() && slot_time("0.0001").is_err());
        assert_eq!(slot_time("0.001"), Ok(Duration::from_millis(1)));
    }
}
