//! Events that are kept: read after they were fired, also after a master that was killed, by real processes.
#![allow(
    clippy::disallowed_methods,
    reason = "a deadline for processes that are really running"
)]

use std::time::Instant;

use rustix::process::Signal;
use saline_testing::{Fleet, TEST_TIMEOUT};
use serde_json::{Value, json};

const OPTIONS: &str = "auto_accept: True\ndurable_events: ['salt/minion/*', 'salt/job/*/ret/*', 'salt/auth', 'myco/*']\n";

/// Calls `event.read` with these arguments.
fn read(fleet: &Fleet, words: &[&str]) -> Value {
    let said = fleet.run(
        "saline-run",
        &[&["event.read"], words, &["--out", "json"]].concat(),
    );
    serde_json::from_str(&said.expect(0).stdout).unwrap()
}

/// Returns the tags of what was read, without jids, each with the kind and the id of its origin.
fn shown(page: &Value) -> Vec<(String, String)> {
    let events = page["events"].as_array().unwrap().iter();
    let shown = events.map(|event| {
        let tag = event["tag"].as_str().unwrap();
        let digits = |part: &&str| !part.chars().all(|c| c.is_ascii_digit());
        let tag: Vec<_> = tag.split('/').filter(digits).collect();
        let (kind, id) = (&event["origin"]["kind"], &event["origin"]["id"]);
        let origin = [kind, id].map(|text| text.as_str().unwrap_or_default());
        (tag.join("/"), origin.join(" ").trim().to_owned())
    });
    shown.collect()
}

fn line(tag: &str, origin: &str) -> (String, String) {
    (tag.to_owned(), origin.to_owned())
}

#[test]
fn events_are_read_again_after_a_master_that_was_killed() {
    let mut fleet = Fleet::new("tcp", OPTIONS);
    fleet.start_master();
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    let forged = "{id: master, origin: {kind: master}, tag: salt/key, disk: full}";
    fleet
        .saline(&["web1", "event.send", "alarm", forged])
        .expect(0);
    // Its event is fired beside the return, and is on the disk when the minion is answered.
    let deadline = Instant::now() + TEST_TIMEOUT;
    let first = loop {
        let page = read(&fleet, &[]);
        if shown(&page).len() >= 4 {
            break page;
        }
        assert!(Instant::now() < deadline, "{page}");
    };
    let mut events = shown(&first);
    events.sort();
    assert_eq!(
        events,
        [
            line("salt/auth", "master"),
            line("salt/job/ret/web1", "minion web1"),
            line("salt/minion/web1/alarm", "minion web1"),
            line("salt/minion/web1/start", "minion web1"),
        ]
    );
    let alarm = first["events"].as_array().unwrap().iter();
    let mut alarm = alarm.filter(|event| event["tag"] == "salt/minion/web1/alarm");
    let alarm = alarm.next_back().unwrap();
    assert_eq!(alarm["data"]["id"], "web1");
    assert_eq!(alarm["data"]["disk"], "full");
    assert_eq!(alarm["origin"]["session"].as_str().unwrap().len(), 32);

    let next = first["next"].as_str().unwrap();
    let done = format!("after={next}");
    let rest = read(&fleet, &[&done, "consumer=inventory"]);
    assert_eq!(rest["events"], json!([]));
    fleet
        .run("saline-run", &["event.send", "myco/deploy", "{by: web1}"])
        .expect(0);
    fleet.kill_master();
    fleet.start_master();
    // From the beginning, from a place, and from where the consumer is.
    let again = read(&fleet, &[]);
    let count = first["events"].as_array().unwrap().len();
    assert_eq!(
        again["events"].as_array().unwrap()[..count],
        first["events"].as_array().unwrap()[..]
    );
    let deploy = line("myco/deploy", "operator root");
    for words in [&[done.as_str()][..], &["consumer=inventory"]] {
        assert_eq!(shown(&read(&fleet, words))[0], deploy, "{words:?}");
    }
    let refused = |words: &[&str], why: &str| {
        let said = fleet.run("saline-run", words).expect(1);
        assert!(said.stderr.contains(why), "{said:?}");
    };
    refused(&["event.read", "after=x"], "is not a place");
    let (event, receipt) = next.split_once('-').unwrap();
    for beyond in [
        format!("after=9{event}-{receipt}"),
        format!("after={event}-9{receipt}"),
    ] {
        let words = ["event.read", &beyond, "consumer=inventory"];
        refused(&words, "beyond the last event");
    }
    assert_eq!(shown(&read(&fleet, &["consumer=inventory"]))[0], deploy);
    refused(&["event.forget", "stock"], "known are: inventory");
    fleet
        .run("saline-run", &["event.forget", "inventory"])
        .expect(0);
    assert_eq!(
        read(&fleet, &["consumer=inventory"])["events"][0],
        first["events"][0]
    );
}

#[test]
fn a_master_that_keeps_no_events_says_so_and_keeps_them_when_it_is_told_to() {
    let mut fleet = Fleet::new("tcp", "auto_accept: True\n");
    fleet.start_master();
    let folder = fleet.path("master/var/lib/saline/master/events");
    let said = fleet.run("saline-run", &["event.read"]).expect(1);
    assert!(said.stderr.contains("set durable_events"), "{said:?}");
    assert!(!folder.exists());
    fleet.master_options += "durable_events: ['myco/*']\n";
    fleet.write_master_config();
    fleet.master().signal(Signal::HUP);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while fleet.run("saline-run", &["event.read"]).code != Some(0) {
        assert!(Instant::now() < deadline);
    }
    let send = |tag: &str| fleet.run("saline-run", &["event.send", tag]).expect(0);
    send("myco/deploy");
    send("other/deploy");
    let deploy = line("myco/deploy", "operator root");
    assert_eq!(shown(&read(&fleet, &[])), std::slice::from_ref(&deploy));
    // A glob is also about the tag by which a minion fired its event.
    fleet.start_minion("web1");
    fleet.minions["web1"].log.wait_for("subscribed", 1);
    for tag in ["myco/alarm", "other/alarm"] {
        fleet.saline(&["web1", "event.send", tag]).expect(0);
    }
    let alarm = line("salt/minion/web1/myco/alarm", "minion web1");
    while shown(&read(&fleet, &[])) != [deploy.clone(), alarm.clone()] {
        assert!(Instant::now() < deadline, "{}", read(&fleet, &[]));
    }

    // A file that is damaged is told as what it is, and the master starts.
    fleet.kill_master();
    let entries = std::fs::read_dir(&folder).unwrap();
    for entry in entries {
        std::fs::write(entry.unwrap().path(), "not SQLite ".repeat(1_000)).unwrap();
    }
    fleet.start_master();
    fleet.master().log.wait_for("the file of kept events ", 1);
    assert_eq!(read(&fleet, &[])["events"], json!([]));
}
