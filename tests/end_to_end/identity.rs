//! The identity of the master: rotated, with minions that are there, away or configured for one of its keys, and lost.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use saline_testing::{CommandOutput, Fleet, TEST_TIMEOUT};
use serde_json::Value;

saline_testing::over_each_transport!(
    minions_follow_a_rotated_identity_and_run_what_was_queued_before,
    a_master_that_was_put_back_or_made_anew_is_refused,
);

fn key(fleet: &Fleet, arguments: &[&str]) -> CommandOutput {
    fleet.run("saline-key", arguments)
}

fn pki(fleet: &Fleet) -> PathBuf {
    fleet.path("master/etc/saline/pki/master")
}

fn pinned(fleet: &Fleet, id: &str) -> String {
    let path = fleet.path(&format!("{id}/etc/saline/pki/minion/master.pub"));
    fs::read_to_string(path).unwrap()
}

/// Returns the fingerprints of the master's key and of the next one.
fn fingerprints(fleet: &Fleet) -> (String, Option<String>) {
    let listed = key(fleet, &["-F", "--out", "json"]).expect(0);
    let json: Value = serde_json::from_str(&listed.stdout).unwrap();
    let finger = |name: &str| json["local"][name].as_str().map(ToOwned::to_owned);
    (finger("master.pub").unwrap(), finger("master.pub.next"))
}

/// Has the next identity made. Returns its fingerprint.
fn rotate(fleet: &Fleet) -> String {
    let said = key(fleet, &["-y", "--rotate-identity", "--out", "json"]).expect(0);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    let next = json["local"]["master.pub.next"].as_str().unwrap();
    assert_eq!(fingerprints(fleet).1.as_deref(), Some(next));
    next.to_owned()
}

fn stop_master(fleet: &mut Fleet) {
    assert_eq!(fleet.master.take().unwrap().terminate(), Some(0));
}

/// Restarts the master, and waits until a minion has followed for the `count`th time.
fn restart(fleet: &mut Fleet, id: &str, count: usize) -> String {
    stop_master(fleet);
    fleet.start_master();
    let log = &fleet.minions[id].log;
    let line = log.wait_for("the master has replaced its key", count);
    log.wait_for("subscribed", count + 1);
    line
}

fn terminate(fleet: &mut Fleet, id: &str) {
    let mut minion = fleet.minions.remove(id).unwrap();
    assert_eq!(minion.terminate(), Some(0));
    let said = format!("minion {id} says goodbye");
    fleet.master().log.wait_for(&said, 1);
}

/// Starts a job without waiting for it, and returns its jid.
fn begin(fleet: &Fleet, arguments: &[&str]) -> String {
    let arguments = [arguments, &["--ttl", "1h", "--async", "--out", "json"]].concat();
    let said = fleet.saline(&arguments).expect(0);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    json["jid"].as_str().unwrap().to_owned()
}

/// Waits until `saline-run jobs.lookup_jid` prints this of the job.
fn wait_for_return(fleet: &Fleet, jid: &str, said: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let looked = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
        let looked = looked.expect(0);
        if looked.stdout.contains(said) {
            return;
        }
        assert!(Instant::now() < deadline, "{said}: {looked:?}");
    }
}

fn minions_follow_a_rotated_identity_and_run_what_was_queued_before(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["here", "away"]);
    let (first, next) = fingerprints(&fleet);
    assert_eq!(next, None);
    terminate(&mut fleet, "away");
    let single = begin(&fleet, &["away", "test.echo", "single"]);
    let batch = begin(&fleet, &["-b", "1", "*", "test.echo", "batch"]);
    wait_for_return(&fleet, &batch, "here");

    let second = rotate(&fleet);
    // Until the restart nothing has changed.
    assert_eq!(fingerprints(&fleet).0, first);
    fleet.saline(&["here", "test.ping"]).expect(0);
    let tail = fleet.run("saline-run", &["audit.tail"]).expect(0).stdout;
    assert!(tail.contains("rotate the identity of the master"), "{tail}");
    let line = restart(&mut fleet, "here", 1);
    assert!(line.contains(&first) && line.contains(&second), "{line}");
    assert_eq!(fingerprints(&fleet), (second.clone(), None));
    let line = fleet
        .master()
        .log
        .wait_for("the identity of the master is", 1);
    assert!(line.contains(&first) && line.contains(&second), "{line}");
    fleet.saline(&["here", "test.ping"]).expect(0);
    let between = begin(&fleet, &["away", "test.echo", "between"]);

    let third = rotate(&fleet);
    restart(&mut fleet, "here", 2);
    fleet.saline(&["here", "test.ping"]).expect(0);
    // Restarted without a rotation, it is followed no more.
    stop_master(&mut fleet);
    fleet.start_master();
    let log = Arc::clone(&fleet.minions["here"].log);
    log.wait_for("subscribed", 4);
    assert_eq!(log.count("the master has replaced its key"), 2);

    fleet.start_minion("away");
    let log = Arc::clone(&fleet.minions["away"].log);
    let line = log.wait_for("the master has replaced its key", 1);
    assert!(line.contains(&first) && line.contains(&third), "{line}");
    log.wait_for("subscribed", 1);
    for (jid, said) in [(single, "single"), (batch, "batch"), (between, "between")] {
        wait_for_return(&fleet, &jid, &format!("\"away\": \"{said}\""));
    }
    for id in ["here", "away"] {
        let text = pinned(&fleet, id);
        for before in [&first, &second] {
            assert!(text.contains(&format!("predecessor: {before}\n")), "{text}");
        }
        fleet.saline(&[id, "test.ping"]).expect(0);
    }
    for minion in fleet.minions.values() {
        assert_eq!(minion.log.count("did not sign"), 0);
    }
}

/// The turn of the second minion comes after the rotation, for a job that was signed before it.
#[test]
fn a_batch_goes_on_over_a_rotation() {
    let mut fleet = Fleet::with_minions("tcp", &["a", "b"]);
    let goes_on = fleet.path("goes-on");
    let command = format!(
        "until test -e {}; do sleep 0.05; done; echo done",
        goes_on.display()
    );
    let jid = begin(&fleet, &["-b", "1", "*", "cmd.run", &command]);
    fleet.minions["a"].log.wait_for("running cmd.run", 1);
    rotate(&fleet);
    restart(&mut fleet, "a", 1);
    fleet.minions["b"].log.wait_for("subscribed", 2);
    fs::write(goes_on, "").unwrap();
    wait_for_return(&fleet, &jid, "\"b\": \"done\"");
    let refused = "not signed by the master";
    assert_eq!(fleet.minions["b"].log.count(refused), 0);
}

/// Copies the files of a folder, but for those of minions' keys, which are in folders.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// Starts the minion again, so that it says again whom it does not trust. Returns the line.
fn distrusted(fleet: &mut Fleet, said: &str) -> String {
    drop(fleet.minions.remove("m1"));
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for(said, 1)
}

fn a_master_that_was_put_back_or_made_anew_is_refused(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1"]);
    let (old, kept) = (fingerprints(&fleet).0, fleet.path("kept"));
    copy(&pki(&fleet), &kept);
    let new = rotate(&fleet);
    restart(&mut fleet, "m1", 1);

    let done = fleet.path("done");
    stop_master(&mut fleet);
    copy(&pki(&fleet), &done);
    fs::remove_file(pki(&fleet).join("identity.successors")).unwrap();
    copy(&kept, &pki(&fleet));
    fleet.start_master();
    let line = distrusted(&mut fleet, "has a key that the trusted one has replaced");
    assert!(line.contains(&old) && line.contains(&new), "{line}");
    // It cannot be led to another successor of the old key either.
    let other = rotate(&fleet);
    stop_master(&mut fleet);
    fleet.start_master();
    let line = distrusted(&mut fleet, "has another key than the one");
    assert!(line.contains(&other) && line.contains(&new), "{line}");
    assert!(pinned(&fleet, "m1").contains(&format!("predecessor: {old}\n")));

    // A newer copy is the master again.
    stop_master(&mut fleet);
    copy(&done, &pki(&fleet));
    fleet.start_master();
    distrusted(&mut fleet, "subscribed");
    fleet.saline(&["m1", "test.ping"]).expect(0);

    // A new identity in the place of a lost one, beside all other files.
    stop_master(&mut fleet);
    for name in ["identity.key", "identity.pub"] {
        fs::remove_file(pki(&fleet).join(name)).unwrap();
    }
    fleet.start_master();
    let made = fingerprints(&fleet).0;
    let line = distrusted(&mut fleet, "has another key than the one");
    assert!(line.contains(&made) && line.contains(&new), "{line}");
    let public = fleet.path("m1/etc/saline/pki/minion/master.pub");
    fs::copy(pki(&fleet).join("identity.pub"), public).unwrap();
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

#[test]
fn a_take_over_that_was_cut_is_finished() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let first = fingerprints(&fleet).0;
    // Also without a master that could be asked.
    fleet.kill_master();
    let second = rotate(&fleet);
    let tail = fs::read_to_string(fleet.path("master/var/log/saline/master-audit.log")).unwrap();
    let line = tail.lines().last().unwrap();
    assert!(
        line.contains("rotate the identity of the master") && line.contains("without a master"),
        "{line}"
    );
    let (before, after) = (fleet.path("before"), fleet.path("after"));
    copy(&pki(&fleet), &before);
    fleet.start_master();
    fleet.kill_master();
    copy(&pki(&fleet), &after);
    drop(fleet.minions.remove("m1"));
    let files = [
        "identity.key",
        "identity.pub",
        "identity.next.key",
        "identity.successors",
        "noise.key",
        "noise.pub",
    ];
    // The files that a kill leaves as they were: before the record, before the next key is in its place, and before the
    // Noise key goes.
    let cuts = [
        &files[..],
        &[
            "identity.key",
            "identity.pub",
            "identity.next.key",
            "noise.key",
            "noise.pub",
        ],
        &["identity.pub", "noise.key", "noise.pub"],
    ];
    let pinned = fleet.path("m1/etc/saline/pki/minion/master.pub");
    let at_first = fs::read(before.join("identity.pub")).unwrap();
    for unchanged in cuts {
        for name in files {
            let from = if unchanged.contains(&name) {
                &before
            } else {
                &after
            };
            let path = pki(&fleet).join(name);
            let _ = fs::remove_file(&path);
            if from.join(name).exists() {
                fs::copy(from.join(name), path).unwrap();
            }
        }
        fs::write(&pinned, &at_first).unwrap();
        fleet.start_master();
        fleet.start_minion("m1");
        let log = Arc::clone(&fleet.minions["m1"].log);
        let line = log.wait_for("the master has replaced its key", 1);
        assert!(line.contains(&first) && line.contains(&second), "{line}");
        log.wait_for("subscribed", 1);
        assert_eq!(fingerprints(&fleet), (second.clone(), None));
        fleet.saline(&["m1", "test.ping"]).expect(0);
        drop(fleet.minions.remove("m1"));
        fleet.kill_master();
    }
}

#[test]
fn a_configured_fingerprint_may_be_any_key_of_the_master() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    let first = fingerprints(&fleet).0;
    fleet.start_minion_with("old", &format!("master_finger: '{first}'\n"));
    fleet.start_minion("early");
    for id in ["old", "early"] {
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    let second = rotate(&fleet);
    // It is configured for the key that comes, and waits for that.
    drop(fleet.minions.remove("early"));
    fleet.start_minion_with("early", &format!("master_finger: '{second}'\n"));
    let log = Arc::clone(&fleet.minions["early"].log);
    let line = log.wait_for("master_finger is", 1);
    assert!(line.contains(&first) && line.contains(&second), "{line}");
    let line = restart(&mut fleet, "old", 1);
    assert!(line.contains(&first) && line.contains(&second), "{line}");
    let outdated = "a key that the master has replaced: set it to";
    let line = fleet.minions["old"].log.wait_for(outdated, 1);
    assert!(line.contains(&first) && line.contains(&second), "{line}");
    fleet.minions["early"].log.wait_for("subscribed", 1);
    assert_eq!(fleet.minions["early"].log.count(outdated), 0);

    // A machine that is set up with the old fingerprint.
    fleet.start_minion_with("new", &format!("master_finger: '{first}'\n"));
    fleet.minions["new"].log.wait_for(outdated, 1);
    fleet.minions["new"].log.wait_for("subscribed", 1);
    // And one that starts again with it.
    drop(fleet.minions.remove("old"));
    fleet.start_minion_with("old", &format!("master_finger: '{first}'\n"));
    fleet.minions["old"].log.wait_for("subscribed", 1);
    fleet.minions["old"].log.wait_for(outdated, 1);
    let said = fleet.saline(&["*", "test.ping"]).expect(0);
    assert_eq!(said.stdout.matches("True").count(), 3, "{}", said.stdout);
}

#[test]
fn a_caller_follows_beside_a_minion_that_is_away() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    terminate(&mut fleet, "m1");
    let second = rotate(&fleet);
    fleet.kill_master();
    fleet.start_master();
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-call"));
    command.arg("-c").arg(fleet.minion_config("m1"));
    let said = CommandOutput::from(command.args(["test.echo", "here"]).output().unwrap());
    let said = said.expect(0);
    assert_eq!(said.stdout, "local:\n    here\n", "{}", said.stderr);
    assert!(said.stderr.contains(&second), "{}", said.stderr);
    fleet.start_minion("m1");
    let log = Arc::clone(&fleet.minions["m1"].log);
    log.wait_for("subscribed", 1);
    assert_eq!(
        log.count("the master has replaced its key"),
        0,
        "it is pinned already"
    );
}

#[test]
fn what_an_identity_queued_that_is_gone_is_withdrawn_and_told() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    terminate(&mut fleet, "m1");
    let jid = begin(&fleet, &["m1", "test.ping"]);
    stop_master(&mut fleet);
    for file in ["identity.key", "identity.pub"] {
        fs::remove_file(pki(&fleet).join(file)).unwrap();
    }
    // Left by a process that was killed while it wrote.
    let left = pki(&fleet).join(format!("identity.pub.{}.new", i32::MAX));
    fs::write(&left, "").unwrap();
    fleet.start_master();
    assert!(!left.exists());
    let line = fleet
        .master()
        .log
        .wait_for("queued jobs were withdrawn, since", 1);
    assert!(line.contains(&format!("(1 of them: {jid})")), "{line}");
    let looked = fleet.run("saline-run", &["jobs.lookup_jid", &jid]);
    assert!(looked.stderr.contains("[Withdrawn]"), "{looked:?}");
}
