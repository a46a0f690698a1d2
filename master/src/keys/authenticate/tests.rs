//! The table, a case for each row.

use std::sync::Arc;

use super::*;
use crate::keys::tests::{Place, id, key};
use crate::settings::IdFile;
use saline_messages::KeyState::{self, Accepted, Denied, Pending, Rejected};
use saline_protocol::transport::Clock;

const PLAIN: KeyPolicy = KeyPolicy {
    auto_accept: false,
    autosign: None,
    autoreject: None,
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
        before: &[(Accepted, SAME), (Rejected, SAME)],
        policy: AUTO,
        verdict: (Admission::Rejected, "reject", false, false),
        after: &[(Accepted, SAME), (Rejected, SAME)],
    },
    Row {
        name: "a rejected key does not reject the accepted one",
        before: &[(Accepted, SAME), (Rejected, OTHER)],
        policy: PLAIN,
        verdict: (Admission::Accepted(()), "accept", true, false),
        after: &[(Accepted, SAME), (Rejected, OTHER)],
    },
    Row {
        name: "the rejected one beside an accepted one",
        before: &[(Accepted, OTHER), (Rejected, SAME)],
        policy: AUTO,
        verdict: (Admission::Rejected, "reject", false, false),
        after: &[(Accepted, OTHER), (Rejected, SAME)],
    },
    Row {
        name: "a third one beside an accepted and a rejected one",
        before: &[(Accepted, OTHER), (Rejected, 3)],
        policy: PLAIN,
        verdict: (Admission::Denied, "denied", false, true),
        after: &[(Accepted, OTHER), (Denied, SAME), (Rejected, 3)],
    },
    Row {
        name: "a rejected key does not reject the pending one",
        before: &[(Pending, SAME), (Rejected, OTHER)],
        policy: PLAIN,
        verdict: (Admission::Pending(None), "pend", true, false),
        after: &[(Pending, SAME), (Rejected, OTHER)],
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
        verdict: (Admission::Pending(None), "pend", true, true),
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
        verdict: (Admission::Pending(None), "pend", true, true),
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
        name: "pending, different: no file, since who presents both could go on with other ids",
        before: &[(Pending, OTHER)],
        policy: PLAIN,
        verdict: (Admission::Denied, "denied", false, false),
        after: &[(Pending, OTHER)],
    },
    Row {
        name: "pending, different, autosign",
        before: &[(Pending, OTHER)],
        policy: AUTO,
        verdict: (Admission::Denied, "denied", false, false),
        after: &[(Pending, OTHER)],
    },
    Row {
        name: "pending, same",
        before: &[(Pending, SAME)],
        policy: PLAIN,
        verdict: (Admission::Pending(None), "pend", true, false),
        after: &[(Pending, SAME)],
    },
    Row {
        name: "pending, same, no room: it has its place",
        before: &[(Pending, SAME)],
        policy: KeyPolicy {
            max_pending: 0,
            ..PLAIN
        },
        verdict: (Admission::Pending(None), "pend", true, false),
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
        let verdict = store.authenticate(&id("web1"), key(SAME), Source::Process, &row.policy);
        assert_eq!(
            Verdict {
                rule: None,
                ..verdict
            },
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
fn lists_of_ids_accept_and_reject_new_and_waiting_keys() {
    let place = Place::new();
    let store = place.open();
    let lists = tempfile::tempdir().unwrap();
    let list = |option, text: &str| {
        let path = lists.path().join(option);
        std::fs::write(&path, text).unwrap();
        Some(Arc::new(IdFile::new(option, &path)))
    };
    let policy = KeyPolicy {
        autosign: list("autosign_file", "web*\n"),
        autoreject: list("autoreject_file", "web9\nold*\n"),
        ..PLAIN
    };
    let come = |name: &str, number, policy: &KeyPolicy| {
        let verdict = store.authenticate(&id(name), key(number), Source::Process, policy);
        let rule = verdict.rule.map(Cow::into_owned);
        (verdict.admission, verdict.changed, rule)
    };
    let by = |option: &str| Some(option.to_owned());
    let accepted = (Admission::Accepted(()), true, by("autosign_file"));
    assert_eq!(come("web1", SAME, &policy), accepted);
    assert_eq!(come("web1", OTHER, &policy).0, Admission::Denied);
    assert_eq!(
        come("db1", SAME, &policy),
        (Admission::Pending(None), true, None)
    );
    // Both lists name it. A stranger leaves no file; a key that waited is kept as rejected.
    let rejected = |changed| (Admission::Rejected, changed, by("autoreject_file"));
    assert_eq!(come("web9", SAME, &policy), rejected(false));
    assert_eq!(store.count(Rejected).unwrap(), 0);
    assert_eq!(come("old1", SAME, &PLAIN).0, Admission::Pending(None));
    assert_eq!(come("old1", SAME, &policy), rejected(true));
    assert_eq!(
        (
            store.count(Rejected).unwrap(),
            store.count(Pending).unwrap()
        ),
        (1, 1)
    );
    // What was accepted by hand stays.
    place.seed(Accepted, "old2", SAME);
    assert_eq!(come("old2", SAME, &policy).0, Admission::Accepted(()));
    // A list that cannot be read accepts nobody, also by another option.
    list("autoreject_file", "(\n");
    let auto = KeyPolicy {
        auto_accept: true,
        ..policy
    };
    assert_eq!(come("web2", SAME, &auto).0, Admission::Pending(None));
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
            let verdict = store.authenticate(&id("web1"), key(SAME), Source::Process, &policy);
            assert_eq!(verdict, Verdict::new(answer.clone(), "error", false, false));
            assert!(store.list().unwrap().iter().all(|entry| !entry.holds_key()));
        }
    }
    // A store that cannot be written.
    let place = Place::new();
    let store = place.open();
    std::fs::create_dir(place.file(Accepted, "web1")).unwrap();
    let verdict = store.authenticate(&id("web1"), key(SAME), Source::Process, &OPEN);
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
            .authenticate(&id(&name), key(SAME), Source::Process, &PLAIN)
            .admission
    };
    for number in 0..10 {
        assert_eq!(come(format!("m{number}")), Admission::Pending(None));
    }
    assert_eq!(come("m10".to_owned()), Admission::Full);
    assert_eq!(come("m9".to_owned()), Admission::Pending(None));
    assert_eq!(store.count(KeyState::Pending).unwrap(), 10);
    // Other keys under accepted ids: one is kept of each, and as many as there may be pending ones.
    for name in (0..20).map(|number| format!("known{number}")) {
        place.seed(Accepted, &name, OTHER);
        for number in 3..6 {
            let verdict = store.authenticate(&id(&name), key(number), Source::Process, &PLAIN);
            assert_eq!(verdict.admission, Admission::Denied);
        }
    }
    // Under pending ids: none is kept.
    for number in 3..20 {
        let _ = store.authenticate(&id("m1"), key(number), Source::Process, &PLAIN);
    }
    let denied = store.list().unwrap();
    assert_eq!(
        denied.iter().filter(|entry| entry.state == Denied).count(),
        PLAIN.max_pending
    );
    // An operator makes room.
    let keys = vec![(Pending, id("m0"))];
    let _ = store.apply(&crate::keys::tests::act(
        &store,
        saline_messages::KeyAction::Delete,
        keys,
    ));
    assert_eq!(come("m10".to_owned()), Admission::Pending(None));
}

fn source(number: u8) -> Source {
    Source::of(std::net::SocketAddr::from(([192, 0, 2, number], 1)))
}

#[test]
fn a_stranger_does_not_take_the_places_of_denied_keys_from_machines_that_are_reinstalled() {
    const STRANGER: u8 = 9;
    let place = Place::new();
    let store = place.open();
    let policy = KeyPolicy {
        autosign: None,
        autoreject: None,
        max_pending: 100,
        ..PLAIN
    };
    let denied = |name: &str| match store.denied.read(&id(name)).unwrap() {
        Found::Key(key) => Some(key[0]),
        _ => None,
    };
    for number in 0..500 {
        let name = format!("web{number}");
        place.seed(Accepted, &name, OTHER);
        let verdict = store.authenticate(&id(&name), key(STRANGER), source(STRANGER), &policy);
        assert_eq!(verdict.admission, Admission::Denied);
    }
    assert_eq!(store.denied.names().unwrap().len(), 100);
    // One whose place is free, and one whose place the stranger has: both are shown to the operator.
    for name in ["web499", "web7"] {
        let verdict = store.authenticate(&id(name), key(SAME), source(1), &policy);
        assert_eq!((verdict.act, verdict.changed), ("denied", true), "{name}");
        assert!(verdict.displaced.is_some_and(|(state, _)| state == Denied));
        assert_eq!(denied(name), Some(SAME), "{name}");
    }
    assert_eq!(store.denied.names().unwrap().len(), 100);
    // The stranger does not get them back, also not from the next run of the master.
    for store in [store, place.open()] {
        for name in ["web499", "web7"] {
            let again = store.authenticate(&id(name), key(STRANGER), source(STRANGER), &policy);
            assert!(!again.changed, "{name}");
        }
    }
}

#[test]
fn a_denied_key_expires_when_it_is_not_presented_any_more() {
    let place = Place::new();
    let store = place.open();
    let day = Duration::from_secs(86_400);
    for name in ["away", "still"] {
        place.seed(Accepted, name, OTHER);
        store.authenticate(&id(name), key(SAME), source(1), &PLAIN);
        let file = std::fs::File::options()
            .write(true)
            .open(place.file(Denied, name));
        let presented = Clock.wall() - day - Duration::from_secs(1);
        file.unwrap().set_modified(presented).unwrap();
    }
    store.authenticate(&id("still"), key(SAME), source(1), &PLAIN);
    assert_eq!(store.expire(day).unwrap(), [(Denied, id("away"))]);
    assert_eq!(store.expire(day).unwrap(), []);
}

#[test]
fn a_pending_key_expires_when_it_is_not_presented_any_more() {
    let place = Place::new();
    let store = place.open();
    let policy = KeyPolicy {
        autosign: None,
        autoreject: None,
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
        store.authenticate(&id(name), key(number as u8), Source::Process, &policy);
        age(name);
    }
    let full = store.authenticate(&id("new"), key(7), Source::Process, &policy);
    assert_eq!(full.admission, Admission::Full);
    // It polls.
    store.authenticate(&id("waits"), key(1), Source::Process, &policy);
    assert_eq!(store.expire(week).unwrap(), [(Pending, id("stranger"))]);
    let new = store.authenticate(&id("new"), key(7), Source::Process, &policy);
    assert_eq!(new.admission, Admission::Pending(None));
}

#[test]
fn pending_keys_keep_their_sources_over_a_restart() {
    let place = Place::new();
    let policy = KeyPolicy {
        autosign: None,
        autoreject: None,
        max_pending: 4,
        ..PLAIN
    };
    let presented = [("a", 1), ("stranger1", 9), ("b", 2), ("stranger2", 9)];
    let store = place.open();
    for (name, from) in presented {
        let verdict = store.authenticate(&id(name), key(from), source(from), &policy);
        assert_eq!(verdict.act, "pend");
    }
    drop(store);
    let store = place.open();
    let more = store.authenticate(&id("stranger3"), key(9), source(9), &policy);
    assert_eq!(more.act, "full", "it has most of them already");
    let new = store.authenticate(&id("c"), key(3), source(3), &policy);
    assert_eq!(new.displaced, Some((Pending, id("stranger1"))));
    // What the file says beside the key changes nothing about the key.
    assert_eq!(
        store.lookup(&id("a")).unwrap(),
        Some((KeyState::Pending, key(1)))
    );
    let text = std::fs::read_to_string(place.file(Pending, "a")).unwrap();
    assert!(text.starts_with("Presented-From: 192.0.2.1\n"), "{text}");
}

#[test]
fn a_token_accepts_what_an_operator_would_decide_about() {
    let name = TokenName([1, 2, 3, 4]);
    let (good, used) = (|| Ok(name), || Err(TokenRefusal::Used));
    let pending = |why| Admission::Pending(Some(why));
    let place = Place::new();
    let store = place.open();
    let come = |minion: &str, number, policy: &KeyPolicy, take_use: TakeUse<'_>| {
        let (minion, key) = (id(minion), key(number));
        let source = Source::Process;
        store.authenticate_with_token(&minion, key, source, policy, Some(take_use))
    };
    let verdict = come("web1", SAME, &PLAIN, &good);
    assert_eq!(verdict.admission, Admission::Accepted(()));
    assert_eq!(verdict.rule.as_deref(), Some("token 01020304"));
    // An accepted key needs none, and another key of the id is denied whatever it brings.
    let unasked = || -> Result<TokenName, TokenRefusal> { panic!("a use was taken") };
    assert!(come("web1", SAME, &PLAIN, &unasked).admission.is_accepted());
    assert_eq!(
        come("web1", OTHER, &PLAIN, &unasked).admission,
        Admission::Denied
    );
    // Nor is one taken where another rule decides, or a rejected key comes.
    assert!(come("web2", SAME, &AUTO, &unasked).admission.is_accepted());
    place.seed(Rejected, "web3", SAME);
    assert_eq!(
        come("web3", SAME, &PLAIN, &unasked).admission,
        Admission::Rejected
    );
    // A wrong one leaves the key waiting, and a good one takes the place of a key that waits.
    let verdict = come("web4", OTHER, &PLAIN, &used);
    assert_eq!(verdict.admission, pending(TokenRefusal::Used));
    assert_eq!(verdict.token_refused, Some(TokenRefusal::Used));
    assert_eq!(
        come("web4", SAME, &PLAIN, &used).admission,
        Admission::Denied
    );
    assert!(come("web4", SAME, &PLAIN, &good).admission.is_accepted());
    assert_eq!(store.count(Pending).unwrap(), 0);
    assert_eq!(
        come("web4", OTHER, &PLAIN, &unasked).admission,
        Admission::Denied
    );
    // While the list of ids to reject cannot be read, only an operator accepts.
    let lists = tempfile::tempdir().unwrap();
    let path = lists.path().join("reject");
    std::fs::write(&path, "(\n").unwrap();
    let policy = KeyPolicy {
        autoreject: Some(Arc::new(IdFile::new("autoreject_file", &path))),
        ..PLAIN
    };
    let verdict = come("web5", SAME, &policy, &unasked);
    assert_eq!(verdict.admission, pending(TokenRefusal::Unavailable));
    std::fs::write(&path, "web5\n").unwrap();
    assert_eq!(
        come("web5", SAME, &policy, &unasked).admission,
        Admission::Rejected
    );
}

#[test]
fn a_key_that_cannot_be_stored_costs_its_token() {
    let place = Place::new();
    let store = place.open();
    let uses = std::cell::Cell::new(0);
    let take_use = || {
        uses.set(uses.get() + 1);
        // From here on the key cannot be written.
        std::fs::create_dir(place.file(Accepted, "web1")).unwrap();
        Ok(TokenName([1; 4]))
    };
    let (web1, source) = (id("web1"), Source::Process);
    let verdict = store.authenticate_with_token(&web1, key(SAME), source, &PLAIN, Some(&take_use));
    assert_eq!((uses.get(), verdict.act), (1, "error"));
    assert!(!verdict.admission.is_accepted());
}
