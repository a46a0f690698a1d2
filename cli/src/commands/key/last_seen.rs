//! Where and when the minions behind keys were seen last, beside their keys.

use std::time::Duration;

use saline_data::printable::escape_line;
use saline_messages::{KeyEntry, KeyState, LastSeen, MinionId};

use crate::commands::keystore::KeyStore;
use crate::screen::Screen;

/// Where and when the minions behind some keys were seen last.
#[derive(Debug, Default)]
pub(super) struct LastSeenOfKeys {
    /// None when no master tells.
    known: Option<Vec<LastSeen>>,
}

impl LastSeenOfKeys {
    /// Asks the master about these keys.
    pub(super) async fn read(
        screen: &mut Screen<'_>,
        store: &KeyStore<'_>,
        keys: &[&KeyEntry],
    ) -> Self {
        let mut minions: Vec<MinionId> = keys.iter().map(|key| key.id.clone()).collect();
        minions.sort();
        minions.dedup();
        Self {
            known: store.last_seen(screen, &minions).await,
        }
    }

    /// Returns what is shown beside a key; none when nothing is known.
    pub(super) fn of(&self, key: &KeyEntry) -> Option<String> {
        let known = self.known.as_ref()?;
        let is_it = |seen: &&LastSeen| seen.minion == key.id && seen.identity == key.identity;
        let found = known.iter().find(is_it).filter(|_| key.holds_key());
        let address = found.and_then(|seen| seen.address.as_deref());
        let heard = match found.and_then(|seen| seen.heard_ms) {
            Some(heard) => Some(format!("heard {}", ago(Duration::from_millis(heard)))),
            // The master would know of it: the holder of another key is not noted each time.
            None if matches!(key.state, KeyState::Accepted | KeyState::Pending) => {
                Some("not heard since the master's start".to_owned())
            }
            None => None,
        };
        let address = address.map(|address| escape_line(address).into_owned());
        let shown: Vec<String> = address.into_iter().chain(heard).collect();
        (!shown.is_empty()).then(|| shown.join(", "))
    }
}

/// Returns for people how long ago something was.
fn ago(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, state: KeyState, identity: u8) -> KeyEntry {
        KeyEntry {
            id: MinionId::parse(id).unwrap(),
            state,
            identity: [identity; 32],
        }
    }

    #[test]
    fn what_is_shown_beside_a_key() {
        let seen = |id: &str, identity: u8, address: Option<&str>, heard_s: Option<u64>| LastSeen {
            minion: MinionId::parse(id).unwrap(),
            identity: [identity; 32],
            is_accepted: true,
            address: address.map(str::to_owned),
            heard_ms: heard_s.map(|seconds| seconds * 1000 + 999),
        };
        let last_seen = LastSeenOfKeys {
            known: Some(vec![
                seen("web1", 1, Some("192.0.2.1"), Some(3)),
                seen("web1", 2, Some("192.0.2.2"), Some(119)),
                seen("web2", 1, None, Some(7_199)),
                seen("web3", 1, Some("192.0.2.3"), None),
                seen("web4", 1, Some("2001:db8::\u{1b}[2J"), Some(172_799)),
                seen("web5", 1, None, Some(400_000)),
            ]),
        };
        let shown = [
            key("web1", KeyState::Accepted, 1),
            key("web1", KeyState::Denied, 2),
            key("web2", KeyState::Accepted, 1),
            key("web3", KeyState::Pending, 1),
            key("web4", KeyState::Accepted, 1),
            key("web5", KeyState::Accepted, 1),
            key("web6", KeyState::Accepted, 1),
            key("web6", KeyState::Rejected, 1),
            key("web1", KeyState::Denied, 3),
        ]
        .map(|key| last_seen.of(&key).unwrap_or_default())
        .join("\n");
        insta::assert_snapshot!(shown, @r"
        192.0.2.1, heard 3 s ago
        192.0.2.2, heard 119 s ago
        heard 119 min ago
        192.0.2.3, not heard since the master's start
        2001:db8::\x1b[2J, heard 47 h ago
        heard 4 days ago
        not heard since the master's start
        ");
        let offline = LastSeenOfKeys::default();
        assert_eq!(offline.of(&key("web1", KeyState::Accepted, 1)), None);
    }
}
