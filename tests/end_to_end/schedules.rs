//! Schedules with real processes: on a minion, whose returns the master stores, and on the master.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use saline_testing::Fleet;
use serde_json::Value;

saline_testing::over_each_transport!(
    a_schedule_of_every_second_returns_to_the_masters_store,
    returns_of_a_time_without_a_master_arrive_once,
);

const EVERY_SECOND: &str = "\
schedule:
  tick:
    function: test.echo
    args: [tock]
    kwargs: {}
    seconds: 1
    metadata: {from: schedule}
";

/// Returns the jobs of the master's store whose functions ran on the minions by themselves.
fn calls(fleet: &Fleet, fun: &str) -> Vec<(String, Value)> {
    let listed = fleet.run(
        "saline-run",
        &["jobs.list_jobs", "include_calls=True", "--out", "json"],
    );
    let jobs: Value = serde_json::from_str(&listed.expect(0).stdout).unwrap();
    let jobs = jobs.as_object().unwrap().clone().into_iter();
    jobs.filter(|(_, job)| job["Function"] == fun).collect()
}

fn json(fleet: &Fleet, arguments: &[&str]) -> Value {
    let said = fleet.saline(&[arguments, &["--out", "json", "--static"]].concat());
    serde_json::from_str(&said.expect(0).stdout).unwrap()
}

fn fleet_with(transport: &'static str, options: &str) -> Fleet {
    let mut fleet = Fleet::new(transport, "auto_accept: True\n");
    fleet.start_master();
    fleet.start_minion_with("m1", options);
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet
}

fn a_schedule_of_every_second_returns_to_the_masters_store(transport: &'static str) {
    let fleet = fleet_with(transport, EVERY_SECOND);
    fleet
        .master()
        .log
        .wait_for("minion m1 returned from test.echo", 1);
    fleet.minions["m1"]
        .log
        .wait_for("scheduled job tick has ended", 3);
    let stored = calls(&fleet, "test.echo");
    let (jid, job) = &stored[0];
    assert_eq!(job["Operator"], "scheduled on m1");
    assert_eq!(job["User"], "schedule tick");
    assert_eq!(job["Arguments"], serde_json::json!(["tock"]));
    let looked_up = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
    let returns: Value = serde_json::from_str(&looked_up.expect(0).stdout).unwrap();
    assert_eq!(returns, serde_json::json!({"m1": "tock"}));
    // Which is what the documentation shows of the functions.
    let listed = json(&fleet, &["m1", "schedule.list", "return_yaml=False"]);
    assert_eq!(listed["m1"]["tick"]["seconds"], 1);
    assert_eq!(listed["m1"]["tick"]["enabled"], true);
    let refused = fleet
        .saline(&["m1", "schedule.delete", "tick"])
        .expect(1)
        .stdout;
    assert!(
        refused.contains("is in the configuration files"),
        "{refused}"
    );
    fleet
        .saline(&["m1", "schedule.disable_job", "tick"])
        .expect(0);
    let status = json(&fleet, &["m1", "schedule.job_status", "tick"]);
    assert_eq!(status["m1"]["_next_fire_time"], Value::Null, "{status}");
}

fn returns_of_a_time_without_a_master_arrive_once(transport: &'static str) {
    let mut fleet = fleet_with(transport, "");
    fleet.kill_master();
    fleet.minions.get_mut("m1").unwrap().terminate();
    // Each runs once, at the start.
    let jobs = "schedule:\n  a: &job {function: test.echo, args: [kept], hours: 1}\n  b: *job\n  c: *job\n";
    fleet.start_minion_with("m1", jobs);
    fleet.minions["m1"].log.wait_for("has ended", 3);
    // Over a kill of the minion too: what it returned is in the spool.
    fleet.minions.get_mut("m1").unwrap().kill();
    fleet.start_master();
    for _ in 0..2 {
        fleet.start_minion_with("m1", "schedule: {}\n");
        let log = &fleet.minions["m1"].log;
        log.wait_for("subscribed", 1);
        if calls(&fleet, "test.echo").len() < 3 {
            log.wait_for(": acknowledged", 3);
        }
        let stored = calls(&fleet, "test.echo");
        assert_eq!(stored.len(), 3, "each once: {stored:?}");
        fleet.minions.get_mut("m1").unwrap().terminate();
    }
}

#[test]
fn a_job_runs_no_more_often_at_once_than_it_may_and_can_be_killed() {
    let fleet = fleet_with(
        "tcp",
        "schedule: {long: {function: cmd.run, args: ['sleep 600'], seconds: 1, maxrunning: 2}}\n",
    );
    let log = &fleet.minions["m1"].log;
    log.wait_for("scheduled job long did not run at", 2);
    let running = json(&fleet, &["m1", "saltutil.running"]);
    let scheduled: Vec<&Value> = running["m1"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|job| job["user"] == "schedule long")
        .collect();
    assert_eq!(scheduled.len(), 2, "{running}");
    fleet
        .saline(&["m1", "schedule.disable_job", "long"])
        .expect(0);
    for job in scheduled {
        let jid = job["jid"].as_str().unwrap();
        fleet.saline(&["m1", "saltutil.kill_job", jid]).expect(0);
    }
    log.wait_for("scheduled job long failed, retcode", 2);
    let running = json(&fleet, &["m1", "saltutil.running"]);
    assert_eq!(running["m1"].as_array().unwrap().len(), 1, "{running}");
}

#[test]
fn a_scheduled_command_outlives_its_minion_and_returns_once() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    let (begun, go) = (fleet.path("begun"), fleet.path("go"));
    let line = format!(
        "echo begun >> {}; until test -e {}; do sleep 0.05; done; echo done",
        begun.display(),
        go.display()
    );
    // A further run would be one too many, also for the minion that starts next.
    let options = format!(
        "schedule:\n  long:\n    function: cmd.run\n    args: ['{line}']\n    seconds: 1\n    metadata: {{team: storage}}\n  quiet:\n    function: cmd.run\n    args: ['{line}']\n    hours: 1\n    return_job: False\n"
    );
    fleet.start_minion_with("m1", &options);
    let log = &fleet.minions["m1"].log;
    log.wait_for("scheduled job long did not run at", 1);
    let lines = || {
        std::fs::read_to_string(&begun)
            .unwrap_or_default()
            .lines()
            .count()
    };
    while lines() < 2 {
        std::thread::yield_now();
    }
    fleet.minions.get_mut("m1").unwrap().kill();
    fleet.start_minion_with(
        "m1",
        &options.replace("hours: 1", "hours: 1\n    run_on_start: False"),
    );
    let log = &fleet.minions["m1"].log;
    log.wait_for("cmd.run has gone on in process", 2);
    log.wait_for("scheduled job long did not run at", 1);
    assert_eq!(lines(), 2, "nothing ran beside them");
    fleet
        .saline(&["m1", "schedule.disable_job", "long"])
        .expect(0);
    std::fs::write(&go, "").unwrap();
    log.wait_for("scheduled job long has ended", 1);
    log.wait_for("scheduled job quiet has ended", 1);
    log.wait_for(": acknowledged", 1);
    // Over a further start, which finds nothing more to send.
    fleet.minions.get_mut("m1").unwrap().terminate();
    fleet.start_minion_with("m1", "schedule: {}\n");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let stored = calls(&fleet, "cmd.run");
    assert_eq!(stored.len(), 1, "{stored:?}");
    let (jid, job) = &stored[0];
    assert_eq!(job["User"], "schedule long");
    let looked_up = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
    let returns: Value = serde_json::from_str(&looked_up.expect(0).stdout).unwrap();
    assert_eq!(returns, serde_json::json!({"m1": "done"}));
}

#[test]
fn a_large_return_of_a_schedule_arrives_in_parts() {
    const SIZE: usize = 20_000_000;
    let line = format!("base64 -w0 /dev/zero | head -c {SIZE}");
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    let options =
        format!("schedule:\n  large: {{function: cmd.run, args: ['{line}'], hours: 1}}\n");
    fleet.start_minion_with("m1", &options);
    fleet.minions["m1"].log.wait_for(": acknowledged", 1);
    fleet
        .master()
        .log
        .wait_for("minion m1 returned from cmd.run, retcode 0", 1);
    let stored = calls(&fleet, "cmd.run");
    assert_eq!(stored.len(), 1, "{stored:?}");
    let looked_up = fleet.run(
        "saline-run",
        &["jobs.lookup_jid", &stored[0].0, "--out", "json"],
    );
    let returns: Value = serde_json::from_str(&looked_up.expect(0).stdout).unwrap();
    let text = returns["m1"].as_str().unwrap();
    assert!(text.len() == SIZE && text.bytes().all(|byte| byte == b'A'));
}

#[test]
fn what_was_due_while_the_minion_was_down_runs_once_where_it_is_asked_for() {
    let options = |missed: &str| {
        format!(
            "schedule_missed: {missed}\nschedule:\n  minutely:\n    function: test.echo\n    args: [late]\n    cron: '* * * * *'\n"
        )
    };
    let mut fleet = fleet_with("tcp", &options("skip"));
    let remembered = fleet.path("m1/var/lib/saline/minion/schedule_runs.json");
    // As if the minion had been down for an hour.
    let stop = |fleet: &mut Fleet| {
        fleet.minions.get_mut("m1").unwrap().terminate();
        let text = std::fs::read_to_string(&remembered).unwrap();
        let mut file: Value = serde_json::from_str(&text).unwrap();
        file["jobs"]["minutely"]["cursor"] = Value::from("2020-01-01T00:00:30Z");
        file["jobs"]["minutely"]["served"] = serde_json::json!([]);
        std::fs::write(&remembered, file.to_string()).unwrap();
    };
    stop(&mut fleet);
    fleet.start_minion_with("m1", &options("skip"));
    fleet.minions["m1"].log.wait_for(
        "scheduled job minutely did not run at 2020-01-01T00:01:00Z",
        1,
    );
    stop(&mut fleet);
    fleet.start_minion_with("m1", &options("run_once"));
    let log = &fleet.minions["m1"].log;
    log.wait_for("scheduled job minutely was due at 2020-01-01T00:01:00Z", 1);
    log.wait_for("scheduled job minutely has ended", 1);
    // A file that is damaged stops nothing.
    fleet.minions.get_mut("m1").unwrap().terminate();
    std::fs::write(&remembered, "{").unwrap();
    fleet.start_minion_with("m1", &options("run_once"));
    fleet.minions["m1"].log.wait_for(
        "schedule_runs.json is damaged or cannot be read, and was renamed to",
        1,
    );
}

#[test]
fn the_master_runs_runners_by_the_clock_and_audits_them() {
    let options = "auto_accept: True\nschedule:\n  who:\n    function: manage.up\n    seconds: 1\n  wrong:\n    function: manage.nobody\n    seconds: 60\n";
    let mut fleet = Fleet::new("tcp", options);
    fleet.start_master();
    let log = &fleet.master().log;
    log.wait_for("schedule who runs manage.up", 2);
    log.wait_for(
        "schedule: wrong did not run manage.nobody: 'manage.nobody' is not available",
        1,
    );
    let audited = fleet
        .run("saline-run", &["audit.tail", "--out", "json"])
        .expect(0)
        .stdout;
    assert!(audited.contains("schedule who"), "{audited}");
}

#[test]
fn jobs_are_added_changed_and_kept() {
    let mut fleet = fleet_with("tcp", "");
    let saline = |fleet: &Fleet, arguments: &[&str]| fleet.saline(arguments).expect(0).stdout;
    let would = saline(
        &fleet,
        &[
            "m1",
            "schedule.add",
            "disk",
            "function=disk.usage",
            "hours=1",
            "test=True",
        ],
    );
    assert!(
        would.contains("Job: disk would be added to schedule."),
        "{would}"
    );
    saline(
        &fleet,
        &[
            "m1",
            "schedule.add",
            "disk",
            "function=test.echo",
            "job_args=[x]",
            "hours=1",
            "splay=300",
        ],
    );
    let again = fleet
        .saline(&[
            "m1",
            "schedule.add",
            "disk",
            "function=test.ping",
            "hours=1",
        ])
        .expect(1);
    assert!(
        again
            .stdout
            .contains("there is a job disk in the schedule already"),
        "{}",
        again.stdout
    );
    let wrong = fleet
        .saline(&["m1", "schedule.add", "b", "function=test.ping", "secnds=1"])
        .expect(1);
    assert!(
        wrong.stdout.contains("did you mean \"seconds\"?"),
        "{}",
        wrong.stdout
    );
    let once = "once=2020-01-01T00:00:00";
    let over = ["m1", "schedule.add", "over", "function=test.ping", once];
    let over = saline(&fleet, &over);
    assert!(
        over.contains("It will not run: its times are over."),
        "{over}"
    );
    saline(&fleet, &["m1", "schedule.delete", "over"]);
    saline(
        &fleet,
        &[
            "m1",
            "schedule.modify",
            "disk",
            "cron=0 3 * * *",
            "splay=None",
        ],
    );
    let yaml = saline(&fleet, &["m1", "schedule.list"]);
    assert!(
        yaml.contains("cron: '0 3 * * *'") && !yaml.contains("hours"),
        "{yaml}"
    );
    saline(&fleet, &["m1", "schedule.run_job", "disk"]);
    fleet.minions["m1"]
        .log
        .wait_for("scheduled job disk has ended", 1);
    fleet.minions.get_mut("m1").unwrap().terminate();
    fleet.start_minion_with("m1", "");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let next = json(&fleet, &["m1", "schedule.show_next_fire_time", "disk"]);
    assert_eq!(next["m1"]["result"], true);
    let next = next["m1"]["next_fire_time"].as_str().unwrap().to_owned();
    saline(
        &fleet,
        &[
            "m1",
            "schedule.postpone_job",
            "disk",
            &next,
            "2099-12-24T18:00:00Z",
        ],
    );
    saline(
        &fleet,
        &["m1", "schedule.skip_job", "disk", "2099-12-24T18:00:00Z"],
    );
    let over = fleet
        .saline(&["m1", "schedule.skip_job", "disk", "2020-01-01T00:00:00"])
        .expect(1);
    assert!(
        over.stdout.contains("2020-01-01T00:00:00Z is over"),
        "{}",
        over.stdout
    );
    let copied = fleet
        .saline(&["m1", "schedule.copy", "disk", "web*"])
        .expect(1)
        .stdout;
    assert!(
        copied.contains(
            "run on the master: saline 'web*' schedule.add disk function=test.echo job_args='[\"x\"]' cron='0 3 * * *'"
        ),
        "{copied}"
    );
    saline(&fleet, &["m1", "schedule.purge"]);
    let listed = json(&fleet, &["m1", "schedule.list", "return_yaml=False"]);
    assert_eq!(listed["m1"], serde_json::json!({"schedule": {}}));
}

#[test]
fn functions_that_nobody_knows_are_refused_or_told() {
    let scheduled = "schedule: {a: {function: test.pnig, hours: 1, run_on_start: False}, \
                     b: {function: disk.usage, hours: 1, run_on_start: False}}\n";
    let runs = "schedule: {a: {function: manage.upp, hours: 1, run_on_start: False}, \
                b: {function: manage.up, hours: 1, run_on_start: False}}\n";
    let mut fleet = Fleet::new("tcp", &format!("auto_accept: True\n{runs}"));
    let pillar = fleet.path("pillar").display().to_string();
    fleet.master_options += &format!("pillar_roots: {{base: [{pillar}]}}\n");
    fleet.start_master();
    let missing = fleet.path("missing").display().to_string();
    let folders = format!("module_dirs: [{missing}/modules]\ngrains_dirs: [{missing}/grains]\n");
    let mine = "mine_functions: {test.pnig: [], test.ping: [], adresses: {mine_function: network.ip_adrs}}\n";
    fleet.start_minion_with("m1", &format!("{folders}{scheduled}{mine}"));
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    let told = [
        "mine_functions: 'test.pnig' is not available: did you mean test.ping?".to_owned(),
        "\"adresses\" of mine_functions: 'network.ip_adrs' is not available: did you mean network.ip_addrs?"
            .to_owned(),
        "job \"a\" of the schedule: 'test.pnig' is not available: did you mean test.ping?"
            .to_owned(),
        format!(
            "module_dirs: the folder {missing}/modules does not exist: make it, or correct the path"
        ),
        format!("grains_dirs: the folder {missing}/grains does not exist"),
    ];
    let checked = crate::service::minion(&fleet, "m1", "--check").expect(0);
    for line in told {
        fleet.minions["m1"].log.wait_for(&line, 1);
        assert!(checked.stderr.contains(&line), "{}", checked.stderr);
    }
    for known in ["job \"b\"", "test.ping' is"] {
        assert!(!checked.stderr.contains(known), "{}", checked.stderr);
    }
    let told = "job \"a\" of the schedule: 'manage.upp' is not available: did you mean manage.up?";
    fleet.master().log.wait_for(told, 1);
    let checked = fleet.run("saline-master", &["--check"]).expect(0);
    assert!(checked.stderr.contains(told), "{}", checked.stderr);
    assert!(!checked.stderr.contains("job \"b\""), "{}", checked.stderr);

    let add = |name: &str, function: &str| {
        let function = format!("function={function}");
        fleet.saline(&["m1", "schedule.add", name, &function, "hours=1"])
    };
    let refused = add("c", "test.pnig").expect(1).stdout;
    let why = "'test.pnig' is not available: did you mean test.ping?";
    assert!(refused.contains(why), "{refused}");
    // A module of the operator's own may bring it.
    let added = add("d", "backups.begin").expect(0).stdout;
    let note = "to schedule. It cannot run yet: 'backups.begin' is not available";
    assert!(added.contains(note), "{added}");
    // So may one whose name is near to that of a function which is there.
    let added = add("e", "app.version").expect(0).stdout;
    let note = "It cannot run yet: 'app.version' is not available: did you mean pkg.version?";
    assert!(added.contains(note), "{added}");
    let modify = ["m1", "schedule.modify", "d", "function=test.pnig"];
    let refused = fleet.saline(&modify).expect(1).stdout;
    assert!(refused.contains(why), "{refused}");
    // The pillar's.
    std::fs::create_dir_all(fleet.path("pillar")).unwrap();
    std::fs::write(fleet.path("pillar/top.sls"), "base: {m1: [jobs]}\n").unwrap();
    let jobs = "schedule: {a: {function: test.pnig, hours: 1}, f: {function: disk.usgae, hours: 1}, \
                g: {function: disk.usage, hours: 1, run_on_start: False}}\n";
    std::fs::write(fleet.path("pillar/jobs.sls"), jobs).unwrap();
    fleet.saline(&["m1", "saltutil.refresh_pillar"]).expect(0);
    let told = "pillar: job \"f\" of the schedule: 'disk.usgae' is not available: did you mean disk.usage?";
    let log = &fleet.minions["m1"].log;
    log.wait_for(told, 1);
    // The file has a job a of its own, which counts.
    for known in ["pillar: job \"a\"", "pillar: job \"g\""] {
        assert!(!log.text().contains(known), "{}", log.text());
    }
    let listed = json(&fleet, &["m1", "schedule.list", "return_yaml=False"]);
    assert_eq!(listed["m1"]["c"], Value::Null, "{listed}");
    assert_eq!(listed["m1"]["d"]["function"], "backups.begin", "{listed}");
}

/// Returns the socket of the bus of a minion.
fn bus_of(fleet: &Fleet, id: &str) -> PathBuf {
    let folder = fleet.path(&format!("{id}/run/saline/minion"));
    let mut files = std::fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .map(|file| file.path());
    let is_bus = |path: &PathBuf| path.to_string_lossy().ends_with("_pull.ipc");
    files.find(is_bus).unwrap()
}

#[test]
fn programs_fire_and_hear_events_on_the_minions_own_bus() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|said| said.status.success()) {
        println!("skipped: there is no python3 on this machine");
        return;
    }
    let example = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/event-listener/");
        let mut command = Command::new("python3");
        command.arg(format!("{folder}{name}")).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut fleet = Fleet::new("tcp", "auto_accept: True\nipc_transport: tcp\n");
    fleet.start_master();
    fleet.start_minion_with("m1", "ipc_transport: tcp\n");
    fleet.minions["m1"]
        .log
        .wait_for("the minion's event bus is at", 1);
    let socket = bus_of(&fleet, "m1");
    let listen = |socket: &std::path::Path, count: &str, tag: &str| {
        let mut listener = example("listen.py");
        listener
            .arg("--socket")
            .arg(socket)
            .args(["--origin", "--count", count, tag]);
        let mut listener = listener.spawn().unwrap();
        let mut line = String::new();
        let mut said = std::io::BufReader::new(listener.stderr.take().unwrap());
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        assert_eq!(line, "listening\n");
        listener
    };
    let on_minion = listen(&socket, "3", "");
    let master = fleet.path("master/run/saline/master/master_event_pull.ipc");
    let on_master = listen(&master, "1", "salt/minion/m1/backup");
    fleet
        .saline(&["m1", "event.fire", "{files: 1}", "my/tag"])
        .expect(0);
    fleet.saline(&["m1", "saltutil.refresh_modules"]).expect(0);
    let fired = example("fire.py")
        .arg(&socket)
        .args([
            "fire_master",
            r#"{"tag": "backup/done", "data": {"files": 1204}}"#,
        ])
        .output()
        .unwrap();
    assert!(fired.status.success(), "{fired:?}");
    let heard = String::from_utf8(on_minion.wait_with_output().unwrap().stdout).unwrap();
    let tags: Vec<&str> = heard
        .lines()
        .map(|line| line.split('\t').next().unwrap())
        .collect();
    assert_eq!(tags, ["my/tag", "module_refresh", "fire_master"], "{heard}");
    assert!(
        heard.contains(r#"my/tag	{"kind": "minion", "id": "m1"}	{"files": 1, "_stamp""#),
        "{heard}"
    );
    let heard = String::from_utf8(on_master.wait_with_output().unwrap().stdout).unwrap();
    assert!(heard.starts_with("salt/minion/m1/backup/done\t"), "{heard}");
    assert!(heard.contains(r#""files": 1204"#), "{heard}");
    // What is no event is refused with a reason, and costs nobody else anything.
    let refused = example("fire.py")
        .arg(&socket)
        .arg("no tag at all")
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("bad event tag"), "{why}");
    let mut raw = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    std::io::Write::write_all(&mut raw, &[0xff; 4096]).unwrap();
    fleet
        .saline(&["m1", "event.fire", "{}", "my/tag"])
        .expect(0);
}
