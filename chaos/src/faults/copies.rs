//! Copies that come to life: a restored master, a cloned minion.

use std::fs;
use std::time::Duration;

use saline_protocol::transport::Clock;

use super::Injector;
use crate::error::{ChaosError, Result};
use crate::fleet::{Daemon, copy_minion, kill_instance, store};
use crate::plan::Fault;
use crate::timeline::{Condition, Loss, Who};

impl Injector<'_> {
    /// Copies the master's store, and puts the copy in its place later.
    pub(super) async fn restore_master(self, later: Duration) -> Result<()> {
        let timeline = &self.fleet.timeline;
        let mut daemon = self.alone_with_master().await;
        self.begin(Fault::RestoreMaster, later);
        let from = timeline.now();
        let backup = self.fleet.operator.back_up().await?;
        timeline.note("the master's store is copied");
        Clock.pause(later).await;
        let _down = self.terminate(Who::Master, &mut daemon).await;
        let place = store(self.fleet.root());
        fs::remove_dir_all(&place).map_err(ChaosError::at(&place))?;
        fs::rename(&backup, &place).map_err(ChaosError::at(&backup))?;
        daemon.start()?;
        let to = timeline.now();
        timeline.lost(Loss::Restored { from, to });
        timeline.note(format_args!(
            "the master is started with its store of {:.3} s",
            from.as_secs_f64()
        ));
        Ok(())
    }

    /// Starts a second machine from a copy of a minion's disk, and ends it later.
    pub(super) async fn clone_minion(self, minion: usize, lasts: Duration) -> Result<()> {
        let Some(seat) = self.fleet.seat(minion) else {
            return Ok(());
        };
        let _identity = seat.identity.lock().await;
        let timeline = &self.fleet.timeline;
        let root = self.fleet.root();
        let at = timeline.now();
        let fault = Fault::CloneMinion(minion);
        self.begin(fault, lasts);
        let _disturbed = timeline.disturb(Who::Minion(minion), Condition::Disturbed);
        let clone = format!("m{minion}-clone-{}", at.as_millis());
        copy_minion(root, &format!("m{minion}"), &clone)?;
        let mut daemon = Daemon::minion(root, &clone, self.fleet.sabotage);
        daemon.start()?;
        Clock.pause(lasts).await;
        daemon.kill();
        kill_instance(root, &clone);
        timeline.lost(Loss::Cloned {
            minion,
            from: at,
            to: timeline.now(),
        });
        timeline.note(format_args!("{clone} is gone"));
        Ok(())
    }
}
