//! The reactor: files of the operator that order something because of an event.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;
use saline_testing::{Fleet, TEST_TIMEOUT};
use serde_json::{Value, json};

/// Writes a file of the folder of reactions.
fn write(fleet: &Fleet, name: &str, text: &str) {
    let path = fleet.path("reactor").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns a text in which the folder of reactions is that of the fleet.
fn placed(fleet: &Fleet, text: &str) -> String {
    text.replace("/srv/reactor", &fleet.path("reactor").display().to_string())
}

/// Creates a fleet with these options, in which `/srv/reactor` stands for the folder of reactions.
fn fleet_with(options: &str) -> Fleet {
    let mut fleet = Fleet::new("tcp", "");
    fs::create_dir_all(fleet.path("reactor")).unwrap();
    fleet.master_options += &placed(&fleet, options);
    fleet.write_master_config();
    fleet
}

fn start_minion(fleet: &mut Fleet, id: &str) {
    fleet.start_minion(id);
    fleet.minions[id].log.wait_for("subscribed", 1);
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn json(fleet: &Fleet, arguments: &[&str]) -> Value {
    let said = fleet.run("saline-run", &[arguments, &["--out", "json"]].concat());
    serde_json::from_str(&said.expect(0).stdout).unwrap()
}

/// Returns the functions of all jobs whose owner is a reaction, with their arguments.
fn ordered(fleet: &Fleet) -> Vec<(String, Value)> {
    let jobs = json(fleet, &["jobs.list_jobs"]);
    let jobs = jobs.as_object().unwrap().values().cloned();
    let of_reactions = jobs.filter(|job| {
        let owner = job["User"].as_str().unwrap_or_default();
        owner.starts_with("reaction ")
    });
    let of_reactions = of_reactions.map(|job| {
        let fun = job["Function"].as_str().unwrap().to_owned();
        (fun, job["Arguments"].clone())
    });
    of_reactions.collect()
}

#[test]
fn the_example_of_the_page_does_what_the_page_says() {
    let page = read("docs/reactor.md");
    let blocks: Vec<&str> = page
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').unwrap().1)
        .collect();
    let mut fleet = fleet_with(&format!("auto_accept: True\n{}", blocks[0]));
    let (_, file) = blocks[1].split_once('\n').unwrap();
    write(&fleet, "deployed.sls", file);
    fs::create_dir_all(fleet.path("reactor/start")).unwrap();
    fleet.start_master();
    start_minion(&mut fleet, "web1");
    let (_, said) = blocks[2].split_once('\n').unwrap();
    let sent = ["web1", "event.send", "myco/deploy/done", "{version: 7}"];
    assert_eq!(fleet.saline(&sent).expect(0).stdout, said);
    fleet
        .master()
        .log
        .wait_for("because of salt/minion/web1/myco/deploy/done", 1);
    assert_eq!(
        ordered(&fleet),
        [("test.echo".to_owned(), json!(["7 is deployed"]))]
    );
    // An older version is not checked, and nothing is done for a dry run.
    fleet
        .saline(&["web1", "event.send", "myco/deploy/done", "{version: 6}"])
        .expect(0);
    let (command, said) = blocks[3].split_once('\n').unwrap();
    assert!(command.contains("reactor.test salt/minion/web1/myco/deploy/done"));
    let arguments = [
        "reactor.test",
        "salt/minion/web1/myco/deploy/done",
        "{version: 7}",
    ];
    let shown = fleet.run("saline-run", &arguments).expect(0).stdout;
    assert_eq!(shown, placed(&fleet, said));
    assert_eq!(ordered(&fleet).len(), 1);
}

#[test]
fn the_example_accepts_keys_of_known_ids_alone() {
    let mut fleet = fleet_with("reactor:\n  - 'salt/auth': [/srv/reactor/accept-known-keys.sls]\n");
    for name in ["accept-known-keys.sls", "known-minions.yaml"] {
        write(&fleet, name, &read(&format!("examples/reactor/{name}")));
    }
    fleet.start_master();
    fleet.start_minion("stranger");
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    fleet.saline(&["web1", "test.ping"]).expect(0);
    let keys = fleet.run("saline-key", &["-L", "--out", "json"]).expect(0);
    let keys: Value = serde_json::from_str(&keys.stdout).unwrap();
    assert_eq!(keys["minions"], json!(["web1"]), "{keys}");
    let audit = fs::read_to_string(fleet.path("master/var/log/saline/master-audit.log")).unwrap();
    let file = fleet.path("reactor/accept-known-keys.sls");
    let by = format!("reaction {}", file.display());
    assert!(audit.lines().any(|line| line.contains(&by)), "{audit}");
    // The wheel is a run: the store has its return.
    let jobs = json(&fleet, &["jobs.list_jobs"]);
    let mut runs = jobs.as_object().unwrap().iter();
    let (jid, run) = runs.next().unwrap();
    assert_eq!(run["Function"], "wheel.key.accept", "{jobs}");
    assert_eq!(run["User"], json!(by));
    let looked_up = fleet.run("saline-run", &["jobs.lookup_jid", jid, "--out", "json"]);
    let returned = looked_up.expect(0).stdout;
    assert!(returned.contains("\"minions\""), "{returned}");
}

#[test]
fn the_example_tells_the_balancer_that_a_machine_has_started() {
    let mut fleet = fleet_with(
        "auto_accept: True\nreactor:\n  - 'salt/minion/web*/start': [/srv/reactor/tell-balancer.sls]\n",
    );
    let program = fleet.path("add-backend");
    let backends = fleet.path("backends");
    let script = format!("#!/bin/sh\necho \"$1\" >> {}\n", backends.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let file = read("examples/reactor/tell-balancer.sls");
    let file = file.replace(
        "/usr/local/sbin/add-backend",
        &program.display().to_string(),
    );
    write(&fleet, "tell-balancer.sls", &file);
    let assigned = fleet.config().join("minions.d");
    fs::create_dir_all(&assigned).unwrap();
    fs::write(assigned.join("roles.yaml"), "lb*: {roles: [balancer]}\n").unwrap();
    fleet.start_master();
    start_minion(&mut fleet, "lb1");
    start_minion(&mut fleet, "web1");
    start_minion(&mut fleet, "db1");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !fs::read_to_string(&backends).is_ok_and(|text| text.ends_with('\n')) {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(fs::read_to_string(&backends).unwrap(), "web1\n");
    // What a minion fires by itself is no start, though the tag of the reactor matches it.
    for (tag, orders) in [("other/start", 0), ("start", 1)] {
        let tag = format!("salt/minion/web1/{tag}");
        let planned = json(&fleet, &["reactor.test", &tag]);
        assert_eq!(
            planned[0]["orders"].as_array().unwrap().len(),
            orders,
            "{planned}"
        );
    }
}

#[test]
fn mistakes_are_told_before_an_event_comes() {
    let mut fleet = fleet_with(
        "auto_accept: True\nreactor:\n  - 'a/*': [/srv/reactor/missing.sls, '/srv/reactor/*.none', salt://none.sls]\n  - 'b/*': [/srv/reactor/bad.sls, /srv/reactor/unknown.sls]\n  - 'n/*': [/srv/reactor/nobody.sls]\n",
    );
    write(
        &fleet,
        "nobody.sls",
        "ping:\n  local.test.ping:\n    - tgt: web9\n",
    );
    let bad = "{% set n = 1 %}\nfirst:\n  local.test.ping:\n    - tgt: m1\nsecond:\n  local.test.ping:\n    - tgtt: m1\n";
    write(&fleet, "bad.sls", bad);
    let unknown = "ping:\n  local.test.pingg:\n    - tgt: m1\nrun:\n  runner.manage.upp: []\n";
    write(&fleet, "unknown.sls", unknown);
    let told = [
        placed(
            &fleet,
            "\"a/*\" by /srv/reactor/missing.sls before it can be read: there is no such file",
        ),
        placed(
            &fleet,
            "\"a/*\" by /srv/reactor/*.none before it can be read: no file has such a name",
        ),
        "\"a/*\" by salt://none.sls before it can be read: there is no such file".to_owned(),
    ];
    let check = |said: &str| {
        for line in &told {
            assert!(said.contains(line), "{line}\nis not in\n{said}");
        }
        assert!(!said.contains("\"b/*\""), "{said}");
    };
    let checked = fleet.run("saline-master", &["--check"]).expect(0);
    check(&format!("{}{}", checked.stdout, checked.stderr));
    fleet.start_master();
    for line in &told {
        fleet.master().log.wait_for(line, 1);
    }
    check(&fleet.run("saline-run", &["reactor.list"]).expect(0).stderr);
    let missing = fleet.path("reactor/later.sls").display().to_string();
    let added = fleet.run("saline-run", &["reactor.add", "c", &missing]);
    let added = added.expect(0).stderr;
    assert!(
        added.contains("later.sls before it can be read: there is no such file"),
        "{added}"
    );

    start_minion(&mut fleet, "m1");
    fleet.saline(&["m1", "test.ping"]).expect(0);
    let tested = fleet.run("saline-run", &["reactor.test", "b/1", "--out", "json"]);
    let tested: Value = serde_json::from_str(&tested.expect(1).stdout).unwrap();
    let why = "bad.sls:6:3: the block \"second\", local.test.ping: unknown keyword \"tgtt\"; did you mean \"tgt\"?";
    assert!(
        tested[0]["error"].as_str().unwrap().ends_with(why),
        "{tested}"
    );
    let orders = &tested[1]["orders"];
    assert_eq!(
        orders[0]["refused"],
        "'test.pingg' is not available on m1: did you mean test.ping?"
    );
    assert_eq!(
        orders[1]["refused"],
        "'manage.upp' is not available: did you mean manage.up?"
    );
    let tested = fleet.run("saline-run", &["reactor.test", "n/1"]).expect(1);
    let told = "nobody.sls, block \"ping\": test.ping on \"web9\" (glob) would reach nobody, since no accepted minion matches: correct tgt";
    assert!(tested.stderr.contains(told), "{}", tested.stderr);
    // A real order is refused by the same words.
    fleet.run("saline-run", &["event.send", "b/1"]).expect(0);
    let log = &fleet.master().log;
    log.wait_for(
        "'test.pingg' is not available on m1: did you mean test.ping?",
        1,
    );
    log.wait_for(why, 1);
}

#[test]
fn reactions_of_the_time_when_the_master_was_killed_come_once_and_loops_end() {
    let mut fleet = fleet_with(
        "auto_accept: True\nreactor:\n  - 'myco/*': [/srv/reactor/echo.sls]\n  - 'salt/job/*/ret/*': [/srv/reactor/loop.sls]\n",
    );
    write(
        &fleet,
        "echo.sls",
        "echo:\n  local.test.echo:\n    - tgt: {{ data['id'] }}\n    - args: [{{ data['n'] }}]\n",
    );
    // To the return of any job it orders one, whose return it does not react to.
    write(
        &fleet,
        "loop.sls",
        "{% if data['fun'] == 'test.echo' or data['fun'] == 'test.ping' %}\nagain:\n  local.test.ping:\n    - tgt: {{ data['id'] }}\n{% endif %}\n",
    );
    fleet.start_master();
    start_minion(&mut fleet, "m1");
    for number in 0..20 {
        // The event is on the disk when the runner has returned.
        let data = format!("{{id: m1, n: {number}}}");
        fleet
            .run("saline-run", &["event.send", "myco/x", &data])
            .expect(0);
        if number % 7 == 6 {
            fleet.kill_master();
            fleet.start_master();
            fleet.minions["m1"]
                .log
                .wait_for("subscribed", 2 + number / 7);
        }
    }
    let deadline = Instant::now() + TEST_TIMEOUT;
    let echoes = loop {
        let mut echoes: Vec<i64> = ordered(&fleet)
            .into_iter()
            .filter(|(fun, _)| fun == "test.echo")
            .map(|(_, arguments)| arguments[0].as_i64().unwrap())
            .collect();
        if echoes.len() >= 20 {
            echoes.sort_unstable();
            break echoes;
        }
        assert!(Instant::now() < deadline, "{echoes:?}");
    };
    assert_eq!(echoes, (0..20).collect::<Vec<i64>>());
    let told = "the event came of what this file ordered itself";
    let told = fleet.master().log.wait_for(told, 1);
    assert!(!told.contains("ERROR"), "{told}");
    let pings = ordered(&fleet);
    let pings = pings.iter().filter(|(fun, _)| fun == "test.ping").count();
    assert!(pings <= 20, "{pings}");
}

#[test]
fn one_broken_file_stops_nothing_else_and_rules_hold() {
    let mut fleet = fleet_with(
        "auto_accept: True\nreactor_acl: [test.echo]\nreactor:\n  - 'myco/*':\n    - /srv/reactor/broken.sls\n    - /srv/reactor/refused.sls\n    - /srv/reactor/good.sls\n",
    );
    write(
        &fleet,
        "broken.sls",
        "{% if data.x.y.z %}\n{% endif %}\n{{ nothing }}\n",
    );
    write(
        &fleet,
        "refused.sls",
        "touch:\n  local.cmd.run:\n    - tgt: {{ data.id }}\n    - args: ['touch /nonexistent/x']\ndata:\n  local.test.echo:\n    - tgt: {{ data.id }}\n    - args: [second]\n",
    );
    write(
        &fleet,
        "good.sls",
        "good:\n  local.test.echo:\n    - tgt: {{ data.id }}\n    - args:\n      - [{{ data['data']|tojson }}]\n",
    );
    fleet.start_master();
    start_minion(&mut fleet, "m1");
    let data = "{x: '*', y: \"{{ tag }}: [\"}";
    fleet
        .saline(&["m1", "event.send", "myco/x", data])
        .expect(0);
    let log = &fleet.master().log;
    log.wait_for("broken.sls:1:", 1);
    log.wait_for("may not run cmd.run", 1);
    log.wait_for("good.sls, block \"good\"", 1);
    let mut orders = ordered(&fleet);
    orders.sort_by_key(|(_, arguments)| arguments.to_string());
    assert_eq!(
        orders,
        [
            ("test.echo".to_owned(), json!(["second"])),
            (
                "test.echo".to_owned(),
                json!([[{"x": "*", "y": "{{ tag }}: ["}]])
            ),
        ]
    );
    let tested = fleet.run(
        "saline-run",
        &[
            "reactor.test",
            "salt/minion/m1/myco/x",
            data,
            "--out",
            "json",
        ],
    );
    let tested: Value = serde_json::from_str(&tested.expect(1).stdout).unwrap();
    assert!(
        tested[0]["error"]
            .as_str()
            .unwrap()
            .contains("broken.sls:1:"),
        "{tested}"
    );
    let refused = &tested[1]["orders"][0];
    assert!(
        refused["refused"].as_str().unwrap().contains("reactor_acl"),
        "{tested}"
    );
    assert_eq!(tested[2]["orders"][0]["minions"], json!(["m1"]));
}

#[test]
fn reactions_are_added_deleted_and_read_again() {
    let mut fleet = fleet_with("auto_accept: True\n");
    write(
        &fleet,
        "a.sls",
        "a:\n  runner.event.send:\n    - args: [done/a]\n",
    );
    fleet.start_master();
    let file = fleet.path("reactor/a.sls").display().to_string();
    assert_eq!(json(&fleet, &["reactor.list"]), json!([]));
    fleet
        .run("saline-run", &["reactor.add", "go/*", "a.sls"])
        .expect(1);
    fleet
        .run("saline-run", &["reactor.add", "go/*", &file])
        .expect(0);
    assert_eq!(json(&fleet, &["reactor.list"]), json!([{"go/*": [file]}]));
    let log = |needle: &str, count| fleet.master().log.wait_for(needle, count);
    fleet.run("saline-run", &["event.send", "go/1"]).expect(0);
    log("because of go/1 ", 1);
    let said = fleet
        .run("saline-run", &["event.forget", "reactor"])
        .expect(1);
    assert!(said.stderr.contains("the master's own reactor"), "{said:?}");
    fleet
        .run("saline-run", &["reactor.delete", "go/*"])
        .expect(0);
    fleet
        .run("saline-run", &["reactor.delete", "go/*"])
        .expect(1);
    fleet.run("saline-run", &["event.send", "go/2"]).expect(0);
    fleet.master_options += &placed(&fleet, "reactor: [{'go/*': /srv/reactor/a.sls}]\n");
    fleet.write_master_config();
    fleet.master().signal(Signal::HUP);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while json(&fleet, &["reactor.list"]) == json!([]) {
        assert!(Instant::now() < deadline);
    }
    fleet.run("saline-run", &["event.send", "go/3"]).expect(0);
    fleet.master().log.wait_for("because of go/3 ", 1);
    assert_eq!(fleet.master().log.count("because of go/2 "), 0);
}
