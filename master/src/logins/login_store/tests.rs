use std::time::Duration;

use super::*;

const NOW: MasterTime = 1_800_000_000_000;

struct Place(tempfile::TempDir);

impl LoginStore {
    /// Keeps a login whose check begins now.
    fn make_now(&self, new: NewLogin, now: MasterTime) -> Result<Option<Arc<Login>>, StoreError> {
        Ok(match self.make(new, self.revocations(), now)? {
            LoginOutcome::LoggedIn(login) => Some(login),
            LoginOutcome::TokenTaken | LoginOutcome::Revoked | LoginOutcome::Ended => None,
        })
    }
}

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> LoginStore {
        LoginStore::open(&self.0.path().join("logins.sqlite")).unwrap()
    }
}

fn token(number: u32) -> LoginToken {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    LoginToken(bytes)
}

fn login(number: u32, user: &str) -> NewLogin {
    NewLogin {
        token: token(number),
        user: user.to_owned(),
        way: LoginWay::File,
        groups: vec!["ops".to_owned(), "web".to_owned()],
        valid_ms: 1_000,
    }
}

#[test]
fn a_login_is_valid_until_its_end_over_a_restart() {
    let place = Place::new();
    let made = {
        let store = place.open();
        store.make_now(login(1, "alice"), NOW).unwrap().unwrap()
    };
    assert_eq!((made.made, made.until), (NOW, NOW + 1_000));
    let store = place.open();
    assert_eq!(store.find(&token(1), NOW + 999), Some(made));
    assert_eq!(store.find(&token(1), NOW + 1_000), None);
    assert_eq!(store.find(&token(2), NOW), None);
    // One that is over is forgotten with the next login.
    store.make_now(login(2, "bob"), NOW + 1_000).unwrap();
    assert_eq!(store.logins().len(), 1);
    let rows: i64 = store
        .connection()
        .query_row("SELECT count(*) FROM logins", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 1);
}

#[test]
fn a_repeated_login_is_one_and_another_user_does_not_get_it() {
    let place = Place::new();
    let store = place.open();
    let first = store.make_now(login(1, "alice"), NOW).unwrap();
    assert_eq!(store.make_now(login(1, "alice"), NOW + 500).unwrap(), first);
    assert_eq!(store.make_now(login(1, "bob"), NOW).unwrap(), None);
    let by_another_way = NewLogin {
        way: LoginWay::Auto,
        ..login(1, "alice")
    };
    assert_eq!(store.make_now(by_another_way, NOW).unwrap(), None);
    assert_eq!(store.list(NOW).len(), 1);
}

#[test]
fn the_file_has_no_token() {
    let place = Place::new();
    let store = place.open();
    store.make_now(login(1, "alice"), NOW).unwrap();
    for file in std::fs::read_dir(place.0.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let is_there = bytes.windows(32).any(|window| window == token(1).0);
        assert!(!is_there, "{}", path.display());
    }
}

#[test]
fn logins_end_when_asked_to_and_stay_ended() {
    let place = Place::new();
    let store = place.open();
    for (number, user) in [(1, "alice"), (2, "alice"), (3, "bob")] {
        store.make_now(login(number, user), NOW).unwrap();
    }
    let ended = store.end(&token(1)).unwrap().unwrap();
    assert_eq!(ended.user, "alice");
    assert_eq!(store.end(&token(1)).unwrap(), None);
    assert_eq!(store.revoke("alice", Some(LoginWay::Auto)).unwrap(), 0);
    assert_eq!(store.revoke("alice", None).unwrap(), 1);
    drop(store);
    let store = place.open();
    let left: Vec<String> = store.list(NOW).iter().map(|one| one.user.clone()).collect();
    assert_eq!(left, ["bob"]);
}

#[test]
fn a_login_whose_check_began_before_a_revocation_is_checked_again() {
    let place = Place::new();
    let store = place.open();
    let begun = store.revocations();
    assert_eq!(store.revoke("alice", None).unwrap(), 0);
    let made = store.make(login(1, "alice"), begun, NOW).unwrap();
    assert_eq!(made, LoginOutcome::Revoked);
    assert_eq!(store.find(&token(1), NOW), None);
    let again = store.make(login(1, "alice"), store.revocations(), NOW);
    assert!(matches!(again.unwrap(), LoginOutcome::LoggedIn(_)));
}

#[test]
fn nobody_who_looks_a_login_up_waits_for_a_change() {
    let place = Place::new();
    let store = Arc::new(place.open());
    store.make_now(login(1, "alice"), NOW).unwrap();
    let changing = store.connection();
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let reader = Arc::clone(&store);
    let reading = std::thread::spawn(move || {
        reader.revocations();
        let _ = sender.send((reader.find(&token(1), NOW), reader.list(NOW).len()));
    });
    let read = receiver.recv_timeout(Duration::from_secs(60));
    drop(changing);
    reading.join().unwrap();
    let (found, listed) = read.expect("the reader waited for the one who changes something");
    assert_eq!((found.unwrap().user.as_str(), listed), ("alice", 1));
}

#[test]
fn what_is_not_on_the_disk_changes_nothing_in_memory() {
    let place = Place::new();
    let store = place.open();
    store.make_now(login(1, "alice"), NOW).unwrap();
    let rename = |sql: &str| store.connection().execute_batch(sql).unwrap();
    rename("ALTER TABLE logins RENAME TO elsewhere");
    assert!(store.make_now(login(2, "bob"), NOW).is_err());
    assert!(store.revoke("alice", None).is_err());
    assert!(store.end(&token(1)).is_err());
    assert_eq!(store.find(&token(2), NOW), None);
    assert!(store.find(&token(1), NOW).is_some());
    rename("ALTER TABLE elsewhere RENAME TO logins");
    assert_eq!(store.revoke("alice", None).unwrap(), 1);
    assert_eq!(store.find(&token(1), NOW), None);
}

#[test]
fn a_login_of_a_time_that_was_set_back_is_not_valid() {
    let place = Place::new();
    let store = place.open();
    let ahead = NewLogin {
        valid_ms: 86_400_000,
        ..login(1, "alice")
    };
    store.make_now(ahead, NOW + AHEAD + 1).unwrap();
    assert_eq!(store.find(&token(1), NOW), None);
    assert!(store.find(&token(1), NOW + 1).is_some());
}

#[test]
fn the_oldest_login_of_a_user_ends_for_another_one() {
    let place = Place::new();
    let store = place.open();
    store.make_now(login(9_999, "bob"), NOW).unwrap();
    for number in 0..=100 {
        store
            .make_now(login(number, "alice"), NOW + u64::from(number))
            .unwrap();
    }
    assert_eq!(store.find(&token(0), NOW + 100), None);
    assert!(store.find(&token(1), NOW + 100).is_some());
    assert!(store.find(&token(9_999), NOW + 100).is_some());
    assert_eq!(store.list(NOW + 100).len(), 101);
}

#[test]
fn a_token_that_was_ended_is_that_of_no_later_login() {
    let place = Place::new();
    let store = place.open();
    // While the password is checked, and while a repeated request is.
    assert_eq!(store.end(&token(1)).unwrap(), None);
    let made = store.make(login(1, "alice"), store.revocations(), NOW);
    assert_eq!(made.unwrap(), LoginOutcome::Ended);
    store.make_now(login(2, "alice"), NOW).unwrap().unwrap();
    assert!(store.end(&token(2)).unwrap().is_some());
    assert_eq!(store.make_now(login(2, "alice"), NOW).unwrap(), None);
    assert_eq!(store.list(NOW), []);
    // The store remembers a bounded number of the tokens that were ended.
    for number in 3..=u32::try_from(MAX_ENDED).unwrap() + 3 {
        store.end(&token(number)).unwrap();
    }
    let ended = store.ended();
    assert_eq!(ended.digests.len(), MAX_ENDED);
    assert_eq!(ended.order.len(), MAX_ENDED);
}
