//! The memory, the descriptors and the time of this process, by the names that every client of Prometheus gives them.

use std::fs::{read_dir, read_to_string};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::measured::Metrics;

/// Adds what the system knows of this process.
pub(super) fn measure(metrics: &mut Metrics) {
    metrics.gauge(
        "process_resident_memory_bytes",
        "Memory of this process that is in use.",
        resident_bytes(),
    );
    metrics.counter(
        "process_cpu_seconds",
        "Time that this process has had on processors.",
        seconds(clock_gettime(ClockId::ProcessCPUTime)),
    );
    metrics.gauge(
        "process_open_fds",
        "Files and connections that this process has open.",
        read_dir("/proc/self/fd").ok().map(Iterator::count),
    );
    metrics.gauge(
        "process_max_fds",
        "Files and connections that this process may have open.",
        getrlimit(Resource::Nofile).current,
    );
    metrics.gauge(
        "process_start_time_seconds",
        "When this process started, in seconds since 1970.",
        started(),
    );
}

fn resident_bytes() -> Option<u64> {
    let statm = read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(page_size() as u64))
}

/// Returns when this process started, in seconds since 1970: the clock of the machine less the age of the process.
fn started() -> Option<f64> {
    let stat = read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in brackets, may hold spaces.
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: u64 = rest.split_whitespace().nth(19)?.parse().ok()?;
    let after_boot = ticks as f64 / clock_ticks_per_second() as f64;
    let boot =
        seconds(clock_gettime(ClockId::Realtime)) - seconds(clock_gettime(ClockId::Boottime));
    Some((boot + after_boot).round())
}

fn seconds(time: Timespec) -> f64 {
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_measured() {
        let bytes = resident_bytes().unwrap();
        assert!((1 << 20..1 << 34).contains(&bytes), "{bytes}");
        let age = seconds(clock_gettime(ClockId::Realtime)) - started().unwrap();
        assert!((-2.0..3_600.0).contains(&age), "{age}");
    }
}
