//! Readings of this process and this machine from the system.

use std::time::Duration;

use crate::Result;
use rustix::time::{ClockId, clock_gettime};
use saline_testing::processes::resident_bytes;

/// The CPU time that this process has had, in all its threads, user and system.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// How many processes wanted a core during the last minute, where the system says.
pub(crate) fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The CPU time and the memory that a process uses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessUsage {
    /// CPU time, user and system.
    pub(crate) cpu: Duration,
    /// Resident memory in bytes.
    pub(crate) memory: u64,
}

impl ProcessUsage {
    /// Returns what the process `pid` has used; also when it has ended and nobody has waited for it.
    ///
    /// # Errors
    /// When there is no such process.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name, which may contain anything, ends at the last parenthesis.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().collect())
            .unwrap_or_default();
        let field = |index: usize| -> u64 {
            let text = fields.get(index).copied().unwrap_or_default();
            text.parse().unwrap_or_default()
        };
        // proc(5): utime and stime are fields 14 and 15; the first after the name is 3.
        let ticks = field(11) + field(12);
        // In nanoseconds, where the process has one thread; the ticks are of 10 ms.
        let scheduled = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok();
        let alone = field(17) <= 1;
        let precise = scheduled.filter(|_| alone).and_then(|text| {
            let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
            Some(Duration::from_nanos(nanoseconds))
        });
        Ok(Self {
            cpu: precise.unwrap_or(Duration::from_secs_f64(
                ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
            )),
            memory: resident_bytes(pid)?,
        })
    }
}

/// Returns the processes that the first thread of `pid` has started.
///
/// # Errors
/// When there is no such process.
pub(crate) fn children(pid: u32) -> Result<Vec<i32>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let started = text.split_whitespace().map(str::parse);
    Ok(started.collect::<Result<_, _>>()?)
}

/// Whether a process has not ended, though nobody may have waited for it.
pub(crate) fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    // The first thread may have ended long before the last one, which closes the files.
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    state.is_some_and(|state| state != 'Z' || threads > 1)
}
