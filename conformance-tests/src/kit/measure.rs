//! What this process uses, as the system tells it. Only in a process of its own does it say
//! anything about one requirement.

use std::time::Duration;

use saline_protocol::transport::Clock;

use super::TEST_TIMEOUT;
use crate::{Expecting, Failure, Outcome};

/// Bytes of a mebibyte.
const MIB: usize = 1024 * 1024;

/// What address space may grow by: threads and allocators take it generously.
const ADDRESS_SPACE: usize = 2048 * MIB;

/// Returns how many tasks of this runtime have not ended, whoever owns them.
pub(crate) fn alive_tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

/// Memory, descriptors and threads at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Resident bytes.
    pub memory: usize,
    /// Bytes of address space, at most so far.
    pub address_space: usize,
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
}

impl Usage {
    /// What is used now.
    ///
    /// # Errors
    /// Where there is no `/proc`.
    pub fn now() -> Outcome<Self> {
        let count = |folder: &str| {
            let listed = std::fs::read_dir(folder);
            listed
                .map(Iterator::count)
                .map_err(|error| told(folder, &error))
        };
        Ok(Self {
            memory: kibibytes("VmRSS:")?,
            address_space: kibibytes("VmPeak:")?,
            descriptors: count("/proc/self/fd")?,
            threads: count("/proc/self/task")?,
        })
    }

    /// Waits until no more descriptors and threads are used than here, but for `spare` of each:
    /// what a backend closes, it may close a little later.
    ///
    /// # Errors
    /// When it does not become so within [`TEST_TIMEOUT`].
    pub async fn back_to(self, spare: usize, what: &str) -> Outcome<Self> {
        let deadline = Clock.after(TEST_TIMEOUT);
        loop {
            let now = Self::now()?;
            if now.descriptors <= self.descriptors + spare && now.threads <= self.threads + spare {
                return Ok(now);
            }
            if Clock.now() >= deadline {
                return Err(Failure::new(format!(
                    "{what}: descriptors {} and threads {}, before it {} and {}",
                    now.descriptors, now.threads, self.descriptors, self.threads
                )));
            }
            Clock.pause(Duration::from_millis(20)).await;
        }
    }

    /// Fails when more than `mebibytes` more memory is used now.
    ///
    /// # Errors
    /// Then, and where there is no `/proc`.
    pub fn grown_by_at_most(self, mebibytes: usize, what: &str) -> Outcome {
        self.at_most(kibibytes("VmRSS:")?, mebibytes, what)
    }

    fn at_most(self, memory: usize, mebibytes: usize, what: &str) -> Outcome {
        let grown = memory.saturating_sub(self.memory);
        if grown <= mebibytes * MIB {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{what}: memory has grown by {} MiB, {mebibytes} MiB is the ceiling",
            grown / MIB
        )))
    }
}

/// Memory after each of several rounds of the same work: what leaks grows by as much in each, what
/// allocators and pools keep does not.
#[derive(Debug, Default)]
pub struct Growth {
    rounds: Vec<usize>,
}

impl Growth {
    /// Notes the memory that this process has of its own now.
    ///
    /// # Errors
    /// Where there is no `/proc`.
    pub fn note(&mut self) -> Outcome {
        self.rounds.push(kibibytes_of(ROLLUP, "Anonymous:")?);
        Ok(())
    }

    /// Returns the growth of the last `rounds` rounds alone.
    #[must_use]
    pub fn of_the_last(&self, rounds: usize) -> Self {
        let first = self.rounds.len().saturating_sub(rounds);
        Self {
            rounds: self.rounds[first..].to_vec(),
        }
    }

    /// Fails when all rounds of `steps` steps but a few took more than `bytes` a step each.
    ///
    /// # Errors
    /// When memory grew that steadily.
    pub fn at_most(&self, bytes: usize, steps: u64, what: &str) -> Outcome {
        let grown = |pair: &[usize]| pair[1].saturating_sub(pair[0]);
        let mut grown: Vec<_> = self.rounds.windows(2).map(grown).collect();
        grown.sort_unstable();
        let steps = usize::try_from(steps).unwrap_or(usize::MAX);
        // A leak shows in the rounds that took least, what an allocator happens to do does not.
        let each = grown.get(grown.len() / 4).map_or(0, |grown| grown / steps);
        if each <= bytes {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{what}: each left {each} bytes behind, round after round"
        )))
    }
}

/// Watches memory while `run` goes on; fails if it ever grows by more than `mebibytes`, or address
/// space by more than [`ADDRESS_SPACE`].
///
/// # Errors
/// Then, and when `run` fails.
pub(crate) async fn within<T>(
    mebibytes: usize,
    what: &str,
    run: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    let before = Usage::now()?;
    let mut run = std::pin::pin!(run);
    let done = loop {
        let tick = Clock.pause(Duration::from_millis(10));
        tokio::select! {
            done = &mut run => break done?,
            // So that a leak is stopped while the machine still has memory.
            () = tick => before.grown_by_at_most(mebibytes, what)?,
        }
    };
    // The peak, which ticks may have missed.
    before.at_most(kibibytes("VmHWM:")?, mebibytes, what)?;
    let grown = Usage::now()?
        .address_space
        .saturating_sub(before.address_space);
    if grown > ADDRESS_SPACE {
        return Err(Failure::new(format!(
            "{what}: address space has grown by {} MiB",
            grown / MIB
        )));
    }
    Ok(done)
}

/// The file with the counters that the kernel keeps as memory changes; they may lag by some pages.
const STATUS: &str = "/proc/self/status";

/// The file whose sums the kernel makes when it is read; they are exact to the page.
const ROLLUP: &str = "/proc/self/smaps_rollup";

/// What `/proc/self/status` says under `name`, in bytes.
fn kibibytes(name: &str) -> Outcome<usize> {
    kibibytes_of(STATUS, name)
}

/// What `file` says under `name`, in bytes.
fn kibibytes_of(file: &str, name: &str) -> Outcome<usize> {
    let text = std::fs::read_to_string(file).map_err(|error| told(file, &error))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    Ok(number.expecting(format!("{name} of this process"))? * 1024)
}

fn told(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("{what}: {error}"))
}
