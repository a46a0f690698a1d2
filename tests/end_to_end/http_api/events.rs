//! The stream of events.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::http::Api;
use super::users::{fleet_with_users, log_in};

/// An event as a client reads it.
#[derive(Debug)]
pub struct Heard {
    pub id: String,
    pub tag: String,
    pub data: Value,
}

/// A client that listens.
pub struct Listener {
    curl: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Listener {
    pub fn start(api: &Api, arguments: &[&str]) -> Self {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-S", "-N", "--max-time", "300", "--noproxy", "*"]);
        curl.args(arguments).arg(format!("{}/events", api.url));
        let mut curl = curl.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(curl.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert_eq!(first, "retry: 400\n");
        Self { curl, lines }
    }

    /// Returns the next event; none when the stream has ended.
    pub fn next(&mut self) -> Option<Heard> {
        let mut heard = Heard {
            id: String::new(),
            tag: String::new(),
            data: Value::Null,
        };
        loop {
            let mut line = String::new();
            // A stream may end amid an event.
            self.lines.read_line(&mut line).unwrap();
            let line = line.strip_suffix('\n')?;
            match line.split_once(": ") {
                Some(("id", id)) => heard.id = id.to_owned(),
                Some(("tag", tag)) => heard.tag = tag.to_owned(),
                Some(("data", data)) => heard.data = serde_json::from_str(data).unwrap(),
                _ if line.is_empty() && !heard.tag.is_empty() => return Some(heard),
                _ => assert!(line.is_empty() || line == ":", "{line}"),
            }
        }
    }

    /// Returns the first event whose tag ends like this.
    pub fn find(&mut self, end: &str) -> Heard {
        self.find_any(&[end])
    }

    /// Returns the first event whose tag ends like one of these.
    pub fn find_any(&mut self, ends: &[&str]) -> Heard {
        loop {
            let heard = self.next().unwrap();
            assert_eq!(heard.data["tag"], *heard.tag);
            if ends.iter().any(|end| heard.tag.ends_with(end)) {
                return heard;
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.curl.kill();
        let _ = self.curl.wait();
    }
}

#[test]
fn a_stream_has_the_events_goes_on_where_it_ended_and_ends_with_the_login() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let header = format!("X-Auth-Token: {alice}");
    let mut listener = Listener::start(&api, &["-H", &header]);
    fleet.saline(&["web1", "test.ping"]).expect(0);
    let new = listener.find("/new");
    assert_eq!(new.data["data"]["fun"], "test.ping");
    let returned = listener.find("/ret/web1");
    assert_eq!(returned.data["data"]["return"], true);
    drop(listener);

    // What was fired after the last event comes first.
    let last = format!("Last-Event-ID: {}", new.id);
    let cookie = format!("session_id={alice}");
    let mut listener = Listener::start(&api, &["-b", &cookie, "-H", &last]);
    assert_eq!(listener.next().unwrap().tag, returned.tag);
    let refused = api.ask("/events?token=x", &["-H", &header]);
    assert_eq!(refused.status, 400);
    let wrong = api.ask("/events", &["-H", &header, "-H", "Last-Event-ID: 7"]);
    assert_eq!(wrong.status, 400);
    let other = api.ask(
        "/events",
        &["-H", &header, "-H", "Accept: application/x-yaml"],
    );
    assert_eq!(other.status, 406, "{other:?}");

    // A hook is heard.
    let fired = api.post("/hook/build/done", &alice, &json!({"a": 1}));
    assert_eq!(fired.expect(200), json!({"success": true}));
    // What was posted is in one event, and not again in those of a run.
    let hear = |listener: &mut Listener, tag: &str| loop {
        let heard = listener.next().unwrap();
        assert!(!heard.tag.starts_with("salt/run/"), "{heard:?}");
        if heard.tag == tag {
            break heard;
        }
    };
    let hook = hear(&mut listener, "salt/netapi/hook/build/done");
    assert_eq!(hook.data["data"]["post"], json!({"a": 1}));
    assert_eq!(hook.data["data"]["body"], "{\"a\":1}");
    assert!(!hook.data.to_string().contains(&alice), "{hook:?}");

    // As Salt's, a hook may have no end of its own.
    for path in ["/hook", "/hook/"] {
        assert_eq!(api.post(path, &alice, &json!({"b": 2})).status, 200);
        let hook = hear(&mut listener, "salt/netapi/hook");
        assert_eq!(hook.data["data"]["post"], json!({"b": 2}));
    }

    assert_eq!(api.post("/logout", &alice, &json!({})).status, 200);
    while listener.next().is_some() {}
}

#[test]
fn a_user_hears_of_own_jobs_alone() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let bob = log_in(&api, "bob");
    let mut listener = Listener::start(&api, &["-H", &format!("X-Auth-Token: {bob}")]);
    fleet.saline(&["web1", "test.version"]).expect(0);
    let own = json!({"client": "local", "tgt": "web1", "fun": "test.ping"});
    assert_eq!(api.post("/", &bob, &own).status, 200);
    let first = listener.next().unwrap();
    assert!(first.tag.ends_with("/new"), "{first:?}");
    assert_eq!(first.data["data"]["fun"], "test.ping", "{first:?}");
}

#[test]
fn the_event_of_a_return_that_travels_in_parts_has_it_up_to_a_mebibyte() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let mut listener = Listener::start(&api, &["-H", &format!("X-Auth-Token: {alice}")]);
    // A return of more than 256 KiB travels in parts, over whatever connection.
    for (bytes, is_in_event) in [(300_000, true), (1_100_000, false)] {
        let line = format!("head -c {bytes} /dev/zero | tr '\\0' x");
        let job = json!({"client": "local_async", "tgt": "web1", "fun": "cmd.run", "arg": [line]});
        let begun = api.post("/", &alice, &job).expect(200);
        let jid = begun["return"][0]["jid"].as_str().unwrap();
        let returned = listener.find(&format!("{jid}/ret/web1"));
        let data = &returned.data["data"];
        assert_eq!(data["retcode"], 0, "{bytes}");
        assert_eq!(data["fun"], "cmd.run", "{bytes}");
        let text = data.get("return").map(|text| text.as_str().unwrap());
        assert_eq!(text.map(str::len), is_in_event.then_some(bytes));
        assert!(text.is_none_or(|text| text.bytes().all(|byte| byte == b'x')));
        // The store has it in any case.
        let job = api.get(&format!("/jobs/{jid}"), &alice).expect(200);
        let text = job["return"][0]["web1"].as_str().unwrap();
        assert_eq!(text.len(), bytes);
    }
}
