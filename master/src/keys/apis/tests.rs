use saline_channel::Identity;

use super::*;

struct Place {
    folder: tempfile::TempDir,
    keys: ApiKeys,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys = ApiKeys::open(folder.path(), Clock).unwrap();
        Self { folder, keys }
    }

    fn present(&self, name: &str, key: [u8; 32], source: Source) -> ApiVerdict {
        self.keys
            .authenticate(&id(name), key, source, usize::MAX)
            .unwrap()
    }

    fn act(&self, action: ApiKeyAction, shown: &[KeyEntry]) -> Vec<KeyEntry> {
        let mut changed = Vec::new();
        self.keys.act(action, shown, &mut changed).unwrap();
        changed
    }

    fn listed(&self) -> Vec<(String, KeyState)> {
        let listed = self.keys.list().unwrap();
        let shown = listed
            .into_iter()
            .map(|key| (key.id.to_string(), key.state));
        shown.collect()
    }
}

fn id(name: &str) -> MinionId {
    MinionId::parse(name).unwrap()
}

fn key() -> [u8; 32] {
    Identity::generate().unwrap().public().0
}

/// A source that is told apart from others by its number.
fn source(number: u8) -> Source {
    format!("192.0.2.{number}").parse().unwrap()
}

const NEW: ApiVerdict = ApiVerdict::Pending {
    is_new: true,
    displaced: None,
};

#[test]
fn a_key_waits_until_it_is_accepted_and_is_gone_once_it_is_deleted() {
    let place = Place::new();
    let own = key();
    assert_eq!(place.present("web", own, source(1)), NEW);
    let again = ApiVerdict::Pending {
        is_new: false,
        displaced: None,
    };
    assert_eq!(place.present("web", own, source(1)), again);
    assert_eq!(place.keys.lookup(&id("web")).unwrap(), None);

    let shown = place.keys.list().unwrap();
    let accepted = place.act(ApiKeyAction::Accept, &shown);
    assert_eq!((accepted.len(), accepted[0].state), (1, KeyState::Accepted));
    assert_eq!(place.present("web", own, source(1)), ApiVerdict::Accepted);
    assert_eq!(place.keys.lookup(&id("web")).unwrap(), Some(own));
    assert_eq!(place.act(ApiKeyAction::Accept, &shown), []);

    assert_eq!(place.act(ApiKeyAction::Delete, &accepted), accepted);
    assert_eq!(place.keys.lookup(&id("web")).unwrap(), None);
    assert_eq!(place.listed(), []);
}

#[test]
fn another_key_of_the_name_takes_nothing_over_by_itself() {
    let place = Place::new();
    let (own, other) = (key(), key());
    place.present("web", own, source(1));
    assert_eq!(
        place.present("web", other, source(2)),
        ApiVerdict::AnotherWaits
    );
    let shown = place.keys.list().unwrap();
    place.act(ApiKeyAction::Accept, &shown);
    // It waits beside the accepted key, which stays.
    assert_eq!(place.present("web", other, source(2)), NEW);
    assert_eq!(place.present("web", own, source(1)), ApiVerdict::Accepted);
    let both = vec![
        ("web".to_owned(), KeyState::Accepted),
        ("web".to_owned(), KeyState::Pending),
    ];
    assert_eq!(place.listed(), both);
    // Another key has replaced the one that the operator was shown.
    let mut mistaken = place.keys.list().unwrap();
    mistaken[1].identity = own;
    assert_eq!(place.act(ApiKeyAction::Accept, &mistaken[1..]), []);
    let shown = place.keys.list().unwrap();
    assert_eq!(place.act(ApiKeyAction::Accept, &shown[1..]).len(), 1);
    assert_eq!(place.keys.lookup(&id("web")).unwrap(), Some(other));
}

#[test]
fn strangers_fill_neither_the_disk_nor_the_places_of_others() {
    let place = Place::new();
    for number in 0..MAX_PENDING_APIS + 20 {
        let verdict = place.present(&format!("api{number}"), key(), source(1));
        match number < MAX_PENDING_APIS {
            true => assert_eq!(verdict, NEW),
            false => assert_eq!(verdict, ApiVerdict::Full),
        }
    }
    assert_eq!(place.listed().len(), MAX_PENDING_APIS);
    let ApiVerdict::Pending {
        is_new: true,
        displaced: Some(displaced),
    } = place.present("mine", key(), source(2))
    else {
        panic!("the key of another source has no place");
    };
    assert_eq!(displaced, id("api0"));
    assert_eq!(place.listed().len(), MAX_PENDING_APIS);
    let fewer = place
        .keys
        .authenticate(&id("late"), key(), source(2), 1)
        .unwrap();
    assert!(
        matches!(
            &fewer,
            ApiVerdict::Pending {
                displaced: Some(_),
                ..
            }
        ),
        "{fewer:?}"
    );
}

#[test]
fn keys_that_are_not_presented_any_more_expire() {
    let place = Place::new();
    place.present("old", key(), source(1));
    place.present("new", key(), source(1));
    let file = place.folder.path().join("apis_pre/old");
    let file = std::fs::File::options().write(true).open(file).unwrap();
    let day = Duration::from_secs(86_400);
    file.set_modified(Clock.wall() - 2 * day).unwrap();
    assert_eq!(place.keys.expire(day).unwrap(), [id("old")]);
    assert_eq!(place.listed(), [("new".to_owned(), KeyState::Pending)]);
}

#[test]
fn a_file_without_a_key_lets_nobody_in_and_can_be_deleted() {
    let place = Place::new();
    std::fs::write(place.folder.path().join("apis/web"), "nonsense").unwrap();
    assert_eq!(place.keys.lookup(&id("web")).unwrap(), None);
    let shown = place.keys.list().unwrap();
    assert!(!shown[0].holds_key());
    assert_eq!(place.act(ApiKeyAction::Accept, &shown), []);
    assert_eq!(place.act(ApiKeyAction::Delete, &shown).len(), 1);
    assert_eq!(place.listed(), []);
}
