//! What a report prints of returns and absences, in every format. The snapshots of the formats make it long.

use proptest::prelude::*;
use saline_messages::{Jid, MinionId};

use super::*;
use crate::screen::Printed;
use saline_data::arbitrary::values;

fn returned(minion: &str, retcode: i64, value: impl Into<Value>) -> Progress {
    Progress::Returned(MinionReturn {
        minion: MinionId::parse(minion).unwrap(),
        retcode,
        success: retcode == 0,
        value: value.into(),
    })
}

fn absent(name: &str, absence: Absence) -> Progress {
    Progress::Absent(Absent {
        name: name.to_owned(),
        absence,
    })
}

fn options(format: Format) -> ReportOptions {
    ReportOptions {
        format,
        style: Style::default(),
        as_group: false,
        documentation: false,
        hide_absent: false,
        heartbeat: Duration::from_secs(15),
        summary: false,
    }
}

/// Prints a whole report.
fn printed(options: ReportOptions, what: &[Progress]) -> String {
    let mut printed = Printed::default();
    let mut screen = printed.screen(&[]);
    let mut report = Report::new(options);
    for progress in what {
        report.take(&mut screen, progress.clone()).unwrap();
    }
    let look_up = LookUp {
        jid: Jid::parse("20261121091841717259").unwrap(),
        options: String::new(),
    };
    let code = report
        .finish(&mut screen, 1_795_252_784_000, &look_up)
        .unwrap();
    format!("{}--- exit {code}", printed.shown())
}

fn report(format: Format, as_group: bool, what: &[Progress]) -> (u8, Printed) {
    let mut printed = Printed::default();
    let mut screen = printed.screen(&[]);
    let mut report = Report::new(ReportOptions {
        format,
        as_group,
        ..options(format)
    });
    for progress in what {
        report.take(&mut screen, progress.clone()).unwrap();
    }
    let look_up = LookUp {
        jid: Jid::parse("20261121091841717259").unwrap(),
        options: String::new(),
    };
    let code = report
        .finish(&mut screen, 1_795_252_784_000, &look_up)
        .unwrap();
    (code, printed)
}

fn shown(format: Format, as_group: bool, what: &[Progress]) -> String {
    let (code, printed) = report(format, as_group, what);
    format!("{}--- exit {code}", printed.shown())
}

#[test]
fn pings() {
    let pings = [returned("m002", 0, true), returned("m000", 0, true)];
    insta::assert_snapshot!(shown(Format::Nested, false, &pings), @"
    --- stdout
    m002:
        True
    m000:
        True
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(shown(Format::Nested, true, &pings), @"
    --- stdout
    m000:
        True
    m002:
        True
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(shown(Format::Json, false, &pings), @r#"
    --- stdout
    {
        "m002": true
    }
    {
        "m000": true
    }
    --- stderr
    --- exit 0
    "#);
    insta::assert_snapshot!(shown(Format::Json, true, &pings), @r#"
    --- stdout
    {
        "m000": true,
        "m002": true
    }
    --- stderr
    --- exit 0
    "#);
    insta::assert_snapshot!(shown(Format::Raw, false, &pings), @"
    --- stdout
    {'m002': True}
    {'m000': True}
    --- stderr
    --- exit 0
    ");
    insta::assert_snapshot!(shown(Format::Quiet, false, &pings), @"
    --- stdout
    --- stderr
    --- exit 0
    ");
}

#[test]
fn a_failure_is_told_and_exits_with_1() {
    insta::assert_snapshot!(shown(Format::Nested, false, &[
        returned("m000", 0, "ok"),
        returned("m001", 254, "'nosuch.func' is not available: …"),
    ]), @"
    --- stdout
    m000:
        ok
    m001:
        'nosuch.func' is not available: …
    --- stderr
    ERROR: 1 of 2 failed: m001 (254)
    --- exit 1
    ");
}

#[test]
fn who_did_not_return_stands_at_the_end() {
    let what = [
        absent("nosuch", Absence::NoKey),
        absent("m009", Absence::NotConnected),
        returned("m000", 0, true),
        absent("m008", Absence::Offered),
        absent("m007", Absence::Declined),
    ];
    insta::assert_snapshot!(shown(Format::Nested, false, &what), @"
    --- stdout
    m000:
        True
    m008:
        Minion did not return. [Offered]
        The minion was offered the job and has not said that it began. It may still begin the job until 2026-11-21 09:19:44 UTC, and will return upon completion. To look up the return data for this job later, run the following command:
       ·
        saline-run jobs.lookup_jid 20261121091841717259
    m009:
        Minion did not return. [Not connected]
    nosuch:
        Minion did not return. [No key]
        No minion of this name is known to the master: no key has it.
    --- stderr
    ERROR: 3 of 4 did not return: m008 (offered), m009 (not connected), nosuch (no key)
    --- exit 1
    ");
    insta::assert_snapshot!(shown(Format::Json, true, &what), @r#"
    --- stdout
    {
        "m000": true
    }
    --- stderr
    m008: Minion did not return. [Offered] (saline-run jobs.lookup_jid 20261121091841717259)
    m009: Minion did not return. [Not connected]
    nosuch: Minion did not return. [No key]
    ERROR: 3 of 4 did not return: m008 (offered), m009 (not connected), nosuch (no key)
    --- exit 1
    "#);
    insta::assert_snapshot!(shown(Format::Raw, false, &what), @"
    --- stdout
    {'m000': True}
    --- stderr
    m008: Minion did not return. [Offered] (saline-run jobs.lookup_jid 20261121091841717259)
    m009: Minion did not return. [Not connected]
    nosuch: Minion did not return. [No key]
    ERROR: 3 of 4 did not return: m008 (offered), m009 (not connected), nosuch (no key)
    --- exit 1
    ");
    insta::assert_snapshot!(shown(Format::Quiet, false, &what), @"
    --- stdout
    --- stderr
    ERROR: 3 of 4 did not return: m008 (offered), m009 (not connected), nosuch (no key)
    --- exit 1
    ");
}

#[test]
fn who_declined_counts_when_nobody_matched() {
    let declined = absent("m000", Absence::Declined);
    insta::assert_snapshot!(shown(Format::Nested, false, std::slice::from_ref(&declined)), @"
    --- stdout
    m000:
        Minion did not return. [Declined]
        The minion does not match the target.
    --- stderr
    ERROR: 1 of 1 did not return: m000 (declined)
    --- exit 1
    ");
    let (code, _) = report(Format::Nested, false, &[declined, returned("m1", 0, true)]);
    assert_eq!(code, 0);
}

#[test]
fn one_that_was_given_up_and_returned_is_not_absent() {
    let (code, printed) = report(
        Format::Nested,
        false,
        &[absent("m000", Absence::Offered), returned("m000", 0, true)],
    );
    assert_eq!(
        (code, printed.out.as_slice()),
        (0, &b"m000:\n    True\n"[..])
    );
}

#[test]
fn nobody() {
    let shown = |format| {
        let mut printed = Printed::default();
        let code = nobody_matched(&mut printed.screen(&[]), format, "web9", false).unwrap();
        format!("{}--- exit {code}", printed.shown())
    };
    insta::assert_snapshot!(shown(Format::Nested), @"
    --- stdout
    --- stderr
    ERROR: No minions match 'web9'.
    --- exit 2
    ");
    insta::assert_snapshot!(shown(Format::Json), @"
    --- stdout
    {}
    --- stderr
    ERROR: No minions match 'web9'.
    --- exit 2
    ");
}

proptest! {
    #[test]
    fn json_stays_json_whatever_comes(
        what in proptest::collection::vec((0u8..9, values(), any::<bool>(), "\\PC{0,9}"), 0..8),
        as_group in any::<bool>(),
    ) {
        let what: Vec<Progress> = what
            .into_iter()
            .map(|(n, value, there, name)| match there {
                true => returned(&format!("m{n}"), i64::from(n % 2), value),
                false => absent(&name, Absence::Offered),
            })
            .collect();
        let (_, printed) = report(Format::Json, as_group, &what);
        let objects: Result<Vec<serde_json::Value>, _> =
            serde_json::Deserializer::from_slice(&printed.out).into_iter().collect();
        let objects = objects.expect("valid JSON");
        prop_assert!(!objects.is_empty() && objects.iter().all(serde_json::Value::is_object));
        prop_assert!(!as_group || objects.len() == 1);
    }
}

#[test]
fn an_interrupted_report_prints_what_has_come_and_names_the_others() {
    let ids = ["m000", "m001", "m002", "m003"].map(|id| MinionId::parse(id).unwrap());
    let interrupted = |format, as_group, what: &[Progress]| {
        let mut printed = Printed::default();
        let mut screen = printed.screen(&[]);
        let mut report = Report::new(ReportOptions {
            format,
            as_group,
            ..options(format)
        });
        for progress in what {
            report.take(&mut screen, progress.clone()).unwrap();
        }
        let look_up = LookUp {
            jid: Jid::parse("20261121091841717259").unwrap(),
            options: String::new(),
        };
        let unanswered = report.unanswered(ids.iter());
        report
            .interrupt(&mut screen, 1_795_252_784_000, &look_up)
            .unwrap();
        let names: Vec<_> = unanswered.iter().map(|id| id.as_str()).collect();
        format!("{}--- not answered: {}", printed.shown(), names.join(", "))
    };
    let what = [
        returned("m002", 0, true),
        absent("m001", Absence::NotConnected),
    ];
    insta::assert_snapshot!(interrupted(Format::Nested, false, &what), @"
    --- stdout
    m002:
        True
    m001:
        Minion did not return. [Not connected]
    --- stderr
    --- not answered: m000, m003
    ");
    insta::assert_snapshot!(interrupted(Format::Nested, true, &what), @"
    --- stdout
    m002:
        True
    m001:
        Minion did not return. [Not connected]
    --- stderr
    --- not answered: m000, m003
    ");
    insta::assert_snapshot!(interrupted(Format::Json, true, &what), @r#"
    --- stdout
    {
        "m002": true
    }
    --- stderr
    m001: Minion did not return. [Not connected]
    --- not answered: m000, m003
    "#);
    insta::assert_snapshot!(interrupted(Format::Json, false, &[]), @"
    --- stdout
    {}
    --- stderr
    --- not answered: m000, m001, m002, m003
    ");
    insta::assert_snapshot!(interrupted(Format::Raw, true, &what), @"
    --- stdout
    {'m002': True}
    --- stderr
    m001: Minion did not return. [Not connected]
    --- not answered: m000, m003
    ");
    insta::assert_snapshot!(interrupted(Format::Quiet, true, &what), @"
    --- stdout
    --- stderr
    --- not answered: m000, m003
    ");
}

#[test]
fn the_last_lines_name_who_failed_and_who_did_not_return() {
    let mut what: Vec<Progress> = (0..30)
        .map(|n| returned(&format!("m{n:02}"), n, true))
        .collect();
    what.push(absent("db\n1", Absence::NoKey));
    what.push(absent("web7", Absence::NotConnected));
    let quiet = printed(options(Format::Quiet), &what);
    insta::assert_snapshot!(quiet, @r"
    --- stdout
    --- stderr
    ERROR: 29 of 32 failed: m01 (1), m02 (2), m03 (3), m04 (4), m05 (5), m06 (6), m07 (7), m08 (8), m09 (9), m10 (10), m11 (11), m12 (12), m13 (13), m14 (14), m15 (15), m16 (16), m17 (17), m18 (18), m19 (19), m20 (20) and 9 more
    ERROR: 2 of 32 did not return: db\n1 (no key), web7 (not connected)
    --- exit 1
    ");
}

#[test]
fn a_summary_counts() {
    let what = [
        returned("m000", 0, true),
        returned("m001", 3, "no"),
        absent("m002", Absence::NotConnected),
        absent("m003", Absence::Declined),
    ];
    let summary = |format| ReportOptions {
        summary: true,
        hide_absent: true,
        ..options(format)
    };
    insta::assert_snapshot!(printed(summary(Format::Nested), &what), @"
    --- stdout
    m000:
        True
    m001:
        no


    -------------------------------------------
    Summary
    -------------------------------------------
    # of minions targeted: 3
    # of minions returned: 2
    # of minions that did not return: 1
    # of minions with errors: 1
    -------------------------------------------
    --- stderr
    ERROR: 1 of 3 failed: m001 (3)
    ERROR: 1 of 3 did not return: m002 (not connected)
    --- exit 1
    ");
    insta::assert_snapshot!(printed(summary(Format::Yaml), &what), @"
    --- stdout
    m000: true
    m001: 'no'
    --- stderr


    -------------------------------------------
    Summary
    -------------------------------------------
    # of minions targeted: 3
    # of minions returned: 2
    # of minions that did not return: 1
    # of minions with errors: 1
    -------------------------------------------
    ERROR: 1 of 3 failed: m001 (3)
    ERROR: 1 of 3 did not return: m002 (not connected)
    --- exit 1
    ");
}

#[test]
fn only_the_absent_are_printed_when_only_they_are_asked_for() {
    let what = [
        returned("m000", 0, true),
        absent("m002", Absence::NotConnected),
    ];
    insta::assert_snapshot!(printed(options(Format::NoReturn), &what), @"
    --- stdout
    m002:
        Minion did not return. [Not connected]
    --- stderr
    ERROR: 1 of 2 did not return: m002 (not connected)
    --- exit 1
    ");
}

#[test]
fn documentation_is_printed_once() {
    let docs = || Value::map([("test.ping", Value::from("\n    Return True.\n"))]);
    let what = [
        returned("m001", 0, docs()),
        returned("m000", 0, docs()),
        absent("m002", Absence::NotConnected),
    ];
    let options = ReportOptions {
        documentation: true,
        ..options(Format::Nested)
    };
    insta::assert_snapshot!(printed(options, &what), @"
    --- stdout
    test.ping:

        Return True.

    m002:
        Minion did not return. [Not connected]
    --- stderr
    ERROR: 1 of 3 did not return: m002 (not connected)
    --- exit 1
    ");
}

#[test]
fn documentation_is_one_mapping_to_programs_and_nobody_knows_a_wrong_name() {
    let docs = || Value::map([("test.ping", Value::from("\n    Return True.\n"))]);
    let as_json = ReportOptions {
        documentation: true,
        ..options(Format::Json)
    };
    let both = [returned("m001", 0, docs()), returned("m000", 0, docs())];
    insta::assert_snapshot!(printed(as_json, &both), @r#"
    --- stdout
    {
        "test.ping": "\n    Return True.\n"
    }
    --- stderr
    --- exit 0
    "#);
    let nothing = || returned("m000", 0, Value::Map(Vec::new()));
    insta::assert_snapshot!(printed(as_json, &[nothing()]), @"
    --- stdout
    {}
    --- stderr
    ERROR: no function has such a name: give a module, a function or a glob over functions, as in -d test, -d test.ping or -d '*.ping'
    --- exit 1
    ");
    let as_text = ReportOptions {
        documentation: true,
        ..options(Format::Nested)
    };
    insta::assert_snapshot!(printed(as_text, &[nothing()]), @"
    --- stdout
    --- stderr
    ERROR: no function has such a name: give a module, a function or a glob over functions, as in -d test, -d test.ping or -d '*.ping'
    --- exit 1
    ");
}

#[test]
fn minions_that_are_gone_are_named_while_they_are_waited_for() {
    let gone = |within: Option<u64>, in_turns| Progress::HeldUp {
        minions: vec![
            MinionId::parse("db1").unwrap(),
            MinionId::parse("db2").unwrap(),
        ],
        within: within.map(Duration::from_millis),
        in_turns,
    };
    let told = [
        gone(Some(4_100), false),
        gone(Some(4_100), true),
        gone(Some(40_000), true),
        gone(None, true),
    ];
    insta::assert_snapshot!(printed(options(Format::Nested), &told), @"
    --- stdout
    --- stderr
    Waiting up to 5 s for minions that are gone and may come back: db1, db2
    Waiting up to 30 s for minions that are gone and may come back: db1, db2
    Waiting up to 40 s for minions that are gone and may come back: db1, db2
    Waiting up to 30 s for minions that are gone and may come back: db1, db2
    --- exit 0
    ");
    let hidden = ReportOptions {
        hide_absent: true,
        ..options(Format::Nested)
    };
    assert!(!printed(hidden, &told).contains("Waiting"));
}

#[test]
fn a_job_that_is_queued_as_ordered_is_no_failure() {
    let queued = [
        absent("web1", Absence::Queued),
        absent("web3", Absence::Queued),
    ];
    let and_returned = [&queued[..], &[returned("web2", 0, true)]].concat();
    let and_failed = [&queued[..], &[returned("web2", 3, "no")]].concat();
    let and_absent = [&queued[..], &[absent("web2", Absence::Offered)]].concat();
    let all = [&queued[..], &and_returned, &and_failed, &and_absent];
    let quiet = ReportOptions {
        hide_absent: true,
        ..options(Format::Txt)
    };
    let shown = all.map(|what| printed(quiet, what)).join("\n===\n");
    insta::assert_snapshot!(shown, @"
    --- stdout
    --- stderr
    2 of 2 queued until 2026-11-21 09:19:44 UTC: web1, web3
    --- exit 0
    ===
    --- stdout
    web2: True
    --- stderr
    2 of 3 queued until 2026-11-21 09:19:44 UTC: web1, web3
    --- exit 0
    ===
    --- stdout
    web2: no
    --- stderr
    ERROR: 1 of 3 failed: web2 (3)
    2 of 3 queued until 2026-11-21 09:19:44 UTC: web1, web3
    --- exit 1
    ===
    --- stdout
    --- stderr
    2 of 3 queued until 2026-11-21 09:19:44 UTC: web1, web3
    ERROR: 1 of 3 did not return: web2 (offered)
    --- exit 1
    ");
    insta::assert_snapshot!(printed(options(Format::Nested), &queued[..1]), @"
    --- stdout
    web1:
        Minion did not return. [Queued]
        The minion may begin the job when it connects, until 2026-11-21 09:19:44 UTC, and will return upon completion. To look up the return data for this job later, run the following command:
       ·
        saline-run jobs.lookup_jid 20261121091841717259
    --- stderr
    1 of 1 queued until 2026-11-21 09:19:44 UTC: web1
    --- exit 0
    ");
}

#[test]
fn minions_that_run_other_jobs_are_named_while_they_are_waited_for() {
    let ids = ["db1", "db2"].map(|id| MinionId::parse(id).unwrap());
    let told = [Progress::Busy(ids.to_vec())];
    insta::assert_snapshot!(printed(options(Format::Nested), &told), @"
    --- stdout
    --- stderr
    Waiting for minions that run as many other jobs as process_count_max allows: db1, db2
    --- exit 0
    ");
    let hidden = ReportOptions {
        hide_absent: true,
        ..options(Format::Nested)
    };
    assert!(!printed(hidden, &told).contains("Waiting"));
}
