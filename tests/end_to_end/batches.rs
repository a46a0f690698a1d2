//! Jobs that are carried out in batches, by real processes.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::collections::BTreeSet;
use std::time::Instant;

use rustix::process::Signal;
use saline_testing::{CommandOutput, Fleet, TEST_TIMEOUT};
use serde_json::Value;

const SIX: [&str; 6] = ["m1", "m2", "m3", "m4", "m5", "m6"];

saline_testing::over_each_transport!(a_batch_slides_over_its_minions);

/// A shell command that notes when it begins and when it ends, so that it shows how many run at once.
fn noted(fleet: &Fleet, seconds: f64) -> String {
    let ledger = fleet.path("ledger");
    let ledger = ledger.display();
    format!("echo begin >> {ledger}; sleep {seconds}; echo end >> {ledger}; echo done")
}

/// How many minions began, and how many ran at once.
fn ran(fleet: &Fleet) -> (usize, usize) {
    let text = std::fs::read_to_string(fleet.path("ledger")).unwrap_or_default();
    let (mut begun, mut running, mut most) = (0, 0_usize, 0);
    for line in text.lines() {
        match line {
            "begin" => {
                begun += 1;
                running += 1;
                most = most.max(running);
            }
            _ => running = running.saturating_sub(1),
        }
    }
    (begun, most)
}

fn publish(fleet: &Fleet, arguments: &[&str]) -> String {
    let arguments = [arguments, &["--async", "--out", "json"]].concat();
    let said = fleet.saline(&arguments).expect(0);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    json["jid"].as_str().unwrap().to_owned()
}

/// Waits until so many minions have returned, and returns which.
fn wait_for_returns(fleet: &Fleet, jid: &str, count: usize) -> BTreeSet<String> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let looked = look(fleet, "jobs.lookup_jid", jid);
        let returned = looked.as_object().unwrap();
        if returned.len() >= count {
            return returned.keys().cloned().collect();
        }
        assert!(Instant::now() < deadline, "{looked}");
    }
}

fn look(fleet: &Fleet, function: &str, jid: &str) -> Value {
    let said = fleet.run("saline-run", &[function, jid, "--out", "json"]);
    serde_json::from_str(&said.expect(0).stdout).unwrap()
}

fn all() -> BTreeSet<String> {
    SIX.map(str::to_owned).into()
}

fn a_batch_slides_over_its_minions(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &SIX);
    let command = noted(&fleet, 0.3);
    let said = fleet
        .saline(&["-b", "2", "*", "cmd.run", &command])
        .expect(0);
    assert_eq!(said.stdout.matches("done").count(), 6, "{}", said.stdout);
    assert_eq!(ran(&fleet), (6, 2));
}

#[test]
fn a_percentage_is_of_those_that_match_and_the_safe_limit_makes_a_batch() {
    let mut fleet = Fleet::new(
        "tcp",
        "auto_accept: True\nbatch_safe_limit: 4\nbatch_safe_size: 1\n",
    );
    fleet.start_master();
    for id in SIX {
        fleet.start_minion(id);
    }
    for id in SIX {
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    let command = noted(&fleet, 0.2);
    fleet
        .saline(&["-b", "50%", "*", "cmd.run", &command])
        .expect(0);
    assert_eq!(ran(&fleet), (6, 3));

    std::fs::remove_file(fleet.path("ledger")).unwrap();
    let said = fleet
        .saline(&["-L", "m1,m2,m3,m4", "cmd.run", &command])
        .expect(0);
    assert!(said.stderr.contains("4 minions match"), "{}", said.stderr);
    assert_eq!(ran(&fleet), (4, 1));

    let said = fleet.saline(&["-L", "m1,m2,m3", "test.ping"]).expect(0);
    assert_eq!(said.stderr, "");
}

#[test]
fn a_batch_goes_on_after_its_master_was_killed() {
    let mut fleet = Fleet::with_minions("tcp", &SIX);
    let command = noted(&fleet, 1.0);
    let jid = publish(&fleet, &["-b", "2", "*", "cmd.run", &command]);
    wait_for_returns(&fleet, &jid, 1);
    fleet.kill_master();
    fleet.start_master();
    fleet.master().log.wait_for("it goes on", 1);
    assert_eq!(wait_for_returns(&fleet, &jid, 6), all());
    assert_eq!(ran(&fleet), (6, 2));
    fleet.master().log.wait_for("complete", 1);
    assert_eq!(look(&fleet, "batch.status", &jid)["status"], "complete");
}

#[test]
fn a_failure_halts_a_batch_when_it_is_asked_to() {
    let fleet = Fleet::with_minions("tcp", &SIX);
    let said = fleet
        .saline(&[
            "-b",
            "1",
            "--failhard",
            "*",
            "cmd.run",
            "exit 3",
            "--show-jid",
        ])
        .expect(1);
    let jid = said
        .stdout
        .lines()
        .next()
        .unwrap()
        .rsplit(' ')
        .next()
        .unwrap();
    let status = look(&fleet, "batch.status", jid);
    assert_eq!(
        (&status["status"], &status["halted_by"], &status["ended"]),
        (&"halted".into(), &serde_json::json!(["m1"]), &6.into()),
        "{status}"
    );
    assert!(
        said.stderr
            .contains("m1 failed with retcode 3: 5 minions were not asked"),
        "{}",
        said.stderr
    );
    assert_eq!(
        said.stdout.matches("[Cancelled]").count(),
        5,
        "{}",
        said.stdout
    );
    // Without it the others get their turn.
    let said = fleet
        .saline(&["-b", "5", "*", "cmd.run", "exit 3"])
        .expect(1);
    assert!(!said.stdout.contains("[Cancelled]"), "{}", said.stdout);
}

#[test]
fn a_batch_is_followed_and_stopped() {
    let fleet = Fleet::with_minions("tcp", &SIX);
    let command = noted(&fleet, 2.0);
    let jid = publish(&fleet, &["-b", "2", "*", "cmd.run", &command]);
    for id in ["m1", "m2"] {
        let begun = format!("minion {id} runs it");
        fleet.master().log.wait_for(&begun, 1);
    }
    let status = look(&fleet, "batch.status", &jid);
    assert_eq!(
        (&status["active"], &status["waiting"], &status["status"]),
        (&2.into(), &4.into(), &"active".into()),
        "{status}"
    );
    assert_eq!(status["states"]["waiting"].as_array().unwrap().len(), 4);
    let active = fleet.run("saline-run", &["batch.list_active"]).expect(0);
    assert!(active.stdout.contains(&jid), "{}", active.stdout);

    let stopped = look(&fleet, "batch.stop", &jid);
    assert_eq!(stopped["m3"], "cancelled", "{stopped}");
    assert_eq!(stopped["m1"], "running", "{stopped}");
    assert_eq!(wait_for_returns(&fleet, &jid, 2).len(), 2);
    assert_eq!(ran(&fleet), (2, 2));
    let active = fleet.run("saline-run", &["batch.list_active"]).expect(0);
    assert!(!active.stdout.contains(&jid), "{}", active.stdout);
    let ended = look(&fleet, "batch.status", &jid);
    assert_eq!(ended["status"], "stopped", "{ended}");
    let names = |status: &Value| {
        status
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&ended), names(&status));
    // A minion that fails after the stop has not halted the batch.
    let late = "sleep 2; exit 3";
    let jid = publish(&fleet, &["-b", "2", "--failhard", "*", "cmd.run", late]);
    for id in ["m1", "m2"] {
        fleet.minions[id].log.wait_for("running cmd.run", 2);
    }
    look(&fleet, "batch.stop", &jid);
    assert_eq!(wait_for_returns(&fleet, &jid, 2).len(), 2);
    let ended = look(&fleet, "batch.status", &jid);
    assert_eq!(
        (&ended["status"], &ended["halted_by"]),
        (&"stopped".into(), &serde_json::json!([])),
        "{ended}"
    );
    let no_batch = publish(&fleet, &["*", "test.ping"]);
    let said = fleet
        .run("saline-run", &["batch.stop", &no_batch])
        .expect(1);
    assert!(said.stderr.contains("is not a batch"), "{}", said.stderr);
}

#[test]
fn minions_that_are_away_take_no_slot() {
    let mut fleet = Fleet::with_minions("tcp", &SIX);
    for id in ["m1", "m2"] {
        fleet.minions.get_mut(id).unwrap().terminate();
        let gone = format!("minion {id} says goodbye");
        fleet.master().log.wait_for(&gone, 1);
    }
    let said = fleet.saline(&["-b", "1", "*", "test.ping"]).expect(1);
    assert_eq!(said.stdout.matches("True").count(), 4, "{}", said.stdout);
    assert_eq!(
        said.stdout.matches("[Not connected]").count(),
        2,
        "{}",
        said.stdout
    );
    // With a time to live they get their turn when they come.
    let said = fleet
        .saline(&["-b", "1", "--ttl", "1h", "--show-jid", "*", "test.ping"])
        .expect(0);
    assert_eq!(
        said.stdout.matches("[Queued]").count(),
        2,
        "{}",
        said.stdout
    );
    let jid = said.stdout.lines().next().unwrap();
    let jid = jid.strip_prefix("jid: ").unwrap();
    fleet.start_minion("m1");
    fleet.start_minion("m2");
    assert_eq!(wait_for_returns(&fleet, jid, 6), all());
}

/// The minion whose turn would be next is killed while the first one runs the job.
#[test]
fn a_batch_says_for_whom_it_waits_and_how_long() {
    let mut fleet = Fleet::with_minions("tcp", &["m1", "m2"]);
    let goes_on = fleet.path("goes-on");
    let command = format!("until test -e {}; do sleep 0.05; done", goes_on.display());
    let begin = ["-b", "1", "*", "cmd.run", &command];
    let mut waiting = fleet.command("saline", &[&begin[..], &["-v", "-t", "60"]].concat());
    let waiting = waiting
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    fleet.minions["m1"].log.wait_for("running cmd.run", 1);
    fleet.minions.get_mut("m2").unwrap().kill();
    fleet.master().log.wait_for("minion gone: m2", 1);
    std::fs::write(&goes_on, "").unwrap();
    let said = CommandOutput::from(waiting.wait_with_output().unwrap()).expect(1);
    let told = "Waiting up to 4 s for minions that are gone and may come back: m2";
    assert!(said.stderr.contains(told), "{said:?}");
    assert!(said.stdout.contains("[Not connected]"), "{said:?}");
    let jid = said.stdout.split("with jid ").nth(1).unwrap();
    let jid = jid.split_whitespace().next().unwrap();
    let ended = look(&fleet, "batch.status", jid);
    assert_eq!(ended["grace_seconds_left"], Value::Null, "{ended}");
}

#[test]
fn a_batch_goes_on_without_its_command() {
    let fleet = Fleet::with_minions("tcp", &SIX);
    let command = noted(&fleet, 0.5);
    let mut waiting = fleet.command("saline", &["-b", "1", "*", "cmd.run", &command]);
    let waiting = waiting
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    fleet.master().log.wait_for("returned from", 1);
    let pid = rustix::process::Pid::from_raw(i32::try_from(waiting.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    let said = CommandOutput::from(waiting.wait_with_output().unwrap()).expect(1);
    let jid = said.stderr.split("saline-run batch.stop ").nth(1).unwrap();
    let jid = jid.split_whitespace().next().unwrap();
    assert_eq!(wait_for_returns(&fleet, jid, 6), all());
    assert_eq!(ran(&fleet), (6, 1));
}

#[test]
fn a_minion_that_does_not_end_holds_the_others_up_until_the_time_out() {
    let fleet = Fleet::with_minions("tcp", &["m1", "m2", "m3"]);
    let (first, go_on) = (fleet.path("first"), fleet.path("go-on"));
    // Whoever comes first goes on when the others have ended.
    let command = format!(
        "mkdir {} 2>/dev/null || exit 0; until test -e {}; do sleep 0.05; done; echo late",
        first.display(),
        go_on.display()
    );
    let arguments = ["-b", "1", "--batch-timeout", "1", "*", "cmd.run", &command];
    let jid = publish(&fleet, &arguments);
    assert_eq!(wait_for_returns(&fleet, &jid, 2).len(), 2);
    let status = look(&fleet, "batch.status", &jid);
    assert_eq!(status["batch_timeout"], 1.0, "{status}");
    std::fs::write(&go_on, "").unwrap();
    assert_eq!(wait_for_returns(&fleet, &jid, 3).len(), 3);
}
