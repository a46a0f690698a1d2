//! Secret arguments: the function on the job's minions gets the values, and nothing else shows them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use saline_testing::{Fleet, Log};
use serde_json::Value;

/// The value of the secret argument, and what [`COMMAND`] makes of it.
const SECRET: &str = "correct-horse-battery";
const TURNED: &str = "pbeerpg-ubefr-onggrel";

/// Shows that the value came on its standard input without showing the value.
const COMMAND: &str = "tr a-z n-za-m";

/// Publishes a job with the secret, and returns its jid.
fn publish(fleet: &Fleet, arguments: &[&str]) -> String {
    // Outside of the root, which is searched.
    let file = fleet.root().with_extension("secret");
    fs::write(&file, format!("{SECRET}\n")).unwrap();
    let secret = format!("stdin=@{}", file.display());
    let arguments = [
        arguments,
        &["--secret", &secret, "--async", "--out", "json"],
    ]
    .concat();
    let said = fleet.saline(&arguments);
    fs::remove_file(&file).unwrap();
    let json: Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
    json["jid"].as_str().unwrap().to_owned()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files(&entry.path())),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// Returns every place that shows a text: files below the root, logs, and the command lines of all processes.
fn shown_in(fleet: &Fleet, text: &str) -> Vec<String> {
    let mut places = Vec::new();
    for path in files(fleet.root()) {
        // A log of SQLite may go meanwhile.
        if fs::read(&path).is_ok_and(|bytes| has(&bytes, text)) {
            places.push(path.display().to_string());
        }
    }
    let minions = fleet
        .minions
        .iter()
        .map(|(id, minion)| (id.as_str(), minion));
    let daemons = fleet
        .master
        .iter()
        .map(|master| ("master", master))
        .chain(minions);
    for (name, daemon) in daemons {
        if daemon.log.text().contains(text) {
            places.push(format!("the log of {name}"));
        }
    }
    for process in fs::read_dir("/proc").unwrap() {
        let line = process.unwrap().path().join("cmdline");
        // Most are no processes, and processes end.
        if fs::read(&line).is_ok_and(|bytes| has(&bytes, text)) {
            places.push(line.display().to_string());
        }
    }
    places
}

#[track_caller]
fn assert_hidden(fleet: &Fleet) {
    assert_eq!(shown_in(fleet, SECRET), Vec::<String>::new());
}

/// Returns what a minion returned to a job, once it has.
fn returned(fleet: &Fleet, jid: &str, minion: &str) -> Value {
    let line = format!("job {jid}: returned");
    fleet.minions[minion].log.wait_for(&line, 1);
    loop {
        let said = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
        let all: Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
        if let Some(returned) = all.get(minion) {
            return returned.clone();
        }
    }
}

#[test]
fn a_secret_reaches_the_function_and_shows_nowhere() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\nlog_level_logfile: trace\n");
    fleet.start_master();
    fleet.start_minion_with("m1", "log_level_logfile: trace\n");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let mut listener = fleet
        .command("saline-run", &["state.event"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let events = Log::follow(listener.stdout.take().unwrap());
    while events.text().is_empty() {
        fleet.saline(&["m1", "test.ping"]).expect(0);
    }
    // What is searched for would be found.
    let plain = "battery-horse-correct";
    let jid = publish(
        &fleet,
        &["m1", "cmd.run", &format!("{COMMAND}; : {plain}; sleep 30")],
    );
    fleet.minions["m1"]
        .log
        .wait_for(&format!("job {jid}: running"), 1);
    while !shown_in(&fleet, plain)
        .iter()
        .any(|place| place.ends_with("cmdline"))
    {}
    let places = shown_in(&fleet, plain);
    for place in ["/jobs/", "/proc/"] {
        let found = places.iter().any(|shown| shown.contains(place));
        assert!(found, "{place} is not among {places:?}");
    }
    assert_hidden(&fleet);
    fleet.run("saline-run", &["store.backup"]).expect(0);
    assert_hidden(&fleet);
    for function in ["jobs.list_job", "jobs.print_job"] {
        let listed = fleet.run("saline-run", &[function, &jid]).expect(0);
        assert!(listed.stdout.contains("__secret__"), "{}", listed.stdout);
        assert!(!listed.stdout.contains(SECRET), "{}", listed.stdout);
    }
    fleet.saline(&["m1", "saltutil.kill_job", &jid]).expect(0);
    returned(&fleet, &jid, "m1");

    let jid = publish(&fleet, &["m1", "cmd.run", COMMAND]);
    assert_eq!(returned(&fleet, &jid, "m1"), TURNED);
    events.wait_for(&format!("{jid}/ret"), 1);
    listener.kill().unwrap();
    listener.wait().unwrap();
    assert!(events.text().contains("__secret__"), "{}", events.text());
    assert!(!events.text().contains(SECRET), "{}", events.text());
    assert_hidden(&fleet);

    // Where the name or the type is wrong, the error does not show the value.
    let wrong = publish(&fleet, &["m1", "test.sleep", "1"]);
    let said = returned(&fleet, &wrong, "m1").to_string();
    assert!(said.contains("stdin") && !said.contains(SECRET), "{said}");
    assert_hidden(&fleet);
}

#[test]
fn a_queued_job_keeps_its_secret_over_a_restart_of_the_master_and_loses_it_with_the_key() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    fleet.minions.remove("m1").unwrap().terminate();
    let kept = publish(&fleet, &["m1", "cmd.run", COMMAND, "--ttl", "10m"]);
    assert_hidden(&fleet);
    fleet.kill_master();
    assert_hidden(&fleet);
    fleet.start_master();
    fleet.start_minion("m1");
    assert_eq!(returned(&fleet, &kept, "m1"), TURNED);
    assert_hidden(&fleet);

    fleet.minions.remove("m1").unwrap().terminate();
    let lost = publish(&fleet, &["m1", "cmd.run", COMMAND, "--ttl", "10m"]);
    fleet.kill_master();
    let is_key = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name == "job_secrets.key")
    };
    let keys: Vec<PathBuf> = files(fleet.root()).into_iter().filter(is_key).collect();
    assert_eq!(keys.len(), 1);
    fs::remove_file(&keys[0]).unwrap();
    fleet.start_master();
    fleet.start_minion("m1");
    let said = returned(&fleet, &lost, "m1").to_string();
    let why = "the value of the secret argument 'stdin' is missing";
    assert!(said.contains(why), "{said}");
    fleet.master().log.wait_for("its secrets are lost", 1);
}

#[test]
fn a_batch_keeps_its_secret_over_a_restart_of_the_master() {
    let mut fleet = Fleet::with_minions("tcp", &["m1", "m2"]);
    let command = format!("{COMMAND}; sleep 1");
    let jid = publish(&fleet, &["-b", "1", "*", "cmd.run", &command]);
    let running = format!("job {jid}: running");
    while !fleet
        .minions
        .values()
        .any(|minion| minion.log.count(&running) > 0)
    {}
    fleet.kill_master();
    assert_hidden(&fleet);
    fleet.start_master();
    for minion in ["m1", "m2"] {
        assert_eq!(returned(&fleet, &jid, minion), TURNED);
    }
    assert_hidden(&fleet);
}

#[test]
fn a_secret_for_minions_that_say_of_themselves_that_they_match_is_warned_of() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let file = fleet.path("secret");
    fs::write(&file, SECRET).unwrap();
    let secret = format!("stdin=@{}", file.display());
    let by = |target: &[&str]| {
        let arguments = [target, &["cmd.run", COMMAND, "--secret", &secret]].concat();
        let said = fleet.saline(&arguments).expect(0);
        assert!(said.stdout.contains(TURNED), "{}", said.stdout);
        said.stderr
    };
    assert_eq!(by(&["m1"]), "");
    let warned = by(&["-G", "id:m1"]);
    assert!(warned.starts_with("WARNING: "), "{warned}");
    assert_eq!(warned.lines().count(), 1, "{warned}");
}
