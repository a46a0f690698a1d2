//! What operators do.

use super::*;
use crate::keys::{KeyChange, KeyOnDisk, offline};
use saline_channel::Identity;
use saline_config::MasterConfig;
use saline_messages::KeyReply;

use KeyAction::{Accept, Delete, Reject};
use KeyState::{Accepted, Denied, Pending, Rejected};

fn one(store: &KeyStore, action: KeyAction, from: KeyState) -> Applied {
    store.apply(&act(store, action, vec![(from, id("web1"))]))
}

#[test]
fn a_next_identity_is_listed_and_one_that_cannot_be_read_keeps_nobody_from_the_keys() {
    let place = Place::new();
    let store = place.open();
    place.seed(Pending, "web1", 1);
    assert_eq!(store.apply(&KeyRequest::List).next_master, None);
    let made = store.apply(&KeyRequest::RotateIdentity).next_master;
    assert!(made.is_some());
    assert_eq!(store.apply(&KeyRequest::List).next_master, made);
    assert_eq!(store.apply(&KeyRequest::RotateIdentity).next_master, made);
    std::fs::write(place.pki().join("identity.next.key"), "nonsense").unwrap();
    let listed = store.apply(&KeyRequest::List);
    assert_eq!((listed.keys.len(), listed.next_master), (1, None));
    assert!(listed.error.is_none());
    let error = store.apply(&KeyRequest::RotateIdentity).error.unwrap();
    assert!(error.to_string().contains("identity.next.key"), "{error}");
}

#[test]
fn every_act_on_every_state() {
    for (from, action, to, ends) in [
        (Pending, Accept, Some(Accepted), false),
        (Pending, Reject, Some(Rejected), true),
        (Pending, Delete, None, false),
        (Accepted, Reject, Some(Rejected), true),
        (Accepted, Delete, None, true),
        (Rejected, Accept, Some(Accepted), false),
        (Rejected, Delete, None, false),
        (Denied, Accept, Some(Accepted), false),
        (Denied, Reject, Some(Rejected), false),
        (Denied, Delete, None, false),
    ] {
        let place = Place::new();
        let store = place.open();
        place.seed(from, "web1", 1);
        place.seed(from, "web2", 2);
        let applied = one(&store, action, from);
        assert!(applied.error.is_none());
        let change = KeyChange {
            id: id("web1"),
            identity: key(1),
            from,
            to,
            replaced: None,
        };
        assert_eq!(change.ends_sessions(), ends, "{from:?} {action:?}");
        assert_eq!(applied.changes, [change], "{from:?} {action:?}");
        assert_eq!(applied.keys.len(), 1);
        assert_eq!(applied.keys[0].state, to.unwrap_or(from));
        let mut expected = vec![(from, "web2".to_owned(), 2)];
        expected.extend(to.map(|to| (to, "web1".to_owned(), 1)));
        expected.sort();
        assert_eq!(listing(&store), expected, "{from:?} {action:?}");
        // Once more: it is no longer there.
        assert!(one(&store, action, from).changes.is_empty());
    }
    for (state, action) in [(Accepted, Accept), (Rejected, Reject)] {
        let place = Place::new();
        let store = place.open();
        place.seed(state, "web1", 1);
        assert!(one(&store, action, state).changes.is_empty());
        assert_eq!(listing(&store).len(), 1);
    }
}

#[test]
fn accepting_a_denied_key_puts_it_in_place_of_the_other() {
    let place = Place::new();
    let store = place.open();
    place.seed(Accepted, "web1", 1);
    place.seed(Denied, "web1", 2);
    let applied = one(&store, Accept, Denied);
    assert_eq!(applied.changes[0].replaced, Some(key(1)));
    assert!(applied.changes[0].ends_sessions());
    assert_eq!(listing(&store), [(Accepted, "web1".to_owned(), 2)]);
}

#[test]
fn rejecting_a_denied_key_leaves_the_accepted_one() {
    let place = Place::new();
    let store = place.open();
    place.seed(Accepted, "web1", 1);
    place.seed(Accepted, "web2", 3);
    place.seed(Denied, "web1", 2);
    store.external_changes().unwrap();
    let applied = one(&store, Reject, Denied);
    assert!(!applied.changes[0].ends_sessions());
    assert_eq!(store.key_on_disk(&id("web1")), KeyOnDisk::Accepted(key(1)));
    assert_eq!(store.lookup(&id("web1")).unwrap(), Some((Accepted, key(1))));
    assert_eq!(store.external_changes().unwrap().changed, []);
    // Rejecting the accepted one too leaves none.
    let applied = one(&store, Reject, Accepted);
    assert!(applied.changes[0].ends_sessions());
    assert_eq!(store.key_on_disk(&id("web1")), KeyOnDisk::NotAccepted);
    assert_eq!(store.lookup(&id("web1")).unwrap(), Some((Rejected, key(1))));
    assert_eq!(store.external_changes().unwrap().changed, []);
}

#[test]
fn a_key_that_came_into_the_place_of_the_one_that_was_shown_is_left_alone() {
    let place = Place::new();
    let store = place.open();
    for (state, action) in [(Denied, Accept), (Pending, Accept), (Rejected, Delete)] {
        place.seed(state, "web1", 1);
        let shown = act(&store, action, vec![(state, id("web1"))]);
        place.seed(state, "web1", 2);
        assert_eq!(store.apply(&shown).changes, [], "{state:?}");
        std::fs::remove_file(place.file(state, "web1")).unwrap();
    }
    assert_eq!(listing(&store), []);
}

#[test]
fn what_is_no_longer_there_is_left_alone() {
    let place = Place::new();
    let store = place.open();
    place.seed(Accepted, "web1", 1);
    let keys = vec![
        (Pending, id("web1")),
        (Denied, id("web1")),
        (Pending, id("web9")),
    ];
    assert!(store.apply(&act(&store, Delete, keys)).changes.is_empty());
    assert_eq!(listing(&store).len(), 1);
}

#[test]
fn a_list_is_ordered_and_a_request_names_many() {
    let place = Place::new();
    let store = place.open();
    for (state, name) in [
        (Rejected, "a"),
        (Pending, "c"),
        (Pending, "b"),
        (Accepted, "d"),
    ] {
        place.seed(state, name, 1);
    }
    let list = store.apply(&KeyRequest::List).keys;
    let names: Vec<_> = list.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(names, ["d", "b", "c", "a"]);
    let keys = vec![(Pending, id("b")), (Pending, id("c")), (Pending, id("b"))];
    let applied = store.apply(&act(&store, Accept, keys));
    assert_eq!(applied.changes.len(), 2);
    assert_eq!(*store.accepted_ids().unwrap(), [id("b"), id("c"), id("d")]);
}

#[test]
fn without_a_master_the_tool_acts_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = MasterConfig::default();
    config.paths = config.paths.under(folder.path());
    let KeyReply { keys, master, .. } = offline(&config, &KeyRequest::List).unwrap();
    assert!(keys.is_empty());
    let identity = Identity::load_or_create(&config.paths.pki_dir).unwrap();
    assert_eq!(master, identity.public().0);

    let seeded = config.paths.pki_dir.join("minions_pre/web1");
    std::fs::write(seeded, PublicIdentity(key(5)).to_pem()).unwrap();
    let request = KeyRequest::Act {
        request_id: RequestId::default(),
        action: Accept,
        keys: offline(&config, &KeyRequest::List).unwrap().keys,
    };
    let reply = offline(&config, &request).unwrap();
    assert_eq!(reply.keys[0].state, Accepted);

    let lock = saline_daemon::InstanceLock::take(&config.lock_file()).unwrap();
    let refused = offline(&config, &KeyRequest::List).unwrap_err();
    assert!(refused.contains("a master is running"), "{refused}");
    assert!(!refused.contains('\n'));
    drop(lock);
    assert_eq!(offline(&config, &KeyRequest::List).unwrap().keys.len(), 1);
}
