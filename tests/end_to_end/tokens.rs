//! Tokens: a minion that brings one is let in at once, another one with the same token is not, and the secret shows nowhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use saline_testing::{CommandOutput, Daemon, Fleet};
use serde_json::Value;

saline_testing::over_each_transport!(a_token_lets_one_minion_in_and_shows_nowhere);

fn key(fleet: &Fleet, arguments: &[&str]) -> CommandOutput {
    fleet.run("saline-key", arguments)
}

/// Makes a token with these options, and returns its text.
fn make(fleet: &Fleet, options: &[&str]) -> String {
    let arguments = [&["--make-token"], options].concat();
    let made = key(fleet, &arguments).expect(0);
    assert!(made.stderr.contains("enrolment_token"), "{made:?}");
    made.stdout.trim().to_owned()
}

/// Returns the name and the secret of a token.
fn parts(token: &str) -> (&str, &str) {
    let mut parts = token.split('-');
    (parts.next().unwrap(), parts.next().unwrap())
}

/// Returns the file for a minion's token.
fn file(fleet: &Fleet, id: &str) -> PathBuf {
    fleet.minion_config(id).join("enrolment_token")
}

fn give(fleet: &Fleet, id: &str, token: &str) {
    let path = file(fleet, id);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("{token}\n")).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
}

/// Returns the files below a folder that contain these bytes.
fn containing(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // The daemons run: what has gone meanwhile holds nothing.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        match kind {
            kind if kind.is_dir() => found.extend(containing(&entry.path(), bytes)),
            kind if kind.is_file() => {
                let Ok(content) = fs::read(entry.path()) else {
                    continue;
                };
                let mut windows = content.windows(bytes.len());
                if windows.any(|window| window == bytes) {
                    found.push(entry.path());
                }
            }
            _ => {}
        }
    }
    found
}

fn listed(fleet: &Fleet) -> Vec<Value> {
    let listed = key(fleet, &["--list-tokens", "--out", "json"]).expect(0);
    let json: Value = serde_json::from_str(&listed.stdout).unwrap();
    json.as_array().unwrap().clone()
}

fn a_token_lets_one_minion_in_and_shows_nowhere(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "durable_events: ['*']\n");
    let mut command = fleet.master_command();
    command.args(["-l", "trace"]);
    fleet.start_master_by(command);
    let token = make(&fleet, &["--for", "web*", "--hours", "2"]);
    let (name, secret) = parts(&token);
    // Its key waits already.
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("has not accepted", 1);
    fleet.minions.remove("web1");
    give(&fleet, "web1", &token);
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-minion"));
    command
        .arg("-c")
        .arg(fleet.minion_config("web1"))
        .args(["-l", "trace"]);
    fleet
        .minions
        .insert("web1".to_owned(), Daemon::spawn(&mut command));
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    fleet.saline(&["web1", "test.ping"]).expect(0);
    fleet.minions["web1"]
        .log
        .wait_for("enrolment_token is removed", 1);
    assert!(!file(&fleet, "web1").exists());
    let log = &fleet.master().log;
    log.wait_for(&format!("accept by token {name}"), 1);

    // The events of an acceptance, and a line in the audit file that names the token.
    let events = fleet
        .run("saline-run", &["event.read", "--out", "json"])
        .expect(0);
    for tag in ["\"salt/auth\"", "\"salt/key\""] {
        assert!(events.stdout.contains(tag), "{tag}: {}", events.stdout);
    }
    let audit = fleet
        .run("saline-run", &["audit.tail", "100"])
        .expect(0)
        .stdout;
    assert!(
        audit.contains(&format!("make token {name} for web*, valid for 2h, uses 1")),
        "{audit}"
    );
    assert!(
        audit.contains(&format!("token {name}")) && audit.contains("accept, fingerprint"),
        "{audit}"
    );

    // Another machine with the same token waits, and both sides say why. It is let in by hand.
    give(&fleet, "web2", &token);
    fleet.start_minion("web2");
    let log = &fleet.minions["web2"].log;
    log.wait_for("enrolment_token was used before)", 1);
    let log = &fleet.master().log;
    log.wait_for(
        &format!("the token {name} of minion web2 does not let it in: the token was used before"),
        1,
    );
    let tokens = listed(&fleet);
    assert_eq!(tokens.len(), 1);
    assert_eq!(tokens[0]["name"], name);
    assert_eq!(
        (&tokens[0]["used"], &tokens[0]["last"]),
        (&1.into(), &"web1".into())
    );
    key(&fleet, &["-y", "-a", "web2"]).expect(0);
    fleet.minions["web2"].log.wait_for("subscribed", 1);
    assert!(!file(&fleet, "web2").exists());

    // Its secret stands in no file, no log and no answer.
    let dumped = fleet.run("saline-run", &["config.get", "*"]);
    let dump = fleet.run("saline-call", &["--config-dump"]);
    let everything = [
        dumped.stdout,
        dump.stdout,
        audit,
        events.stdout,
        fleet.master().log.text(),
        fleet.minions["web1"].log.text(),
        fleet.minions["web2"].log.text(),
        key(&fleet, &["--list-tokens"]).stdout,
    ];
    for text in everything {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(
        containing(fleet.root(), secret.as_bytes()),
        [""; 0].map(PathBuf::from)
    );
    // Nor its bytes.
    let bytes = secret
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
    let bytes: Vec<u8> = bytes.collect();
    assert_eq!(containing(fleet.root(), &bytes), [""; 0].map(PathBuf::from));
}

#[test]
fn a_token_outlives_a_crash_of_the_master_and_stays_used() {
    let mut fleet = Fleet::new("tcp", "");
    fleet.start_master();
    let token = make(&fleet, &["--for", "web*"]);
    let other = make(&fleet, &["--for", "db1"]);
    give(&fleet, "web1", &token);
    fleet.start_minion("web1");
    fleet.master().log.wait_for("accept by token", 1);
    fleet.kill_master();
    fleet.start_master();
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    // A thief of the token, and one for whom the other token is not.
    give(&fleet, "web2", &token);
    give(&fleet, "db2", &other);
    for id in ["web2", "db2"] {
        fleet.start_minion(id);
    }
    fleet.minions["web2"].log.wait_for("was used before", 1);
    fleet.minions["db2"].log.wait_for("is for other ids", 1);
    // Its owner is let in after the crash, by the file that comes while it waits.
    fleet.start_minion("db1");
    fleet.minions["db1"].log.wait_for("has not accepted", 1);
    give(&fleet, "db1", &other);
    fleet.minions["db1"].log.wait_for("subscribed", 1);
    // Whose key was deleted does not come back by the token that it had.
    fleet.minions.remove("web1");
    key(&fleet, &["-y", "-d", "web1"]).expect(0);
    give(&fleet, "web1", &token);
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("was used before", 1);
    let pending = key(&fleet, &["-l", "un", "--out", "json"]).expect(0);
    let pending: Value = serde_json::from_str(&pending.stdout).unwrap();
    assert_eq!(
        pending["minions_pre"],
        serde_json::json!(["db2", "web1", "web2"])
    );
}

#[test]
fn of_two_minions_with_one_token_one_is_let_in() {
    let mut fleet = Fleet::new("tcp", "");
    fleet.start_master();
    let token = make(&fleet, &["--for", "*"]);
    let ids = ["a", "b", "c", "d"];
    for id in ids {
        give(&fleet, id, &token);
    }
    for id in ids {
        fleet.start_minion(id);
    }
    fleet.master().log.wait_for("does not let it in", 3);
    assert_eq!(fleet.master().log.count("accept by token"), 1);
    let accepted = key(&fleet, &["-l", "acc", "--out", "json"]).expect(0);
    let accepted: Value = serde_json::from_str(&accepted.stdout).unwrap();
    assert_eq!(accepted["minions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_token_goes_to_the_master_that_made_it_and_to_no_other() {
    let mut real = Fleet::new("tcp", "");
    real.start_master();
    let token = make(&real, &["--for", "web1"]);
    let mut other = Fleet::new("tcp", "");
    other.start_master();
    give(&other, "web1", &token);
    other.start_minion("web1");
    let log = &other.minions["web1"].log;
    log.wait_for("has another key than the one that this minion trusts", 1);
    log.wait_for("enrolment_token_file", 1);
    // The other master was not trusted, and was shown no id.
    assert!(!other.path("web1/etc/saline/pki/minion/master.pub").exists());
    let known = key(&other, &["-L"]).expect(0).stdout;
    assert!(!known.contains("web1"), "{known}");
    other.minions.remove("web1");
    // Where the operator has said otherwise, the other master is trusted, and does not get the token all the same.
    let finger = key(&other, &["-F", "--out", "json"]).expect(0);
    let finger: Value = serde_json::from_str(&finger.stdout).unwrap();
    let finger = finger["local"]["master.pub"].as_str().unwrap();
    other.start_minion_with("web1", &format!("master_finger: {finger}\n"));
    let log = &other.minions["web1"].log;
    log.wait_for("was made by another master", 1);
    log.wait_for("has not accepted this minion's key yet: on the master", 1);
    assert_eq!(listed(&real)[0]["used"], 0);
}

#[test]
fn a_rotated_master_is_known_by_a_token_of_its_earlier_identity() {
    let mut fleet = Fleet::new("tcp", "");
    fleet.start_master();
    let token = make(&fleet, &["--for", "web1"]);
    key(&fleet, &["-y", "--rotate-identity"]).expect(0);
    assert_eq!(fleet.master.take().unwrap().terminate(), Some(0));
    fleet.start_master();
    give(&fleet, "web1", &token);
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
}

#[test]
fn what_is_wrong_with_a_token_is_said() {
    let mut fleet = Fleet::new("tcp", "");
    fleet.start_master();
    let token = make(&fleet, &["--for", "web*", "--uses", "9"]);
    let (name, secret) = parts(&token);
    // One that others can read is not used.
    give(&fleet, "web1", &token);
    fs::set_permissions(file(&fleet, "web1"), PermissionsExt::from_mode(0o644)).unwrap();
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("chmod 600", 1);
    give(&fleet, "web2", "no token");
    fleet.start_minion("web2");
    fleet.minions["web2"].log.wait_for("it holds no token", 1);
    // Both were to meet the master of their token, so they trust none on first use.
    for minion in ["web1", "web2"] {
        let log = &fleet.minions[minion].log;
        log.wait_for("trusts no master until the token can be used", 1);
        assert_eq!(log.count("is trusted from now on"), 0, "{minion}");
    }
    let guess = token.replace(secret, &"0".repeat(32));
    give(&fleet, "web3", &guess);
    fleet.start_minion("web3");
    fleet.minions["web3"]
        .log
        .wait_for("is not known to the master", 1);
    let soon = make(&fleet, &["--for", "web4", "--hours", "0.0000003"]);
    give(&fleet, "web4", &soon);
    fleet.start_minion("web4");
    fleet.minions["web4"].log.wait_for("has expired", 1);
    assert_eq!(listed(&fleet).len(), 1);
    let revoked = key(&fleet, &["--revoke-token", name]).expect(0);
    assert!(
        revoked.stdout.contains("It was used 0 of 9 times"),
        "{revoked:?}"
    );
    give(&fleet, "web5", &token);
    fleet.start_minion("web5");
    fleet.minions["web5"]
        .log
        .wait_for("is not known to the master", 1);
    key(&fleet, &["--revoke-token", name]).expect(1);
    let shown = key(&fleet, &["--list-tokens"]).expect(0);
    assert_eq!(shown.stdout, "There are no valid tokens.\n");
    // Without a master nothing is made.
    fleet.kill_master();
    let refused = key(&fleet, &["--make-token", "--for", "web1"]).expect(1);
    assert!(
        refused.stderr.contains("start saline-master"),
        "{refused:?}"
    );
    assert_eq!(refused.stdout, "");
}
