//! Faults of disks: a full disk, a loss of power after a change of `spool_sync`, and a minion's disk that is replaced with an
//! earlier copy.

use std::time::Duration;

use rustix::process::Signal;
use saline_protocol::transport::Clock;

use super::Injector;
use super::clocks::WITHOUT_FEATURE;
use crate::disk::SmallDisk;
use crate::error::{ChaosError, Result};
use crate::fleet::{change_spool_sync, copy_disk, journal, kill_instance, put_disk_back};
use crate::plan::Fault;
use crate::timeline::{Condition, Loss, Who};

impl Injector<'_> {
    pub(super) async fn full_disk_of_master(self, lasts: Duration) -> Result<()> {
        let Some(disk) = self.possible(&self.fleet.disk) else {
            return Ok(());
        };
        let _alone = self.alone_with_master().await;
        self.begin(Fault::FullDisk, lasts);
        let _disturbed = self
            .fleet
            .timeline
            .disturb(Who::Master, Condition::Disturbed);
        self.fill(disk, lasts).await?;
        self.fleet.timeline.note("the master's disk has room");
        Ok(())
    }

    pub(super) async fn full_disk_of_minion(self, minion: usize, lasts: Duration) -> Result<()> {
        let Some(seat) = self.fleet.seat(minion) else {
            return Ok(());
        };
        let Some(disk) = self.possible(&seat.disk) else {
            return Ok(());
        };
        let timeline = &self.fleet.timeline;
        let _alone = seat.daemon.lock().await;
        self.begin(Fault::FullDiskOfMinion(minion), lasts);
        let _disturbed = timeline.disturb(Who::Minion(minion), Condition::Disturbed);
        let from = timeline.now();
        self.fill(disk, lasts).await?;
        timeline.lost(Loss::DiskFull {
            minion,
            from,
            to: timeline.now(),
        });
        timeline.note(format_args!("the disk of m{minion} has room"));
        Ok(())
    }

    fn possible<'d>(&self, disk: &'d Result<SmallDisk, String>) -> Option<&'d SmallDisk> {
        let tell = |why: &String| self.fleet.timeline.impossible("full disk", why);
        disk.as_ref().inspect_err(|why| tell(why)).ok()
    }

    async fn fill(self, disk: &SmallDisk, lasts: Duration) -> Result<()> {
        disk.fill().map_err(ChaosError::at(self.fleet.root()))?;
        Clock.pause(lasts).await;
        disk.relieve().map_err(ChaosError::at(self.fleet.root()))
    }

    /// Changes `spool_sync` in the minion's configuration, and has its machine lose its power later. The running process does not
    /// read the changed option.
    pub(super) async fn change_spool_sync(self, minion: usize, later: Duration) -> Result<()> {
        let Some(seat) = self.fleet.seat(minion) else {
            return Ok(());
        };
        let mut daemon = seat.daemon.lock().await;
        change_spool_sync(self.fleet.root(), daemon.instance())?;
        let fault = Fault::ChangeSpoolSync(minion);
        self.begin(fault, later);
        Clock.pause(later).await;
        self.power_loss_of_locked_minion(minion, &mut daemon, later)
            .await
    }

    /// Copies the disk of a minion at one moment, and replaces the disk with the copy later.
    pub(super) async fn roll_back_minion(
        self,
        minion: usize,
        boots: bool,
        later: Duration,
    ) -> Result<()> {
        let Some(seat) = self.fleet.seat(minion) else {
            return Ok(());
        };
        let (timeline, root) = (&self.fleet.timeline, self.fleet.root());
        if boots && !cfg!(feature = "chaos") {
            timeline.impossible("rollback of a minion to another boot", WITHOUT_FEATURE);
            return Ok(());
        }
        let mut daemon = seat.daemon.lock().await;
        self.begin(Fault::RollBackMinion(minion, boots), later);
        let id = daemon.instance().to_owned();
        let copy = root.join(format!("{id}.copy"));
        let from = {
            let _stopped = timeline.disturb(Who::Minion(minion), Condition::Stopped);
            daemon.signal(Signal::STOP);
            let from = timeline.now();
            let copied = copy_disk(root, &id, &copy);
            daemon.signal(Signal::CONT);
            copied?;
            from
        };
        Clock.pause(later).await;
        let _down = timeline.disturb(Who::Minion(minion), Condition::Down);
        daemon.kill();
        kill_instance(root, &id);
        let to = timeline.now();
        put_disk_back(root, &id, &copy)?;
        // The journal of synced bytes describes the files that the copy has replaced.
        let journal = journal(root, &id);
        std::fs::write(&journal, []).map_err(ChaosError::at(&journal))?;
        if boots {
            daemon.boot()?;
        }
        daemon.start()?;
        timeline.lost(Loss::RolledBack { minion, from, to });
        timeline.note(format_args!(
            "m{minion} is started with its disk of {:.3} s",
            from.as_secs_f64()
        ));
        Ok(())
    }
}
