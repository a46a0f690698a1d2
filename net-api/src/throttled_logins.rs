//! The logins that the master has wait, since somebody tried too many passwords.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_client::transport::Source;

/// The source of a client, and the user that it names.
pub(crate) type SourceAndUser = (Source, String);

/// The logins that wait: one of each source and user. Others of the same are refused at once and never reach the master, so that whoever
/// guesses passwords of a user gets no more turns than this user does at another address.
#[derive(Debug, Default)]
pub(crate) struct ThrottledLogins {
    waiting: Mutex<HashSet<SourceAndUser>>,
}

/// A login that waits, until this is dropped.
#[derive(Debug)]
pub(crate) struct WaitingLogin {
    logins: Arc<ThrottledLogins>,
    of: SourceAndUser,
}

impl ThrottledLogins {
    /// Whether a login of this source and user waits.
    pub(crate) fn waits(&self, of: &SourceAndUser) -> bool {
        self.lock().contains(of)
    }

    /// Has a login wait; none when another one of this source and user does.
    pub(crate) fn wait(self: &Arc<Self>, of: &SourceAndUser) -> Option<WaitingLogin> {
        let is_first = self.lock().insert(of.clone());
        is_first.then(|| WaitingLogin {
            logins: Arc::clone(self),
            of: of.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<SourceAndUser>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaitingLogin {
    fn drop(&mut self) {
        self.logins.lock().remove(&self.of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_login_of_a_source_and_a_user_waits() {
        let logins = Arc::new(ThrottledLogins::default());
        let [zed, amy] = ["zed", "amy"].map(|user| (Source::User(1), user.to_owned()));
        let elsewhere = (Source::User(2), "zed".to_owned());
        let waits = logins.wait(&zed).unwrap();
        assert!(logins.wait(&zed).is_none() && logins.waits(&zed));
        assert!(logins.wait(&amy).is_some() && logins.wait(&elsewhere).is_some());
        assert!(!logins.waits(&amy) && logins.waits(&zed));
        drop(waits);
        assert!(!logins.waits(&zed));
        assert!(logins.wait(&zed).is_some());
    }
}
