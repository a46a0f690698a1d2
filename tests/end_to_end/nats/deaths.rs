//! The master is killed, and so is each server of a cluster of NATS; another time each is frozen: minions come back in time, nothing
//! runs twice, and every loss is told.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use saline_testing::{CommandOutput, Fleet, NatsServer, TEST_TIMEOUT, ended};

use super::{json, present_within};

const MINIONS: [&str; 6] = ["m1", "m2", "m3", "m4", "m5", "m6"];

/// Three times the second within which minions leave for a new instance of the master, with a handshake of a second, and the time
/// in which that instance asks whether another one serves.
const BACK_AFTER_MASTER: Duration = Duration::from_secs(15);

/// Three times two pings of 5 s each, with the longest backoff and a handshake.
const BACK_AFTER_NODE: Duration = Duration::from_secs(40);

/// A fleet over a cluster of servers of NATS.
struct ClusterFleet {
    fleet: Fleet,
    servers: Vec<NatsServer>,
}

impl ClusterFleet {
    /// Starts a master and minions over so many servers. Returns none where nats-server is not installed.
    fn start(servers: usize) -> Option<Self> {
        let servers = NatsServer::cluster(servers, "ping_interval: 5s\nping_max: 2\n")?;
        let addresses: Vec<SocketAddr> = servers.iter().map(NatsServer::address).collect();
        let section = NatsServer::section(&addresses, "saline.e2e");
        let mut fleet = Fleet::new("nats", &format!("auto_accept: True\n{section}"));
        fleet.start_master();
        for id in MINIONS {
            fleet.start_minion_with(id, &section);
        }
        present_within(TEST_TIMEOUT, &fleet, &MINIONS);
        Some(Self { fleet, servers })
    }

    /// Returns a file that each run of job `number` adds a line to.
    fn runs_file(&self, number: usize) -> String {
        let path = self.fleet.path(&format!("runs-{number}"));
        path.display().to_string()
    }

    /// Returns how often job `number` was run.
    fn runs(&self, number: usize) -> usize {
        let text = std::fs::read_to_string(self.runs_file(number)).unwrap_or_default();
        text.lines().count()
    }

    /// Gives jobs for all minions one after the other until the load ends, each as an operator does.
    fn give_jobs(&self, load: &Load) {
        while !load.is_over.load(Ordering::Relaxed) {
            let number = load.begun.fetch_add(1, Ordering::Relaxed);
            let command = format!("echo ran >> {}; sleep 1", self.runs_file(number));
            let metadata = format!("{{number: {number}}}");
            let arguments = ["*", "cmd.run", &command, "--metadata", &metadata];
            let format = ["--out", "json", "--static", "-t", "30"];
            let said = self.fleet.saline(&[&arguments[..], &format].concat());
            load.ended.lock().unwrap().push((number, said));
        }
    }
}

/// Jobs that are given while servers of NATS are disturbed.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    begun: AtomicUsize,
    /// The jobs that have ended, with what each printed.
    ended: Mutex<Vec<(usize, CommandOutput)>>,
}

impl Load {
    /// Waits until so many more jobs have ended: others have begun by then.
    fn go_on(&self, jobs: usize) {
        let ended = || self.ended.lock().unwrap().len();
        let wanted = ended() + jobs;
        let until = Instant::now() + TEST_TIMEOUT;
        while ended() < wanted {
            assert!(Instant::now() < until, "{} jobs have ended", ended());
            std::thread::yield_now();
        }
    }
}

/// Ends the load also when a test fails.
struct Ending<'a>(&'a Load);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_master_killed_during_a_job_has_every_return_once() {
    let Some(mut over) = ClusterFleet::start(1) else {
        return;
    };
    let command = format!("echo ran >> {}; sleep 5", over.runs_file(0));
    let arguments = ["*", "cmd.run", &command, "--out", "json", "--static"];
    let mut attached = over
        .fleet
        .command("saline", &arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    for id in MINIONS {
        over.fleet.minions[id].log.wait_for("running", 1);
    }
    over.fleet.kill_master();
    over.fleet.start_master();
    let took = present_within(BACK_AFTER_MASTER, &over.fleet, &MINIONS);
    eprintln!("all minions are back {took:?} after the new master was up");

    let mut stdout = String::new();
    let mut pipe = attached.stdout.take().unwrap();
    pipe.read_to_string(&mut stdout).unwrap();
    assert_eq!(ended(&mut attached).code(), Some(0), "{stdout}");
    let told: BTreeMap<String, serde_json::Value> = serde_json::from_str(&stdout).unwrap();
    assert!(told.keys().eq(MINIONS), "{stdout}");
    assert_eq!(over.runs(0), MINIONS.len());
    let stored = json(&over.fleet, "saline-run", &["store.check"]);
    assert_eq!(stored["returns"], MINIONS.len(), "{stored}");
}

/// Disturbs each of three servers in turn, so that the link of everybody is hit once.
fn each_server_in_turn(disturb: impl Fn(&mut NatsServer), mend: impl Fn(&mut NatsServer)) {
    let Some(mut over) = ClusterFleet::start(3) else {
        return;
    };
    let mut servers = std::mem::take(&mut over.servers);
    let load = Load::default();
    std::thread::scope(|scope| {
        let _ending = Ending(&load);
        for _ in 0..2 {
            scope.spawn(|| over.give_jobs(&load));
        }
        for server in &mut servers {
            load.go_on(2);
            disturb(server);
            let disturbed = Instant::now();
            // Presence ends only when a heartbeat is missed, so it proves nothing here: an answer of all does.
            loop {
                let ping = ["*", "test.ping", "--out", "json", "--static", "-t", "2"];
                let said = over.fleet.saline(&ping);
                if said.code == Some(0) {
                    break;
                }
                let elapsed = disturbed.elapsed();
                assert!(elapsed < BACK_AFTER_NODE, "after {elapsed:?}: {said:?}");
            }
            eprintln!("all answer {:?} after the fault", disturbed.elapsed());
            mend(server);
        }
        load.go_on(2);
    });
    present_within(BACK_AFTER_NODE, &over.fleet, &MINIONS);
    let ended = load.ended.into_inner().unwrap();
    for (number, said) in ended {
        let attached: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        for id in MINIONS {
            // It has returned, or the operator was told that it has not.
            assert!(
                attached.contains_key(id) || said.stderr.contains(id),
                "{id}: {said:?}"
            );
        }
        let metadata = format!("search_metadata={{number: {number}}}");
        let found = json(&over.fleet, "saline-run", &["jobs.list_jobs", &metadata]);
        let jids = found
            .as_object()
            .map(|found| found.keys().collect::<Vec<_>>());
        let [jid] = jids.as_deref().unwrap_or_default() else {
            panic!("job {number}: {found}");
        };
        let stored = json(&over.fleet, "saline-run", &["jobs.lookup_jid", jid]);
        let stored = stored.as_object().map_or(0, serde_json::Map::len);
        // A run more than there are minions with a return is a second one, or one whose return is lost.
        let runs = over.runs(number);
        assert_eq!(runs, stored, "job {number} was run {runs} times: {said:?}");
    }
}

#[test]
fn a_server_of_nats_that_is_killed_costs_no_job() {
    each_server_in_turn(NatsServer::kill, NatsServer::start_again);
}

#[test]
fn a_server_of_nats_that_is_frozen_costs_no_job() {
    each_server_in_turn(
        |server| server.signal(Signal::STOP),
        |server| server.signal(Signal::CONT),
    );
}
