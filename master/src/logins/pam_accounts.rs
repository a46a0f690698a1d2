//! Ends the logins of those whose accounts on this machine were locked or have expired since (CVE-2022-22967 was that a login by PAM
//! did not ask for that).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use saline_config::LoginWay;
use saline_pam::{PamHelper, Verdict};
use saline_protocol::transport::Context;

use super::LoginStore;
use crate::clock::MasterClock;

/// How often the accounts are looked at.
const INTERVAL: Duration = Duration::from_secs(60);

/// Looks at the accounts of those who are logged in by PAM.
#[derive(Debug)]
pub(crate) struct PamAccounts {
    pub(crate) pam: Option<Arc<PamHelper>>,
    pub(crate) logins: Arc<LoginStore>,
    pub(crate) context: Context,
    pub(crate) clock: MasterClock,
}

impl PamAccounts {
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
                let look = move || end_if_locked(&pam, &logins, &user);
                // The runtime logs a panic, and the next look comes.
                let _ = self.context.spawn_blocking(look).await;
            }
        }
    }
}

/// Ends the logins of a user whose account may not be used any more. Whoever cannot be asked about stays.
fn end_if_locked(pam: &PamHelper, logins: &LoginStore, user: &str) {
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
