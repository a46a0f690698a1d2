//! Accepts and deletes the keys of hosts of the HTTP API. A fingerprint says which key is meant, so nothing is asked.

use std::io;

use saline_channel::PublicIdentity;
use saline_messages::{ApiKeyAction, KeyEntry, KeyRequest, KeyState, RequestId};

use super::{KeyCommand, complain};
use crate::exit;
use crate::screen::Screen;

/// The largest number of keys that are named.
const MAX_NAMED: usize = 10;

impl KeyCommand<'_> {
    /// Accepts or deletes the key of an API that has this fingerprint. Returns the exit code.
    pub(super) async fn act_on_api(
        &self,
        screen: &mut Screen<'_>,
        action: ApiKeyAction,
        fingerprint: &str,
    ) -> io::Result<u8> {
        let listed = match self.store.ask(screen, KeyRequest::List).await {
            Ok(reply) => reply.apis,
            Err(why) => return Ok(complain(screen, &why)),
        };
        let is_meant = |key: &&KeyEntry| PublicIdentity(key.identity).has_fingerprint(fingerprint);
        let may_be = |key: &&KeyEntry| match action {
            ApiKeyAction::Accept => key.state == KeyState::Pending,
            ApiKeyAction::Delete => true,
        };
        let meant = listed.iter().filter(|key| key.holds_key() && is_meant(key));
        let keys: Vec<KeyEntry> = meant.clone().filter(may_be).cloned().collect();
        if keys.is_empty() {
            if let Some(accepted) = meant.clone().next() {
                let line = format!("The key of API {} is accepted already.", accepted.id);
                self.say(screen, &line)?;
                return Ok(exit::GOOD);
            }
            return Ok(explain_absent(screen, action, fingerprint, &listed));
        }
        let Ok(request_id) = RequestId::random() else {
            return Ok(complain(screen, "the system has no randomness"));
        };
        let request = KeyRequest::ActOnApis {
            request_id,
            action,
            keys: keys.clone(),
        };
        let changed = match self.store.ask(screen, request).await {
            Ok(reply) => reply.apis,
            Err(why) => return Ok(complain(screen, &why)),
        };
        let mut code = exit::GOOD;
        for key in &keys {
            let is_changed =
                |other: &KeyEntry| other.id == key.id && other.identity == key.identity;
            if !changed.iter().any(is_changed) {
                let line = format!(
                    "the key of API {} was left alone: it is not there any more",
                    key.id
                );
                code = complain(screen, &line);
                continue;
            }
            let line = match action {
                ApiKeyAction::Accept => {
                    let replaced = listed.iter().find(|other| {
                        other.id == key.id
                            && other.state == KeyState::Accepted
                            && other.identity != key.identity
                    });
                    let replaced = replaced.map_or_else(String::new, |other| {
                        let theirs = PublicIdentity(other.identity).fingerprint();
                        format!(", in the place of the key {theirs}")
                    });
                    format!("Key for API {} accepted{replaced}.", key.id)
                }
                ApiKeyAction::Delete => format!("Key for API {} deleted.", key.id),
            };
            self.say(screen, &line)?;
        }
        Ok(code)
    }
}

/// Prints which keys there are instead of the one with this fingerprint. Returns the exit code.
fn explain_absent(
    screen: &mut Screen<'_>,
    action: ApiKeyAction,
    fingerprint: &str,
    listed: &[KeyEntry],
) -> u8 {
    let (what, wanted) = match action {
        ApiKeyAction::Accept => (
            "no key of an API that waits has",
            listed
                .iter()
                .filter(|key| key.state == KeyState::Pending)
                .collect::<Vec<_>>(),
        ),
        ApiKeyAction::Delete => ("no key of an API has", listed.iter().collect()),
    };
    let nothing = match (action, wanted.is_empty()) {
        (_, false) => "",
        (ApiKeyAction::Accept, true) => "; none waits",
        (ApiKeyAction::Delete, true) => "; there is none",
    };
    let code = complain(
        screen,
        &format!("{what} the fingerprint {fingerprint}, so nothing was changed{nothing}"),
    );
    for key in wanted.iter().filter(|key| key.holds_key()).take(MAX_NAMED) {
        let theirs = PublicIdentity(key.identity).fingerprint();
        screen.note(format!("The key of API {} has {theirs}", key.id));
    }
    if wanted.len() > MAX_NAMED {
        screen.note("saline-key -L shows the others");
    }
    code
}
