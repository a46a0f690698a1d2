//! How jobs are read.

use super::*;

fn refused(text: &str) -> String {
    let value = yaml::parse(text).unwrap();
    Entry::read("job", &value).unwrap_err().to_string()
}

#[test]
fn every_mistake_is_told_in_one_line() {
    for (text, why) in [
        ("[]", "a job is a mapping with a function"),
        ("{seconds: 1}", "a job needs a function"),
        (
            "{function: ping, seconds: 1}",
            "\"function\" takes the name of a function",
        ),
        ("{function: test.ping}", "a job needs a time: seconds"),
        (
            "{function: test.ping, seconds: 0.001}",
            "the interval of a job is between one second",
        ),
        (
            "{function: test.ping, days: 99999999}",
            "the interval of a job is between one second",
        ),
        (
            "{function: test.ping, seconds: x}",
            "\"seconds\" takes a number",
        ),
        (
            "{function: test.ping, seconds: 1, cron: '* * * * *'}",
            "a job has one kind of time, not both",
        ),
        (
            "{function: test.ping, cron: '* * * *'}",
            "is not a line of cron: it has 4 fields",
        ),
        (
            "{function: test.ping, cron: '61 * * * *'}",
            "is not a line of cron",
        ),
        (
            "{function: test.ping, cron: '0 0 30 2 *'}",
            "is not a line of cron: there is no such day",
        ),
        (
            "{function: test.ping, when: tomorrow}",
            "\"when\" takes a time such as",
        ),
        (
            "{function: test.ping, when: 17}",
            "\"when\" takes a time such as",
        ),
        (
            "{function: test.ping, once: '5:00pm'}",
            "\"once\" takes a date",
        ),
        (
            "{function: test.ping, seconds: 1, until: later}",
            "\"until\" takes a date",
        ),
        (
            "{function: test.ping, seconds: 1, splay: {start: 5, end: 1}}",
            "\"splay\" takes a number of seconds",
        ),
        (
            "{function: test.ping, seconds: 1, splay: -1}",
            "\"splay\" takes a number of seconds",
        ),
        (
            "{function: test.ping, seconds: 1, maxrunning: 0}",
            "\"maxrunning\" takes a number from 1",
        ),
        (
            "{function: test.ping, seconds: 1, range: {start: 8am}}",
            "\"range\" takes a mapping",
        ),
        (
            "{function: test.ping, seconds: 1, metadata: 1}",
            "\"metadata\" takes a mapping",
        ),
        (
            "{function: test.ping, seconds: 1, secnds: 2}",
            "unknown keyword \"secnds\"",
        ),
        (
            "{function: test.ping, seconds: 1, returner: redis}",
            "keyword \"returner\" of Salt is not supported",
        ),
        (
            "{function: test.ping, seconds: 1, name: other}",
            "\"name\" is not the name of the job",
        ),
    ] {
        let said = refused(text);
        assert!(said.contains(why), "{text}: {said}");
        assert_eq!(said.lines().count(), 1);
    }
    for name in ["", "a\nb", &"x".repeat(257)] {
        assert!(Entry::read(name, &Value::Map(Vec::new())).is_err());
    }
}

#[test]
fn what_salt_writes_is_read() {
    for text in [
        "seconds: 60, maxrunning: 1, jid_include: True, name: job, enabled: True",
        "minutes: '5', splay: 10, return_job: False, args: [1], kwargs: {a: 1}",
        "hours: 1, days: 1, run_on_start: False, metadata: {foo: bar}",
        "cron: '*/15 * * * *', splay: {start: 10, end: 15}",
        "cron: '@daily'",
        "when: ['Monday 5:00pm', 'Tuesday 3:00pm']",
        "when: 5:00pm, range: {start: 8:00am, end: 5:00pm}",
        "once: '2027-01-01T00:00:00', after: null",
    ] {
        let read = entry(text);
        // And is written as it was.
        assert_eq!(Entry::read("job", &read.to_value()).unwrap(), read);
    }
}
