//! Jobs that are looked up, and their events.

use std::process::Stdio;

use super::*;
use saline_testing::Log;

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
    ERROR: job JID is unknown: it was never published by this master, is older than keep_jobs_seconds, was removed when the store reached job_store_size, or is a run that somebody waited for, whose return is not stored
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
            TIME UTC
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
