//! The table, a case for each row.

use super::*;
use crate::keys::tests::{Place, id, key};
use saline_messages::KeyState::{self, Accepted, Denied, Pending, Rejected};
use saline_protocol::transport::Clock;

const PLAIN: KeyPolicy = KeyPolicy {
    auto_accept: false,
    open_mode: false,
    max_pending: 10,
};
const AUTO: KeyPolicy = KeyPolicy {
    auto_accept: true,
    ..PLAIN
};
const OPEN: KeyPolicy = KeyPolicy {
    open_mode: true,
    ..PLAIN
};

/// The key that is presented, and another.
const SAME: u8 = 1;
const OTHER: u8 = 2;

struct Row {
    name: &'static str,
    /// What the store holds under the id.
    before: &'static [(KeyState, u8)],
    policy: KeyPolicy,
    verdict: (Admission<()>, &'static str, bool, bool),
    after: &'static [(KeyState, u8)],
}

const TABLE: &[Row] = &[
    Row {
        name: "open mode, unknown",
        before: &[],
        policy: OPEN,
        verdict: (Admission::Accepted(()), "accept", true, true),
        after: &[(Accepted, SAME)],
    },
    Row {
        name: "open mode, another accepted",
        before: &[(Accepted, OTHER)],
        policy: OPEN,
        verdict: (Admission::Accepted(()), "accept", true, true),
        after: &[(Accepted, SAME)],
    },
    Row {
        name: "open mode, accepted",
        before: &[(Accepted, SAME)],
        policy: OPEN,
        verdict: (Admission::Accepted(()), "accept", true, false),
        after: &[(Accepted, SAME)],
    },
    Row {
        name: "open mode, waiting",
        before: &[(Pending, OTHER)],
        policy: OPEN,
        verdict: (Admission::Accepted(()), "accept", true, true),
        after: &[(Accepted, SAME)],
    },
    Row {
        name: "open mode, rejected: in, and rejected again when the emergency is over",
        before: &[(Rejected, SAME)],
        policy: OPEN,
        verdict: (Admission::Accepted(()), "accept", true, true),
        after: &[(Accepted, SAME), (Rejected, SAME)],
    },
    Row {
        name: "rejected, the same key",
        before: &[(Rejected, SAME)],
        policy: PLAIN,
        verdict: (Admission::Rejected, "reject", false, false),
        after: &[(Rejected, SAME)],
    },
    Row {
        name: "rejected, another key",
        before: &[(Rejected, OTHER)],
        policy: PLAIN,
        verdict: (Admission::Rejected, "reject", false, false),
        after: &[(Rejected, OTHER)],
    },
    Row {
        name: "rejected, autosign",
        before: &[(Rejected, SAME)],
        policy: AUTO,
        verdict: (Admission::Rejected, "reject", false, false),
        after: &[(Rejected, SAME)],
    },
    Row {
        name: "rejected counts before accepted",
        before: &[(Accepted, SAME), (Rejected, OTHER)],
        policy: AUTO,
        verdict: (Admission::Rejected, "reject", false, false),
        after: &[(Accepted, SAME), (Rejected, OTHER)],
    },
    Row {
        name: "accepted, same",
        before: &[(Accepted, SAME)],
        policy: PLAIN,
        verdict: (Admission::Accepted(()), "accept", true, false),
        after: &[(Accepted, SAME)],
    },
    Row {
        name: "accepted, different",
        before: &[(Accepted, OTHER)],
        policy: PLAIN,
        verdict: (Admission::Denied, "denied", false, true),
        after: &[(Accepted, OTHER), (Denied, SAME)],
    },
    Row {
        name: "accepted, different, autosign",
        before: &[(Accepted, OTHER)],
        policy: AUTO,
        verdict: (Admission::Denied, "denied", false, true),
        after: &[(Accepted, OTHER), (Denied, SAME)],
    },
    Row {
        name: "accepted, different, denied before: the first denied key stays",
        before: &[(Accepted, OTHER), (Denied, 3)],
        policy: PLAIN,
        verdict: (Admission::Denied, "denied", false, false),
        after: &[(Accepted, OTHER), (Denied, 3)],
    },
    Row {
        name: "none",
        before: &[],
        policy: PLAIN,
        verdict: (Admission::Pending, "pend", true, true),
        after: &[(Pending, SAME)],
    },
    Row {
        name: "none, autosign",
        before: &[],
        policy: AUTO,
        verdict: (Admission::Accepted(()), "accept", true, true),
        after: &[(Accepted, SAME)],
    },
    Row {
        name: "none, denied before: denied is no state of an id",
        before: &[(Denied, SAME)],
        policy: PLAIN,
        verdict: (Admission::Pending, "pend", true, true),
        after: &[(Denied, SAME), (Pending, SAME)],
    },
    Row {
        name: "none, no room",
        before: &[],
        policy: KeyPolicy {
            max_pending: 0,
            ..PLAIN
        },
        verdict: (Admission::Full, "full", false, false),
        after: &[],
    },
    Row {
        name: "pending, different",
        before: &[(Pending, OTHER)],
        policy: PLAIN,
        verdict: (Admission::Denied, "denied", false, true),
        after: &[(Denied, SAME), (Pending, OTHER)],
    },
    Row {
        name: "pending, different, autosign",
        before: &[(Pending, OTHER)],
        policy: AUTO,
        verdict: (Admission::Denied, "denied", false, true),
        after: &[(Denied, SAME), (Pending, OTHER)],
    },
    Row {
        name: "pending, same",
        before: &[(Pending, SAME)],
        policy: PLAIN,
        verdict: (Admission::Pending, "pend", true, false),
        after: &[(Pending, SAME)],
    },
    Row {
        name: "pending, same, no room: it has its place",
        before: &[(Pending, SAME)],
        policy: KeyPolicy {
            max_pending: 0,
            ..PLAIN
        },
        verdict: (Admission::Pending, "pend", true, false),
        after: &[(Pending, SAME)],
    },
    Row {
        name: "pending, same, autosign",
        before: &[(Pending, SAME)],
        policy: AUTO,
        verdict: (Admission::Accepted(()), "accept", true, true),
        after: &[(Accepted, SAME)],
    },
];

#[test]
fn the_table_of_states() {
    for row in TABLE {
        let place = Place::new();
        let store = place.open();
        for (state, number) in row.before {
            place.seed(*state, "web1", *number);
        }
        let (answer, act, result, changed) = row.verdict.clone();
        assert_eq!(
            store.authenticate(&id("web1"), key(SAME), Source::Process, row.policy),
            Verdict::new(answer, act, result, changed),
            "{}",
            row.name
        );
        let after: Vec<_> = store
            .list()
            .unwrap()
            .into_iter()
            .map(|entry| (entry.state, entry.identity[0]))
            .collect();
        assert_eq!(after, row.after, "{}", row.name);
    }
}

#[test]
fn anything_else_is_an_error_and_lets_nobody_in() {
    for (state, answer) in [
        (Rejected, Admission::Rejected),
        (Accepted, Admission::Denied),
        (Pending, Admission::Denied),
    ] {
        for policy in [PLAIN, AUTO] {
            let place = Place::new();
            let store = place.open();
            std::fs::write(place.file(state, "web1"), "no key").unwrap();
            let verdict = store.authenticate(&id("web1"), key(SAME), Source::Process, policy);
            assert_eq!(verdict, Verdict::new(answer.clone(), "error", false, false));
            assert!(store.list().unwrap().iter().all(|entry| !entry.holds_key()));
        }
    }
    // A store that cannot be written.
    let place = Place::new();
    let store = place.open();
    std::fs::create_dir(place.file(Accepted, "web1")).unwrap();
    let verdict = store.authenticate(&id("web1"), key(SAME), Source::Process, OPEN);
    assert_eq!(
        verdict,
        Verdict::new(Admission::Full, "error", false, false)
    );
}

#[test]
fn strangers_cannot_fill_the_disk() {
    let place = Place::new();
    let store = place.open();
    let come = |name: String| {
        store
            .authenticate(&id(&name), key(SAME), Source::Process, PLAIN)
            .admission
    };
    for number in 0..10 {
        assert_eq!(come(format!("m{number}")), Admission::Pending);
    }
    assert_eq!(come("m10".to_owned()), Admission::Full);
    assert_eq!(come("m9".to_owned()), Admission::Pending);
    assert_eq!(store.pending_count().unwrap(), 10);
    // Other keys under known ids: one is kept of each.
    for number in 3..20 {
        let _ = store.authenticate(&id("m1"), key(number), Source::Process, PLAIN);
    }
    let denied = store.list().unwrap();
    assert_eq!(
        denied.iter().filter(|entry| entry.state == Denied).count(),
        1
    );
    // An operator makes room.
    let keys = vec![(Pending, id("m0"))];
    let _ = store.apply(&crate::keys::tests::act(
        saline_messages::KeyAction::Delete,
        keys,
    ));
    assert_eq!(come("m10".to_owned()), Admission::Pending);
}

#[test]
fn a_pending_key_expires_when_it_is_not_presented_any_more() {
    let place = Place::new();
    let store = place.open();
    let policy = KeyPolicy {
        auto_accept: false,
        open_mode: false,
        max_pending: 2,
    };
    let week = Duration::from_secs(7 * 86_400);
    let age = |name: &str| {
        let file = std::fs::File::options()
            .write(true)
            .open(place.file(Pending, name))
            .unwrap();
        file.set_modified(Clock.wall() - week - Duration::from_secs(1))
            .unwrap();
    };
    for (number, name) in ["stranger", "waits"].into_iter().enumerate() {
        store.authenticate(&id(name), key(number as u8), Source::Process, policy);
        age(name);
    }
    let full = store.authenticate(&id("new"), key(7), Source::Process, policy);
    assert_eq!(full.admission, Admission::Full);
    // It polls.
    store.authenticate(&id("waits"), key(1), Source::Process, policy);
    assert_eq!(store.expire_pending(week).unwrap(), [id("stranger")]);
    let new = store.authenticate(&id("new"), key(7), Source::Process, policy);
    assert_eq!(new.admission, Admission::Pending);
}

#[test]
fn pending_keys_keep_their_sources_over_a_restart() {
    let place = Place::new();
    let policy = KeyPolicy {
        max_pending: 4,
        ..PLAIN
    };
    let source = |number: u8| {
        let address = std::net::SocketAddr::from(([192, 0, 2, number], 1));
        Source::of(address)
    };
    let presented = [("a", 1), ("stranger1", 9), ("b", 2), ("stranger2", 9)];
    let store = place.open();
    for (name, from) in presented {
        let verdict = store.authenticate(&id(name), key(from), source(from), policy);
        assert_eq!(verdict.act, "pend");
    }
    drop(store);
    let store = place.open();
    let more = store.authenticate(&id("stranger3"), key(9), source(9), policy);
    assert_eq!(more.act, "full", "it has most of them already");
    let new = store.authenticate(&id("c"), key(3), source(3), policy);
    assert_eq!(new.displaced, Some(id("stranger1")));
    // What the file says beside the key changes nothing about the key.
    assert_eq!(
        store.lookup(&id("a")).unwrap(),
        Some((KeyState::Pending, key(1)))
    );
    let text = std::fs::read_to_string(place.file(Pending, "a")).unwrap();
    assert!(text.starts_with("Presented-From: 192.0.2.1\n"), "{text}");
}
