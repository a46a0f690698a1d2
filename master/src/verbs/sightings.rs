//! The verb that says where the holders of keys are, and when they were heard last.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::message::{MAX_SIGHTINGS, MinionId, OperatorReply, Sighting};
use saline_protocol::transport::Clock;

use crate::denied_peers::DeniedPeers;
use crate::keys::KeyAccess;
use crate::sessions::Sessions;
use crate::wire_time::milliseconds;

/// Says where the holders of keys are.
#[derive(Debug)]
pub struct SightingQueries {
    pub(crate) clock: Clock,
    pub(crate) keys: KeyAccess,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) denied: DeniedPeers,
}

impl SightingQueries {
    /// Answers for these minions: with what sessions tell, then what is known of denied keys, then what the
    /// files of pending keys tell of those that the master has not heard since its start.
    pub(super) async fn carry_out(&self, mut minions: Vec<MinionId>) -> OperatorReply {
        minions.truncate(MAX_SIGHTINGS);
        let asked = minions.clone();
        let sources = self.keys.with_minions(move |keys| {
            let sources = asked.iter().map(|id| keys.pending_source(id));
            sources.collect::<Vec<_>>()
        });
        let sources = sources.await.unwrap_or_default();
        let mut sightings: Vec<Sighting> = Vec::new();
        for (at, minion) in minions.iter().enumerate() {
            let begin = sightings.len();
            let sighting = |identity, address, ago: Option<Duration>| Sighting {
                minion: minion.clone(),
                identity,
                is_accepted: false,
                address,
                heard_ms: ago.map(milliseconds),
            };
            for sighted in self.sessions.sightings(minion) {
                let address = sighted.address.map(|address| address.to_string());
                sightings.push(Sighting {
                    is_accepted: sighted.is_accepted,
                    ..sighting(sighted.identity.0, address, Some(sighted.ago))
                });
            }
            let is_known = |sightings: &[Sighting], identity: [u8; 32]| {
                let mut own = sightings[begin..].iter();
                own.any(|known| known.identity == identity)
            };
            if let Some((identity, address, noted)) = self.denied.last(minion)
                && !is_known(&sightings, identity)
            {
                let ago = self.clock.now().saturating_duration_since(noted);
                let address = Some(address.ip().to_string());
                sightings.push(sighting(identity, address, Some(ago)));
            }
            if let Some((identity, source)) = sources.get(at).copied().flatten()
                && !is_known(&sightings, identity)
            {
                sightings.push(sighting(identity, Some(source.to_string()), None));
            }
        }
        OperatorReply::Sightings(sightings)
    }
}
