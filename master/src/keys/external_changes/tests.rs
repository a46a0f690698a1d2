//! When the files of accepted keys are looked at, and when the times of their folders are enough.

use super::*;

use crate::keys::KeyState::{Accepted, Rejected};
use crate::keys::tests::{Place, id, key};

/// Has the store take its last look for one after which its files were at rest.
fn settle(place: &Place, store: &KeyStore) {
    let long_ago = store.clock.wall() - Duration::from_secs(60);
    for state in [Accepted, Rejected] {
        let folder = std::fs::File::open(place.pki().join(state.folder())).unwrap();
        folder.set_modified(long_ago).unwrap();
    }
    let mut acting = store.acting();
    let keys = Arc::make_mut(acting.seen.keys.as_mut().unwrap());
    for (id, seen) in keys {
        seen.stamp = store.accepted.stamp(id).unwrap();
    }
    let (folders, now) = (store.folder_times().unwrap(), store.clock.now());
    acting.seen.note_look(folders, now, &KeyChanges::default());
    assert!(acting.seen.is_settled(folders, now));
}

/// A place with two accepted keys that have been at rest for long, and its store.
fn at_rest() -> (Place, KeyStore) {
    let place = Place::new();
    let store = place.open();
    place.seed(Accepted, "a", 1);
    place.seed(Accepted, "b", 2);
    store.external_changes().unwrap();
    settle(&place, &store);
    (place, store)
}

fn changed(store: &KeyStore) -> Vec<(MinionId, Option<[u8; 32]>)> {
    let changed = store.external_changes().unwrap().changed.into_iter();
    changed.map(|change| (change.id, change.identity)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_overwritten_in_its_place_is_noticed_after_ten_seconds() {
    let (place, store) = at_rest();
    place.seed(Accepted, "a", 9);
    assert_eq!(changed(&store), []);
    tokio::time::advance(OVERWRITTEN - Duration::from_millis(1)).await;
    assert_eq!(changed(&store), []);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(changed(&store), [(id("a"), Some(key(9)))]);
}

#[tokio::test(start_paused = true)]
async fn what_changes_a_folder_is_noticed_at_the_next_look() {
    let (place, store) = at_rest();
    std::fs::remove_file(place.file(Accepted, "a")).unwrap();
    assert_eq!(changed(&store), [(id("a"), None)]);
    settle(&place, &store);
    place.seed(Rejected, "b", 2);
    assert_eq!(changed(&store), [(id("b"), None)]);
}

#[tokio::test(start_paused = true)]
async fn what_must_be_looked_at_again_is_not_at_rest() {
    let (place, store) = at_rest();
    let (folders, now) = (store.folder_times().unwrap(), store.clock.now());
    let is_settled = |changes: &KeyChanges| {
        let seen = &mut store.acting().seen;
        seen.note_look(folders, now, changes);
        seen.is_settled(folders, now)
    };
    let mut changes = KeyChanges::default();
    assert!(is_settled(&changes));
    changes.missing.push(id("c"));
    assert!(!is_settled(&changes));
    changes.missing.clear();
    changes.unreadable.push(id("c"));
    assert!(!is_settled(&changes));
    // Written a moment ago: a second write may leave the same stamp.
    let keys = store.acting().seen.keys.clone();
    let mut young = keys.as_deref().unwrap().clone();
    young.get_mut(&id("a")).unwrap().stamp = None;
    store.acting().seen.keys = Some(Arc::new(young));
    assert!(!is_settled(&KeyChanges::default()));
    store.acting().seen.keys = keys;
    std::fs::File::create(place.file(Rejected, "other")).unwrap();
    assert_eq!(store.folder_times().unwrap(), None, "changed a moment ago");
    assert!(!store.acting().seen.is_settled(None, now));
}
