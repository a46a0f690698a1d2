//! What Salt 3008 prints and how it exits for the commands of an operator's first day, against ours: each test types
//! what was typed there. Where Saline differs on purpose, the line above the expectation says so.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod support;

use std::process::Stdio;

use support::{CommandOutput, Fleet, Log};

const MINIONS: [&str; 3] = ["m000", "m001", "m002"];

/// Returns both streams and the exit code, without what differs from run to run.
fn shown(fleet: &Fleet, said: CommandOutput) -> String {
    let folder = fleet.config().display().to_string();
    let root = fleet.root().display().to_string();
    let plain = |text: &str| {
        let text = text
            .replace(&format!(" -c {folder}"), "")
            .replace(&root, "ROOT");
        without_numbers(&text)
    };
    format!(
        "--- stdout\n{}--- stderr\n{}--- exit {}",
        plain(&said.stdout),
        plain(&said.stderr),
        said.code.unwrap()
    )
}

/// Writes JID for jids, KEY for fingerprints, and N for pids.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for line in text.split_inclusive('\n') {
        let mut words = Vec::new();
        for word in line.split(' ') {
            let bare = word.trim_end().trim_end_matches(':');
            let is_jid = bare.len() == 20 && bare.bytes().all(|byte| byte.is_ascii_digit());
            let is_key = bare.len() == 95 && bare.split(':').count() == 32;
            words.push(match (is_jid, is_key) {
                (true, _) => word.replace(bare, "JID"),
                (_, true) => word.replace(bare, "KEY"),
                _ => word.to_owned(),
            });
        }
        plain.push_str(&words.join(" "));
    }
    plain
}

/// Returns the blocks of an output, each of which begins at the margin, in an order of their own: minions answer in
/// any.
fn sorted(mut said: CommandOutput) -> CommandOutput {
    let mut blocks: Vec<String> = Vec::new();
    for line in said.stdout.split_inclusive('\n') {
        match blocks.last_mut() {
            Some(block) if line.starts_with([' ', '}', '"']) => block.push_str(line),
            _ => blocks.push(line.to_owned()),
        }
    }
    blocks.sort();
    said.stdout = blocks.concat();
    said
}

#[test]
fn pings_in_every_format() {
    let fleet = Fleet::with_minions("tcp", &MINIONS);
    let ping = |target: &str, more: &[&str]| {
        let said = fleet.saline(&[&[target, "test.ping"], more].concat());
        shown(&fleet, sorted(said))
    };
    insta::assert_snapshot!(ping("*", &[]), @"
    --- stdout
    m000:
        True
    m001:
        True
    m002:
        True
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(ping("m00[0-1]", &["--out=json"]), @r#"
    --- stdout
    {
        "m000": true
    }
    {
        "m001": true
    }
    --- stderr
    --- exit 0
    "#);
    insta::assert_snapshot!(ping("*", &["--out=json", "--static"]), @r#"
    --- stdout
    {
        "m000": true,
        "m001": true,
        "m002": true
    }
    --- stderr
    --- exit 0
    "#);
    insta::assert_snapshot!(ping("m00[0-1]", &["--out=raw"]), @"
    --- stdout
    {'m000': True}
    {'m001': True}
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(ping("m00[0-1]", &["--out=txt"]), @"
    --- stdout
    m000: True
    m001: True
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(ping("m00[0-1]", &["--out=yaml"]), @"
    --- stdout
    m000: true
    m001: true
    --- stderr
    --- exit 0
    ");
    let said = fleet.saline(&["m000", "test.ping", "--summary"]);
    insta::assert_snapshot!(shown(&fleet, said), @"
    --- stdout
    m000:
        True


    -------------------------------------------
    Summary
    -------------------------------------------
    # of minions targeted: 1
    # of minions returned: 1
    # of minions that did not return: 0
    # of minions with errors: 0
    -------------------------------------------
    --- stderr
    --- exit 0
    ");
    let said = fleet.saline(&["m000", "test.ping", "-v"]);
    insta::assert_snapshot!(shown(&fleet, said), @"
    --- stdout
    Executing job with jid JID
    -------------------------------------------

    m000:
        True
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(ping("*", &["--async"]), @"
    --- stdout
    Executed command with job ID: JID
    --- stderr
    --- exit 0
    ");
}

#[test]
fn targets() {
    let fleet = Fleet::with_minions("tcp", &MINIONS);
    let ping = |target: &[&str]| {
        let said = fleet.saline(&[target, &["test.ping", "--out=txt"]].concat());
        shown(&fleet, sorted(said))
    };
    insta::assert_snapshot!(ping(&["-C", "m00[0-1] or E@m00[89]"]), @"
    --- stdout
    m000: True
    m001: True
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(ping(&["-G", "id:m00*"]), @"
    --- stdout
    m000: True
    m001: True
    m002: True
    --- stderr
    --- exit 0
    ");
    // A name in a list for which there is no key: Salt waits for it, prints "No response", and exits with 1 after 15 s.
    let said = fleet.saline(&["-L", "m000,nosuch", "test.ping"]);
    insta::assert_snapshot!(shown(&fleet, said), @"
    --- stdout
    m000:
        True
    nosuch:
        Minion did not return. [No key]
        No minion of this name is known to the master: no key has it.
    --- stderr
    ERROR: 1 of 2 did not return: nosuch (no key)
    --- exit 1
    ");
    for format in ["nested", "json"] {
        let said = fleet.saline(&["nope*", "test.ping", "--out", format]);
        match format {
            "nested" => insta::assert_snapshot!(shown(&fleet, said), @"
            --- stdout
            No minions matched the target. No command was sent, no jid was assigned.
            --- stderr
            ERROR: No return received
            --- exit 2
            "),
            // Prose is not on the standard output, so that it is JSON.
            _ => insta::assert_snapshot!(shown(&fleet, said), @"
            --- stdout
            {}
            --- stderr
            No minions matched the target. No command was sent, no jid was assigned.
            ERROR: No return received
            --- exit 2
            "),
        }
    }
}

#[test]
fn functions_that_fail() {
    let fleet = Fleet::with_minions("tcp", &["m000"]);
    let run = |words: &[&str]| {
        let said = fleet.saline(&[&["m000"], words].concat());
        shown(&fleet, said)
    };
    let script = "echo hi; echo err >&2; exit 3";
    // The last line names who failed, with the retcode.
    insta::assert_snapshot!(run(&["cmd.run", script]), @"
    --- stdout
    m000:
        hi
        err
    --- stderr
    ERROR: 1 of 1 failed: m000 (3)
    --- exit 1
    ");
    let all = run(&["cmd.run_all", script]);
    let (before, after) = all.split_once("    pid:\n        ").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    insta::assert_snapshot!(format!("{before}    pid:\n        N\n{after}"), @"
    --- stdout
    m000:
        ----------
        pid:
            N
        retcode:
            3
        stderr:
            err
        stdout:
            hi
    --- stderr
    ERROR: 1 of 1 failed: m000 (3)
    --- exit 1
    ");
    insta::assert_snapshot!(run(&["nosuch.func"]), @"
    --- stdout
    m000:
        'nosuch.func' is not available.
    --- stderr
    ERROR: 1 of 1 failed: m000 (254)
    --- exit 1
    ");
    // Without the markup of the documentation.
    insta::assert_snapshot!(run(&["test.sleep"]), @"
    --- stdout
    m000:
        Passed invalid arguments to test.sleep: sleep() missing 1 required positional argument: 'length'
        
            Instruct the minion to initiate a process that will sleep for a given
            period of time.
        
            CLI Example:
        
                saline '*' test.sleep 20
    --- stderr
    ERROR: 1 of 1 failed: m000 (1)
    --- exit 1
    ");
    // A job that runs longer than the timeout is waited for. A minion says within a second that it has begun one.
    insta::assert_snapshot!(run(&["test.sleep", "4", "-t", "3"]), @"
    --- stdout
    m000:
        True
    --- stderr
    --- exit 0
    ");
}

#[test]
fn what_is_typed_wrong() {
    let fleet = Fleet::new("tcp", "");
    fleet.write_master_config();
    let said = fleet.saline(&["--nosuch"]);
    insta::assert_snapshot!(shown(&fleet, said), @"
    --- stdout
    --- stderr
    Usage: saline [options] '<target>' <function> [arguments]

    saline: error: no such option: --nosuch
    --- exit 64
    ");
    let said = fleet.saline(&["m000"]).expect(42);
    assert!(
        said.stdout
            .starts_with("Usage: saline [options] '<target>' <function> [arguments]\n")
    );
    assert_eq!(said.stderr, "\nIncomplete options passed.\n\n");
}

#[test]
fn a_minion_that_is_down() {
    let mut fleet = Fleet::with_minions("tcp", &MINIONS);
    fleet.minions.get_mut("m002").unwrap().terminate();
    fleet.master().log.wait_for("minion m002 says goodbye", 1);
    // Salt does not know that it is away, and says "No response" after 16 s.
    let said = fleet.saline(&["*", "test.ping"]);
    insta::assert_snapshot!(shown(&fleet, sorted(said)), @"
    --- stdout
    m000:
        True
    m001:
        True
    m002:
        Minion did not return. [Not connected]
    --- stderr
    ERROR: 1 of 3 did not return: m002 (not connected)
    --- exit 1
    ");
    let said = fleet.saline(&["m002", "test.ping"]);
    insta::assert_snapshot!(shown(&fleet, said), @"
    --- stdout
    m002:
        Minion did not return. [Not connected]
    --- stderr
    ERROR: 1 of 1 did not return: m002 (not connected)
    --- exit 1
    ");
    // Salt leaves it out without a word, and exits with 0.
    let said = fleet.saline(&["*", "test.ping", "--out=json", "--static"]);
    insta::assert_snapshot!(shown(&fleet, said), @r#"
    --- stdout
    {
        "m000": true,
        "m001": true
    }
    --- stderr
    m002: Minion did not return. [Not connected]
    ERROR: 1 of 3 did not return: m002 (not connected)
    --- exit 1
    "#);
    let said = fleet.run("saline-run", &["manage.status"]);
    insta::assert_snapshot!(shown(&fleet, said), @"
    --- stdout
    down:
        - m002
    up:
        - m000
        - m001
    --- stderr
    --- exit 0
    ");
}

#[test]
fn jobs_that_are_looked_up() {
    let fleet = Fleet::with_minions("tcp", &["m000", "m001"]);
    let said = fleet
        .saline(&["*", "test.ping", "--show-jid", "--static"])
        .expect(0);
    let jid = said
        .stdout
        .lines()
        .next()
        .unwrap()
        .rsplit(' ')
        .next()
        .unwrap();
    let run = |words: &[&str]| {
        let said = fleet.run("saline-run", words);
        shown(&fleet, said)
    };
    insta::assert_snapshot!(run(&["jobs.lookup_jid", jid]), @"
    --- stdout
    m000:
        True
    m001:
        True
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(run(&["jobs.lookup_jid", jid, "--out=json"]), @r#"
    --- stdout
    {
        "m000": true,
        "m001": true
    }
    --- stderr
    --- exit 0
    "#);
    // Salt prints nothing and exits with 0.
    insta::assert_snapshot!(run(&["jobs.lookup_jid", "20200101000000000000"]), @"
    --- stdout
    --- stderr
    ERROR: job JID is unknown: it was never published by this master, is older than keep_jobs_seconds, or went when the store reached job_store_size
    --- exit 1
    ");
    let listed = fleet
        .run("saline-run", &["jobs.list_job", jid, "--out=json"])
        .expect(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let printed = run(&["jobs.print_job", jid])
        .replace(listed["StartTime"].as_str().unwrap(), "TIME")
        .replace(listed["User"].as_str().unwrap(), "USER");
    insta::assert_snapshot!(printed, @"
    --- stdout
    JID:
        ----------
        Arguments:
        Function:
            test.ping
        Minions:
            - m000
            - m001
        Result:
            ----------
            m000:
                ----------
                retcode:
                    0
                return:
                    True
                success:
                    True
            m001:
                ----------
                retcode:
                    0
                return:
                    True
                success:
                    True
        StartTime:
            TIME
        Target:
            *
        Target-type:
            glob
        User:
            USER
    --- stderr
    --- exit 0
    ");
}

/// The event `publish` and what repeats the job in that of a return are Salt's alone.
#[test]
fn events() {
    let fleet = Fleet::with_minions("tcp", &["m000"]);
    let mut listener = fleet
        .command("saline-run", &["state.event", "salt/job/*", "pretty=True"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let events = Log::follow(listener.stdout.take().unwrap());
    let ping = || {
        let said = fleet.saline(&["m000", "test.ping", "--show-jid"]).expect(0);
        let line = said.stdout.lines().next().unwrap().to_owned();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    while events.text().is_empty() {
        ping();
    }
    let (jid, next) = (ping(), ping());
    events.wait_for(&format!("{next}/new"), 1);
    listener.kill().unwrap();
    listener.wait().unwrap();
    let text = events.text();
    let begin = text.find(&format!("salt/job/{jid}")).unwrap();
    let end = text.find(&format!("salt/job/{next}")).unwrap();
    let changing = ["_stamp", "user", "ts"];
    let lines = text[begin..end].lines().map(|line| {
        let line = line.replace(&jid, "JID").replace('\t', " → ");
        let name = changing
            .iter()
            .find(|name| line.contains(&format!("\"{name}\": ")));
        name.map_or(line.clone(), |name| format!("    \"{name}\": …"))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    salt/job/JID/new → {
        "_stamp": …
        "arg": [],
        "fun": "test.ping",
        "jid": "JID",
        "minions": [
            "m000"
        ],
        "missing": [],
        "operator": "root",
        "tgt": "m000",
        "tgt_type": "glob",
        "user": …
    }
    salt/job/JID/ret/m000 → {
        "_stamp": …
        "cmd": "_return",
        "fun": "test.ping",
        "fun_args": [],
        "id": "m000",
        "jid": "JID",
        "retcode": 0,
        "return": true,
        "success": true
    }
    "#);
}

#[test]
fn keys() {
    let fleet = Fleet::with_minions("tcp", &MINIONS);
    let key = |words: &[&str]| {
        let said = fleet.run("saline-key", words);
        shown(&fleet, said)
    };
    insta::assert_snapshot!(key(&["-L"]), @"
    --- stdout
    Accepted Keys:
    m000
    m001
    m002
    Denied Keys:
    Unaccepted Keys:
    Rejected Keys:
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(key(&["-L", "--out=json"]), @r#"
    --- stdout
    {
        "minions_pre": [],
        "minions_rejected": [],
        "minions": [
            "m000",
            "m001",
            "m002"
        ],
        "minions_denied": []
    }
    --- stderr
    --- exit 0
    "#);
    insta::assert_snapshot!(key(&["-f", "m000"]), @"
    --- stdout
    Accepted Keys:
    m000:  KEY
    --- stderr
    --- exit 0
    ");
}

#[test]
fn a_master_that_is_down() {
    let mut fleet = Fleet::with_minions("tcp", &["m000"]);
    fleet.kill_master();
    let run = |program: &str, words: &[&str]| {
        let said = fleet.run(program, words);
        shown(&fleet, said)
    };
    // Salt waits for 17 s, and exits with 0.
    insta::assert_snapshot!(run("saline", &["*", "test.ping"]), @"
    --- stdout
    --- stderr
    ERROR: no master answers at ROOT/master/run/saline/master/master_event_pull.ipc: is saline-master running? Start it, or name its configuration folder with -c
    --- exit 2
    ");
    // Salt prints a traceback.
    insta::assert_snapshot!(run("saline-run", &["manage.status"]), @"
    --- stdout
    --- stderr
    ERROR: no master answers at ROOT/master/run/saline/master/master_event_pull.ipc: is saline-master running? Start it, or name its configuration folder with -c
    --- exit 2
    ");
    insta::assert_snapshot!(run("saline-key", &["-L"]), @"
    --- stdout
    Accepted Keys:
    m000
    Denied Keys:
    Unaccepted Keys:
    Rejected Keys:
    --- stderr
    --- exit 0
    ");
}

#[test]
fn a_batch() {
    let fleet = Fleet::with_minions("tcp", &MINIONS);
    // Salt prints the jid and the retcode below each return, and who is asked next.
    let said = fleet.saline(&["-b", "2", "*", "test.ping"]);
    insta::assert_snapshot!(shown(&fleet, sorted(said)), @"
    --- stdout
    m000:
        True
    m001:
        True
    m002:
        True
    --- stderr
    --- exit 0
    ");
}
