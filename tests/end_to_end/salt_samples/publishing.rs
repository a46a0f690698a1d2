//! Publishing jobs: targets, functions that fail, mistakes on the command line, minions and masters that are down.

use super::*;

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
            --- stderr
            ERROR: No minions match 'nope*'.
            --- exit 2
            "),
            // Prose is not on the standard output, so that it is JSON.
            _ => insta::assert_snapshot!(shown(&fleet, said), @"
            --- stdout
            {}
            --- stderr
            ERROR: No minions match 'nope*'.
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
    // The modules are those that this machine has the programs for.
    // It returns when the master knows the functions of the minion, so that the master refuses others.
    run(&["saltutil.sync_modules"]);
    let unknown = run(&["nosuch.func"]);
    let (before, after) = unknown.split_once("the modules beacons, cmd, ").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    insta::assert_snapshot!(format!("{before}the modules ...\n{after}"), @"
    --- stdout
    --- stderr
    ERROR: 'nosuch.func' is not available on m000: known are the modules ...
    --- exit 1
    ");
    // Without the markup of the documentation.
    insta::assert_snapshot!(run(&["test.sleep"]), @"
    --- stdout
    m000:
        Passed invalid arguments to test.sleep: sleep() missing 1 required positional argument: 'length'
        
            Waits for `length` seconds, fractions included, and returns `True`. `saltutil.kill_job` ends the wait.
        
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
