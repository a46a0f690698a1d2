//! Reports the minion's grains to the master, which chooses the minions of a target by them.

use saline_data::Packed;
use saline_messages::{GrainsReport, MinionRequest};
use saline_targeting::MAX_GRAINS;

use super::session_loop::ActiveSession;

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

    async fn report_grains(&self, packed: Packed) {
        let (digest, size) = (GrainsReport::digest_of(&packed), packed.as_bytes().len());
        let report = |grains| MinionRequest::Grains(GrainsReport { digest, grains });
        self.report("grains", report(None), || {
            if size > MAX_GRAINS {
                tracing::warn!(
                    "the grains have {size} bytes, and the master takes {MAX_GRAINS}: it does not know them, and \
                     offers each job for grains to this minion, which decides alone"
                );
                return None;
            }
            Some(report(Some(packed.clone())))
        })
        .await;
    }
}
