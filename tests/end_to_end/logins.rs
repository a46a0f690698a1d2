//! Users who log in with a name and a password, and what they may do then.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::Signal;
use saline_testing::{CommandOutput, Fleet};

const RULES: &str = "auto_accept: True
external_auth:
  file:
    ^filename: /users
    alice: [test.ping, 'm1': [test.echo], '@runner': [manage.up]]
    '*': [test.version]
";

/// Runs a command with this standard input, and a home folder of its own.
fn with_input(fleet: &Fleet, program: &str, arguments: &[&str], input: &str) -> CommandOutput {
    let mut command = fleet.command(program, arguments);
    command
        .env("HOME", fleet.path("home"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    CommandOutput::from(child.wait_with_output().unwrap())
}

/// Returns the line that `saline-key --hash-password` makes of a password.
pub fn hash_of(fleet: &Fleet, password: &str) -> String {
    let line = format!("{password}\n");
    let hashed = with_input(fleet, "saline-key", &["--hash-password"], &line);
    hashed.expect(0).stdout.trim().to_owned()
}

/// Starts a master with these rules, whose file of users has alice and bob, and a minion.
fn start(options: &str) -> Fleet {
    let mut fleet = Fleet::new("tcp", options);
    fs::create_dir(fleet.path("home")).unwrap();
    let hash = hash_of(&fleet, "correct horse");
    let users = fleet.path("master/users");
    fs::create_dir(fleet.path("master")).unwrap();
    fs::write(&users, format!("alice:{hash}\nbob:{hash}\n")).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o640)).unwrap();
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.minions["m1"].log.wait_for("subscribed", 1);
    fleet
}

fn as_user(fleet: &Fleet, user: &str, password: &str, order: &[&str]) -> CommandOutput {
    let arguments = [&["-a", "file", "--username", user], order].concat();
    with_input(fleet, "saline", &arguments, &format!("{password}\n"))
}

#[test]
fn a_check_tells_that_nobody_can_log_in_by_the_file_of_users() {
    let fleet = start(RULES);
    let right = fleet.run("saline-master", &["--check"]).expect(0);
    assert!(!right.stderr.contains("log in"), "{}", right.stderr);
    let users = fleet.path("master/users");
    let text = fs::read_to_string(&users).unwrap();
    fs::write(&users, "alice:correct horse\n").unwrap();
    let wrong = fleet.run("saline-master", &["--check"]).expect(0);
    assert!(wrong.stderr.contains("line 1: "), "{}", wrong.stderr);
    assert!(!wrong.stderr.contains("horse"), "{}", wrong.stderr);
    fs::write(&users, text).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o644)).unwrap();
    let open = fleet.run("saline-master", &["--check"]).expect(0);
    assert!(open.stderr.contains("chmod o-r"), "{}", open.stderr);
    fs::remove_file(&users).unwrap();
    let missing = fleet.run("saline-master", &["--check"]).expect(0);
    assert!(
        missing
            .stderr
            .contains("/users, by which nobody can log in"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_user_runs_what_the_rules_allow_and_nothing_else() {
    let fleet = start(RULES);
    let alice = |order: &[&str]| as_user(&fleet, "alice", "correct horse", order);
    let pinged = alice(&["*", "test.ping"]).expect(0);
    assert_eq!(
        (pinged.stdout.as_str(), pinged.stderr.as_str()),
        ("m1:\n    True\n", "")
    );
    alice(&["m1", "test.echo", "x"]).expect(0);
    let refused = alice(&["m1", "cmd.run", "id"]).expect(1);
    assert!(
        refused.stderr.contains(
            "external user alice (file, through local root) may not run cmd.run: no rule of external_auth"
        ),
        "{refused:?}"
    );
    // The rules for everybody are for who is not named.
    alice(&["m1", "test.version"]).expect(1);
    as_user(&fleet, "bob", "correct horse", &["m1", "test.version"]).expect(0);
    as_user(&fleet, "bob", "correct horse", &["m1", "test.ping"]).expect(1);

    // Whatever is wrong, the words are the same.
    let wrong = ["alice", "carol"].map(|user| {
        let wrong = as_user(&fleet, user, "wrong", &["m1", "test.ping"]).expect(1);
        assert!(
            wrong.stderr.contains("the master refuses the login"),
            "{wrong:?}"
        );
        (wrong.stdout, wrong.stderr)
    });
    assert_eq!(wrong[0], wrong[1]);

    let run = |function: &str| {
        let arguments = ["-a", "file", "--username", "alice", function];
        with_input(&fleet, "saline-run", &arguments, "correct horse\n")
    };
    run("manage.up").expect(0);
    let refused = run("auth.list").expect(1);
    assert!(
        refused.stderr.contains("may not run auth.list"),
        "{refused:?}"
    );
    // Without -T each login ended with its command.
    let logins = fleet
        .run("saline-run", &["auth.list", "--out", "json"])
        .expect(0);
    assert_eq!(logins.stdout.trim(), "[]");

    let shown = with_input(
        &fleet,
        "saline",
        &[
            "-a",
            "file",
            "--username",
            "alice",
            "--password",
            "correct horse",
            "m1",
            "test.ping",
        ],
        "",
    );
    assert!(
        shown
            .expect(0)
            .stderr
            .contains("can read the password on the command line")
    );

    let audited = fs::read_to_string(fleet.path("master/var/log/saline/master-audit.log")).unwrap();
    assert!(audited.contains("external user alice (file, through local root)"));
    assert!(
        audited.contains(
            r#""action": "log in", "subject": "user carol by file", "decision": "refused""#
        ),
        "{audited}"
    );
    assert!(!audited.contains("correct horse") && !audited.contains("wrong\""));
}

#[test]
fn a_group_has_its_rules_and_permissive_acl_adds_those_of_everybody() {
    let rules = RULES.replace("    '*'", "    ops%: [test.echo]\n    '*'");
    let mut fleet = start(&rules);
    let users = fleet.path("master/users");
    let text = fs::read_to_string(&users).unwrap();
    let in_group: String = text
        .lines()
        .map(|line| format!("{line}:dev,ops\n"))
        .collect();
    fs::write(&users, in_group).unwrap();
    let runs = |fleet: &Fleet, user: &str, order: &[&str]| {
        let output = as_user(fleet, user, "correct horse", order);
        output.code == Some(0)
    };
    let (ping, echo, version) = (
        ["m1", "test.ping"],
        ["m1", "test.echo", "x"],
        ["m1", "test.version"],
    );
    // Alice has her own rules too, and bob those of the group alone.
    assert!(runs(&fleet, "alice", &ping) && runs(&fleet, "alice", &echo));
    assert!(runs(&fleet, "bob", &echo) && !runs(&fleet, "bob", &ping));
    assert!(!runs(&fleet, "alice", &version) && !runs(&fleet, "bob", &version));
    fleet.master_options = format!("permissive_acl: True\n{rules}");
    fleet.write_master_config();
    fleet.master().signal(Signal::HUP);
    let is_permissive = (0..100).any(|_| runs(&fleet, "bob", &version));
    assert!(is_permissive, "the master reads its file again");
    assert!(runs(&fleet, "alice", &version) && runs(&fleet, "alice", &ping));
    assert!(runs(&fleet, "bob", &echo) && !runs(&fleet, "bob", &ping));
}

/// Returns the number of logins that `auth.revoke` says it has ended.
fn ended_logins(output: &CommandOutput) -> u64 {
    let said: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    said["logins"].as_u64().unwrap()
}

#[test]
fn a_kept_token_is_valid_over_a_restart_until_it_is_revoked() {
    let mut fleet = start(RULES);
    let kept = |fleet: &Fleet| with_input(fleet, "saline", &["-T", "*", "test.ping"], "");
    let none = kept(&fleet).expect(1);
    assert!(none.stderr.contains("no token is kept in "), "{none:?}");
    let arguments = ["-T", "-a", "file", "--username", "alice", "*", "test.ping"];
    with_input(&fleet, "saline", &arguments, "correct horse\n").expect(0);
    kept(&fleet).expect(0);
    let token = fs::read_to_string(fleet.path("home/.saline/token")).unwrap();
    assert_eq!(token.trim().len(), 64);

    fleet.kill_master();
    fleet.start_master();
    fleet.minions["m1"].log.wait_for("subscribed", 2);
    kept(&fleet).expect(0);
    let listed = fleet
        .run("saline-run", &["auth.list", "--out", "json"])
        .expect(0);
    assert!(
        listed.stdout.contains("alice") && listed.stdout.contains("file"),
        "{listed:?}"
    );

    let foreign = "0123456789abcdef".repeat(4);
    fs::write(fleet.path("home/.saline/token"), format!("{foreign}\n")).unwrap();
    let refused = kept(&fleet).expect(1);
    assert!(
        refused.stderr.contains("this login is not valid"),
        "{refused:?}"
    );
    fs::write(fleet.path("home/.saline/token"), &token).unwrap();
    kept(&fleet).expect(0);

    let would = fleet
        .run(
            "saline-run",
            &["auth.revoke", "alice", "test=True", "--out", "json"],
        )
        .expect(0);
    assert_eq!(ended_logins(&would), 1);
    kept(&fleet).expect(0);
    let revoked = fleet
        .run("saline-run", &["auth.revoke", "alice", "--out", "json"])
        .expect(0);
    assert_eq!(ended_logins(&revoked), 1);
    let refused = kept(&fleet).expect(1);
    assert!(
        refused.stderr.contains("this login is not valid"),
        "{refused:?}"
    );
    // No file of the master has the token.
    let store = fs::read(fleet.path("master/var/lib/saline/master/logins.sqlite")).unwrap();
    let text = token.trim().as_bytes();
    assert!(!store.windows(64).any(|window| window == text));
}

#[test]
fn a_login_ends_by_its_time() {
    let fleet = start(&format!("{RULES}token_expire: 1\n"));
    let arguments = ["-T", "-a", "file", "--username", "alice", "m1", "test.ping"];
    let logged_in = with_input(&fleet, "saline", &arguments, "correct horse\n");
    drop(logged_in);
    // Each command takes a part of the second.
    let ended = (0..1_000).find(|_| {
        let asked = with_input(&fleet, "saline", &["-T", "m1", "test.ping"], "");
        asked.stderr.contains("this login is not valid")
    });
    assert!(ended.is_some());
}

#[test]
fn a_user_changes_keys_by_the_rule_of_wheel_functions() {
    let mut fleet = start(
        "auto_accept: True
external_auth:
  file:
    ^filename: /users
    alice: ['@wheel']
    bob: [test.ping, '@runner']
",
    );
    let keys = |user: &str, order: &[&str]| {
        let arguments = [&["--eauth", "file", "--username", user], order].concat();
        with_input(&fleet, "saline-key", &arguments, "correct horse\n")
    };
    let refused = keys("bob", &["-L"]).expect(1);
    assert!(
        refused
            .stderr
            .contains("external user bob (file, through local root) may not"),
        "{refused:?}"
    );
    let listed = keys("alice", &["-L"]).expect(0);
    assert!(listed.stdout.contains("Accepted Keys:\nm1\n"), "{listed:?}");
    keys("alice", &["-y", "-d", "m1"]).expect(0);
    let accepted = fleet.path("master/etc/saline/pki/master/minions/m1");
    assert!(!accepted.exists());
    let lines = fs::read_to_string(fleet.path("master/var/log/saline/master-audit.log")).unwrap();
    let deletes = |line: &&str| line.contains("external user alice") && line.contains("delete");
    assert!(lines.lines().any(|line| deletes(&line)), "{lines}");
    let logins = fleet.run("saline-run", &["auth.list"]).expect(0);
    assert!(!logins.stdout.contains("alice"), "{logins:?}");

    // Without a master nobody can log in, and the files of keys are not changed in another's name.
    fleet.kill_master();
    let arguments = ["--eauth", "file", "--username", "alice", "-L"];
    let alone = with_input(&fleet, "saline-key", &arguments, "correct horse\n").expect(1);
    assert!(alone.stderr.contains("no master runs"), "{alone:?}");
}
