//! Running jobs are ended from outside: commands, waits, and jobs that have not begun.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::time::Instant;

use saline_testing::{Fleet, TEST_TIMEOUT};
use serde_json::{Value, json};

/// Starts a job without waiting for it, and returns its jid.
fn begin(fleet: &Fleet, fun: &str, argument: &str) -> String {
    let said = fleet
        .saline(&["m1", fun, argument, "--async", "--out", "json"])
        .expect(0);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    json["jid"].as_str().unwrap().to_owned()
}

/// Runs a function on m1, and returns its value.
fn ask(fleet: &Fleet, arguments: &[&str]) -> Value {
    let arguments = [&["m1"], arguments, &["--out", "json", "--static"]].concat();
    let said = fleet.saline(&arguments).expect(0);
    let mut json: Value = serde_json::from_str(&said.stdout).unwrap();
    json["m1"].take()
}

/// Waits until the job has a process of its own, and returns its pid.
fn pid_of_process(fleet: &Fleet, jid: &str) -> u64 {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let pid = ask(fleet, &["saltutil.find_job", jid])["pid"].as_u64();
        let own = u64::from(fleet.minions["m1"].pid());
        if let Some(pid) = pid.filter(|pid| *pid != own) {
            return pid;
        }
        assert!(Instant::now() < deadline, "job {jid} has no process");
    }
}

/// Waits for the return of a job, and returns its value and its retcode.
fn result(fleet: &Fleet, jid: &str, count: usize) -> (Value, i64) {
    fleet.master().log.wait_for("minion m1 returned", count);
    let said = fleet.run("saline-run", &["jobs.list_job", jid, "--out", "json"]);
    let mut json: Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
    let mut result = json["Result"]["m1"].take();
    assert_eq!(result["success"], false);
    (result["return"].take(), result["retcode"].as_i64().unwrap())
}

#[test]
fn a_command_is_killed_and_returns_what_it_left() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let own = fleet.path("own");
    let command = format!("echo $$ > {}; echo begun; sleep 600 | cat", own.display());
    let watching = fleet
        .command("saline", &["m1", "cmd.run", &command])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let line = fleet.minions["m1"].log.wait_for("running cmd.run", 1);
    let jid = line
        .split("job ")
        .nth(1)
        .unwrap()
        .split(':')
        .next()
        .unwrap();
    let process = pid_of_process(&fleet, jid);
    let deadline = Instant::now() + TEST_TIMEOUT;
    let pid = loop {
        let written = std::fs::read_to_string(&own).unwrap_or_default();
        if let Ok(pid) = written.trim().parse::<u64>() {
            break pid;
        }
        assert!(Instant::now() < deadline, "the command does not begin");
    };
    assert_ne!(pid, process);
    let sent = ask(&fleet, &["saltutil.kill_job", jid]);
    // The command may run before whoever started it notes its pid.
    let effects = [
        format!(" at pid {pid}"),
        ": its command gets it as it starts".to_owned(),
    ];
    assert!(
        effects
            .map(|effect| json!(format!("Signal 9 sent to job {jid}{effect}")))
            .contains(&sent),
        "{sent}"
    );
    let said = saline_testing::CommandOutput::from(watching.wait_with_output().unwrap()).expect(1);
    // The command may have been killed before its first line.
    assert!(
        said.stdout == "m1:\n    begun\n" || said.stdout == "m1:\n",
        "{said:?}"
    );
    let listed = fleet.run("saline-run", &["jobs.list_job", jid, "--out", "json"]);
    let listed: Value = serde_json::from_str(&listed.expect(0).stdout).unwrap();
    assert_eq!(listed["Result"]["m1"]["retcode"], 137);
    assert_eq!(ask(&fleet, &["saltutil.kill_job", jid]), json!(""));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn jobs_are_ended_while_they_hold_every_thread() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    fleet.start_minion_with("m1", "process_count_max: 1\n");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let running = begin(&fleet, "test.sleep", "600");
    let log = &fleet.minions["m1"].log;
    log.wait_for(&format!("job {running}: running test.sleep"), 1);
    let waiting = begin(&fleet, "test.sleep", "600");
    log.wait_for(&format!("job {waiting}: received test.sleep"), 1);
    let Value::Array(listed) = ask(&fleet, &["saltutil.running"]) else {
        panic!("a list");
    };
    assert!(listed.iter().any(|job| job["jid"] == json!(running)));
    assert!(listed.iter().all(|job| job["jid"] != json!(waiting)));

    assert_eq!(
        ask(&fleet, &["saltutil.term_job", &waiting]),
        json!(format!(
            "Signal 15 sent to job {waiting}: it had not begun, and will not"
        ))
    );
    let (value, retcode) = result(&fleet, &waiting, 3);
    let value = value.as_str().unwrap();
    assert!(
        value.starts_with("This job was terminated (SIGTERM) by job ")
            && value.ends_with(" before it began"),
        "{value}"
    );
    assert_eq!(retcode, 143);
    assert_eq!(log.count(&format!("job {waiting}: running")), 0);

    assert_eq!(
        ask(&fleet, &["saltutil.signal_job", &running, "KILL"]),
        json!(format!(
            "Signal 9 sent to job {running}: test.sleep was interrupted"
        ))
    );
    let (value, retcode) = result(&fleet, &running, 5);
    let value = value.as_str().unwrap();
    assert!(
        value.starts_with("This job was killed (SIGKILL) by job "),
        "{value}"
    );
    assert_eq!(retcode, 137);
    fleet.saline(&["m1", "test.ping"]).expect(0);
}
