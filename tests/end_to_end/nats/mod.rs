//! A fleet over servers of NATS. Where nats-server is not installed, that is said, and nothing is tested.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so by panicking, and measures real processes"
)]

mod deaths;
mod permissions;

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use saline_testing::{CommandOutput, Fleet, NatsServer, TEST_TIMEOUT};

/// Waits until the master counts exactly these minions as present, and returns how long that took.
#[track_caller]
fn present_within(bound: Duration, fleet: &Fleet, ids: &[&str]) -> Duration {
    let begin = Instant::now();
    let wanted = serde_json::json!(ids);
    loop {
        let up = json(fleet, "saline-run", &["manage.up"]);
        let elapsed = begin.elapsed();
        if up == wanted {
            return elapsed;
        }
        assert!(elapsed < bound, "{up} are present after {elapsed:?}");
    }
}

fn json(fleet: &Fleet, program: &str, arguments: &[&str]) -> serde_json::Value {
    let arguments = [arguments, &["--out", "json"]].concat();
    let said = fleet.run(program, &arguments).expect(0);
    serde_json::from_str(&said.stdout).unwrap()
}

#[test]
fn the_quickstart_says_that_it_starts_no_server_of_nats() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-quickstart"));
    let said = command
        .args(["--transport", "nats", "--exit"])
        .output()
        .unwrap();
    let said = CommandOutput::from(said).expect(1);
    assert!(said.stderr.contains("docs/nats.md"), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
}

#[test]
fn a_section_that_cannot_work_is_told_before_a_daemon_starts() {
    let fleet = Fleet::new("tcp", "");
    std::fs::create_dir_all(fleet.config()).unwrap();
    let file = fleet.config().join("master");
    for (section, why) in [
        ("{user: a, password: b, token: c}", "two ways to log in"),
        ("{password: b}", "nats:user is not"),
        ("{servers: ['a:99999']}", "99999"),
        ("{subject: 'a.*'}", "nats:subject"),
    ] {
        let root = fleet.root().display();
        std::fs::write(&file, format!("root_dir: {root}\nnats: {section}\n")).unwrap();
        let said = fleet.run("saline-master", &["--check"]).expect(1);
        assert!(said.stderr.contains("section \"nats\""), "{said:?}");
        assert!(said.stderr.contains(why), "{said:?}");
    }
}

#[test]
fn minions_come_over_nats_beside_others_and_move_to_it() {
    let Some(mut server) = NatsServer::start("") else {
        return;
    };
    let section = format!(
        "nats: {{servers: ['{}'], subject: saline.e2e}}\n",
        server.address()
    );
    let mut fleet = Fleet::new("[zeromq, nats]", &format!("auto_accept: True\n{section}"));
    fleet.start_master();
    fleet.transport = "zeromq";
    fleet.start_minion("m1");
    fleet.transport = "nats";
    fleet.start_minion_with("m2", &section);
    for id in ["m1", "m2"] {
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    let on = |fleet: &Fleet| json(fleet, "saline-run", &["manage.transports"]);
    let ping = |fleet: &Fleet| json(fleet, "saline", &["*", "test.ping", "--static"]);
    let both = serde_json::json!({"m1": true, "m2": true});
    assert_eq!(ping(&fleet), both);
    assert_eq!(
        on(&fleet),
        serde_json::json!({"zeromq": ["m1"], "nats": ["m2"]})
    );

    let path = fleet.minion_config("m1").join("minion");
    let text = std::fs::read_to_string(&path).unwrap();
    let moved = text.replace(
        "transport: zeromq\n",
        &format!("transport: [nats, zeromq]\n{section}"),
    );
    assert_ne!(text, moved);
    std::fs::write(&path, moved).unwrap();
    fleet.minions["m1"].signal(Signal::HUP);
    fleet.minions["m1"].log.wait_for("moving from zeromq://", 1);
    fleet.minions["m1"]
        .log
        .wait_for("subscribed to publications at nats://", 1);
    assert_eq!(ping(&fleet), both);
    assert_eq!(
        on(&fleet),
        serde_json::json!({"zeromq": [], "nats": ["m1", "m2"]})
    );

    // NATS dies and comes back; master and minions dial it again.
    server.kill();
    present_within(TEST_TIMEOUT, &fleet, &[]);
    server.start_again();
    present_within(TEST_TIMEOUT, &fleet, &["m1", "m2"]);
    assert_eq!(ping(&fleet), both);
}
