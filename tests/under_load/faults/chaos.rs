//! Faults over each transport, with another seed every day: the runner starts, injects, settles and reports.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use rustix::process::{Pid, Signal, kill_process};
use saline_protocol::transport::Clock;
use saline_testing::{NatsServer, Process, TEST_TIMEOUT};

/// Returns the seed of the day, in UTC: the days since 1970.
fn seed_of_the_day() -> String {
    let since = Clock.wall().duration_since(UNIX_EPOCH);
    (since.unwrap().as_secs() / 86_400).to_string()
}

/// The books that a run must have, whatever their verdict.
const BOOKS: [&str; 20] = [
    "at most once",
    "acknowledged",
    "stored once",
    "contents",
    "true states",
    "an end",
    "in time",
    "batches",
    "told",
    "named",
    "waited",
    "seen as stored",
    "delivered",
    "reactions",
    "pillars",
    "mine",
    "files",
    "presence",
    "flat",
    "up",
];

/// The books with bounds of seconds. A machine that is busy with other tests may break them, so here they are
/// only read; a run by hand judges them.
const BOUNDED: [&str; 3] = ["in time", "waited", "presence"];

fn twenty_seconds_of_faults(transport: &str) {
    let _turn = crate::blocking_beside_others();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let seed = seed_of_the_day();
    let arguments = ["--transport", transport, "--seconds", "20", "--seed", &seed];
    // Past the capture of the test's output: it is what repeats a run that fails one day.
    let line = format!("saline-chaos {}\n", arguments.join(" "));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_saline-chaos"))
        .args(arguments)
        .arg("--json")
        .arg(&path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let json = std::fs::read_to_string(&path);
    let report: serde_json::Value = serde_json::from_str(&json.expect(&text)).unwrap();
    assert_eq!(report["transport"], transport);
    let books = report["books"].as_array().unwrap();
    let names: Vec<_> = books.iter().map(|book| &book["name"]).collect();
    assert_eq!(names, BOOKS, "{text}");
    // What this build or this machine cannot do is told.
    if !cfg!(feature = "chaos") {
        let impossible = &report["not_possible_here"];
        assert!(!impossible.as_object().unwrap().is_empty(), "{text}");
    }
    let runs: u64 = report["ledger"]
        .as_object()
        .unwrap()
        .values()
        .map(|row| row["runs"].as_u64().unwrap())
        .sum();
    assert!(runs > 10, "{text}");
    let broken = books.iter().filter(|book| book["balances"] != true);
    let mut broken: Vec<_> = broken.map(|book| book["name"].as_str().unwrap()).collect();
    let code = if broken.is_empty() { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{text}");
    broken.retain(|book| !BOUNDED.contains(book));
    assert!(broken.is_empty(), "{text}");
}

#[test]
fn twenty_seconds_of_faults_over_tcp() {
    twenty_seconds_of_faults("tcp");
}

#[test]
fn twenty_seconds_of_faults_over_quic() {
    twenty_seconds_of_faults("quic");
}

#[test]
fn twenty_seconds_of_faults_over_zeromq() {
    twenty_seconds_of_faults("zeromq");
}

#[test]
fn twenty_seconds_of_faults_over_nats() {
    if NatsServer::program().is_some() {
        twenty_seconds_of_faults("nats");
    }
}

/// Returns the processes of servers of NATS that are meant, by their ids and those of their parents.
fn servers_of_nats(is_meant: impl Fn(u32, u32) -> bool) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_server = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name stands in parentheses, and behind it the state and the parent.
        let Some((name, rest)) = stat.rsplit_once(')') else {
            return false;
        };
        let mut fields = rest.split_whitespace();
        let is_running = fields.next().is_some_and(|state| state != "Z");
        let parent = fields.next().and_then(|parent| parent.parse().ok());
        let is_meant = parent.is_some_and(|parent| is_meant(*pid, parent));
        is_running && is_meant && name.ends_with("(nats-server")
    };
    pids.filter(is_server).collect()
}

#[test]
fn servers_of_nats_end_with_a_run_that_is_killed() {
    if NatsServer::program().is_none() {
        return;
    }
    let _turn = crate::blocking_beside_others();
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-chaos"));
    command.args(["--transport", "nats", "--seconds", "60", "--minions", "2"]);
    let mut run = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::null())).unwrap();
    let chaos = run.pid();
    let until = Clock.after(TEST_TIMEOUT);
    let servers = loop {
        let servers = servers_of_nats(|_, parent| parent == chaos);
        // Before it has become the server it has the name of the run's program.
        if servers.len() == 3 {
            break servers;
        }
        assert!(Clock.now() < until, "{} servers", servers.len());
        std::thread::yield_now();
    };
    // A server that runs ends when it logs something that nobody reads any more. One that a fault has stopped does not.
    for server in &servers {
        let pid = i32::try_from(*server).ok().and_then(Pid::from_raw);
        kill_process(pid.unwrap(), Signal::STOP).unwrap();
    }
    run.kill();
    let until = Clock.after(TEST_TIMEOUT);
    while !servers_of_nats(|pid, _| servers.contains(&pid)).is_empty() {
        assert!(Clock.now() < until, "servers of NATS outlive the run");
        std::thread::yield_now();
    }
}
