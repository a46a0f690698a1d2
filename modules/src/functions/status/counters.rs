//! The counters of the kernel since the machine started, and the users that are logged in.

use procfs::net::DeviceStatus;
use procfs::{DiskStat, diskstats as disks, vmstat};
use saline_data::Value;
use saline_functions::{Failure, function};

use super::unreadable;
use crate::JobContext;

/// Returns what disks and partitions did: requests, sectors of 512 bytes, and milliseconds.
///
/// CLI Example:
///
///     saline '*' status.diskstats
#[function]
pub(super) fn diskstats(_: &JobContext<'_>) -> Result<Value, Failure> {
    let all = disks().map_err(unreadable)?;
    let mut all: Vec<(String, Value)> = all
        .iter()
        .map(|disk| (disk.name.clone(), of_disk(disk)))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Value::Map(all))
}

fn of_disk(disk: &DiskStat) -> Value {
    let numbers = [
        ("reads_issued", disk.reads),
        ("reads_merged", disk.merged),
        ("sectors_read", disk.sectors_read),
        ("ms_spent_reading", disk.time_reading),
        ("writes_completed", disk.writes),
        ("writes_merged", disk.writes_merged),
        ("sectors_written", disk.sectors_written),
        ("ms_spent_writing", disk.time_writing),
        ("io_in_progress", disk.in_progress),
        ("ms_spent_in_io", disk.time_in_progress),
        ("weighted_ms_spent_in_io", disk.weighted_time_in_progress),
    ];
    Value::map(numbers.map(|(name, number)| (name, Value::from(number))))
}

/// Returns what the kernel counts about memory: pages, faults, and what it reclaimed.
///
/// CLI Example:
///
///     saline '*' status.vmstats
#[function]
pub(super) fn vmstats(_: &JobContext<'_>) -> Result<Value, Failure> {
    let all = vmstat().map_err(unreadable)?.into_iter();
    let mut all: Vec<(String, Value)> = all
        .map(|(name, number)| (name, Value::Int(number)))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Value::Map(all))
}

/// Returns what network interfaces received (`rx_…`) and sent (`tx_…`).
///
/// CLI Example:
///
///     saline '*' status.netdev
#[function]
pub(super) fn netdev(_: &JobContext<'_>) -> Result<Value, Failure> {
    let all = procfs::net::dev_status().map_err(unreadable)?.into_iter();
    let mut all: Vec<(String, Value)> = all
        .map(|(name, device)| (name, of_device(&device)))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Value::Map(all))
}

fn of_device(device: &DeviceStatus) -> Value {
    let numbers = [
        ("rx_bytes", device.recv_bytes),
        ("rx_packets", device.recv_packets),
        ("rx_errs", device.recv_errs),
        ("rx_drop", device.recv_drop),
        ("rx_fifo", device.recv_fifo),
        ("rx_frame", device.recv_frame),
        ("rx_compressed", device.recv_compressed),
        ("rx_multicast", device.recv_multicast),
        ("tx_bytes", device.sent_bytes),
        ("tx_packets", device.sent_packets),
        ("tx_errs", device.sent_errs),
        ("tx_drop", device.sent_drop),
        ("tx_fifo", device.sent_fifo),
        ("tx_colls", device.sent_colls),
        ("tx_carrier", device.sent_carrier),
        ("tx_compressed", device.sent_compressed),
    ];
    Value::map(numbers.map(|(name, number)| (name, Value::from(number))))
}

/// Returns who is logged in, as the program `w` tells: `user`, `tty`, `login`, `idle`, `jcpu`, `pcpu` and `what`.
///
/// CLI Example:
///
///     saline '*' status.w
#[function]
pub(super) fn w(job: &JobContext<'_>) -> Result<Value, Failure> {
    const FIELDS: [&str; 7] = ["user", "tty", "login", "idle", "jcpu", "pcpu", "what"];
    let printed = job.succeed(&["w", "-fh"], "")?;
    let lines = printed.lines().filter(|line| !line.trim().is_empty());
    let users = lines.map(|line| {
        let mut rest = line.trim();
        let fields = FIELDS.map(|field| {
            let (word, behind) = match field {
                "what" => (rest, ""),
                _ => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
            };
            rest = behind.trim_start();
            (field, Value::from(word))
        });
        Value::map(fields)
    });
    Ok(Value::List(users.collect()))
}
