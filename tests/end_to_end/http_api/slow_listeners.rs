//! A client that does not read its stream of events.

use saline_testing::processes::resident_bytes;
use serde_json::json;

use super::events::Listener;
use super::http::{Api, write};
use super::users::{fleet_with_users, log_in};

/// The size of what a hook is posted, and the number of hooks: together almost twice what the master keeps for listeners.
const HOOK_BYTES: usize = 900 * 1024;
const HOOKS: usize = 72;

/// How many hooks are fired before the client that reads has to have read them.
const TOGETHER: usize = 24;

/// By how much the API may grow: a few pages for each listener, what is under way to the one that reads (at most the hooks that
/// are fired together), and what the allocator keeps. A queue for the slow listener would take 65 MiB more.
const MAX_GROWTH: u64 = 48 * 1024 * 1024;

/// The tags of the load.
const LOAD: &str = "salt/netapi/hook/load/";

/// What tells of events that were missed.
const GAP: &str = "salt/netapi/gap";

#[test]
fn a_listener_that_does_not_read_costs_nobody_anything_and_hears_of_its_gap() {
    let fleet = fleet_with_users(&["web1"]);
    let api = Api::start(&fleet);
    let alice = log_in(&api, "alice");
    let header = format!("X-Auth-Token: {alice}");
    let mut reader = Listener::start(&api, &["-H", &header]);
    let mut slow = Listener::start(&api, &["-H", &header]);
    let body = write(&fleet, "body.txt", &"x".repeat(HOOK_BYTES));
    let body = format!("@{}", body.display());
    let fire = |path: &str| {
        let sent = api.ask(
            path,
            &[
                "-H",
                &header,
                "-H",
                "Content-Type: text/plain",
                "--data-binary",
                &body,
            ],
        );
        assert_eq!(sent.expect(200), json!({"success": true}));
    };
    fire("/hook/before");
    let mut last = slow.find("/hook/before").id;
    reader.find("/hook/before");
    let before = resident_bytes(api.daemon.pid()).unwrap();

    let ping = json!({"client": "local", "tgt": "web1", "fun": "test.ping"});
    for number in 0..HOOKS {
        fire(&format!("/hook/load/{number}"));
        if (number + 1) % TOGETHER != 0 {
            continue;
        }
        // Who reads misses nothing, and jobs run.
        for number in (number + 1 - TOGETHER)..=number {
            let heard = loop {
                let heard = reader.next().unwrap();
                if heard.tag.starts_with("salt/netapi/") {
                    break heard;
                }
            };
            assert_eq!(heard.tag, format!("{LOAD}{number}"));
        }
        let pinged = api.post("/", &alice, &ping).expect(200);
        assert_eq!(pinged["return"], json!([{"web1": true}]));
    }
    let grown = resident_bytes(api.daemon.pid()).unwrap();
    let grown = grown.saturating_sub(before);
    assert!(grown < MAX_GROWTH, "{grown}");

    // The other one has what its buffers held, then the gap, and then what the master still knows.
    let mut heard = Vec::new();
    while heard.last() != Some(&format!("{LOAD}{}", HOOKS - 1)) {
        let Some(next) = slow.next() else {
            // The API ends a stream whose client reads nothing for long, and browsers come again like this.
            let after = format!("Last-Event-ID: {last}");
            slow = Listener::start(&api, &["-H", &header, "-H", &after]);
            continue;
        };
        last = next.id;
        if next.tag.starts_with("salt/netapi/") {
            heard.push(next.tag);
        }
    }
    let gap = heard.iter().position(|tag| tag == GAP).unwrap();
    let number = |tag: &String| tag.strip_prefix(LOAD).unwrap().parse::<usize>().unwrap();
    let read: Vec<usize> = heard[..gap].iter().map(number).collect();
    let known: Vec<usize> = heard[gap + 1..].iter().map(number).collect();
    assert!(read.iter().copied().eq(0..read.len()), "{read:?}");
    assert!(
        known.iter().copied().eq(HOOKS - known.len()..HOOKS),
        "{known:?}"
    );
    assert!(read.len() + known.len() < HOOKS, "{heard:?}");
}
