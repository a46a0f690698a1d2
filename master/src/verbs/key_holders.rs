//! The verb that says where the holders of keys are, and when they were heard last.

use std::sync::Arc;
use std::time::Duration;

use saline_messages::{KeyHolder, MAX_KEY_HOLDERS, MinionId, OperatorReply};
use saline_protocol::transport::Clock;

use crate::keys::KeyAccess;
use crate::peers::DeniedPeers;
use crate::sessions::Sessions;
use crate::wire_time::milliseconds;

/// Says where the holders of keys are.
#[derive(Debug)]
pub struct KeyHolderQueries {
    pub(crate) clock: Clock,
    pub(crate) keys: KeyAccess,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) denied: DeniedPeers,
}

impl KeyHolderQueries {
    /// Answers for these minions: with what sessions tell, then what is known of denied keys, then what the
    /// files of pending keys tell of those that the master has not heard since its start.
    pub(super) async fn carry_out(&self, mut minions: Vec<MinionId>) -> OperatorReply {
        minions.truncate(MAX_KEY_HOLDERS);
        let asked = minions.clone();
        let sources = self.keys.with_minions(move |keys| {
            let sources = asked.iter().map(|id| keys.pending_source(id));
            sources.collect::<Vec<_>>()
        });
        let sources = sources.await.unwrap_or_default();
        let mut key_holders: Vec<KeyHolder> = Vec::new();
        for (at, minion) in minions.iter().enumerate() {
            let begin = key_holders.len();
            let holder = |identity, address, ago: Option<Duration>| KeyHolder {
                minion: minion.clone(),
                identity,
                is_accepted: false,
                address,
                heard_ms: ago.map(milliseconds),
            };
            for heard_holder in self.sessions.key_holders(minion) {
                let address = heard_holder.address.map(|address| address.to_string());
                key_holders.push(KeyHolder {
                    is_accepted: heard_holder.is_accepted,
                    ..holder(heard_holder.identity.0, address, Some(heard_holder.ago))
                });
            }
            let is_known = |key_holders: &[KeyHolder], identity: [u8; 32]| {
                let mut own = key_holders[begin..].iter();
                own.any(|known| known.identity == identity)
            };
            if let Some((identity, address, noted)) = self.denied.last(minion)
                && !is_known(&key_holders, identity)
            {
                let ago = self.clock.now().saturating_duration_since(noted);
                let address = Some(address.ip().to_string());
                key_holders.push(holder(identity, address, Some(ago)));
            }
            if let Some((identity, source)) = sources.get(at).copied().flatten()
                && !is_known(&key_holders, identity)
            {
                key_holders.push(holder(identity, Some(source.to_string()), None));
            }
        }
        OperatorReply::KeyHolders(key_holders)
    }
}
