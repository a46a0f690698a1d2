//! The audit file: no order without a line, over a crash of the master too.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use saline_testing::Fleet;

/// The lines of publications.
fn publications(fleet: &Fleet) -> Vec<String> {
    let file = fleet.path("master/var/log/saline/master-audit.log");
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines();
    lines
        .filter(|line| line.contains(r#""action": "publish a job""#))
        .map(ToOwned::to_owned)
        .collect()
}

#[test]
fn a_master_that_is_killed_has_a_line_for_every_job_in_its_store() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let publish = |_| {
        let mut command = fleet.command("saline", &["--async", "m1", "test.ping"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut commands: Vec<_> = (0..24).map(publish).collect();
    fleet.master().log.wait_for("published test.ping", 6);
    fleet.master().signal(Signal::KILL);
    // They would ask the next master again.
    for command in &mut commands {
        command.kill().unwrap();
        command.wait().unwrap();
    }
    fleet.kill_master();
    let lines = publications(&fleet);
    fleet.start_master();
    let listed = fleet.run("saline-run", &["jobs.list_jobs", "--out", "json"]);
    let listed = listed.expect(0).stdout;
    let jobs: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let jids: Vec<_> = jobs.as_object().unwrap().keys().collect();
    assert!(jids.len() >= 6, "{listed}");
    for jid in jids {
        let subject = format!(r#""subject": "job {jid}""#);
        let has_line = lines.iter().any(|line| line.contains(&subject));
        assert!(has_line, "{jid} has no line: {lines:?}");
    }
}

#[test]
fn without_room_for_a_line_root_goes_on_and_is_warned() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    // A folder in its place cannot be written.
    let file = fleet.path("master/var/log/saline/master-audit.log");
    fs::create_dir_all(&file).unwrap();
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let said = fleet.saline(&["m1", "test.ping"]).expect(0);
    assert!(
        said.stderr.contains("this order has no line"),
        "{}",
        said.stderr
    );
    for (program, words) in [
        ("saline-key", &["-r", "m1", "-y", "--include-all"][..]),
        ("saline-run", &["manage.up"]),
        ("saline-key", &["--rotate-aes-key"]),
    ] {
        let said = fleet.run(program, words).expect(0).stderr;
        let warnings = said.matches("this order has no line").count();
        assert_eq!(warnings, 1, "{program}: {said}");
    }
    let log = &fleet.master().log;
    log.wait_for("orders of operators and of local users are refused", 1);
}
