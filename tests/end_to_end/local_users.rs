//! Users of the machine who give orders by the rules of `publisher_acl`, over the access socket.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use rustix::process::Signal;
use saline_testing::{CommandOutput, Fleet, Log, Programs, TEST_TIMEOUT};

/// The users `nobody` and `daemon`.
const NOBODY: u32 = 65_534;
const DAEMON: u32 = 1;

const RULES: &str = "auto_accept: True
publisher_acl:
  nobody:
    - test.ping
    - m1:
      - test.echo:
          args: ['a.*']
";

/// Starts a master with these options and two minions, over a transport that has no access socket itself.
fn start(options: &str) -> Option<Fleet> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be somebody else");
        return None;
    }
    let mut fleet = Fleet::new("zeromq", options);
    // Where users find the configuration, the socket and the programs.
    fs::set_permissions(fleet.root(), fs::Permissions::from_mode(0o755)).unwrap();
    fleet.start_master();
    for id in ["m1", "m2"] {
        fleet.start_minion(id);
    }
    for id in ["m1", "m2"] {
        fleet.minions[id].log.wait_for("subscribed", 1);
    }
    for name in ["saline", "saline-run", "saline-key"] {
        let program = fleet.command(name, &[]);
        Programs::copy(program.get_program(), fleet.path(name)).unwrap();
    }
    Some(fleet)
}

/// Returns a command of another user, with a copy of the program, since that user may not reach the original.
fn command_of(fleet: &Fleet, uid: u32, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(fleet.path(program));
    command
        .arg("-c")
        .arg(fleet.config())
        .args(arguments)
        .uid(uid)
        .gid(uid);
    command
}

/// Runs a command as another user.
fn run_as(fleet: &Fleet, uid: u32, program: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = command_of(fleet, uid, program, arguments);
    CommandOutput::from(command.output().unwrap())
}

#[test]
fn a_user_runs_what_its_rules_allow_and_sees_its_own() {
    let Some(fleet) = start(RULES) else { return };
    let nobody = |program, arguments: &[&str]| run_as(&fleet, NOBODY, program, arguments);

    let pinged = nobody("saline", &["*", "test.ping"]).expect(0);
    for minion in ["m1", "m2"] {
        assert!(pinged.stdout.contains(&format!("{minion}:\n    True\n")));
    }
    assert_eq!(pinged.stderr, "");
    nobody("saline", &["m1", "test.echo", "abc"]).expect(0);
    // The first request of a session, larger than what strangers may send.
    nobody("saline", &["m1", "test.echo", &"a".repeat(100_000)]).expect(0);

    // Who it is does not hang on what it says.
    let missing = "no rule of publisher_acl in the master's configuration allows it";
    for (target, arguments, what) in [
        ("*", &["test.echo", "abc"][..], "run test.echo on m2"),
        ("m1", &["test.echo", "xyz"], "run test.echo"),
        ("m1", &["cmd.run", "id"], "run cmd.run"),
    ] {
        let refused = nobody("saline", &[&[target], arguments].concat()).expect(1);
        let line = format!("local user nobody may not {what}: {missing}");
        assert!(refused.stderr.contains(&line), "{}", refused.stderr);
    }
    for (program, arguments, what) in [
        (
            "saline-run",
            &["manage.up"][..],
            "may not run manage.up on the master",
        ),
        ("saline-key", &["-L"], "may not list keys"),
        ("saline-key", &["-y", "-d", "m1"], "may not list keys"),
    ] {
        let refused = nobody(program, arguments).expect(1);
        assert!(refused.stderr.contains(what), "{}", refused.stderr);
    }

    // What root ordered is not told.
    let output = fleet.saline(&["--async", "--out", "json", "m1", "test.ping"]);
    let jid: String = output.expect(0).stdout;
    let jid: String = jid.chars().filter(char::is_ascii_digit).collect();
    let refused = nobody("saline-run", &["jobs.lookup_jid", &jid]).expect(1);
    assert!(
        refused.stderr.contains("may not read a job of root"),
        "{}",
        refused.stderr
    );

    // A user without a rule.
    let refused = run_as(&fleet, DAEMON, "saline", &["*", "test.ping"]).expect(1);
    assert!(
        refused
            .stderr
            .contains("no rule of publisher_acl in the master's configuration is for you"),
        "{}",
        refused.stderr
    );

    // Everything but what was not decided by a rule has its line, and none has arguments.
    let lines = fleet
        .run("saline-run", &["audit.tail", "100"])
        .expect(0)
        .stdout;
    for part in [
        r#""principal": "local user nobody", "action": "publish a job", "function": "test.ping""#,
        r#""minions": ["m1", "m2"], "minion_count": 2"#,
        r#""decision": "allowed", "rule": "publisher_acl: m1: test.echo""#,
        r#""function": "cmd.run""#,
        r#""decision": "refused", "rule": "no rule of publisher_acl""#,
        r#""principal": "local root""#,
        r#""function": "audit.tail""#,
        r#""principal": "the master", "action": "change keys""#,
    ] {
        assert!(lines.contains(part), "{part} is not in\n{lines}");
    }
    assert!(!lines.contains("xyz"), "{lines}");
}

#[test]
fn a_rule_that_goes_ends_what_it_allowed() {
    let Some(mut fleet) = start(RULES) else {
        return;
    };
    run_as(&fleet, NOBODY, "saline", &["m1", "test.ping"]).expect(0);
    fleet.master_options = RULES.replace("    - test.ping\n", "");
    fleet.write_master_config();
    fleet.master().signal(Signal::HUP);
    fleet.master().log.wait_for("publisher_acl", 1);
    let refused = run_as(&fleet, NOBODY, "saline", &["m1", "test.ping"]).expect(1);
    assert!(
        refused.stderr.contains("may not run test.ping"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_user_is_told_that_the_master_is_away() {
    let options = RULES.replace("- test.ping", "- cmd.run");
    let Some(mut fleet) = start(&options) else {
        return;
    };
    let arguments = ["m1", "cmd.run", "exec sleep 600"];
    let mut command = command_of(&fleet, NOBODY, "saline", &arguments);
    let mut waiting = command.stderr(Stdio::piped()).spawn().unwrap();
    let told = Log::follow(waiting.stderr.take().unwrap());
    fleet.minions["m1"].log.wait_for("running cmd.run", 1);
    fleet.kill_master();
    told.wait_for("The master is away: waiting up to 28 s for it", 1);
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}

#[test]
fn without_rules_there_is_no_access_socket() {
    let Some(mut fleet) = start("auto_accept: True\n") else {
        return;
    };
    let socket = "master/run/saline/master/access.ipc";
    assert!(!fleet.path(socket).exists());
    let refused = run_as(&fleet, NOBODY, "saline", &["*", "test.ping"]).expect(1);
    assert!(
        refused
            .stderr
            .contains("have root allow you functions with publisher_acl"),
        "{}",
        refused.stderr
    );
    fleet.master_options = RULES.to_owned();
    fleet.write_master_config();
    fleet.master().signal(Signal::HUP);
    let asked = "the access socket is served from the next start on, restart saline-master";
    fleet.master().log.wait_for(asked, 1);
}

#[test]
fn a_user_of_the_blacklist_is_told_that_no_rule_helps() {
    let options = format!("{RULES}publisher_acl_blacklist: {{users: [nobody]}}\n");
    let Some(fleet) = start(&options) else { return };
    let refused = run_as(&fleet, NOBODY, "saline", &["m1", "test.ping"]).expect(1);
    let told = "publisher_acl_blacklist in the master's configuration names you";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
}

#[test]
fn a_user_of_runners_does_not_read_what_others_ordered() {
    let options =
        "auto_accept: True\ndurable_events: ['*']\npublisher_acl:\n  nobody: ['@runner']\n";
    let Some(fleet) = start(options) else { return };
    fleet.saline(&["m1", "test.ping"]).expect(0);
    run_as(&fleet, NOBODY, "saline-run", &["manage.up"]).expect(0);
    for fun in ["event.read", "audit.tail"] {
        let refused = run_as(&fleet, NOBODY, "saline-run", &[fun]).expect(1);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains("as a user who has @all"), "{said}");
    }
}

/// Follows the returns of jobs as a user.
fn follow_returns(fleet: &Fleet, uid: u32) -> (Child, Arc<Log>) {
    let arguments = ["state.event", "salt/job/*/ret/*"];
    let mut command = command_of(fleet, uid, "saline-run", &arguments);
    let mut listener = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // It tells of the events that it misses.
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let log = Log::follow(listener.stdout.take().unwrap());
    (listener, log)
}

#[test]
fn a_user_follows_its_own_jobs_and_one_with_the_rule_events_all() {
    let options = "auto_accept: True
publisher_acl:
  nobody: [test.*, '@events']
  daemon: [test.ping]
";
    let Some(mut fleet) = start(options) else {
        return;
    };
    let jid = |output: CommandOutput| -> String {
        let jid = output.expect(0).stdout;
        jid.chars().filter(char::is_ascii_digit).collect()
    };
    let order = ["--async", "--out", "json", "m1", "test.ping"];
    let (mut reader, all) = follow_returns(&fleet, NOBODY);
    let (mut user, own) = follow_returns(&fleet, DAEMON);
    let tell_apart = |fleet: &Fleet| {
        // Until an event comes through, they may not have subscribed.
        let count = || [all.count("salt/job/"), own.count("salt/job/")];
        let (before, deadline) = (count(), Instant::now() + TEST_TIMEOUT);
        while count()
            .iter()
            .zip(before)
            .any(|(now, before)| *now == before)
        {
            assert!(Instant::now() < deadline, "{}{}", all.text(), own.text());
            run_as(fleet, DAEMON, "saline", &["m1", "test.ping"]).expect(0);
        }
        let of_root = jid(fleet.saline(&order));
        all.wait_for(&format!("salt/job/{of_root}/ret/m1"), 1);
        let of_user = jid(run_as(fleet, DAEMON, "saline", &order));
        for log in [&all, &own] {
            log.wait_for(&format!("salt/job/{of_user}/ret/m1"), 1);
        }
        assert_eq!(own.count(&of_root), 0, "{}", own.text());
    };
    tell_apart(&fleet);
    let followed = run_as(&fleet, NOBODY, "saline", &["*", "test.ping"]).expect(0);
    assert!(
        followed.stdout.contains("m2:\n    True\n"),
        "{}",
        followed.stdout
    );

    // Both go on with the next start of the master.
    assert_eq!(fleet.master.take().unwrap().terminate(), Some(0));
    fleet.start_master();
    for id in ["m1", "m2"] {
        fleet.minions[id].log.wait_for("subscribed", 2);
    }
    tell_apart(&fleet);
    for listener in [&mut reader, &mut user] {
        listener.kill().unwrap();
        listener.wait().unwrap();
    }
}

#[test]
fn a_user_finds_in_the_job_cache_what_it_ordered_alone() {
    let options = format!(
        "{RULES}returner.sqlite3.database: /var/lib/jobs.sqlite\nmaster_job_cache: sqlite3\n"
    );
    let Some(mut fleet) = start(&options) else {
        return;
    };
    let jid = |output: CommandOutput| -> String {
        let jid = output.expect(0).stdout;
        jid.chars().filter(char::is_ascii_digit).collect()
    };
    let order = ["m1", "test.ping", "--async", "--out", "json"];
    let own = jid(run_as(&fleet, NOBODY, "saline", &order));
    let of_root = jid(fleet.saline(&order));
    let database = fleet.path("master/var/lib/jobs.sqlite");
    let delivered = || {
        let open = rusqlite::Connection::open(&database).ok()?;
        open.query_row("SELECT count(*) FROM returns", [], |row| row.get(0))
            .ok()
    };
    let deadline = Instant::now() + TEST_TIMEOUT;
    while delivered() != Some(2_i64) {
        assert!(Instant::now() < deadline, "{:?}", delivered());
    }
    fleet.kill_master();
    fs::remove_dir_all(fleet.path("master/var/lib/saline/master/jobs")).unwrap();
    fleet.start_master();
    let nobody = |arguments: &[&str]| run_as(&fleet, NOBODY, "saline-run", arguments);
    let shown = nobody(&["jobs.lookup_jid", &own]).expect(0);
    assert!(shown.stdout.contains("True"), "{}", shown.stdout);
    for function in ["jobs.lookup_jid", "jobs.print_job", "jobs.exit_success"] {
        let refused = nobody(&[function, &of_root]).expect(1);
        let said = refused.stdout + &refused.stderr;
        assert!(
            !said.contains("test.ping") && !said.contains("True"),
            "{said}"
        );
    }
    let listed = nobody(&["jobs.list_jobs"]).expect(0).stdout;
    assert!(
        listed.contains(&own) && !listed.contains(&of_root),
        "{listed}"
    );
    let listed = fleet
        .run("saline-run", &["jobs.list_jobs"])
        .expect(0)
        .stdout;
    assert!(
        listed.contains(&own) && listed.contains(&of_root),
        "{listed}"
    );
}

#[test]
fn a_user_stops_its_own_job_and_no_other() {
    let options = "auto_accept: True
publisher_acl:
  nobody: [test.sleep]
  daemon: ['saltutil.*']
";
    let Some(fleet) = start(options) else { return };
    let nobody = |program, arguments: &[&str]| run_as(&fleet, NOBODY, program, arguments);
    let daemon = |arguments: &[&str]| run_as(&fleet, DAEMON, "saline", arguments);
    let jid = |output: CommandOutput| -> String {
        let jid = output.expect(0).stdout;
        jid.chars().filter(char::is_ascii_digit).collect()
    };
    let own = ["--async", "--out", "json", "m1", "test.sleep", "600"];
    let own = jid(nobody("saline", &own));
    let of_root = ["--async", "--out", "json", "m1", "cmd.run", "sleep 600"];
    let of_root = jid(fleet.saline(&of_root));
    for running in ["running test.sleep", "running cmd.run"] {
        fleet.minions["m1"].log.wait_for(running, 1);
    }

    let shown = nobody("saline-run", &["jobs.print_job", &own]).expect(0);
    assert!(shown.stdout.contains("test.sleep"), "{}", shown.stdout);
    let listed = nobody("saline-run", &["jobs.list_jobs"]).expect(0);
    assert!(listed.stdout.contains(&own) && !listed.stdout.contains(&of_root));
    let refused = "may not run saltutil.kill_job but with the id of a job of its own";
    let named = format!("jid={of_root}");
    for call in [
        &["m1", "saltutil.kill_job", of_root.as_str()],
        &["m1", "saltutil.kill_job", named.as_str()],
        &["* and not m2", "saltutil.kill_job", of_root.as_str()],
    ] {
        let call = match call[0].contains(' ') {
            true => [&["-C"], &call[..]].concat(),
            false => call.to_vec(),
        };
        let said = daemon(&call).expect(1);
        assert!(said.stderr.contains(refused), "{}", said.stderr);
    }
    let said = daemon(&["m1", "saltutil.running"]).expect(1);
    assert!(
        said.stderr.contains("saline-run jobs.active"),
        "{}",
        said.stderr
    );
    assert!(!said.stdout.contains("sleep 600"));

    nobody("saline-run", &["jobs.cancel", &own]).expect(0);
    let ended = nobody("saline", &["*", "saltutil.term_job", &own]).expect(0);
    assert!(
        ended.stdout.contains("test.sleep was interrupted"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains("m2"), "{}", ended.stdout);
    nobody("saline-run", &["jobs.lookup_jid", &own]);
    let ended = fleet
        .saline(&["m1", "saltutil.kill_job", &of_root])
        .expect(0);
    assert!(ended.stdout.contains("Signal 9"), "{}", ended.stdout);
}

#[test]
fn a_runner_with_a_target_is_about_the_minions_of_the_rules() {
    let options = "auto_accept: True
publisher_acl:
  nobody: [{'@runner': [cache.*]}, {m2: [test.ping]}]
";
    let Some(fleet) = start(options) else { return };
    let nobody = |arguments: &[&str]| run_as(&fleet, NOBODY, "saline-run", arguments);
    for arguments in [
        &["cache.clear_all", "m1"][..],
        &["cache.clear_all"],
        &["cache.grains", "tgt=*"],
    ] {
        let refused = nobody(arguments).expect(1);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains("may not match a target with m1"), "{said}");
    }
    nobody(&["cache.clear_all", "m2"]).expect(0);
}
