//! `saline-swarm` beside a real master, and `saline-bench system`, which measures with it.

use std::process::Command;

use rustix::process::Signal;
use saline_testing::{Daemon, Fleet, NatsServer};
use serde_json::Value;

saline_testing::over_each_transport!(every_minion_of_a_swarm_answers, a_system_is_measured,);

/// Starts a swarm of `minions` in processes of at most `each`.
fn swarm(fleet: &Fleet, minions: usize, each: usize) -> Daemon {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-swarm"));
    command
        .args(["--minions", &minions.to_string()])
        .args(["--each", &each.to_string()])
        .args(["--transport", fleet.transport])
        .args(["--master", &format!("127.0.0.1:{}", fleet.port())])
        .arg("--root")
        .arg(fleet.path("swarm"));
    Daemon::spawn(&mut command)
}

fn every_minion_of_a_swarm_answers(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "auto_accept: True\n");
    fleet.start_master();
    // In one process, and again, with the same keys, in three.
    for (started, each) in [100, 3].into_iter().enumerate() {
        let mut swarm = swarm(&fleet, 7, each);
        let connected = 7 * (started + 1);
        fleet.master().log.wait_for("is connected", connected);
        let said = fleet.saline(&["*", "test.ping"]).expect(0);
        let ids: Vec<_> = said.stdout.lines().filter(|l| l.ends_with(':')).collect();
        assert_eq!(ids.len(), 7, "{}", said.stdout);
        assert!(ids.contains(&"swarm-00006:"), "{}", said.stdout);
        assert_eq!(swarm.terminate(), Some(0));
        fleet.master().log.wait_for("says goodbye", connected);
    }
}

fn a_system_is_measured(transport: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.json");
    let out = Command::new(env!("CARGO_BIN_EXE_saline-bench"))
        .args(["system", "--minions", "3", "--transport", transport])
        .args(["--seconds", "0.1", "--repeat", "1"])
        .args(["--idle", "1", "--heartbeat", "1"])
        .args(["--large", "1000000", "--json"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let text = std::fs::read_to_string(file).unwrap();
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for bench in [
        "saline '*' test.ping, whole process",
        "jobs with returns, one minion, 64 under way",
        "returns, 4 jobs on all under way",
        "memory a minion, after two short outages",
        "all have answered, from then on",
        "a ping of one minion, beside large returns",
    ] {
        let row = rows.iter().find(|row| row["bench"] == bench);
        let row = row.unwrap_or_else(|| panic!("no {bench:?} in {text}"));
        assert_eq!(
            (&row["transport"], &row["minions"]),
            (&transport.into(), &3.into())
        );
        assert!(
            row["value"].as_f64().unwrap() > 0.0 || bench.starts_with("memory"),
            "{row}"
        );
        let printed = String::from_utf8_lossy(&out.stdout);
        assert!(printed.contains(bench), "{printed}");
    }
}

#[test]
fn a_system_over_nats_is_measured_with_its_servers() {
    if NatsServer::program().is_none() {
        return;
    }
    a_system_is_measured("nats");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.json");
    let out = Command::new(env!("CARGO_BIN_EXE_saline-bench"))
        .args(["system", "--minions", "3", "--transport", "nats"])
        .args(["--nats-servers", "3", "--only", "pings", "--json"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let text = std::fs::read_to_string(file).unwrap();
    for bench in [
        "memory of the servers of NATS, a minion",
        "CPU of the servers of NATS, a ping and minion",
    ] {
        assert!(text.contains(bench), "{text}");
    }
    assert!(!text.contains("all have answered"), "{text}");
}

#[test]
fn a_swarm_that_makes_no_sense_is_refused_in_one_line() {
    for (arguments, says) in [
        (
            &["--minions", "0", "--master", "127.0.0.1:1"][..],
            "at least 1",
        ),
        (
            &["--minions", "1", "--master", "127.0.0.1"],
            "127.0.0.1:4506",
        ),
        (
            &[
                "--minions",
                "1",
                "--master",
                "127.0.0.1:1",
                "--transport",
                "pigeon",
            ],
            "pigeon",
        ),
        (
            &[
                "--minions",
                "1",
                "--master",
                "127.0.0.1:1",
                "--transport",
                "nats",
            ],
            "--servers",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_saline-swarm"));
        let out = command.args(arguments).output().unwrap();
        assert!(!out.status.success(), "{arguments:?}");
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(text.contains(says), "{text}");
    }
}

/// The signal that an operator's terminal sends.
#[test]
fn an_interrupted_swarm_stops() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    let mut swarm = swarm(&fleet, 2, 1);
    fleet.master().log.wait_for("is connected", 2);
    swarm.signal(Signal::INT);
    assert_eq!(swarm.wait(), Some(0));
}
