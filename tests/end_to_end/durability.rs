//! No return is lost and no job runs twice when a process is killed.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use saline_testing::{Fleet, ended};

saline_testing::over_each_transport!(
    a_master_killed_during_a_job_of_twenty_minions_loses_no_return,
    a_minion_killed_while_it_runs_says_so_when_it_is_back,
    a_return_waits_for_a_master_that_is_away,
    minions_come_back_by_themselves_after_a_restart,
    missed_jobs_arrive_where_messages_are_small,
);

/// The rows of returns in the master's store, whichever process may have it open.
fn stored_returns(fleet: &Fleet) -> i64 {
    let databases = crate::job_store::partitions(fleet).into_iter();
    databases
        .map(|path| {
            let all = "SELECT count(*) FROM returns";
            let database = rusqlite::Connection::open(path).unwrap();
            database
                .query_row(all, [], |row| row.get::<_, i64>(0))
                .unwrap()
        })
        .sum()
}

fn a_master_killed_during_a_job_of_twenty_minions_loses_no_return(transport: &'static str) {
    let ids: Vec<String> = (1..=20).map(|n| format!("m{n:02}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut fleet = Fleet::with_minions(transport, &ids);
    let marks = fleet.path("marks");
    std::fs::create_dir(&marks).unwrap();
    // Every run leaves a line of its own, so that a second one would show.
    let command = format!("echo ran >> {}/$$; sleep 5", marks.display());
    let mut attached = fleet
        .command(
            "saline",
            // Twenty minions need longer to come back on a machine with much to do.
            &[
                "-t", "20", "*", "cmd.run", &command, "--out", "json", "--static",
            ],
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for id in &ids {
        fleet.minions[*id].log.wait_for("running", 1);
    }
    fleet.kill_master();
    fleet.start_master();

    let mut stdout = String::new();
    attached
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut stdout)
        .unwrap();
    let mut stderr = String::new();
    attached
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    let status = ended(&mut attached);
    assert_eq!(status.code(), Some(0), "{stdout}\n{stderr}");
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(json.as_object().unwrap().len(), 20, "{stdout}");
    assert_eq!(stored_returns(&fleet), 20);
    let runs: usize = std::fs::read_dir(&marks)
        .unwrap()
        .map(|entry| {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            text.lines().count()
        })
        .sum();
    assert_eq!(runs, 20);
}

fn a_minion_killed_while_it_runs_says_so_when_it_is_back(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1"]);
    let mut attached = fleet
        .command("saline", &["m1", "test.sleep", "300", "-t", "60"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    fleet.master().log.wait_for("minion m1 runs it", 1);
    fleet.minions.get_mut("m1").unwrap().kill();
    fleet.start_minion("m1");
    let mut lines = BufReader::new(attached.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "m1:");
    assert_eq!(ended(&mut attached).code(), Some(1));
    assert_eq!(stored_returns(&fleet), 1);
}

fn a_return_waits_for_a_master_that_is_away(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1"]);
    let said = fleet
        .saline(&["m1", "test.sleep", "1", "--async"])
        .expect(0);
    let jid = said.stdout.trim().rsplit(' ').next().unwrap().to_owned();
    fleet.minions["m1"].log.wait_for("running", 1);
    fleet.kill_master();
    fleet.minions["m1"].log.wait_for("returned", 1);
    // The minion too: what it spooled is all that is left.
    fleet.minions.get_mut("m1").unwrap().kill();
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.master().log.wait_for("minion m1 returned", 1);
    let found = fleet
        .run("saline-run", &["jobs.lookup_jid", &jid])
        .expect(0);
    assert_eq!(found.stdout, "m1:\n    True\n");
}

fn minions_come_back_by_themselves_after_a_restart(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1", "m2", "m3"]);
    for round in 2..4 {
        fleet.kill_master();
        fleet.start_master();
        for id in ["m1", "m2", "m3"] {
            fleet.minions[id].log.wait_for("subscribed", round);
        }
        let said = fleet.saline(&["*", "test.ping", "--out", "json", "--static"]);
        let json: serde_json::Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"m1": true, "m2": true, "m3": true})
        );
    }
}

fn missed_jobs_arrive_where_messages_are_small(transport: &'static str) {
    const JOBS: usize = 30;
    let options = "auto_accept: True\nmax_message_size: 65536\n";
    let mut fleet = Fleet::new(transport, options);
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet.minions.get_mut("m1").unwrap().terminate();
    fleet.master().log.wait_for("minion m1 says goodbye", 1);
    // Together they are larger than a message, and each of their returns fits.
    let text = "x".repeat(4_000);
    for _ in 0..JOBS {
        fleet
            .saline(&["m1", "test.echo", &text, "--ttl", "1h", "--async"])
            .expect(0);
    }
    fleet.start_minion("m1");
    fleet
        .master()
        .log
        .wait_for("minion m1 returned from test.echo", JOBS);
    assert_eq!(stored_returns(&fleet), JOBS as i64);
}

#[test]
fn a_job_whose_master_stays_away_is_told_to_be_published() {
    let mut fleet = Fleet::with_minions("tcp", &["m1", "m2"]);
    let arguments = ["*", "test.sleep", "300", "--static", "--out", "json"];
    let mut command = fleet.command("saline", &arguments);
    let waiting = std::thread::spawn(move || command.output().unwrap());
    for id in ["m1", "m2"] {
        fleet
            .master()
            .log
            .wait_for(&format!("minion {id} runs it"), 1);
    }
    fleet.kill_master();
    let said = saline_testing::CommandOutput::from(waiting.join().unwrap()).expect(1);
    for told in [
        "has been gone for 30 s",
        "was published, and no return was received from 2 minions (m1, m2), which may run it.",
        "saline-run jobs.lookup_jid 2",
    ] {
        assert!(said.stderr.contains(told), "{told}: {}", said.stderr);
    }
    assert_eq!(said.stdout, "{}\n");
}
