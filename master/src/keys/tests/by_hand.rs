//! What operators do with files.

use super::*;

use KeyAction::Delete;
use KeyState::{Accepted, Rejected};

#[test]
fn keys_that_are_changed_by_hand_are_noticed_once_and_others_are_not() {
    let place = Place::new();
    let store = place.open();
    for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        place.seed(Accepted, name, number as u8);
    }
    let changed = || {
        let mut changed = store.changed_by_hand().unwrap();
        changed.sort_by(|a, b| a.id.cmp(&b.id));
        let plain = changed.into_iter().map(|c| (c.id.to_string(), c.identity));
        plain.collect::<Vec<_>>()
    };
    assert_eq!(changed(), [], "the first look");
    assert_eq!(changed(), []);
    std::fs::rename(place.file(Accepted, "a"), place.file(Rejected, "a")).unwrap();
    place.seed(Accepted, "b", 9);
    place.seed(Rejected, "c", 2);
    let gone = |name: &str| (name.to_owned(), None);
    let expected = [gone("a"), ("b".to_owned(), Some(key(9))), gone("c")];
    assert_eq!(changed(), expected);
    assert_eq!(changed(), []);
    store.apply(&act(Delete, vec![(Accepted, id("d"))]));
    assert_eq!(changed(), [], "what this process does it has told already");
    std::fs::remove_file(place.file(Rejected, "c")).unwrap();
    place.seed(Accepted, "d", 4);
    assert_eq!(changed(), [], "a key that comes takes nothing back");
    // As when the folder is not mounted any more.
    let folder = place.pki().join(Accepted.folder());
    let aside = place.pki().join("aside");
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(changed(), []);
    std::fs::remove_dir(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    assert_eq!(changed(), []);
}

#[test]
fn all_keys_that_were_moved_to_the_rejected_ones_are_noticed() {
    let place = Place::new();
    let store = place.open();
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        place.seed(Accepted, name, number as u8);
    }
    assert_eq!(store.changed_by_hand().unwrap(), [], "the first look");
    for name in ["a", "b"] {
        std::fs::rename(place.file(Accepted, name), place.file(Rejected, name)).unwrap();
    }
    assert_eq!(store.changed_by_hand().unwrap().len(), 2);
}

#[test]
fn a_key_that_is_copied_over_itself_is_not_gone() {
    let place = Place::new();
    let store = place.open();
    place.seed(Accepted, "a", 1);
    place.seed(Accepted, "b", 2);
    assert_eq!(store.changed_by_hand().unwrap(), [], "the first look");
    // Between the two writes of a copy.
    std::fs::write(place.file(Accepted, "a"), "").unwrap();
    assert_eq!(store.changed_by_hand().unwrap(), []);
    place.seed(Accepted, "a", 1);
    assert_eq!(store.changed_by_hand().unwrap(), []);
    std::fs::write(place.file(Accepted, "a"), "").unwrap();
    assert_eq!(store.changed_by_hand().unwrap(), []);
    assert_eq!(store.changed_by_hand().unwrap().len(), 1, "it stays empty");
}
