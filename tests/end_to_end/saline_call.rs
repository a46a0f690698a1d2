//! `saline-call`: functions that are called on a minion's machine, with and without its master.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use saline_testing::{CommandOutput, Daemon, Fleet};

saline_testing::over_each_transport!(
    a_call_is_printed_and_stored_beside_the_running_minion,
    without_a_master_only_local_calls_work,
    what_the_master_has_not_accepted_calls_nothing,
    a_call_that_takes_long_or_returns_much_is_stored,
);

/// Calls with the configuration of the minion `id`.
fn call(fleet: &Fleet, id: &str, arguments: &[&str]) -> CommandOutput {
    let folder = fleet.minion_config(id);
    let mut all = vec!["-c", folder.to_str().unwrap()];
    all.extend(arguments);
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-call"));
    CommandOutput::from(command.args(&all).output().unwrap())
}

fn a_call_is_printed_and_stored_beside_the_running_minion(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1"]);
    let said = call(&fleet, "m1", &["test.echo", "here"]).expect(0);
    assert_eq!(
        (said.stdout.as_str(), said.stderr.as_str()),
        ("local:\n    here\n", "")
    );
    let failed = ["cmd.run", "exit 3"];
    call(&fleet, "m1", &failed).expect(1);
    call(
        &fleet,
        "m1",
        &["--retcode-passthrough", failed[0], failed[1]],
    )
    .expect(3);
    // The running minion keeps its session, and its own jobs go on.
    assert_eq!(fleet.minions["m1"].log.count("replaced"), 0);
    fleet.saline(&["m1", "test.ping"]).expect(0);
    let listed = fleet.run(
        "saline-run",
        &["jobs.list_jobs", "include_calls=True", "--out", "json"],
    );
    let jobs: serde_json::Value = serde_json::from_str(&listed.expect(0).stdout).unwrap();
    let called: Vec<_> = jobs
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, job)| job["Operator"] == "saline-call on m1")
        .collect();
    assert_eq!(called.len(), 3, "{jobs}");
    let (jid, echoed) = called
        .iter()
        .find(|(_, job)| job["Function"] == "test.echo")
        .unwrap();
    assert_eq!(echoed["Arguments"], serde_json::json!(["here"]));
    let looked_up = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
    let returns: serde_json::Value = serde_json::from_str(&looked_up.expect(0).stdout).unwrap();
    assert_eq!(returns, serde_json::json!({"m1": "here"}));
}

fn a_call_that_takes_long_or_returns_much_is_stored(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1"]);
    // Longer than the master keeps a session that was not used, and a connection over which nothing came.
    let slow = "sleep 12; head -c 300000 /dev/zero | tr '\\0' x";
    let said = call(&fleet, "m1", &["cmd.run", slow]).expect(0);
    assert_eq!(
        said.stderr, "",
        "it says nothing of a master that was not told"
    );
    let listed = fleet.run(
        "saline-run",
        &["jobs.list_jobs", "include_calls=True", "--out", "json"],
    );
    let jobs: serde_json::Value = serde_json::from_str(&listed.expect(0).stdout).unwrap();
    let (jid, _) = jobs
        .as_object()
        .unwrap()
        .iter()
        .find(|(_, job)| job["Operator"] == "saline-call on m1")
        .unwrap();
    let looked_up = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
    let returns: serde_json::Value = serde_json::from_str(&looked_up.expect(0).stdout).unwrap();
    assert_eq!(returns["m1"].as_str().unwrap().len(), 300_000);
}

fn without_a_master_only_local_calls_work(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1"]);
    fleet.kill_master();
    let said = call(&fleet, "m1", &["test.ping"]).expect(1);
    assert_eq!(said.stdout, "");
    assert!(
        said.stderr.starts_with("ERROR: no master answers at "),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr
            .ends_with("use --local to run without a master\n"),
        "{}",
        said.stderr
    );
    assert_eq!(said.stderr.lines().count(), 1);
    let said = call(&fleet, "m1", &["--local", "test.ping", "--out", "json"]).expect(0);
    assert_eq!(said.stdout, "{\n    \"local\": true\n}\n");
    let said = call(&fleet, "m1", &["--local", "event.send", "myco/tag"]).expect(1);
    assert_eq!(
        said.stdout,
        "local:\n    ERROR: no master takes part in this call (--local), so nobody would get the event\n"
    );
    let said = call(&fleet, "m1", &["-g", "--out", "json"]).expect(0);
    let grains: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(grains["local"]["id"], "m1");
    let said = call(&fleet, "m1", &["-d", "test.ping"]).expect(0);
    assert!(said.stdout.starts_with("test.ping:\n"), "{}", said.stdout);
    let said = call(&fleet, "m1", &["-d", "nope"]).expect(1);
    assert_eq!((said.stdout.as_str(), said.stderr.lines().count()), ("", 1));
    let said = call(&fleet, "m1", &["--config-dump"]).expect(0);
    assert!(said.stdout.contains("\nid: m1\n"), "{}", said.stdout);
}

fn what_the_master_has_not_accepted_calls_nothing(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.master().log.wait_for("the key of minion m1 ", 1);
    let marker = fleet.path("called");
    let touch = format!("touch {}", marker.display());
    let said = call(&fleet, "m1", &["cmd.run", &touch]).expect(1);
    assert!(
        said.stderr.contains("`saline-key -a m1`"),
        "{}",
        said.stderr
    );
    assert!(!marker.exists(), "it was called all the same");
    // A call leaves no key that waits.
    let said = call(&fleet, "m1", &["--id", "m2", "test.ping"]).expect(1);
    assert!(
        said.stderr.contains("`saline-key -a m2`"),
        "{}",
        said.stderr
    );
    let listed = fleet.run("saline-key", &["-L"]).expect(0);
    assert!(!listed.stdout.contains("m2"), "{}", listed.stdout);
}

#[test]
fn a_key_that_the_master_does_not_take_is_told_with_what_to_do() {
    let fleet = Fleet::with_minions("tcp", &["m1", "m2"]);
    let of_another = call(&fleet, "m1", &["--id", "m2", "test.ping"]).expect(1);
    let told = "does not accept the key here as that of minion m2: on the master, `saline-key -f m2` shows";
    assert!(of_another.stderr.contains(told), "{of_another:?}");
    fleet
        .run("saline-key", &["-y", "-r", "m1", "--include-accepted"])
        .expect(0);
    let rejected = call(&fleet, "m1", &["test.ping"]).expect(1);
    assert!(
        rejected.stderr.contains("`saline-key -a m1`"),
        "{rejected:?}"
    );
}

/// A minion that starts ends the commands of a killed one, and not those of a call that goes on; and a
/// signal ends the command of a call.
#[test]
fn the_command_of_a_call_ends_with_the_call_alone() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let folder = fleet.minion_config("m1");
    let pipe = fleet.path("pid");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut calling = Command::new(env!("CARGO_BIN_EXE_saline-call"));
    calling.args(["-c", folder.to_str().unwrap(), "--local", "cmd.run"]);
    calling.arg(format!("echo $$ > {}; exec sleep 600", pipe.display()));
    let mut calling = Daemon::spawn(&mut calling);
    // Waits until the command writes it.
    let pid = std::fs::read_to_string(&pipe).unwrap();
    let lives = || Path::new("/proc").join(pid.trim()).exists();
    fleet.minions.get_mut("m1").unwrap().kill();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    assert!(
        lives(),
        "the start of the minion ended the command of a call"
    );
    calling.signal(Signal::INT);
    assert_eq!(calling.wait(), Some(1));
    assert!(!lives(), "the command outlived its call");
    assert!(
        calling.log.text().contains("interrupted"),
        "{}",
        calling.log.text()
    );
}
