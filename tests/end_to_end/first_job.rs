//! The first job: a master, minions and `saline '*' test.ping`, as real processes over real sockets.

use saline_testing::Fleet;

saline_testing::over_each_transport!(
    a_key_is_accepted_and_the_minion_answers,
    three_minions_answer_in_every_format,
    what_cannot_be_is_told_in_one_line,
    a_master_that_is_down_is_told_at_once,
    a_minion_that_is_not_there_is_named_and_costs_no_time,
    a_job_is_looked_up_later,
    ten_mebibytes_come_back_whole,
    a_hundred_jobs_at_once,
    the_versions_of_the_fleet_are_shown,
);

fn the_versions_of_the_fleet_are_shown(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1", "m2"]);
    let said = fleet.run("saline-run", &["manage.versions"]).expect(0);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        said.stdout,
        format!(
            "Master:\n    {version}\nUp to date:\n    ----------\n    m1:\n        {version}\n    m2:\n        {version}\n"
        )
    );
    let json = fleet
        .run("saline-run", &["manage.versions", "--out", "json"])
        .expect(0);
    assert!(json.stdout.contains("\"Up to date\""), "{}", json.stdout);
}

fn a_key_is_accepted_and_the_minion_answers(transport: &'static str) {
    let mut fleet = Fleet::new(transport, "");
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.master().log.wait_for("the key of minion m1 ", 1);
    let listed = fleet.run("saline-key", &["-L"]).expect(0);
    assert!(
        listed.stdout.contains("Unaccepted Keys:\nm1\n"),
        "{}",
        listed.stdout
    );
    // Nobody answers whose key is not accepted.
    fleet.saline(&["*", "test.ping"]).expect(2);
    fleet.run("saline-key", &["-y", "-a", "m1"]).expect(0);
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let said = fleet.saline(&["*", "test.ping"]).expect(0);
    assert_eq!(said.stdout, "m1:\n    True\n");
    assert_eq!(said.stderr, "");
}

fn three_minions_answer_in_every_format(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1", "m2", "m3"]);
    let said = fleet.saline(&["*", "test.ping", "--out", "json", "--static"]);
    let said = said.expect(0);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"m1": true, "m2": true, "m3": true})
    );
    let said = fleet
        .saline(&["m[12]", "test.ping", "--out", "raw"])
        .expect(0);
    let mut lines: Vec<_> = said.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["{'m1': True}", "{'m2': True}"]);
    let said = fleet.saline(&["-L", "m1,m3", "test.ping", "--out", "quiet"]);
    assert_eq!(said.expect(0).stdout, "");
    let said = fleet.saline(&["-E", "m(1|2)", "test.echo", "{a: b}", "--static"]);
    assert_eq!(said.expect(0).stdout.matches("a:\n").count(), 2);
}

fn what_cannot_be_is_told_in_one_line(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1"]);
    let unmatched = fleet.saline(&["nope*", "test.ping"]).expect(2);
    assert_eq!(unmatched.stderr, "ERROR: No minions match 'nope*'.\n");
    let bad = fleet.saline(&["-E", "(", "test.ping"]);
    // And two lines that show the place.
    let bad = bad.expect(64);
    assert_eq!(bad.stderr.lines().count(), 3, "{}", bad.stderr);
    assert!(bad.stderr.contains("unclosed group"), "{}", bad.stderr);
    fleet.saline(&["--nosuch"]).expect(64);
    fleet.saline(&["m1"]).expect(42);
    let failed = fleet.saline(&["m1", "cmd.run", "exit 3"]).expect(1);
    assert!(failed.stderr.contains("1 of 1 failed"));
}

fn a_master_that_is_down_is_told_at_once(transport: &'static str) {
    let fleet = Fleet::new(transport, "");
    fleet.write_master_config();
    for (program, arguments) in [
        ("saline", &["*", "test.ping"][..]),
        ("saline-run", &["jobs.list_jobs"]),
    ] {
        let said = fleet.run(program, arguments);
        assert_ne!(said.code, Some(0), "{said:?}");
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    }
    // Keys are seen without a master too.
    fleet.run("saline-key", &["-L"]).expect(0);
}

fn a_minion_that_is_not_there_is_named_and_costs_no_time(transport: &'static str) {
    let mut fleet = Fleet::with_minions(transport, &["m1", "m2"]);
    assert_eq!(fleet.minions.get_mut("m2").unwrap().terminate(), Some(0));
    fleet.master().log.wait_for("minion m2 says goodbye", 1);
    let said = fleet.saline(&["*", "test.ping"]).expect(1);
    assert!(said.stdout.contains("m1:\n    True\n"), "{}", said.stdout);
    assert!(
        said.stdout
            .contains("m2:\n    Minion did not return. [Not connected]"),
        "{}",
        said.stdout
    );
}

fn a_job_is_looked_up_later(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1"]);
    let said = fleet.saline(&["m1", "test.ping", "--async"]).expect(0);
    let jid = said
        .stdout
        .trim()
        .strip_prefix("Executed command with job ID: ")
        .unwrap()
        .to_owned();
    fleet.master().log.wait_for("minion m1 returned", 1);
    let found = fleet
        .run("saline-run", &["jobs.lookup_jid", &jid])
        .expect(0);
    assert_eq!(found.stdout, "m1:\n    True\n");
    let jobs = fleet.run("saline-run", &["jobs.list_jobs"]).expect(0);
    assert!(jobs.stdout.contains(&jid));
    fleet.run("saline-run", &["jobs.list_job", &jid]).expect(0);
    fleet
        .run("saline-run", &["jobs.lookup_jid", "20200101000000000000"])
        .expect(1);
}

fn ten_mebibytes_come_back_whole(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1"]);
    let command = "head -c 10485760 /dev/zero | tr '\\0' x";
    let said = fleet
        .saline(&["m1", "cmd.run", command, "--out", "json"])
        .expect(0);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["m1"].as_str().unwrap().len(), 10_485_760);
}

fn a_hundred_jobs_at_once(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1", "m2"]);
    let children: Vec<_> = (0..100)
        .map(|n| {
            fleet
                .command(
                    "saline",
                    &[
                        "*",
                        "test.echo",
                        &n.to_string(),
                        "--out",
                        "json",
                        "--static",
                    ],
                )
                .stdin(std::process::Stdio::null())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for (n, child) in children.into_iter().enumerate() {
        let said = saline_testing::CommandOutput::from(child.wait_with_output().unwrap()).expect(0);
        let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(json, serde_json::json!({"m1": n, "m2": n}));
    }
}
