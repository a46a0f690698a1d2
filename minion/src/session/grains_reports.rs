//! Reports the minion's grains to the master, which chooses the minions of a target by them.

use saline_data::Packed;
use saline_messages::{Class, GrainsReport, MinionReply, MinionRequest};
use saline_protocol::transport::jitter;
use saline_targeting::MAX_GRAINS;

use super::session_loop::{ANSWER_TIMEOUT, ActiveSession, RETRY_DELAY};
use crate::link::minion_session::{AskError, Ended};

impl ActiveSession {
    /// Reports the grains when the session begins, and whenever they were collected again.
    pub(super) async fn grains_reports(&self) {
        let mut grains = self.parts.host.grains.subscribe();
        loop {
            let packed = Packed::pack(&grains.borrow_and_update());
            self.report_grains(packed).await;
            // Which pillar a minion gets may depend on them.
            self.parts.host.pillar.want(false);
            // An error means that the minion ends.
            if grains.changed().await.is_err() {
                return;
            }
        }
    }

    /// Reports the digest of these grains, so that the master forgets others, and all of them if the master wants
    /// them and they are not too large. Repeats that until the master has answered.
    async fn report_grains(&self, packed: Packed) {
        let digest = GrainsReport::digest_of(&packed);
        let report = |grains| MinionRequest::Grains(GrainsReport { digest, grains });
        let mut request = report(None);
        loop {
            let asked = self.session.ask(Class::Event, &request, ANSWER_TIMEOUT);
            let wait = match asked.await {
                Ok(MinionReply::Done) => return,
                Ok(MinionReply::SendGrains) if packed.as_bytes().len() > MAX_GRAINS => {
                    tracing::warn!(
                        "the grains have {} bytes, and the master takes {MAX_GRAINS}: it does not know them, and \
                         offers each job for grains to this minion, which decides alone",
                        packed.as_bytes().len()
                    );
                    return;
                }
                Ok(MinionReply::SendGrains) => {
                    request = report(Some(packed.clone()));
                    continue;
                }
                Ok(_) => return self.session.end(Ended::Lost),
                Err(AskError::Ended) => return,
                Err(AskError::Busy(after)) => after,
                Err(error @ AskError::Refused(_)) => {
                    tracing::warn!("the master does not take the grains: {error}");
                    return;
                }
                Err(error) => {
                    tracing::debug!("the grains were not reported: {error}");
                    RETRY_DELAY
                }
            };
            self.parts.context.clock.pause(wait + jitter(wait)).await;
        }
    }
}
