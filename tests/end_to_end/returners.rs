//! Destinations outside of the master, with real processes: what is delivered, also over a database and a master that are killed.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;
use saline_testing::{CommandOutput, Fleet, PostgresServer, TEST_TIMEOUT};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../docs/returners.md");

/// Returns the first block of YAML of the page.
fn example() -> String {
    let (_, rest) = PAGE.split_once("```yaml\n").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    block.to_owned()
}

/// Returns the lines of a file, once `is_whole` likes them.
fn lines_when(path: &Path, is_whole: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let lines: Vec<Value> = whole
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        if is_whole(&lines) {
            return lines;
        }
        assert!(Instant::now() < deadline, "{lines:?}");
    }
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// Publishes a job without waiting for it, and returns the jid.
fn publish(fleet: &Fleet, words: &[&str]) -> String {
    let said = fleet.saline(&[words, &["--async", "--out", "json"]].concat());
    let json: Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
    json["jid"].as_str().unwrap().to_owned()
}

#[test]
fn the_example_of_the_page_delivers_what_it_says() {
    let mut fleet = Fleet::new("tcp", &format!("auto_accept: True\n{}", example()));
    fleet.start_master();
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    fleet.saline(&["web1", "test.echo", "hello"]).expect(0);
    let path = fleet.path("master/var/log/saline/returns.json");
    let lines = lines_when(&path, |lines| {
        !of_kind(lines, "return").is_empty()
            && lines
                .iter()
                .any(|line| line["tag"] == "salt/minion/web1/start")
    });
    let job = of_kind(&lines, "job")[0];
    assert_eq!(
        (&job["fun"], &job["arg"], &job["tgt"], &job["minions"]),
        (
            &json!("test.echo"),
            &json!(["hello"]),
            &json!("web1"),
            &json!(["web1"])
        )
    );
    let returned = of_kind(&lines, "return")[0];
    assert_eq!(
        (
            &returned["id"],
            &returned["return"],
            &returned["success"],
            &returned["jid"]
        ),
        (&json!("web1"), &json!("hello"), &json!(true), &job["jid"])
    );
    // The page leaves events about jobs out, which the records of jobs and returns tell.
    let tags: Vec<&str> = of_kind(&lines, "event")
        .iter()
        .map(|event| event["tag"].as_str().unwrap())
        .collect();
    assert!(
        tags.iter().all(|tag| !tag.starts_with("salt/job/")),
        "{tags:?}"
    );
    // The file can be moved away at any time.
    let moved = path.with_extension("json.1");
    fs::rename(&path, &moved).unwrap();
    fleet.saline(&["web1", "test.echo", "again"]).expect(0);
    let lines = lines_when(&path, |lines| !of_kind(lines, "return").is_empty());
    assert_eq!(of_kind(&lines, "return")[0]["return"], "again");
    fleet.master().signal(Signal::USR1);
    let report = fleet.master().log.wait_for("returner_delivered", 1);
    assert!(
        report.contains("returner_delivered[returner=local]="),
        "{report}"
    );
}

#[test]
fn an_order_names_destinations_for_its_own_job() {
    let options = "auto_accept: True\nreturner.local.file: /var/log/saline/returns.json\n";
    let mut fleet = Fleet::new("tcp", options);
    fleet.start_master();
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    fleet.saline(&["web1", "test.echo", "stays"]).expect(0);
    fleet
        .saline(&["web1", "test.echo", "goes", "--return", "local"])
        .expect(0);
    let path = fleet.path("master/var/log/saline/returns.json");
    let lines = lines_when(&path, |lines| lines.len() >= 2);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(of_kind(&lines, "return")[0]["return"], "goes");
    // A call on the minion's machine names them as well.
    let call = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_saline-call"));
        command
            .arg("-c")
            .arg(fleet.minion_config("web1"))
            .args(words);
        CommandOutput::from(command.output().unwrap())
    };
    call(&["test.echo", "stays"]).expect(0);
    call(&["--return", "local", "test.echo", "called"]).expect(0);
    let lines = lines_when(&path, |lines| lines.len() >= 4);
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(of_kind(&lines, "return")[1]["return"], "called");
    // It is told before the function runs.
    let made = fleet.path("made-by-the-call");
    let made = made.to_str().unwrap();
    let unknown = call(&["--return", "postgres", "file.touch", made]).expect(1);
    let told = "the function was not called: --return: the configuration of the master has no destination \"postgres\": it has local";
    assert!(unknown.stderr.contains(told), "{}", unknown.stderr);
    assert!(!Path::new(made).exists());
    call(&["--return", "local", "file.touch", made]).expect(0);
    assert!(Path::new(made).exists());
    let local = call(&["--local", "--return", "local", "test.ping"]).expect(64);
    assert!(local.stderr.contains("--return"), "{}", local.stderr);
    let refused = fleet.saline(&["web1", "test.ping", "--return", "postgres"]);
    let said = refused.stderr.clone() + &refused.stdout;
    assert_ne!(refused.code, Some(0));
    assert!(
        said.contains(
            "the configuration of the master has no destination \"postgres\": it has local"
        ),
        "{said}"
    );
}

#[test]
fn a_database_and_a_master_that_are_killed_lose_nothing_and_get_nothing_twice() {
    let Some(database) = PostgresServer::start() else {
        return;
    };
    let options = format!(
        "auto_accept: True\nreturner.postgres.host: {}\nreturner.postgres.passwd: salt\next_job_cache: postgres\n",
        database.socket_folder().display()
    );
    let mut fleet = Fleet::new("tcp", &options);
    fleet.start_master();
    for id in ["web1", "web2"] {
        fleet.start_minion(id);
    }
    for id in ["web1", "web2"] {
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    let mut jids = Vec::new();
    let mut publish_some = |fleet: &Fleet| {
        for number in 0..5 {
            let said = fleet.saline(&["*", "test.echo", &number.to_string(), "--show-jid"]);
            let said = said.expect(0);
            let text = said.stdout + &said.stderr;
            let (_, rest) = text.split_once("jid: ").unwrap();
            jids.push(rest[..20].to_owned());
        }
    };
    publish_some(&fleet);
    wait_for_rows(
        &database,
        "SELECT to_regclass('saline_returns') IS NOT NULL",
        "t",
    );
    let count = "SELECT count(*) || ' ' || count(DISTINCT jid) FROM saline_returns";
    wait_for_rows(&database, count, "10 5");
    database.kill();
    // Nobody waits for the database.
    publish_some(&fleet);
    fleet
        .master()
        .log
        .wait_for("returner postgres: nothing is delivered", 1);
    fleet.kill_master();
    fleet.start_master();
    for id in ["web1", "web2"] {
        fleet.minions[id].log.wait_for("subscribed", 2);
    }
    publish_some(&fleet);
    fleet
        .master()
        .log
        .wait_for("returner postgres: nothing is delivered", 1);
    database.restart();
    wait_for_rows(&database, count, "30 15");
    fleet
        .master()
        .log
        .wait_for("returner postgres: records are delivered again", 1);
    publish_some(&fleet);
    wait_for_rows(&database, count, "40 20");
    let stored = database.query("SELECT string_agg(jid, ' ' ORDER BY jid) FROM saline_jobs");
    assert_eq!(stored, jids.join(" "));
    let whole = "SELECT count(*) FROM saline_returns WHERE success AND fun = 'test.echo' AND return = fun_args -> 0";
    assert_eq!(database.query(whole), "40");
}

fn wait_for_rows(database: &PostgresServer, sql: &str, expected: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let found = database.query(sql);
        if found == expected {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{found}, and {expected} is expected"
        );
    }
}

#[test]
fn jobs_that_the_store_has_no_more_are_looked_up_in_the_job_cache() {
    let options = "auto_accept: True\nreturner.sqlite3.database: /var/lib/jobs.sqlite\nmaster_job_cache: sqlite3\n";
    let mut fleet = Fleet::new("tcp", options);
    fleet.start_master();
    for id in ["web1", "web2"] {
        fleet.start_minion(id);
    }
    for id in ["web1", "web2"] {
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    let jid = publish(&fleet, &["*", "test.echo", "hello"]);
    let failed = publish(&fleet, &["web1", "cmd.run", "exit 3"]);
    let shown = |fleet: &Fleet, words: &[&str]| {
        let said = fleet.run("saline-run", &[words, &["--out", "json"]].concat());
        let said = said.expect(0);
        let value: Value = serde_json::from_str(&said.stdout).unwrap();
        (value, said.stderr)
    };
    let database = fleet.path("master/var/lib/jobs.sqlite");
    let deadline = Instant::now() + TEST_TIMEOUT;
    let delivered = || {
        let open = rusqlite::Connection::open(&database).ok()?;
        open.query_row("SELECT count(*) FROM returns", [], |row| row.get(0))
            .ok()
    };
    while delivered() != Some(3_i64) {
        assert!(Instant::now() < deadline, "{:?}", delivered());
    }
    let lookups: [&[&str]; 4] = [
        &["jobs.lookup_jid", &jid],
        &["jobs.list_job", &jid],
        &["jobs.exit_success", &failed],
        &["jobs.list_jobs"],
    ];
    let before = lookups.map(|words| shown(&fleet, words));
    assert_eq!(before[0].0, json!({"web1": "hello", "web2": "hello"}));
    assert!(
        before.iter().all(|(_, notes)| notes.is_empty()),
        "{before:?}"
    );

    // As after the time for which jobs are kept.
    fleet.kill_master();
    fs::remove_dir_all(fleet.path("master/var/lib/saline/master/jobs")).unwrap();
    fleet.start_master();
    for id in ["web1", "web2"] {
        fleet.minions[id].log.wait_for("subscribed", 2);
    }
    for (words, (value, _)) in lookups.iter().zip(&before) {
        let (again, notes) = shown(&fleet, words);
        assert_eq!(&again, value, "{words:?}");
        let is_told = notes.contains("is from the job cache sqlite3");
        assert_eq!(is_told, words[0] != "jobs.list_jobs", "{notes}");
    }
    // Salt's returner does not write down for which minions a job was.
    let open = rusqlite::Connection::open(&database).unwrap();
    let forget = "UPDATE jobs SET minions = NULL WHERE jid = ?1";
    assert_eq!(open.execute(forget, [&failed]).unwrap(), 1);
    drop(open);
    let (success, _) = shown(&fleet, &["jobs.exit_success", &failed]);
    assert_eq!(success, json!({"web1": false}));
    // What the store has stands beside it, and the filters hold for both.
    let new = publish(&fleet, &["web2", "test.echo", "hello"]);
    let listed = |words: &[&str]| {
        let (jobs, _) = shown(&fleet, &[&["jobs.list_jobs"], words].concat());
        let jobs = jobs.as_object().unwrap().keys().cloned();
        jobs.collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), [&jid, &failed, &new].map(Clone::clone));
    assert_eq!(listed(&["limit=2"]), [&failed, &new].map(Clone::clone));
    assert_eq!(
        listed(&["search_function=test.e*"]),
        [&jid, &new].map(Clone::clone)
    );
    assert_eq!(listed(&["search_target=web1"]), [failed]);
    let unknown = fleet.run("saline-run", &["jobs.lookup_jid", "20200101000000000000"]);
    assert!(unknown.stderr.contains("is unknown"), "{unknown:?}");

    // A database that cannot be read keeps no list from being shown, and is named.
    fs::remove_file(&database).unwrap();
    fs::create_dir(&database).unwrap();
    let away = fleet.run("saline-run", &["jobs.lookup_jid", &jid]);
    assert_eq!(away.code, Some(1));
    assert!((away.stdout + &away.stderr).contains("the job cache sqlite3 cannot be read"),);
    let (jobs, notes) = shown(&fleet, &["jobs.list_jobs"]);
    assert_eq!(jobs.as_object().unwrap().len(), 1);
    assert!(notes.contains("cannot be read"), "{notes}");
}

#[test]
fn events_of_runs_are_delivered_where_the_whitelist_matches_them() {
    let options = "auto_accept: True\nreturner.local.file: /var/log/saline/returns.json\nevent_return: local\n\
                   event_return_whitelist: ['salt/run/*', 'my/end']\nevent_return_blacklist: 'salt/run/*/progress'\n";
    let mut fleet = Fleet::new("tcp", options);
    fleet.start_master();
    let run = fleet.run("saline-run", &["config.get", "absent", "blue"]);
    assert_eq!(run.expect(0).stdout.trim(), "blue");
    fleet.run("saline-run", &["event.send", "my/end"]).expect(0);
    let path = fleet.path("master/var/log/saline/returns.json");
    let lines = lines_when(&path, |lines| {
        lines.iter().any(|line| line["tag"] == "my/end")
    });
    let jid = lines[0]["data"]["jid"].as_str().unwrap();
    let of_run: Vec<_> = lines.iter().filter(|it| it["data"]["jid"] == jid).collect();
    let tags: Vec<_> = of_run
        .iter()
        .map(|it| it["tag"].as_str().unwrap())
        .collect();
    let expected = ["new", "ret"].map(|event| format!("salt/run/{jid}/{event}"));
    assert_eq!(tags, expected);
    let (new, ret) = (&of_run[0]["data"], &of_run[1]["data"]);
    assert_eq!(
        (&new["fun"], &new["fun_args"], &new["return"]),
        (
            &json!("runner.config.get"),
            &json!(["absent", "blue"]),
            &Value::Null
        )
    );
    assert_eq!(
        (&ret["fun"], &ret["return"], &ret["success"]),
        (&json!("runner.config.get"), &json!("blue"), &json!(true))
    );
}

#[test]
fn a_secret_argument_is_in_no_record() {
    let options = "auto_accept: True\nreturner.local.file: /var/log/saline/returns.json\next_job_cache: local\nevent_return: local\n";
    let mut fleet = Fleet::new("tcp", options);
    fleet.start_master();
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    let secret = fleet.root().with_extension("secret");
    fs::write(&secret, "correct-horse\n").unwrap();
    let argument = format!("stdin=@{}", secret.display());
    let jid = publish(
        &fleet,
        &["web1", "cmd.run", "tr a-z n-za-m", "--secret", &argument],
    );
    fs::remove_file(&secret).unwrap();
    let path = fleet.path("master/var/log/saline/returns.json");
    let lines = lines_when(&path, |lines| !of_kind(lines, "return").is_empty());
    assert_eq!(of_kind(&lines, "job")[0]["jid"], *jid);
    assert_eq!(of_kind(&lines, "return")[0]["return"], "pbeerpg-ubefr");
    assert!(!fs::read_to_string(&path).unwrap().contains("correct-horse"));
}
