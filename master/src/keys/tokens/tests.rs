//! Tokens: used once, by those they are for, until their end, over a restart.

use std::sync::Barrier;

use super::*;
use crate::keys::tests::id;

const NOW: MasterTime = 1_800_000_000_000;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self) -> TokenStore {
        TokenStore::open(&self.0.path().join("tokens.sqlite")).unwrap()
    }
}

fn wanted(token: &PresentedToken, minions: &str, uses: u32) -> NewToken {
    NewToken {
        name: token.name,
        digest: token.digest(),
        minions: minions.to_owned(),
        valid_ms: 3_600_000,
        uses,
    }
}

/// Makes a token of these uses, valid for an hour.
fn made(store: &TokenStore, minions: &str, uses: u32) -> PresentedToken {
    let token = PresentedToken::random().unwrap();
    store.make(&wanted(&token, minions, uses), NOW).unwrap();
    token
}

#[test]
fn a_token_lets_in_those_it_is_for_until_its_end_and_as_often_as_it_says() {
    let place = Place::new();
    let store = place.open();
    let token = made(&store, "web*", 2);
    let comes = |name: &str, now| store.take_use(&token, &id(name), now);
    assert_eq!(comes("db1", NOW), Err(TokenRefusal::OtherId));
    assert_eq!(comes("web1", NOW + 3_600_000), Err(TokenRefusal::Expired));
    assert_eq!(comes("web1", NOW), Ok(()));
    // Its key may have been deleted meanwhile.
    assert_eq!(comes("web1", NOW), Err(TokenRefusal::Used));
    assert_eq!(comes("web2", NOW + 3_599_999), Ok(()));
    assert_eq!(comes("web3", NOW), Err(TokenRefusal::Used));
    let listed = store.list(NOW).unwrap();
    assert_eq!(
        (listed[0].used, listed[0].last.clone()),
        (2, Some(id("web2")))
    );
    assert_eq!(store.list(NOW + 3_600_000).unwrap(), []);
}

#[test]
fn another_secret_under_a_name_that_is_known_is_unknown() {
    let place = Place::new();
    let store = place.open();
    let token = made(&store, "*", 1);
    let mut guess = PresentedToken::random().unwrap();
    guess.name = token.name;
    assert_eq!(
        store.take_use(&guess, &id("web1"), NOW),
        Err(TokenRefusal::Unknown)
    );
    // It is told nothing more, also when the token is of no use any more.
    assert_eq!(
        store.take_use(&guess, &id("web1"), NOW + 3_600_000),
        Err(TokenRefusal::Unknown)
    );
    assert_eq!(store.take_use(&token, &id("web1"), NOW), Ok(()));
}

#[test]
fn a_use_is_remembered_over_a_restart_and_a_revoked_token_is_gone() {
    let place = Place::new();
    let token = {
        let store = place.open();
        let token = made(&store, "*", 1);
        assert_eq!(store.take_use(&token, &id("web1"), NOW), Ok(()));
        token
    };
    let store = place.open();
    assert_eq!(
        store.take_use(&token, &id("web2"), NOW),
        Err(TokenRefusal::Used)
    );
    let other = made(&store, "*", 5);
    assert_eq!(store.take_use(&other, &id("web2"), NOW), Ok(()));
    let revoked = store.revoke(other.name).unwrap().unwrap();
    assert_eq!((revoked.used, revoked.uses), (1, 5));
    assert_eq!(store.revoke(other.name).unwrap(), None);
    assert_eq!(
        store.take_use(&other, &id("web3"), NOW),
        Err(TokenRefusal::Unknown)
    );
}

#[test]
fn of_two_at_the_same_instant_one_gets_in() {
    let place = Place::new();
    let store = place.open();
    for round in 0..20 {
        let token = made(&store, "*", 1);
        let together = Barrier::new(4);
        let won = std::thread::scope(|scope| {
            let come = |number| {
                let (store, token, together) = (&store, &token, &together);
                scope.spawn(move || {
                    together.wait();
                    store.take_use(token, &id(&format!("web{number}")), NOW)
                })
            };
            let all: Vec<_> = (0..4).map(come).collect();
            let ends = all.into_iter().map(|one| one.join().unwrap());
            ends.filter(Result::is_ok).count()
        });
        assert_eq!(won, 1, "round {round}");
    }
}

#[test]
fn a_request_that_is_repeated_makes_one_token() {
    let place = Place::new();
    let store = place.open();
    let token = PresentedToken::random().unwrap();
    let first = store.make(&wanted(&token, "web*", 1), NOW).unwrap();
    assert_eq!(store.take_use(&token, &id("web1"), NOW), Ok(()));
    // It came late, after the token was used: it gives no further use.
    let again = store.make(&wanted(&token, "web*", 1), NOW + 9).unwrap();
    assert_eq!((again.until, again.used), (first.until, 1));
    assert_eq!(store.list(NOW).unwrap().len(), 1);
    let other = NewToken {
        digest: [7; 32],
        ..wanted(&token, "*", 9)
    };
    assert!(matches!(
        store.make(&other, NOW),
        Err(TokenError::Invalid(_))
    ));
}

#[test]
fn what_is_out_of_bounds_is_refused() {
    let place = Place::new();
    let store = place.open();
    let token = PresentedToken::random().unwrap();
    let good = wanted(&token, "web*", 1);
    for bad in [
        NewToken {
            minions: String::new(),
            ..good.clone()
        },
        NewToken {
            minions: "[".into(),
            ..good.clone()
        },
        NewToken {
            minions: "a".repeat(256),
            ..good.clone()
        },
        NewToken {
            valid_ms: 0,
            ..good.clone()
        },
        NewToken {
            valid_ms: MAX_TOKEN_TIME + 1,
            ..good.clone()
        },
        NewToken {
            uses: 0,
            ..good.clone()
        },
        NewToken {
            uses: MAX_TOKEN_USES + 1,
            ..good.clone()
        },
    ] {
        let refused = store.make(&bad, NOW);
        assert!(matches!(refused, Err(TokenError::Invalid(_))), "{bad:?}");
    }
    for _ in 0..MAX_TOKENS {
        made(&store, "*", 1);
    }
    let Err(TokenError::Invalid(why)) = store.make(&good, NOW) else {
        panic!("one too many");
    };
    assert!(why.contains("--revoke-token"), "{why}");
    // Those that have expired take no room, and are forgotten a day later.
    store.make(&good, NOW + 3_600_000).unwrap();
    let later = NOW + 2 * 86_400_000;
    made_at(&store, later);
    let rows: i64 = store
        .lock()
        .query_row("SELECT count(*) FROM tokens", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 1);
}

#[test]
fn a_token_of_a_time_that_was_set_back_lets_nobody_in() {
    let place = Place::new();
    let store = place.open();
    let token = made_at(&store, NOW + 10 * 86_400_000);
    assert_eq!(
        store.take_use(&token, &id("web1"), NOW),
        Err(TokenRefusal::Expired)
    );
    assert_eq!(store.list(NOW).unwrap(), []);
    // A clock that was set back a little is no such thing.
    let token = made_at(&store, NOW + 1_000);
    assert_eq!(store.take_use(&token, &id("web1"), NOW), Ok(()));
}

fn made_at(store: &TokenStore, now: MasterTime) -> PresentedToken {
    let token = PresentedToken::random().unwrap();
    store.make(&wanted(&token, "*", 1), now).unwrap();
    token
}

#[test]
fn the_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    made(&place.open(), "*", 1);
    for file in std::fs::read_dir(place.0.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{:?}", file.path());
    }
}
