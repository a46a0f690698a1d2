//! Functions that run on the master: `saline-run`, by real processes.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::fs::File;
use std::io::Write as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use saline_testing::{CommandOutput, Fleet, Log, TEST_TIMEOUT, ended};
use serde_json::{Value, json};

/// Runs a function and returns what it returned.
fn returned(fleet: &Fleet, words: &[&str]) -> Value {
    let said = run(fleet, words);
    assert_eq!(said.code, Some(0), "{said:?}");
    serde_json::from_str(&said.stdout).unwrap()
}

fn run(fleet: &Fleet, words: &[&str]) -> CommandOutput {
    fleet.run("saline-run", &[words, &["--out", "json"]].concat())
}

/// Publishes a job, waits for it, and returns its jid.
fn publish(fleet: &Fleet, words: &[&str]) -> String {
    let said = fleet.saline(&[words, &["--show-jid"]].concat());
    let first = said.stdout.lines().next().unwrap_or_default();
    first.strip_prefix("jid: ").unwrap().to_owned()
}

/// Begins a function and returns the jid of its run.
fn begin(fleet: &Fleet, words: &[&str]) -> String {
    let said = returned(fleet, &[words, &["--async"]].concat());
    said["jid"].as_str().unwrap().to_owned()
}

/// Looks a run up until its return is stored.
fn looked_up(fleet: &Fleet, jid: &str) -> (Option<i32>, Value, String) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let said = run(fleet, &["jobs.lookup_jid", jid]);
        let value: Value = serde_json::from_str(&said.stdout).unwrap();
        if let Some((name, value)) = value.as_object().unwrap().iter().next() {
            assert!(name.ends_with("_master"), "{name}");
            return (said.code, value.clone(), said.stderr);
        }
        assert!(Instant::now() < deadline, "{said:?}");
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn jobs_are_found_by_what_they_call_whom_they_are_for_when_and_what_was_noted() {
    let fleet = Fleet::with_minions("tcp", &["web1", "web2"]);
    let ping = publish(
        &fleet,
        &["*", "test.ping", "--metadata", "{ticket: 4711, team: ops}"],
    );
    let failed = publish(
        &fleet,
        &[
            "web1",
            "cmd.run",
            "exit 3",
            "--metadata",
            "{\"ticket\": 4712}",
        ],
    );
    let echo = publish(&fleet, &["-L", "web1,web2", "test.echo", "x"]);
    let list = |words: &[&str]| returned(&fleet, &[&["jobs.list_jobs"], words].concat());

    let all = list(&[]);
    assert_eq!(keys(&all), [&ping, &failed, &echo], "the oldest first");
    assert_eq!(
        all[&ping]["Metadata"],
        json!({"ticket": 4711, "team": "ops"})
    );
    assert_eq!(all[&echo].get("Metadata"), None);
    for (words, found) in [
        (&["search_function=test.*"][..], &[&ping, &echo][..]),
        (&["search_function=cmd.run,test.echo"], &[&failed, &echo]),
        (&["search_target=web*"], &[&failed, &echo]),
        (&["search_function=test.*", "search_target=web*"], &[&echo]),
        (&["search_metadata={ticket: 4711}"], &[&ping]),
        (&["search_metadata={ticket: 1, team: ops}"], &[&ping]),
        (&["search_metadata={ticket: 1}"], &[]),
        (&["start_time=2001-01-01", "end_time=2001-12-31"], &[]),
        (
            &["start_time=2001-01-01", "search_function=*.ping"],
            &[&ping],
        ),
    ] {
        assert_eq!(keys(&list(words)), found, "{words:?}");
    }
    let from = format!("start_time={failed}");
    assert_eq!(keys(&list(&[&from])), [&failed, &echo]);
    let until = format!("end_time={failed}");
    assert_eq!(keys(&list(&[&until])), [&ping, &failed]);
    let said = run(&fleet, &["jobs.list_jobs", "start_time=soon"]).expect(1);
    assert!(
        said.stderr
            .contains("list_jobs() expects a time in UTC such as"),
        "{said:?}"
    );

    let last = returned(&fleet, &["jobs.last_run", "function=test.ping"]);
    assert_eq!(keys(&last), [&ping]);
    assert_eq!(last[&ping]["Result"]["web1"]["return"], json!(true));
    assert_eq!(last[&ping]["Metadata"]["ticket"], json!(4711));
    assert_eq!(
        returned(&fleet, &["jobs.last_run", "function=no.such"]),
        json!(false)
    );
    let success = |jid: &str| returned(&fleet, &["jobs.exit_success", jid]);
    assert_eq!(success(&ping), json!({"web1": true, "web2": true}));
    assert_eq!(success(&failed), json!({"web1": false}));
    let whole = returned(&fleet, &["jobs.list_job", &ping]);
    assert_eq!(whole["Metadata"]["team"], json!("ops"));

    // As Salt prints it.
    let printed = fleet
        .run("saline-run", &["jobs.print_job", &failed])
        .expect(0);
    let date = returned(&fleet, &["jobs.list_job", &failed]);
    let expected = format!(
        "{failed}:\n    ----------\n    Arguments:\n        - exit 3\n    Function:\n        cmd.run\n    \
         Metadata:\n        ----------\n        ticket:\n            4712\n    Minions:\n        - web1\n    \
         Result:\n        ----------\n        web1:\n            ----------\n            retcode:\n                3\n            \
         return:\n            success:\n                False\n    StartTime:\n        {} UTC\n    Target:\n        web1\n    \
         Target-type:\n        glob\n    User:\n        root\n",
        date["StartTime"].as_str().unwrap()
    );
    assert_eq!(printed.stdout, expected);
    let refused = fleet
        .saline(&["*", "test.ping", "--metadata", "ticket"])
        .expect(64);
    assert!(
        refused.stderr.contains("is not a mapping"),
        "{}",
        refused.stderr
    );
}

/// Follows the bus, and returns the lines of it.
fn listen(fleet: &Fleet, tag: &str) -> (Child, Arc<Log>) {
    let mut command = fleet.command("saline-run", &["state.event", tag]);
    let mut listener = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let log = Log::follow(listener.stdout.take().unwrap());
    // Until an event comes through, it may not have subscribed.
    let deadline = Instant::now() + TEST_TIMEOUT;
    while log.count("salt/run/") == 0 && log.count("test/listens") == 0 {
        assert!(Instant::now() < deadline, "{}", log.text());
        returned(fleet, &["event.send", "test/listens"]);
    }
    (listener, log)
}

fn data(line: &str) -> Value {
    serde_json::from_str(line.split_once('\t').unwrap().1).unwrap()
}

#[test]
fn a_run_is_told_on_the_bus_and_operators_fire_events_of_their_own() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let (mut listener, log) = listen(&fleet, "*");
    assert_eq!(
        returned(&fleet, &["config.get", "job_ttl", "default=x"]),
        json!(60)
    );
    let named = "\"fun\": \"runner.config.get\"";
    let began = log.wait_for(named, 1);
    let ended = log.wait_for(named, 2);
    let (new, ret) = (data(&began), data(&ended));
    let jid = new["jid"].as_str().unwrap();
    assert!(
        began.starts_with(&format!("salt/run/{jid}/new\t")),
        "{began}"
    );
    assert!(
        ended.starts_with(&format!("salt/run/{jid}/ret\t")),
        "{ended}"
    );
    let fun_args = json!(["job_ttl", {"__kwarg__": true, "default": "x"}]);
    for data in [&new, &ret] {
        assert_eq!(data["fun_args"], fun_args);
        assert!(
            data["user"].is_string() && data["_stamp"].is_string(),
            "{data}"
        );
    }
    assert_eq!(
        (&ret["return"], &ret["success"]),
        (&json!(60), &json!(true))
    );
    assert_eq!(new.get("return"), None);
    run(&fleet, &["jobs.print_job", "20200101000000000000"]).expect(1);
    let failed = data(&log.wait_for("runner.jobs.print_job", 2));
    assert_eq!(failed["success"], json!(false));
    assert!(
        failed["return"].as_str().unwrap().contains("is unknown"),
        "{failed}"
    );

    returned(
        &fleet,
        &["event.send", "my/own/tag", "{foo: bar, _stamp: mine}"],
    );
    let sent = data(&log.wait_for("my/own/tag\t", 1));
    assert_eq!(sent["foo"], json!("bar"));
    assert_ne!(sent["_stamp"], json!("mine"));
    for tag in [
        "salt/auth",
        "salt/job/20261121091409931549/new",
        "salt/minion/m1/start",
        "salt/job/1/ret/x",
        "salt/presence/foo",
        "Salt/auth",
    ] {
        let refused = run(&fleet, &["event.send", tag]).expect(1);
        assert!(refused.stderr.contains("the master's own"), "{refused:?}");
    }
    assert_eq!(log.count("salt/auth\t"), 0);

    let help = run(&fleet, &["--help"]).expect(0).stdout;
    let documented = returned(&fleet, &["doc.runner"]);
    for function in documented.as_object().unwrap().keys() {
        let module = function.split('.').next().unwrap();
        assert!(help.contains(&format!(" {module}.")), "{module}: {help}");
    }
    listener.kill().unwrap();
    listener.wait().unwrap();
}

#[test]
fn an_asynchronous_run_is_stored() {
    let mut fleet = Fleet::with_minions("tcp", &["m1"]);
    let said = fleet
        .run("saline-run", &["manage.status", "--async"])
        .expect(0);
    let jid = said
        .stdout
        .strip_prefix("Executed command with job ID: ")
        .unwrap()
        .trim();
    let status = json!({"up": ["m1"], "down": []});
    let (code, value, _) = looked_up(&fleet, jid);
    assert_eq!((code, value), (Some(0), status.clone()));
    let failed = begin(&fleet, &["jobs.print_job", "20200101000000000000"]);
    let (code, error, _) = looked_up(&fleet, &failed);
    assert_eq!(code, Some(1));
    assert!(error.as_str().unwrap().contains("is unknown"), "{error}");

    // It is in the lists, and those that were waited for are not.
    fleet.kill_master();
    fleet.start_master();
    let jobs = returned(&fleet, &["jobs.list_jobs"]);
    assert_eq!(keys(&jobs), [jid, &failed]);
    assert_eq!(jobs[jid]["Function"], json!("runner.manage.status"));
    let found = returned(&fleet, &["jobs.list_jobs", "search_function=runner.jobs.*"]);
    assert_eq!(keys(&found), [&failed]);
    assert_eq!(looked_up(&fleet, jid).1, status);
    let whole = returned(&fleet, &["jobs.list_job", jid]);
    let master = whole["Minions"][0].as_str().unwrap();
    assert_eq!(whole["Result"][master]["return"], status);
    assert_eq!(
        returned(&fleet, &["jobs.exit_success", &failed])[master],
        json!(false)
    );
    let last = returned(&fleet, &["jobs.last_run", "function=runner.manage.*"]);
    assert_eq!(keys(&last), [jid]);
}

/// A fleet in which `doc.execution` waits: the only thread of its minion is busy.
fn busy() -> Fleet {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\ntimeout: 3600\n");
    fleet.start_master();
    fleet.start_minion_with("m1", "process_count_max: 1\n");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet
        .saline(&["m1", "cmd.run", "exec sleep 600", "--async"])
        .expect(0);
    fleet.minions["m1"].log.wait_for("running cmd.run", 1);
    fleet
}

/// Waits until the run of `doc.execution` has published its job.
fn asks_minions(fleet: &Fleet, count: usize) {
    fleet.master().log.wait_for("published sys.doc", count);
}

#[test]
fn a_run_that_takes_long_is_seen_and_ended() {
    let fleet = busy();
    fleet.master().log.wait_for("minion m1 runs it", 1);
    let active = returned(&fleet, &["jobs.active"]);
    let (_, job) = active.as_object().unwrap().iter().next().unwrap();
    assert_eq!(job["Function"], json!("cmd.run"));
    let pid = job["Running"][0]["m1"].as_u64().unwrap();
    let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(command.contains("saline-job"), "{command:?}");
    let unasked = returned(&fleet, &["jobs.active", "pids=False"]);
    let (_, job) = unasked.as_object().unwrap().iter().next().unwrap();
    assert_eq!(job["Running"], json!([{"m1": null}]));

    // By its own time.
    let late = run(&fleet, &["doc.execution", "-t", "1"]).expect(1);
    assert!(
        late.stderr
            .contains("doc.execution took longer than 1 s and was ended; -t SECONDS"),
        "{late:?}"
    );
    // By another operator's command.
    let jid = begin(&fleet, &["doc.execution", "test", "-t", "3600"]);
    asks_minions(&fleet, 2);
    let under_way = returned(&fleet, &["jobs.master"]);
    assert_eq!(under_way.as_array().unwrap().len(), 1, "{under_way}");
    assert_eq!(under_way[0]["jid"], json!(jid));
    assert_eq!(under_way[0]["fun"], json!("runner.doc.execution"));
    assert_eq!(under_way[0]["fun_args"], json!(["test"]));
    let said = run(&fleet, &["jobs.lookup_jid", &jid]).expect(0);
    assert!(said.stderr.contains("is under way"), "{said:?}");
    assert_eq!(returned(&fleet, &["jobs.kill", &jid]), json!(true));
    let (code, why, _) = looked_up(&fleet, &jid);
    assert_eq!(
        (code, why),
        (Some(1), json!("the run was ended before it was done"))
    );
    assert_eq!(returned(&fleet, &["jobs.master"]), json!([]));
    let gone = run(&fleet, &["jobs.kill", &jid]).expect(1);
    assert!(gone.stderr.contains("no runner with the jid"), "{gone:?}");
}

#[test]
fn a_run_whose_master_was_killed_has_no_return() {
    let mut fleet = busy();
    let jid = begin(&fleet, &["doc.execution", "-t", "3600"]);
    asks_minions(&fleet, 1);
    fleet.kill_master();
    fleet.start_master();
    let said = run(&fleet, &["jobs.lookup_jid", &jid]).expect(0);
    assert!(
        said.stderr.contains("the master stopped before it ended"),
        "{said:?}"
    );
    // A master that is told to stop does not wait for runs.
    begin(&fleet, &["doc.execution", "-t", "3600"]);
    asks_minions(&fleet, 1);
    assert_eq!(fleet.master.take().unwrap().terminate(), Some(0));
}

#[test]
fn who_waits_for_a_master_that_is_away_is_told_so() {
    let mut fleet = busy();
    let mut waiting = ["saline-run", "saline"].map(|program| {
        let arguments: &[&str] = match program {
            "saline-run" => &["doc.execution", "-t", "3600"],
            _ => &["m1", "test.ping", "-t", "3600", "-l", "trace"],
        };
        let mut command = fleet.command(program, arguments);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let told = Log::follow(child.stderr.take().unwrap());
        (child, told)
    });
    asks_minions(&fleet, 1);
    waiting[1].1.wait_for("subscribed to the job's events", 1);
    fleet.kill_master();
    for (child, told) in &mut waiting {
        told.wait_for("The master is away: waiting up to 28 s for it", 1);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn who_is_interrupted_leaves_a_run_that_goes_on() {
    let fleet = busy();
    let mut command = fleet.command("saline-run", &["doc.execution", "-t", "3600"]);
    let waiting = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    asks_minions(&fleet, 1);
    let pid = Pid::from_raw(i32::try_from(waiting.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let said = CommandOutput::from(waiting.wait_with_output().unwrap()).expect(1);
    let jid = said
        .stderr
        .split("saline-run jobs.lookup_jid ")
        .nth(1)
        .unwrap();
    let jid = jid.split_whitespace().next().unwrap();
    assert!(
        said.stderr
            .contains(&format!("saline-run jobs.kill {jid} -c ")),
        "{said:?}"
    );
    let under_way = returned(&fleet, &["jobs.master"]);
    assert_eq!(under_way[0]["jid"], json!(jid));
    returned(&fleet, &["jobs.kill", jid]);
    assert_eq!(
        looked_up(&fleet, jid).1,
        json!("the run was ended before it was done")
    );
}

#[test]
fn whoever_types_ctrl_c_at_a_terminal_can_stop_the_run() {
    let fleet = busy();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let programs_end = || {
        let path = std::path::Path::new(name.to_str().unwrap());
        File::options().read(true).write(true).open(path).unwrap()
    };
    let mut terminal = File::from(terminal);
    let mut waiting = fleet
        .command("saline-run", &["doc.execution", "-t", "3600"])
        .stdin(programs_end())
        .stdout(Stdio::null())
        .stderr(programs_end())
        .spawn()
        .unwrap();
    let told = Log::follow(terminal.try_clone().unwrap());
    asks_minions(&fleet, 1);
    let pid = Pid::from_raw(i32::try_from(waiting.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    // The question has no line of its own: it is answered before it is seen to be asked.
    terminal.write_all(b"y\n").unwrap();
    told.wait_for("ERROR: the run was ended before it was done", 1);
    assert_eq!(ended(&mut waiting).code(), Some(1));
    assert_eq!(returned(&fleet, &["jobs.master"]), json!([]));
}

#[test]
fn the_caches_the_configuration_and_the_documentation_are_shown() {
    let fleet = Fleet::with_minions("tcp", &["m1", "m2"]);
    for id in ["m1", "m2"] {
        let known = format!("minion {id} reported its grains");
        fleet.master().log.wait_for(&known, 1);
    }
    let grains = returned(&fleet, &["cache.grains"]);
    assert_eq!(keys(&grains), ["m1", "m2"]);
    assert_eq!(grains["m1"]["id"], json!("m1"));
    let one = returned(&fleet, &["cache.grains", "id:m2", "tgt_type=grain"]);
    assert_eq!(keys(&one), ["m2"]);
    assert_eq!(returned(&fleet, &["cache.clear_all", "m1"]), json!(true));
    let grains = returned(&fleet, &["cache.grains"]);
    assert_eq!(
        (&grains["m1"], grains["m2"].is_object()),
        (&json!({}), true)
    );
    fleet.saline(&["m1", "saltutil.refresh_grains"]).expect(0);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while returned(&fleet, &["cache.grains", "m1"])["m1"]["id"] != json!("m1") {
        assert!(Instant::now() < deadline);
    }

    let get = |key: &str| returned(&fleet, &["config.get", key]);
    assert_eq!(get("heartbeat_interval"), json!(2));
    assert_eq!(get("keep_jobs_seconds"), json!(86_400));
    assert_eq!(get("no:such:option"), json!(""));

    let docs = returned(&fleet, &["doc.runner", "jobs.active", "state"]);
    assert_eq!(
        keys(&docs),
        ["jobs.active", "state.event", "state.orchestrate_show_sls"]
    );
    let printed = fleet.run("saline-run", &["-d", "jobs.active"]).expect(0);
    assert!(
        printed
            .stdout
            .starts_with("jobs.active:\n\n    Returns the jobs"),
        "{}",
        printed.stdout
    );
    let docs = returned(&fleet, &["doc.execution", "test.ping", "sys"]);
    assert_eq!(
        keys(&docs),
        [
            "sys.argspec",
            "sys.doc",
            "sys.list_functions",
            "sys.list_modules",
            "sys.reload_modules",
            "test.ping"
        ]
    );

    let modules =
        "audit, auth, batch, cache, clock, config, doc, event, fileserver, jobs, manage, mine, ";
    for (fun, hint) in [
        (
            "jobs.nothing",
            "saline-run -d jobs lists the functions of this module",
        ),
        ("manage.upp", "did you mean manage.up?"),
        ("salt.cmd", &format!("known are the modules {modules}")),
    ] {
        let unknown = run(&fleet, &[fun]).expect(1).stderr;
        let told = format!("ERROR: '{fun}' is not available: {hint}");
        assert!(unknown.starts_with(&told), "{unknown}");
    }
    let misused = run(&fleet, &["manage.down", "x"]).expect(1);
    assert_eq!(
        misused.stderr,
        "ERROR: Passed invalid arguments to manage.down: down() takes 0 positional arguments but 1 was given \
         (saline-run -d manage.down explains them)\n"
    );
}
