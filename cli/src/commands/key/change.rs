//! Accepts, rejects and deletes keys, once the operator has confirmed it.

use std::collections::HashSet;
use std::io;

use saline_messages::{KeyAction, KeyEntry, KeyRequest, KeyState, RequestId};

use super::last_seen::LastSeenOfKeys;
use super::listing::{Description, fingerprint, group};
use super::{KeyCommand, adjective, complain};
use crate::exit;
use crate::output::keys::render;
use crate::screen::Screen;

/// The largest number of keys in one request.
pub(super) const PORTION: usize = 250;

/// The line about a change that nobody could confirm.
pub(super) const NOT_CONFIRMED: &str =
    "ERROR: not confirmed, nothing changed: run this at a terminal, or add -y";

/// The answer to the question whether a change is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The change is to be made.
    Yes,
    /// Nothing is to be changed.
    No,
    /// Nobody is there to answer.
    Nobody,
}

impl KeyCommand<'_> {
    /// Asks for confirmation and does `action` to these keys. Returns the exit code.
    pub(super) async fn act(
        &self,
        screen: &mut Screen<'_>,
        action: KeyAction,
        keys: Vec<&KeyEntry>,
    ) -> io::Result<u8> {
        let done = match action {
            KeyAction::Accept => "accepted",
            KeyAction::Reject => "rejected",
            KeyAction::Delete => "deleted",
        };
        match self.ask(screen, action, done, &keys).await? {
            Answer::Yes => {}
            Answer::No => return Ok(exit::GOOD),
            Answer::Nobody => {
                screen.note(NOT_CONFIRMED);
                return Ok(exit::FAILED);
            }
        }
        // In portions, so that a busy master can answer other requests in between.
        let mut changed_keys = Vec::new();
        let mut failure = None;
        for portion in keys.chunks(PORTION) {
            let Ok(request_id) = RequestId::random() else {
                return Ok(complain(screen, "the system has no randomness"));
            };
            let request = KeyRequest::Act {
                request_id,
                action,
                keys: portion.iter().copied().cloned().collect(),
            };
            match self.store.ask(screen, request).await {
                Ok(reply) => changed_keys.extend(reply.keys),
                Err(why) => {
                    failure = Some(why);
                    break;
                }
            }
        }
        let changed: HashSet<_> = changed_keys
            .iter()
            .map(|key| (&key.id, key.identity))
            .collect();
        let mut code = exit::GOOD;
        for key in &keys {
            if changed.contains(&(&key.id, key.identity)) {
                self.say(screen, &format!("Key for minion {} {done}.", key.id))?;
            } else if failure.is_none() {
                screen.note(format!(
                    "ERROR: Key for minion {} was left alone: it is not {} any more.",
                    key.id,
                    adjective(key.state)
                ));
                code = exit::FAILED;
            }
        }
        if self.format.is_for_programs() {
            let states: Vec<KeyState> = KeyState::ALL
                .into_iter()
                .filter(|state| changed_keys.iter().any(|key| key.state == *state))
                .collect();
            let changed: Vec<&KeyEntry> = changed_keys.iter().collect();
            self.print(
                screen,
                &group(&changed, &states, |_| Description::default()),
            )?;
        }
        if let Some(why) = failure {
            code = complain(screen, &why);
            screen.note(format!(
                "{} of {} keys were {done} before the error; others may have been too. Repeat the command to finish",
                changed_keys.len(),
                keys.len()
            ));
        }
        Ok(code)
    }

    /// Shows the keys that will be changed with their fingerprints, and asks for confirmation unless `-y`
    /// was given.
    async fn ask(
        &self,
        screen: &mut Screen<'_>,
        action: KeyAction,
        done: &str,
        keys: &[&KeyEntry],
    ) -> io::Result<Answer> {
        let states: Vec<KeyState> = KeyState::ALL
            .into_iter()
            .filter(|state| keys.iter().any(|key| key.state == *state))
            .collect();
        let last_seen = LastSeenOfKeys::read(screen, self.store, keys).await;
        let describe = |key: &KeyEntry| Description {
            detail: fingerprint(key),
            remark: last_seen.of(key),
        };
        let listed = render(&group(keys, &states, describe), self.plain_beside());
        self.say(
            screen,
            &format!(
                "The following keys are going to be {done}:\n{}",
                String::from_utf8_lossy(&listed)
            ),
        )?;
        self.confirm(screen, action != KeyAction::Delete).await
    }

    /// Asks for confirmation, unless `-y` was given. `default` is the meaning of an empty answer.
    pub(super) async fn confirm(
        &self,
        screen: &mut Screen<'_>,
        default: bool,
    ) -> io::Result<Answer> {
        if self.yes {
            return Ok(Answer::Yes);
        }
        let (question, default) = match default {
            false => ("Proceed? [N/y] ", "n"),
            true => ("Proceed? [n/Y] ", "y"),
        };
        let beside = self.format.is_for_programs();
        let answer = screen.ask(question, beside, self.store.context()).await?;
        let answer = match answer.as_deref().map(str::trim) {
            // The input has ended, so no answer can come.
            None => {
                screen.prose(beside, "")?;
                return Ok(Answer::Nobody);
            }
            Some("") => default,
            Some(answer) => answer,
        };
        Ok(match answer.starts_with(['y', 'Y']) {
            true => Answer::Yes,
            false => Answer::No,
        })
    }
}
