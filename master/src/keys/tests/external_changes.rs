//! What operators do with files.

use super::*;

use crate::keys::{ExternalChange, KeyChanges, KeyOnDisk};

use KeyAction::{Accept, Delete};
use KeyState::{Accepted, Pending, Rejected};

/// A place with two accepted keys, and a store that has looked at them once.
fn watched() -> (Place, KeyStore) {
    let place = Place::new();
    let store = place.open();
    place.seed(Accepted, "a", 1);
    place.seed(Accepted, "b", 2);
    assert_eq!(
        store.external_changes().unwrap().changed,
        [],
        "the first look"
    );
    (place, store)
}

#[test]
fn keys_that_are_changed_by_hand_are_noticed_once_and_others_are_not() {
    let place = Place::new();
    let store = place.open();
    for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        place.seed(Accepted, name, number as u8);
    }
    let changed = || {
        let mut changed = store.external_changes().unwrap().changed;
        changed.sort_by(|a, b| a.id.cmp(&b.id));
        let plain = changed.into_iter().map(|c| (c.id.to_string(), c.identity));
        plain.collect::<Vec<_>>()
    };
    assert_eq!(changed(), [], "the first look");
    assert_eq!(changed(), []);
    assert_eq!(
        store.external_changes().unwrap().accepted,
        [],
        "they are known"
    );
    std::fs::rename(place.file(Accepted, "a"), place.file(Rejected, "a")).unwrap();
    place.seed(Accepted, "b", 9);
    place.seed(Rejected, "c", 2);
    let gone = |name: &str| (name.to_owned(), None);
    let expected = [gone("a"), ("b".to_owned(), Some(key(9))), gone("c")];
    assert_eq!(changed(), expected);
    assert_eq!(changed(), []);
    store.apply(&act(&store, Delete, vec![(Accepted, id("d"))]));
    assert_eq!(changed(), [], "what this process does it has told already");
    std::fs::remove_file(place.file(Rejected, "c")).unwrap();
    place.seed(Accepted, "d", 4);
    let changes = store.external_changes().unwrap();
    assert_eq!(changes.changed, [], "a key that comes takes nothing back");
    let mut came = changes.accepted;
    came.sort();
    assert_eq!(came, [(id("c"), key(2)), (id("d"), key(4))]);
    // As when the folder is not mounted any more.
    let folder = place.pki().join(Accepted.folder());
    let aside = place.pki().join("aside");
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(changed(), []);
    // Nor when a key is accepted meanwhile, which lies in the place of the folder.
    place.seed(Accepted, "z", 9);
    assert_eq!(changed(), []);
    assert_eq!(changed(), []);
    std::fs::rename(folder.join("z"), aside.join("z")).unwrap();
    std::fs::remove_dir(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    assert_eq!(changed(), []);
}

#[test]
fn keys_that_are_all_missing_can_be_deleted() {
    let (place, store) = watched();
    assert_eq!(store.missing(), []);
    for name in ["a", "b"] {
        std::fs::remove_file(place.file(Accepted, name)).unwrap();
    }
    let changes = store.external_changes().unwrap();
    assert_eq!((changes.changed, changes.missing.len()), (vec![], 2));
    assert_eq!(store.missing(), [id("a"), id("b")]);
    let applied = store.apply(&act(&store, Delete, vec![(Accepted, id("a"))]));
    assert_eq!(applied.changes.len(), 1);
    assert!(applied.changes[0].ends_sessions());
    assert_eq!(store.external_changes().unwrap().missing, [id("b")]);
    // Those that are back are known as before; and whoever is not missing cannot be deleted without a file.
    place.seed(Accepted, "b", 2);
    let changes = store.external_changes().unwrap();
    assert_eq!(changes, KeyChanges::default());
    let nobody = act(&store, Delete, vec![(Accepted, id("a"))]);
    assert_eq!(store.apply(&nobody).changes, []);
}

#[test]
fn all_keys_that_were_moved_to_the_rejected_ones_are_noticed() {
    let place = Place::new();
    let store = place.open();
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        place.seed(Accepted, name, number as u8);
    }
    assert_eq!(
        store.external_changes().unwrap().changed,
        [],
        "the first look"
    );
    for name in ["a", "b"] {
        std::fs::rename(place.file(Accepted, name), place.file(Rejected, name)).unwrap();
    }
    assert_eq!(store.external_changes().unwrap().changed.len(), 2);
}

#[test]
fn a_key_that_is_copied_over_itself_is_not_gone() {
    let (place, store) = watched();
    // Between the two writes of a copy.
    std::fs::write(place.file(Accepted, "a"), "").unwrap();
    assert_eq!(store.external_changes().unwrap().changed, []);
    place.seed(Accepted, "a", 1);
    assert_eq!(store.external_changes().unwrap().changed, []);
    std::fs::write(place.file(Accepted, "a"), "").unwrap();
    assert_eq!(store.external_changes().unwrap().changed, []);
    assert_eq!(
        store.external_changes().unwrap().changed.len(),
        1,
        "it stays empty"
    );
}

#[test]
fn a_file_without_a_key_among_the_rejected_ones_rejects_as_a_key_does() {
    let (place, store) = watched();
    std::fs::write(place.file(Rejected, "a"), "rejected by hand").unwrap();
    let gone = ExternalChange {
        id: id("a"),
        identity: None,
    };
    assert_eq!(store.external_changes().unwrap().changed, [gone]);
}

#[test]
fn keys_that_this_store_changes_during_a_look_are_not_taken_for_changed_by_hand() {
    let place = Place::new();
    let store = place.open();
    for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        place.seed(Accepted, name, number as u8);
    }
    place.seed(Pending, "e", 4);
    assert_eq!(
        store.external_changes().unwrap().accepted.len(),
        4,
        "the first look"
    );

    // Accepted after the names were read.
    let scan = store.scan_again();
    store.apply(&act(&store, Accept, vec![(Pending, id("e"))]));
    let changes = store.confirm(scan);
    assert_eq!(changes.changed, []);
    assert_eq!(
        changes.accepted,
        [(id("e"), key(4))],
        "it was accepted all the same"
    );
    assert_eq!(store.external_changes().unwrap(), KeyChanges::default());

    // Deleted, and deleted and accepted again, after the files were looked at.
    let scan = store.scan_again();
    store.apply(&act(
        &store,
        Delete,
        vec![(Accepted, id("a")), (Accepted, id("b"))],
    ));
    place.seed(Pending, "b", 9);
    store.apply(&act(&store, Accept, vec![(Pending, id("b"))]));
    assert_eq!(store.confirm(scan).changed, []);
    assert_eq!(store.external_changes().unwrap().changed, []);

    // The names were read while a key was not there: it was put back before the look is judged.
    std::fs::remove_file(place.file(Accepted, "c")).unwrap();
    let scan = store.scan_again();
    place.seed(Accepted, "c", 2);
    assert_eq!(store.confirm(scan).changed, []);
    assert_eq!(store.external_changes().unwrap().changed, []);

    // And what really goes by hand during all of that is noticed.
    std::fs::remove_file(place.file(Accepted, "d")).unwrap();
    let scan = store.scan_again();
    place.seed(Pending, "f", 5);
    store.apply(&act(&store, Accept, vec![(Pending, id("f"))]));
    let changed = store.confirm(scan).changed;
    assert_eq!(changed.len(), 1);
    assert_eq!((&changed[0].id, changed[0].identity), (&id("d"), None));
}

/// Has the folder look as if it was changed long ago.
fn let_rest(place: &Place) {
    let folder = std::fs::File::open(place.pki().join(Accepted.folder())).unwrap();
    let long_ago = saline_protocol::transport::Clock.wall() - std::time::Duration::from_secs(60);
    folder.set_modified(long_ago).unwrap();
}

#[test]
fn a_file_that_is_half_written_at_the_first_look_is_read_again() {
    let place = Place::new();
    let store = place.open();
    place.seed(Accepted, "a", 1);
    std::fs::write(place.file(Accepted, "b"), "-----BEGIN").unwrap();
    std::fs::write(place.file(Accepted, "c"), "").unwrap();
    std::fs::write(place.file(Rejected, "c"), "").unwrap();
    let_rest(&place);
    let first = store.external_changes().unwrap();
    assert_eq!(first.accepted, [(id("a"), key(1))]);
    assert_eq!(first.unreadable, [id("b")], "the other one is rejected");
    assert_eq!(store.external_changes().unwrap().unreadable, [id("b")]);
    assert_eq!(*store.accepted_ids().unwrap(), [id("a")]);
    assert_eq!(store.key_on_disk(&id("b")), KeyOnDisk::Unreadable);
    assert_eq!(store.key_on_disk(&id("c")), KeyOnDisk::NotAccepted);
    // Written in place: the folder does not change.
    place.seed(Accepted, "b", 2);
    assert_eq!(*store.accepted_ids().unwrap(), [id("a"), id("b")]);
    let changes = store.external_changes().unwrap();
    assert_eq!(changes.accepted, [(id("b"), key(2))]);
    assert_eq!(changes.unreadable, []);
    assert_eq!(store.key_on_disk(&id("b")), KeyOnDisk::Accepted(key(2)));
}
