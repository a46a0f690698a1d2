//! `status`: what the machine does now.

mod counters;

use std::path::Path;

use procfs::process::{Process, all_processes};
use procfs::{CpuTime, Current, CurrentSI, KernelStats, LoadAverage, ProcError, Uptime};
use rustix::fs::statvfs;
use saline_data::Value;
use saline_functions::{Failure, function};
use time::OffsetDateTime;
use time::macros::format_description;

use crate::accounts::Account;
use crate::{Functions, JobContext};

pub(super) const FUNCTIONS: Functions = &[
    &LOADAVG,
    &UPTIME,
    &MEMINFO,
    &CPUINFO,
    &CPUSTATS,
    &DISKUSAGE,
    &NPROC,
    &PROCS,
    &PID,
    &VERSION,
    &TIME,
    &ALL_STATUS,
    &counters::DISKSTATS,
    &counters::NETDEV,
    &counters::VMSTATS,
    &counters::W,
];

/// Returns the load: the mean number of processes that ran or waited during the last 1, 5 and 15 minutes.
///
/// CLI Example:
///
///     saline '*' status.loadavg
#[function]
fn loadavg(_: &JobContext<'_>) -> Result<Value, Failure> {
    let load = LoadAverage::current().map_err(unreadable)?;
    let means = [
        ("1-min", load.one),
        ("5-min", load.five),
        ("15-min", load.fifteen),
    ];
    let rounded = |mean: f32| Value::Float((f64::from(mean) * 100.0).round() / 100.0);
    Ok(Value::map(means.map(|(name, mean)| (name, rounded(mean)))))
}

/// Returns how long the machine has been running: `seconds`, the same as `days` and `time` (hours and minutes), and since
/// when, as seconds of Unix time (`since_t`) and in UTC (`since_iso`).
///
/// CLI Example:
///
///     saline '*' status.uptime
#[function]
fn uptime(_: &JobContext<'_>) -> Result<Value, Failure> {
    let up = Uptime::current().map_err(unreadable)?.uptime_duration();
    let started = KernelStats::current().map_err(unreadable)?.btime;
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    let iso = OffsetDateTime::from_unix_timestamp(started.cast_signed())
        .ok()
        .and_then(|at| at.format(format).ok());
    let minutes = up.as_secs() / 60;
    Ok(Value::map([
        ("seconds", Value::from(up.as_secs())),
        ("since_iso", iso.map_or(Value::Null, Value::Text)),
        ("since_t", Value::from(started)),
        ("days", Value::from(minutes / (24 * 60))),
        (
            "time",
            Value::from(format!("{}:{:02}", minutes / 60 % 24, minutes % 60)),
        ),
    ]))
}

/// Returns the memory as the kernel counts it, each entry with its `value` and its `unit`.
///
/// CLI Example:
///
///     saline '*' status.meminfo
#[function]
fn meminfo(_: &JobContext<'_>) -> Result<Value, Failure> {
    let text = read("/proc/meminfo")?;
    let entries = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let mut words = rest.split_whitespace();
        let value = Value::map([
            ("value", Value::from(words.next()?)),
            ("unit", Value::from(words.next().unwrap_or_default())),
        ]);
        Some((name, value))
    });
    Ok(Value::map(entries))
}

/// Returns what the kernel says of the processors; where they differ, of the last one. `flags` is a list.
///
/// CLI Example:
///
///     saline '*' status.cpuinfo
#[function]
fn cpuinfo(_: &JobContext<'_>) -> Result<Value, Failure> {
    let text = read("/proc/cpuinfo")?;
    let mut found: Vec<(String, Value)> = Vec::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let (name, value) = (name.trim(), value.trim());
        let value = match name {
            "flags" | "Features" => Value::texts(value.split_whitespace()),
            _ => Value::from(value),
        };
        match found.iter_mut().find(|(known, _)| known == name) {
            Some(entry) => entry.1 = value,
            None => found.push((name.to_owned(), value)),
        }
    }
    Ok(Value::Map(found))
}

/// Returns what the processors did since the start of the machine, in ticks of 1/100 s: all together (`cpu`), and each of
/// them. `ctxt` counts changes of context, and `processes` the processes that were begun.
///
/// CLI Example:
///
///     saline '*' status.cpustats
#[function]
fn cpustats(_: &JobContext<'_>) -> Result<Value, Failure> {
    let stats = KernelStats::current().map_err(unreadable)?;
    let times = |cpu: &CpuTime| {
        Value::map([
            ("user", Value::from(cpu.user)),
            ("nice", cpu.nice.into()),
            ("system", cpu.system.into()),
            ("idle", cpu.idle.into()),
            ("iowait", cpu.iowait.unwrap_or(0).into()),
            ("irq", cpu.irq.unwrap_or(0).into()),
            ("softirq", cpu.softirq.unwrap_or(0).into()),
            ("steal", cpu.steal.unwrap_or(0).into()),
        ])
    };
    let mut found = vec![("cpu".to_owned(), times(&stats.total))];
    let each = stats.cpu_time.iter().enumerate();
    found.extend(each.map(|(number, cpu)| (format!("cpu{number}"), times(cpu))));
    let counts = [
        ("btime", stats.btime),
        ("ctxt", stats.ctxt),
        ("processes", stats.processes),
        ("procs_running", stats.procs_running.map_or(0, u64::from)),
        ("procs_blocked", stats.procs_blocked.map_or(0, u64::from)),
    ];
    found.extend(counts.map(|(name, count)| (name.to_owned(), count.into())));
    Ok(Value::Map(found))
}

/// Returns for each path how many bytes its filesystem has in all, and how many are `available`. Without a path: for `/`.
///
/// CLI Example:
///
///     saline '*' status.diskusage
///     saline '*' status.diskusage /var /srv
#[function]
fn diskusage(_: &JobContext<'_>, #[args] args: Vec<String>) -> Result<Value, Failure> {
    let paths = match args.is_empty() {
        true => vec!["/".to_owned()],
        false => args,
    };
    let mut found = Vec::new();
    for path in paths {
        let space = statvfs(Path::new(&path))
            .map_err(|error| Failure::Execution(format!("{path}: {error}")))?;
        let bytes = |blocks: u64| Value::from(blocks.saturating_mul(space.f_frsize));
        let sizes = [
            ("total", bytes(space.f_blocks)),
            ("available", bytes(space.f_bavail)),
        ];
        found.push((path, Value::map(sizes)));
    }
    Ok(Value::Map(found))
}

/// Returns the number of processors that the minion may use.
///
/// CLI Example:
///
///     saline '*' status.nproc
#[function]
fn nproc(_: &JobContext<'_>) -> u64 {
    std::thread::available_parallelism().map_or(1, |number| number.get() as u64)
}

/// Returns the processes by their numbers, each with its user and its command line.
///
/// CLI Example:
///
///     saline '*' status.procs
#[function]
fn procs(_: &JobContext<'_>) -> Result<Value, Failure> {
    let accounts = Account::local();
    let found = processes()?.into_iter().map(|(process, cmd)| {
        let uid = process.uid().ok();
        let name = |uid: u32| {
            let account = accounts.iter().find(|account| account.uid == uid);
            account.map_or_else(|| uid.to_string(), |account| account.name.clone())
        };
        let entries = [
            ("user", Value::from(uid.map(name).unwrap_or_default())),
            ("cmd", Value::from(cmd)),
        ];
        (process.pid().to_string(), Value::map(entries))
    });
    Ok(Value::Map(found.collect()))
}

/// Returns the numbers of the processes whose command line contains `sig`, one in each line; not that of the minion.
///
/// CLI Example:
///
///     saline '*' status.pid nginx
#[function]
fn pid(_: &JobContext<'_>, sig: String) -> Result<String, Failure> {
    let own = std::process::id().cast_signed();
    let found = processes()?.into_iter();
    let found = found.filter(|(process, cmd)| process.pid() != own && cmd.contains(&sig));
    let numbers: Vec<String> = found
        .map(|(process, _)| process.pid().to_string())
        .collect();
    Ok(numbers.join("\n"))
}

/// Returns the version of the kernel, with what it was built by.
///
/// CLI Example:
///
///     saline '*' status.version
#[function]
fn version(_: &JobContext<'_>) -> Result<String, Failure> {
    Ok(read("/proc/version")?.trim().to_owned())
}

/// Returns the time of the machine in its time zone, as `date` writes it in this format.
///
/// CLI Example:
///
///     saline '*' status.time
///     saline '*' status.time '%Y-%m-%dT%H:%M:%S%z'
#[function]
fn time(
    job: &JobContext<'_>,
    #[default("%A, %d. %B %Y %I:%M%p")] format: String,
) -> Result<String, Failure> {
    let printed = job.succeed(&["date", &format!("+{format}")], "")?;
    Ok(printed.trim_end_matches('\n').to_owned())
}

/// Returns the load, the uptime, the memory, the processors and the space on `/` at once.
///
/// CLI Example:
///
///     saline '*' status.all_status
#[function]
fn all_status(job: &JobContext<'_>) -> Result<Value, Failure> {
    Ok(Value::map([
        ("cpuinfo", cpuinfo(job)?),
        ("cpustats", cpustats(job)?),
        ("diskusage", diskusage(job, Vec::new())?),
        ("loadavg", loadavg(job)?),
        ("meminfo", meminfo(job)?),
        ("nproc", nproc(job).into()),
        ("uptime", uptime(job)?),
    ]))
}

/// Returns the processes with their command lines. One that ends meanwhile is left out.
fn processes() -> Result<Vec<(Process, String)>, Failure> {
    let all = all_processes().map_err(unreadable)?;
    let command_line = |process: Process| {
        let words = process.cmdline().ok()?;
        let line = match words.is_empty() {
            // A thread of the kernel has a name alone.
            true => format!("[{}]", process.stat().ok()?.comm),
            false => words.join(" "),
        };
        Some((process, line))
    };
    Ok(all.flatten().filter_map(command_line).collect())
}

fn read(path: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(path);
    let bytes =
        bytes.map_err(|error| Failure::Execution(format!("cannot read {path}: {error}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn unreadable(error: ProcError) -> Failure {
    Failure::Execution(format!("cannot read /proc: {error}"))
}
