//! Losses of power.

use std::time::Duration;

use saline_protocol::transport::Clock;

use super::Injector;
use super::clocks::WITHOUT_FEATURE;
use crate::error::{ChaosError, Result};
use crate::fleet::{Daemon, journal, kill_instance};
use crate::plan::Fault;
use crate::power::{drop_unsynced, preload_library};
use crate::timeline::{Condition, Loss, Who};

impl Injector<'_> {
    pub(super) async fn power_loss_of_minion(self, minion: usize, lasts: Duration) -> Result<()> {
        let Some(seat) = self.fleet.seat(minion) else {
            return Ok(());
        };
        let mut daemon = seat.daemon.lock().await;
        self.power_loss_of_locked_minion(minion, &mut daemon, lasts)
            .await
    }

    pub(super) async fn power_loss_of_locked_minion(
        self,
        minion: usize,
        daemon: &mut Daemon,
        lasts: Duration,
    ) -> Result<()> {
        if !cfg!(feature = "chaos") {
            // A minion that sees its old boot has no way to know, so it would be judged unfairly.
            self.fleet
                .timeline
                .impossible("power loss of a minion", WITHOUT_FEATURE);
            return Ok(());
        }
        let who = Who::Minion(minion);
        let fault = Fault::PowerLossOfMinion(minion);
        let synced = daemon.syncs_spool();
        if let Some(at) = self.power_loss(who, daemon, fault, lasts).await? {
            self.fleet.timeline.lost(Loss::Power { minion, at, synced });
        }
        Ok(())
    }

    pub(super) async fn power_loss_of_master(self, lasts: Duration) -> Result<()> {
        let mut daemon = self.alone_with_master().await;
        let fault = Fault::PowerLossOfMaster;
        self.power_loss(Who::Master, &mut daemon, fault, lasts)
            .await?;
        Ok(())
    }

    /// Returns when the machine lost its power, if it did.
    async fn power_loss(
        self,
        who: Who,
        daemon: &mut Daemon,
        fault: Fault,
        lasts: Duration,
    ) -> Result<Option<Duration>> {
        let timeline = &self.fleet.timeline;
        if let Err(why) = preload_library() {
            timeline.impossible("power loss", &why);
            return Ok(None);
        }
        self.begin(fault, lasts);
        let _down = timeline.disturb(who, Condition::Down);
        let root = self.fleet.root();
        daemon.kill();
        // What its jobs started is on the same machine.
        kill_instance(root, daemon.instance());
        let at = timeline.now();
        let journal = journal(root, daemon.instance());
        let dropped = drop_unsynced(&journal, daemon.volatile());
        let dropped = dropped.map_err(ChaosError::at(daemon.volatile()))?;
        daemon.boot()?;
        Clock.pause(lasts).await;
        daemon.start()?;
        timeline.note(format_args!(
            "{who} is started; {dropped} unsynced writes are lost"
        ));
        Ok(Some(at))
    }
}
