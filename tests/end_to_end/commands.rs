//! What a command of a minion sees and may do, and what an operator is told when none can be started.

use std::path::Path;
use std::process::Command;

use saline_testing::{CommandOutput, Fleet};

saline_testing::over_each_transport!(
    a_command_sees_its_three_streams_and_no_other_descriptor,
    a_command_runs_as_described,
);

/// Runs a command on m1, and returns its output.
fn output(fleet: &Fleet, arguments: &[&str]) -> String {
    let arguments = [
        &["m1", "cmd.run"],
        arguments,
        &["--out", "json", "--static"],
    ]
    .concat();
    let said = fleet.saline(&arguments).expect(0);
    let mut json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    match json["m1"].take() {
        serde_json::Value::String(output) => output,
        other => panic!("no text: {other}"),
    }
}

fn a_command_sees_its_three_streams_and_no_other_descriptor(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1"]);
    let seen = output(&fleet, &["ls -l /proc/self/fd"]);
    let links: Vec<(&str, &str)> = seen
        .lines()
        .filter_map(|line| line.split_once(" -> "))
        .map(|(left, target)| (left.rsplit(' ').next().unwrap(), target))
        .collect();
    let [stdin, stdout, stderr, folder] = links[..] else {
        panic!("{seen}");
    };
    assert_eq!(stdin, ("0", "/dev/null"));
    assert!(stdout.0 == "1" && stdout.1.starts_with("pipe:"), "{seen}");
    assert_eq!(stderr, ("2", stdout.1));
    // The one with which ls reads the folder.
    assert!(folder.0 == "3" && folder.1.ends_with("/fd"), "{seen}");
}

fn a_command_runs_as_described(transport: &'static str) {
    let fleet = Fleet::with_minions(transport, &["m1"]);
    let line = "umask; pwd; echo $A";
    let described = ["umask=027", "cwd=/usr", "env={A: b}"];
    let seen = output(&fleet, &[&[line][..], &described].concat());
    assert_eq!(seen, "0027\n/usr\nb");
    let refused = fleet.saline(&["m1", "cmd.run", "id", "runas=nosuchuser"]);
    let refused = refused.expect(1).stdout;
    assert!(
        refused.contains("there is no user \"nosuchuser\" on this machine"),
        "{refused}"
    );
    if rustix::process::geteuid().is_root() {
        let line = "id -un; echo $HOME";
        let seen = output(&fleet, &[line, "runas=daemon"]);
        assert!(seen.starts_with("daemon\n/"), "{seen}");
    }
}

/// Runs `program` as `saline-call --local`, with these lines of configuration.
fn call(program: &Path, options: &str, arguments: &[&str]) -> CommandOutput {
    let root = tempfile::tempdir().unwrap();
    let text = format!("root_dir: {}\nid: m1\n{options}", root.path().display());
    std::fs::write(root.path().join("minion"), text).unwrap();
    let mut command = Command::new(program);
    command.arg("-c").arg(root.path()).arg("--local");
    command.args(arguments).env("APP_PLACE", "here");
    CommandOutput::from(command.output().unwrap())
}

#[test]
fn a_variable_reaches_commands_only_when_it_is_listed() {
    let program = Path::new(env!("CARGO_BIN_EXE_saline-call"));
    let print = ["cmd.run", "echo ${APP_PLACE:-none}"];
    let usual = call(program, "", &print).expect(0);
    assert_eq!(usual.stdout, "local:\n    none\n");
    let listed = call(program, "pass_environment: [OTHER, APP_*]\n", &print).expect(0);
    assert_eq!(listed.stdout, "local:\n    here\n");
    let wrong = call(program, "pass_environment: A=B\n", &print).expect(1);
    assert!(
        wrong.stderr.contains("is not a valid name of a variable"),
        "{wrong:?}"
    );
}

#[test]
fn a_minion_without_saline_exec_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("saline-call");
    // By another process: one that this program starts meanwhile must not hold the new file open for writing.
    let mut copy = Command::new("cp");
    copy.arg(env!("CARGO_BIN_EXE_saline-call")).arg(&alone);
    CommandOutput::from(copy.output().unwrap()).expect(0);
    call(&alone, "", &["test.ping"]).expect(0);
    let said = call(&alone, "", &["cmd.run", "true"]).expect(1);
    let missing = folder.path().join("saline-exec");
    let wanted = format!("cannot run a command: {} is missing", missing.display());
    assert!(said.stdout.contains(&wanted), "{said:?}");
}

#[test]
fn saline_exec_is_not_started_by_hand() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saline-exec"));
    command.stdin(std::process::Stdio::null());
    let said = CommandOutput::from(command.output().unwrap()).expect(125);
    assert!(said.stderr.contains("is not started by hand"), "{said:?}");
}
