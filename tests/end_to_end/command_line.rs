//! What an operator types and reads: arguments, outputs, files, exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use saline_testing::{CommandOutput, Fleet, ended};

/// Runs `saline` with this text on its standard input.
fn with_input(fleet: &Fleet, arguments: &[&str], input: &str) -> CommandOutput {
    let mut child = fleet
        .command("saline", arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_command_runs_as_it_was_typed() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    for word in ["no", "off", "null", "None", "[ -f /nope ]"] {
        let program = word.split(' ').next().unwrap();
        let said = fleet.saline(&["m1", "cmd.run", word]).expect(1);
        // A shell has `[`, which answers without a word, and none of the others.
        let expected = match program {
            "[" => "m1:\n".to_owned(),
            _ => format!("{program}: not found\n"),
        };
        assert!(said.stdout.ends_with(&expected), "{word}: {}", said.stdout);
    }
    let lost = fleet
        .saline(&["m1", "cmd.run", "FOO=bar make it"])
        .expect(1);
    assert_eq!(
        lost.stdout,
        "m1:\n    ERROR executing 'cmd.run': The following keyword arguments are not valid: \
         FOO=\"bar make it\". If this is the 'cmd' itself, write cmd='FOO=bar make it'\n"
    );
    let unquoted = fleet.saline(&["m1", "cmd.run", "FOO=bar", "env"]).expect(1);
    let hint = "If this is a part of the 'cmd', put the whole into quotes: cmd='...'\n";
    assert!(unquoted.stdout.ends_with(hint), "{}", unquoted.stdout);
    let written = "cmd=FOO=bar; echo $FOO";
    let said = fleet.saline(&["m1", "cmd.run", written]).expect(0);
    assert_eq!(said.stdout, "m1:\n    bar\n");
}

#[test]
fn arguments_come_from_the_standard_input() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let input = "m1\ntest.arg\na  b\nyes\n--out=raw\nkey=[1]\n";
    let said = with_input(&fleet, &["--args-stdin"], input).expect(0);
    assert_eq!(
        said.stdout,
        "{'m1': {'args': ['a  b', True], 'kwargs': {'key': [1]}}}\n"
    );
}

#[test]
fn the_last_line_names_who_failed_and_who_did_not_return() {
    let fleet = Fleet::with_minions("tcp", &["m1", "m2"]);
    // Its parent is saline-exec, whose parent is saline-job, whose parent is the minion.
    let script = "set -- $(cut -d ' ' -f 4 /proc/$PPID/stat); \
                  grep -q etc-m1 /proc/$(cut -d ' ' -f 4 /proc/$1/stat)/cmdline || exit 7";
    let failed = fleet.saline(&["*", "cmd.run", script]).expect(1);
    assert_eq!(failed.stderr, "ERROR: 1 of 2 failed: m2 (7)\n");
    let list = [
        "-L",
        "m1,nosuch",
        "test.ping",
        "--hide-timeout",
        "--summary",
    ];
    let absent = fleet.saline(&list).expect(1);
    assert_eq!(
        absent.stderr,
        "ERROR: 1 of 2 did not return: nosuch (no key)\n"
    );
    let summary = "m1:\n    True\n\n\n-------------------------------------------\nSummary\n\
                   -------------------------------------------\n# of minions targeted: 2\n\
                   # of minions returned: 1\n# of minions that did not return: 1\n\
                   # of minions with errors: 0\n-------------------------------------------\n";
    assert_eq!(absent.stdout, summary);
}

#[test]
fn outputs_go_into_a_file() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let path = fleet.path("out");
    let file = path.to_str().unwrap();
    let ping = |more: &[&str]| {
        let arguments = [
            "m1",
            "test.ping",
            "--force-color",
            "--no-color",
            "--out-file",
            file,
        ];
        fleet.saline(&[&arguments[..], more].concat()).expect(0)
    };
    let said = ping(&["--show-jid"]);
    assert_eq!((said.stdout.as_str(), said.stderr.lines().count()), ("", 1));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "m1:\n    True\n");
    ping(&["--out=json", "--out-indent=-1"]);
    ping(&["--out=yaml", "--out-file-append"]);
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "{\"m1\": true}\nm1: true\n"
    );
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "returns may hold secrets");
    // What somebody else put in the place of the file decides nothing.
    let link = fleet.path("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let refused = fleet.saline(&["m1", "test.ping", "--out-file", link.to_str().unwrap()]);
    assert!(refused.expect(1).stderr.contains("it is a symbolic link"));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "{\"m1\": true}\nm1: true\n"
    );
    let refused = fleet
        .saline(&["m1", "test.ping", "--out-file", "/nonexistent/x"])
        .expect(1);
    assert!(
        refused
            .stderr
            .starts_with("ERROR: cannot write to /nonexistent/x: ")
    );
    let jobs = fleet
        .run("saline-run", &["jobs.list_jobs", "--out=json"])
        .expect(0);
    let jobs: serde_json::Value = serde_json::from_str(&jobs.stdout).unwrap();
    assert_eq!(
        jobs.as_object().unwrap().len(),
        3,
        "the refused ones published nothing"
    );
    let ping = ["m1", "test.ping", "--out-file", "/dev/null"];
    fleet.saline(&ping).expect(0);
}

#[test]
fn documentation_is_printed_once_for_all_minions() {
    let fleet = Fleet::with_minions("tcp", &["m1", "m2"]);
    for arguments in [
        &["*", "-d", "test.ping"][..],
        &["*", "sys.doc", "test.ping"],
    ] {
        let said = fleet.saline(arguments).expect(0);
        assert_eq!(
            said.stdout.matches("test.ping:\n").count(),
            1,
            "{}",
            said.stdout
        );
        assert!(!said.stdout.contains("m1"), "{}", said.stdout);
    }
    let said = fleet
        .saline(&["*", "-d", "test.ping", "--out=json"])
        .expect(0);
    let data: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert!(data["test.ping"].is_string(), "{data}");
    let said = fleet.saline(&["*", "-d", "nope"]).expect(1);
    assert_eq!(said.stdout, "");
    assert!(
        said.stderr
            .starts_with("ERROR: no function has such a name"),
        "{}",
        said.stderr
    );
    let all = fleet.saline(&["-d"]).expect(0);
    assert!(all.stdout.contains("test.ping:\n"), "{}", all.stdout);
    let nothing = fleet.run("saline-run", &["-d", "nope"]).expect(1);
    assert!(
        nothing
            .stderr
            .starts_with("ERROR: no function has such a name")
    );
    let events = fleet
        .run("saline-run", &["--async", "state.event"])
        .expect(64);
    assert!(
        events
            .stderr
            .contains("--async cannot be used with state.event"),
        "{events:?}"
    );
    let said = fleet.saline(&["m1", "-d", "cmd.run"]).expect(0);
    assert!(
        said.stdout.contains(r"awk '{print \$5}'"),
        "{}",
        said.stdout
    );
    let said = fleet
        .saline(&["*", "sys.doc", "test.ping", "--out=json", "--static"])
        .expect(0);
    let data: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert!(data["m1"]["test.ping"].is_string() && data["m2"]["test.ping"].is_string());
}

#[test]
fn a_program_describes_itself_without_a_master() {
    let fleet = Fleet::new("tcp", "timeout: 7\n");
    fleet.write_master_config();
    let to = fleet.path("dump.json");
    let to = to.to_str().unwrap();
    for program in ["saline", "saline-key", "saline-run"] {
        let report = fleet.run(program, &["-V"]).expect(0);
        assert!(report.stdout.contains(&format!("program: {program}\n")));
        assert!(report.stdout.contains("zeromq"), "{}", report.stdout);
        assert!(
            !report.stdout.contains("inproc"),
            "no operator can choose it"
        );
        let dump = fleet.run(program, &["--config-dump"]).expect(0);
        assert!(dump.stdout.contains("\ntimeout: 7\n"), "{}", dump.stdout);
        assert!(dump.stdout.contains("\njob_ttl: 60\n"), "{}", dump.stdout);
        // The values in force of what nobody has set.
        assert!(
            dump.stdout.contains("\nipc_transport: tcp\n"),
            "{}",
            dump.stdout
        );
        let dump = fleet
            .run(
                program,
                &["--config-dump", "--out", "json", "--out-file", to],
            )
            .expect(0);
        assert_eq!(dump.stdout, "");
        let dump = std::fs::read_to_string(to).unwrap();
        let dump: serde_json::Value = serde_json::from_str(&dump).unwrap();
        assert_eq!(dump["timeout"], 7);
        let pki = fleet.path("master/etc/saline/pki/master");
        assert_eq!(dump["pki_dir"], pki.to_str().unwrap(), "below root_dir");
    }
    for (program, path) in [
        ("saline-call", env!("CARGO_BIN_EXE_saline-call")),
        ("saline-master", env!("CARGO_BIN_EXE_saline-master")),
        ("saline-minion", env!("CARGO_BIN_EXE_saline-minion")),
    ] {
        let report: CommandOutput = Command::new(path).arg("-V").output().unwrap().into();
        let report = report.expect(0).stdout;
        assert!(
            report.contains(&format!("program: {program}\n")),
            "{report}"
        );
        let version: CommandOutput = Command::new(path).arg("--version").output().unwrap().into();
        assert_eq!(version.expect(0).stdout, format!("{program} 0.1.0\n"));
    }
    for (program, path) in [
        ("saline-quickstart", env!("CARGO_BIN_EXE_saline-quickstart")),
        ("saline-bench", env!("CARGO_BIN_EXE_saline-bench")),
        ("saline-swarm", env!("CARGO_BIN_EXE_saline-swarm")),
        ("saline-chaos", env!("CARGO_BIN_EXE_saline-chaos")),
    ] {
        let version: CommandOutput = Command::new(path).arg("-V").output().unwrap().into();
        assert_eq!(version.expect(0).stdout, format!("{program} 0.1.0\n"));
    }
}

#[test]
fn a_job_runs_under_the_jid_that_was_chosen() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let date = Command::new("date")
        .args(["-u", "+%Y%m%d%H%M%S%6N"])
        .output();
    let jid = String::from_utf8(date.unwrap().stdout).unwrap();
    let jid = jid.trim();
    let chosen = ["m1", "test.ping", "--jid", jid, "--metadata", "{ticket: 7}"];
    let said = fleet
        .saline(&[&chosen[..], &["--show-jid"]].concat())
        .expect(0);
    assert_eq!(said.stdout, format!("jid: {jid}\nm1:\n    True\n"));
    let found = fleet.run(
        "saline-run",
        &["jobs.list_jobs", "search_metadata={ticket: 7}"],
    );
    assert!(found.expect(0).stdout.contains(jid));
    let again = fleet.saline(&chosen).expect(1);
    assert!(
        again.stderr.contains("is not above the last one"),
        "{again:?}"
    );
    let old = fleet
        .saline(&["m1", "test.ping", "--jid", "20201121091409931549"])
        .expect(1);
    assert!(
        old.stderr
            .contains("more than a minute before the master's time"),
        "{old:?}"
    );
    let none = fleet
        .saline(&["m1", "test.ping", "--jid", "now"])
        .expect(64);
    assert!(none.stderr.contains("'now' is not a valid jid"), "{none:?}");
    fleet.saline(&["m1", "test.ping"]).expect(0);
}

#[test]
fn the_log_of_a_command_goes_into_a_file() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let log = fleet.path("command.log");
    let file = [
        "--log-file",
        log.to_str().unwrap(),
        "--log-file-level",
        "trace",
    ];
    for times in 1..=2 {
        let said = fleet
            .saline(&[&["m1", "test.ping"], &file[..]].concat())
            .expect(0);
        assert_eq!(said.stderr, "");
        let written = std::fs::read_to_string(&log).unwrap();
        assert_eq!(
            written.matches("subscribed to the job's events").count(),
            times,
            "{written}"
        );
    }
    let nowhere = ["m1", "test.ping", "--log-file", "/dev/full/log"];
    let said = fleet.saline(&nowhere).expect(1);
    assert!(
        said.stderr
            .contains("cannot write the log to /dev/full/log"),
        "{said:?}"
    );
}

#[test]
fn a_command_goes_on_as_another_user_for_root_alone() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let own = rustix::process::geteuid();
    let nobody = fleet.saline(&["m1", "test.ping", "-u", "nobody"]).expect(1);
    if own.is_root() {
        // It cannot read the master's key.
        assert!(nobody.stderr.contains(".root_key"), "{nobody:?}");
        fleet.saline(&["m1", "test.ping", "-u", "root"]).expect(0);
    } else {
        assert!(nobody.stderr.contains("only root can"), "{nobody:?}");
    }
    let unknown = fleet
        .saline(&["m1", "test.ping", "-u", "no-such-user"])
        .expect(1);
    assert!(
        unknown.stderr.contains("no such user on this machine"),
        "{unknown:?}"
    );
}

#[test]
fn nobody_who_confirms_is_told() {
    let mut fleet = Fleet::new("tcp", "");
    fleet.start_master();
    fleet.start_minion("m1");
    fleet.master().log.wait_for("the key of minion m1 ", 1);
    let asked = fleet.run("saline-key", &["-a", "m1"]).expect(1);
    assert_eq!(
        asked.stderr,
        "ERROR: not confirmed, nothing changed: run this at a terminal, or add -y\n"
    );
    let listed = fleet.run("saline-key", &["-l", "un"]).expect(0);
    assert_eq!(listed.stdout, "Unaccepted Keys:\nm1\n");
    let fingerprint = fleet.run("saline-key", &["-f", "m1"]).expect(0);
    let fingerprint = fingerprint.stdout.lines().nth(1).unwrap();
    assert!(asked.stdout.contains(fingerprint), "{}", asked.stdout);
}

#[test]
fn a_daemon_does_not_start_with_a_restriction_that_has_no_effect() {
    let fleet = Fleet::new("tcp", "disable_modules: [cmd]\n");
    fleet.write_master_config();
    let started: CommandOutput = fleet.master_command().output().unwrap().into();
    let said = started.expect(1).stderr;
    assert!(
        said.contains("option \"disable_modules\" of Salt restricts what the master does"),
        "{said}"
    );
    // The operator's commands restrict nothing.
    let keys = fleet.run("saline-key", &["-L"]).expect(0);
    assert!(keys.stdout.starts_with("Accepted Keys:\n"));
}

#[test]
fn an_option_that_a_transport_does_not_have_is_named_with_its_place() {
    // Also that of a transport which is not used.
    for scheme in ["tcp", "quic"] {
        let fleet = Fleet::new("tcp", &format!("{scheme}:\n  nope: 5\n"));
        fleet.write_master_config();
        let started: CommandOutput = fleet.master_command().output().unwrap().into();
        let said = started.expect(1).stderr;
        let place = "/master:";
        let what = format!(":3: section \"{scheme}\": unknown option \"nope\"; known are: ");
        assert!(said.contains(place) && said.contains(&what), "{said}");
    }
}

#[test]
fn the_quickstart_ends_quietly_when_its_reader_does() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_saline-quickstart"))
        .args(["--exit", "--minions", "1", "--transport", "tcp"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("Starting a master over tcp"), "{first}");
    drop(lines);
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!((ended(&mut child).code(), said.as_str()), (Some(1), ""));
}

#[test]
fn several_functions_are_one_job_with_a_return_for_each() {
    let fleet = Fleet::with_minions("tcp", &["m1"]);
    let said = fleet.saline(&[
        "m1",
        "test.ping,cmd.run,test.echo",
        ",",
        "echo ran; exit 3",
        ",",
        "a,b",
        "--out",
        "json",
        "--static",
    ]);
    let said = said.expect(1);
    let returned: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(
        returned["m1"],
        serde_json::json!({"test.ping": true, "cmd.run": "ran", "test.echo": "a,b"})
    );
    let refused = fleet
        .saline(&["m1", "test.ping,test.echo,test.arg", "a,b"])
        .expect(64);
    assert!(
        refused
            .stderr
            .contains("3 functions need 2 ',' between their arguments, and there are 1"),
        "{}",
        refused.stderr
    );
}
