//! The verb that tells where and when the minions behind keys were seen last.

use std::sync::Arc;
use std::time::Duration;

use saline_messages::{LastSeen, MAX_LAST_SEEN, MinionId, OperatorReply};
use saline_protocol::transport::Clock;

use crate::keys::KeyAccess;
use crate::peers::DeniedPeers;
use crate::sessions::Sessions;
use crate::wire_time::milliseconds;

/// Tells where and when the minions behind keys were seen last.
#[derive(Debug)]
pub struct LastSeenQueries {
    pub(crate) clock: Clock,
    pub(crate) keys: KeyAccess,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) denied: DeniedPeers,
}

impl LastSeenQueries {
    /// Answers for these minions: with what sessions tell, then what is known of denied keys, then what the
    /// files of pending keys tell of those that the master has not heard since its start.
    pub(super) async fn carry_out(&self, mut minions: Vec<MinionId>) -> OperatorReply {
        minions.truncate(MAX_LAST_SEEN);
        let asked = minions.clone();
        let sources = self.keys.with_minions(move |keys| {
            let sources = asked.iter().map(|id| keys.pending_source(id));
            sources.collect::<Vec<_>>()
        });
        let sources = sources.await.unwrap_or_default();
        let mut last_seen: Vec<LastSeen> = Vec::new();
        for (at, minion) in minions.iter().enumerate() {
            let begin = last_seen.len();
            let seen = |identity, address, ago: Option<Duration>| LastSeen {
                minion: minion.clone(),
                identity,
                is_accepted: false,
                address,
                heard_ms: ago.map(milliseconds),
            };
            last_seen.extend(self.sessions.last_seen(minion));
            let is_known = |last_seen: &[LastSeen], identity: [u8; 32]| {
                let mut own = last_seen[begin..].iter();
                own.any(|known| known.identity == identity)
            };
            if let Some((identity, peer, noted)) = self.denied.last(minion)
                && !is_known(&last_seen, identity)
            {
                let ago = self.clock.now().saturating_duration_since(noted);
                last_seen.push(seen(identity, Some(peer.place()), Some(ago)));
            }
            if let Some((identity, source)) = sources.get(at).copied().flatten()
                && !is_known(&last_seen, identity)
            {
                last_seen.push(seen(identity, Some(source.to_string()), None));
            }
        }
        OperatorReply::LastSeen(last_seen)
    }
}
