//! Ends the logins of those whose accounts on this machine were locked or have expired since (CVE-2022-22967 was that a login by PAM
//! did not ask for that).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use saline_config::LoginWay;
use saline_pam::{PamError, PamHelper, Verdict};
use saline_protocol::transport::Context;

use super::LoginStore;
use crate::clock::MasterClock;

/// How often the accounts are looked at.
const INTERVAL: Duration = Duration::from_secs(60);

/// Says whether the accounts of users may be used.
pub(crate) trait Accounts: Send + Sync + 'static {
    /// Says whether the user's account may be used now. Blocks.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn may_use(&self, user: &str) -> Result<Verdict, PamError>;
}

impl Accounts for PamHelper {
    fn may_use(&self, user: &str) -> Result<Verdict, PamError> {
        Self::may_use(self, user)
    }
}

/// Looks at the accounts of those who are logged in by PAM.
#[derive(Debug)]
pub(crate) struct PamAccounts<A = PamHelper> {
    /// None if nobody can log in by PAM.
    pub(crate) pam: Option<Arc<A>>,
    pub(crate) logins: Arc<LoginStore>,
    pub(crate) context: Context,
    pub(crate) clock: MasterClock,
}

impl<A: Accounts> PamAccounts<A> {
    /// Runs until the future is dropped.
    pub(crate) async fn run(&self) {
        let Some(pam) = &self.pam else {
            return std::future::pending().await;
        };
        let mut timer = self.clock.clock().interval(INTERVAL);
        loop {
            timer.tick().await;
            let logins = self.logins.list(self.clock.now());
            let users = logins.iter().filter(|login| login.way == LoginWay::Pam);
            let users: BTreeSet<String> = users.map(|login| login.user.clone()).collect();
            for user in users {
                let (pam, logins) = (Arc::clone(pam), Arc::clone(&self.logins));
                let look = move || end_if_locked(&*pam, &logins, &user);
                // The runtime logs a panic, and the next look comes.
                let _ = self.context.spawn_blocking(look).await;
            }
        }
    }
}

/// Ends the logins of a user whose account may not be used any more. Whoever cannot be asked about stays.
fn end_if_locked(pam: &impl Accounts, logins: &LoginStore, user: &str) {
    match pam.may_use(user) {
        Ok(Verdict::Wrong) => match logins.revoke(user, Some(LoginWay::Pam)) {
            Ok(ended) => tracing::warn!(
                "user {user} is logged out ({ended} logins): PAM says that the account may not be used any more"
            ),
            Err(why) => tracing::error!(
                "user {user}, whose account may not be used any more, cannot be logged out: {why}"
            ),
        },
        Ok(_) => {}
        Err(why) => {
            tracing::warn!(
                "whether the account of user {user} may still be used is not known: {why}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use saline_messages::LoginToken;

    use super::*;
    use crate::logins::{LoginOutcome, NewLogin};

    /// The users whose accounts are locked. Nobody knows about `unknown`.
    #[derive(Debug, Default)]
    struct Locked(Mutex<BTreeSet<&'static str>>);

    impl Accounts for Locked {
        fn may_use(&self, user: &str) -> Result<Verdict, PamError> {
            match user {
                "unknown" => Err(PamError::Ended),
                user if self.0.lock().unwrap().contains(user) => Ok(Verdict::Wrong),
                _ => Ok(Verdict::Right),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_locked_out_is_logged_out_within_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let context = Context::default();
        let watch = PamAccounts {
            pam: Some(Arc::new(Locked::default())),
            logins: Arc::new(LoginStore::open(&folder.path().join("logins.sqlite")).unwrap()),
            clock: MasterClock::new(context.clock),
            context,
        };
        let users = [
            ("ann", LoginWay::Pam),
            ("bob", LoginWay::Pam),
            ("unknown", LoginWay::Pam),
            ("bob", LoginWay::File),
        ];
        for (number, (user, way)) in (0..).zip(users) {
            let new = NewLogin {
                token: LoginToken([number; 32]),
                user: user.to_owned(),
                way,
                groups: Vec::new(),
                valid_ms: 86_400_000,
            };
            let begun = watch.logins.revocations();
            let made = watch.logins.make(new, begun, watch.clock.now()).unwrap();
            assert!(matches!(made, LoginOutcome::LoggedIn(_)));
        }
        let logged_in = || {
            let listed = watch.logins.list(watch.clock.now());
            let listed = listed.iter().map(|login| (login.user.clone(), login.way));
            listed.collect::<BTreeSet<_>>()
        };
        let all = users.map(|(user, way)| (user.to_owned(), way));
        let looks = async {
            watch.context.clock.pause(INTERVAL).await;
            assert_eq!(logged_in(), all.clone().into());
            let accounts = watch.pam.as_ref().unwrap();
            accounts.0.lock().unwrap().insert("bob");
            // The look that this minute brings may be under way at its end.
            watch.context.clock.pause(INTERVAL * 2).await;
            let mut left = BTreeSet::from(all.clone());
            left.remove(&("bob".to_owned(), LoginWay::Pam));
            assert_eq!(logged_in(), left);
        };
        tokio::select! {
            () = looks => {}
            () = watch.run() => unreachable!("it has no end"),
        }
    }
}
