//! Checks names and passwords. Each check costs one hash of Argon2, whatever is wrong, so that its time tells nothing.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use saline_config::{ExternalAuth, LoginWay};
use saline_messages::{LoginRequest, MAX_LOGIN_TEXT};
use saline_pam::{PamHelper, Verdict};
use saline_protocol::transport::{Clock, Context};
use tokio::sync::Semaphore;

use super::PasswordHash;
use super::user_file::UserFile;
use crate::bounds::{Rate, TokenBuckets};
use crate::peers::groups_of_name;

/// How often one principal may try to log a user in.
const ATTEMPTS_OF_USER: Rate = Rate {
    per_second: 0.2,
    burst: 10.0,
};

/// How often one principal may try to log anybody in: an API host does it for many.
const ATTEMPTS_OF_SOURCE: Rate = Rate {
    per_second: 10.0,
    burst: 100.0,
};

/// The largest number of users, and of principals, that are told apart.
const MAX_KEYS: usize = 4_096;

/// How many passwords are hashed at once: each hash takes a core and 19 MiB.
const HASHES: usize = 2;

/// How many attempts are under way at once, with those that wait for their hash.
const MAX_ATTEMPTS: usize = 64;

/// The delay after which an attempt may come again that found no place.
const FULL_DELAY: Duration = Duration::from_secs(1);

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// The name and the password are right. The user is in these groups.
    Right {
        /// The way by which the user logs in.
        way: LoginWay,
        /// The names of the groups.
        groups: Vec<String>,
    },
    /// They are not, or the way is none that is configured.
    Wrong,
    /// There were too many attempts: it may be tried again after this delay.
    Later(Duration),
}

/// Checks names and passwords.
#[derive(Debug)]
pub(crate) struct Credentials {
    context: Context,
    of_user: TokenBuckets<(String, String)>,
    of_source: TokenBuckets<String>,
    attempts: Semaphore,
    hashes: Semaphore,
    nobody: PasswordHash,
    pam: Option<Arc<PamHelper>>,
}

impl Credentials {
    pub(crate) fn new(context: Context, pam: Option<Arc<PamHelper>>) -> Self {
        let clock: Clock = context.clock;
        Self {
            context,
            of_user: TokenBuckets::new(clock, ATTEMPTS_OF_USER, MAX_KEYS),
            of_source: TokenBuckets::new(clock, ATTEMPTS_OF_SOURCE, MAX_KEYS),
            attempts: Semaphore::new(MAX_ATTEMPTS),
            hashes: Semaphore::new(HASHES),
            nobody: PasswordHash::of_nobody(),
            pam,
        }
    }

    /// Checks an attempt that the principal named `source` brings.
    pub(crate) async fn check(
        &self,
        auth: &ExternalAuth,
        source: &str,
        request: &LoginRequest,
    ) -> Checked {
        let texts = [&*request.user, request.password.expose(), &*request.eauth];
        if texts.iter().any(|text| text.len() > MAX_LOGIN_TEXT) {
            return Checked::Wrong;
        }
        let user = (
            source.to_owned(),
            format!("{} {}", request.eauth, request.user),
        );
        // The user's comes first: who tries one name too often takes nothing from what the source has for all.
        if let Err(delay) = self.of_user.take(&user) {
            return Checked::Later(delay);
        }
        if let Err(delay) = self.of_source.take(&user.0) {
            self.of_user.give_back(&user);
            return Checked::Later(delay);
        }
        let Ok(_attempt) = self.attempts.try_acquire() else {
            return Checked::Later(FULL_DELAY);
        };
        let way = LoginWay::parse(&request.eauth).filter(|way| auth.ways.contains_key(way));
        let (asked, pam) = (request.clone(), self.pam.clone());
        let checked = if way == Some(LoginWay::Pam) {
            let auth = auth.clone();
            let check = move || groups_by_pam(pam.as_deref(), &auth, &asked);
            self.context.spawn_blocking(check).await
        } else {
            // Nobody closes it.
            let Ok(_hash) = self.hashes.acquire().await else {
                return Checked::Later(FULL_DELAY);
            };
            let (auth, nobody) = (auth.clone(), self.nobody.clone());
            let check = move || groups_of(way, &auth, &asked, nobody);
            self.context.spawn_blocking(check).await
        };
        match (way, checked) {
            (Some(way), Ok(Some(groups))) => {
                // A right password costs no attempt, so a user who logs in often is not told to wait.
                self.of_user.give_back(&user);
                Checked::Right { way, groups }
            }
            // The runtime logs a panic.
            (_, Ok(_) | Err(_)) => Checked::Wrong,
        }
    }
}

/// Returns the groups of a user of this machine if PAM says that the password is right and the account may be used.
fn groups_by_pam(
    pam: Option<&PamHelper>,
    auth: &ExternalAuth,
    request: &LoginRequest,
) -> Option<Vec<String>> {
    let Some(pam) = pam else {
        tracing::error!(
            "nobody can log in by pam: external_auth has it since this master was started; restart saline-master"
        );
        return None;
    };
    let groups = groups_of_name(&request.user);
    let groups = groups
        .inspect_err(|why| {
            tracing::error!(
                "a login by pam was refused: the groups of the user cannot be read: {why}"
            );
        })
        .ok()?;
    // PAM is asked about nobody else's account: a stranger could try root's password, or lock it.
    let rules = auth.ways.get(&LoginWay::Pam)?;
    rules.of(&request.user, &groups, false).next()?;
    match pam.log_in(&request.user, request.password.expose()) {
        Ok(Verdict::Right) => Some(groups),
        Ok(_) => None,
        Err(why) => {
            tracing::error!("a login by pam was refused: {why}");
            None
        }
    }
}

/// Returns the groups of the user if the name and the password are right. Hashes one password in any case.
fn groups_of(
    way: Option<LoginWay>,
    auth: &ExternalAuth,
    request: &LoginRequest,
    nobody: PasswordHash,
) -> Option<Vec<String>> {
    let (name, password) = (&*request.user, request.password.expose());
    let users = match (way, &auth.user_file) {
        (Some(LoginWay::File), Some(path)) => UserFile::read(path).unwrap_or_else(|error| {
            tracing::error!("{error}");
            UserFile::default()
        }),
        _ => UserFile::default(),
    };
    let user = users.user(name);
    let hash = match (user, way) {
        (Some(user), _) => user.password.clone(),
        (None, Some(LoginWay::File)) => users.longest_hash(),
        (None, _) => nobody,
    };
    let matches = hash.matches(password);
    match way? {
        LoginWay::File => user.filter(|_| matches).map(|user| user.groups.clone()),
        LoginWay::SharedSecret => {
            let secret = auth.shared_secret.as_ref()?;
            is_equal(secret.expose(), password).then(Vec::new)
        }
        LoginWay::Auto => Some(Vec::new()),
        LoginWay::Pam => None,
    }
}

/// Compares two texts in a time that tells neither where they differ nor how long the first is.
fn is_equal(secret: &str, given: &str) -> bool {
    let [secret, given] = [secret, given].map(|text| digest(&SHA256, text.as_bytes()));
    verify_slices_are_equal(secret.as_ref(), given.as_ref()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use saline_config::{AccessRules, Secret};
    use saline_messages::{LoginToken, Password};

    use super::*;

    struct Place {
        folder: tempfile::TempDir,
        credentials: Credentials,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let hash = PasswordHash::new("correct horse");
            let users = format!("alice:{hash}:ops,web\nbob:{hash}\n");
            std::fs::write(folder.path().join("users"), users).unwrap();
            Self {
                folder,
                credentials: Credentials::new(Context::default(), None),
            }
        }

        fn auth(&self, ways: &[LoginWay]) -> ExternalAuth {
            ExternalAuth {
                ways: ways
                    .iter()
                    .map(|way| (*way, AccessRules::default()))
                    .collect::<BTreeMap<_, _>>(),
                user_file: Some(self.folder.path().join("users")),
                shared_secret: Some(Secret::from("hunter2")),
                ..ExternalAuth::default()
            }
        }

        async fn check(&self, ways: &[LoginWay], user: &str, password: &str, way: &str) -> Checked {
            let request = LoginRequest {
                user: user.to_owned(),
                password: Password::new(password.to_owned()),
                eauth: way.to_owned(),
                token: LoginToken([1; 32]),
            };
            self.credentials
                .check(&self.auth(ways), "operator api1", &request)
                .await
        }
    }

    fn right(way: LoginWay, groups: &[&str]) -> Checked {
        Checked::Right {
            way,
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }

    #[tokio::test]
    async fn a_user_of_the_file_logs_in_with_its_own_password_alone() {
        let place = Place::new();
        let file = [LoginWay::File];
        let come = |user, password| place.check(&file, user, password, "file");
        assert_eq!(
            come("alice", "correct horse").await,
            right(LoginWay::File, &["ops", "web"])
        );
        assert_eq!(
            come("bob", "correct horse").await,
            right(LoginWay::File, &[])
        );
        for (user, password) in [
            ("alice", "wrong"),
            ("alice", ""),
            ("carol", "correct horse"),
            ("", "correct horse"),
            ("alice", "hunter2"),
        ] {
            assert_eq!(
                come(user, password).await,
                Checked::Wrong,
                "{user} {password}"
            );
        }
        let long = "a".repeat(MAX_LOGIN_TEXT + 1);
        assert_eq!(come(&long, "correct horse").await, Checked::Wrong);
        std::fs::remove_file(place.folder.path().join("users")).unwrap();
        assert_eq!(come("bob", "correct horse").await, Checked::Wrong);
    }

    #[tokio::test]
    async fn a_way_that_is_not_configured_lets_nobody_in() {
        let place = Place::new();
        for way in ["file", "sharedsecret", "auto", "pam", "", "../file"] {
            for password in ["correct horse", "hunter2", ""] {
                let checked = place.check(&[], "alice", password, way).await;
                assert_eq!(checked, Checked::Wrong, "{way} {password}");
            }
        }
        let all = LoginWay::ALL;
        let secret = place.check(&all, "zoe", "hunter2", "sharedsecret");
        assert_eq!(secret.await, right(LoginWay::SharedSecret, &[]));
        let wrong = place.check(&all, "zoe", "hunter", "sharedsecret").await;
        assert_eq!(wrong, Checked::Wrong);
        let any = place.check(&all, "zoe", "", "auto").await;
        assert_eq!(any, right(LoginWay::Auto, &[]));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_with_wrong_passwords_have_to_wait() {
        let place = Place::new();
        let file = [LoginWay::File];
        for _ in 0..10 {
            let wrong = place.check(&file, "alice", "wrong", "file").await;
            assert_eq!(wrong, Checked::Wrong);
        }
        // Also with the right password: it could be the guess that is right.
        let later = place.check(&file, "alice", "correct horse", "file").await;
        let Checked::Later(delay) = later else {
            panic!("{later:?}");
        };
        assert!(delay <= Duration::from_secs(5), "{delay:?}");
        let other = place.check(&file, "bob", "correct horse", "file").await;
        assert_eq!(other, right(LoginWay::File, &[]), "another user");
        Clock.pause(delay).await;
        let again = place.check(&file, "alice", "correct horse", "file").await;
        assert_eq!(again, right(LoginWay::File, &["ops", "web"]));
    }

    #[test]
    fn an_unknown_user_takes_as_long_as_the_dearest_hash_of_the_file() {
        let with = |cost: &str| {
            format!(
                "$argon2id$v=19${cost}$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
            )
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        let [cheap, dear, middle] = ["m=8,t=1,p=1", "m=64,t=3,p=1", "m=128,t=1,p=1"].map(with);
        std::fs::write(&path, format!("ann:{cheap}\nbob:{dear}\neve:{middle}\n")).unwrap();
        let file = UserFile::read(&path).unwrap();
        assert_eq!(file.longest_hash().to_string(), dear);
        let none = UserFile::default().longest_hash().to_string();
        assert_eq!(none, PasswordHash::of_nobody().to_string());
    }
}
