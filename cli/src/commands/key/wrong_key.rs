//! Says why no key was changed when `--finger` named another key than the one that is there.

use saline_channel::PublicIdentity;
use saline_messages::{KeyAction, KeyEntry, KeyState};

use super::{adjective, complain};
use crate::exit;
use crate::screen::Screen;

/// The largest number of keys that are named.
const MAX_NAMED: usize = 10;

/// Prints what keys there are instead of the one with this fingerprint, and what to do. Returns the exit code.
pub(super) fn explain<'k>(
    screen: &mut Screen<'_>,
    action: KeyAction,
    fingerprint: &str,
    keys: impl Iterator<Item = &'k KeyEntry>,
) -> u8 {
    let keys: Vec<&KeyEntry> = keys.filter(|key| key.holds_key()).collect();
    let is_it = |key: &&&KeyEntry| PublicIdentity(key.identity).has_fingerprint(fingerprint);
    if let Some(key) = keys.iter().find(is_it) {
        return complain(screen, &in_another_state(action, key));
    }
    complain(
        screen,
        &format!("no key has the fingerprint {fingerprint}, so nothing was changed"),
    );
    for key in keys.iter().take(MAX_NAMED) {
        let theirs = PublicIdentity(key.identity).fingerprint();
        let (id, adjective) = (&key.id, adjective(key.state));
        let remedy = match key.state {
            KeyState::Accepted | KeyState::Pending => String::new(),
            // It is in the place of the key that is meant.
            KeyState::Denied | KeyState::Rejected => format!(
                ". If it is wrong, saline-key -d {id} --finger {theirs} deletes it, and the machine with the right key \
                 is listed when it asks again"
            ),
        };
        screen.note(format!("The {adjective} key of {id} has {theirs}{remedy}"));
    }
    exit::FAILED
}

/// Says that the key is in another state than the action is about.
fn in_another_state(action: KeyAction, key: &KeyEntry) -> String {
    let (id, state) = (&key.id, adjective(key.state));
    let what = format!("the key of {id} with this fingerprint is {state}");
    match (action, key.state) {
        (KeyAction::Accept, KeyState::Accepted) | (KeyAction::Reject, KeyState::Rejected) => {
            format!("{what} already")
        }
        (KeyAction::Accept | KeyAction::Reject, state) if state != KeyState::Pending => {
            format!("{what}: add --include-{}", adjective(state))
        }
        _ => format!("{what}: leave out --only-denied"),
    }
}
