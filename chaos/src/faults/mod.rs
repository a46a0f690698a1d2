//! Injects faults, and lifts them.

mod burst;
mod clocks;
mod copies;
mod disks;
mod keys;
mod losses;
mod nodes;

use std::time::Duration;

use rustix::process::Signal;
use saline_protocol::transport::{Clock, Registry};
use saline_testing::links::Link;
use tokio::sync::MutexGuard;

use crate::arguments::Transport;
use crate::error::Result;
use crate::fleet::{Daemon, Fleet};
use crate::links;
use crate::plan::{Fault, FaultPlan, LinkFault};
use crate::publisher::Publisher;
use crate::timeline::{Condition, Disturbing, Who};

/// How long the master is left alone at least between two faults.
const CALM: Duration = Duration::from_secs(2);

/// What faults work on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Injector<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) publisher: &'a Publisher,
    pub(crate) registry: &'a Registry,
}

impl<'a> Injector<'a> {
    /// Injects a fault, waits as long as it lasts, and lifts it. A failure is noted.
    pub(crate) async fn inject(self, plan: &FaultPlan) {
        if let Err(error) = self.carry_out(plan.fault, plan.lasts).await {
            let timeline = &self.fleet.timeline;
            timeline.note(format_args!("{}: failed: {error}", plan.fault));
        }
    }

    async fn carry_out(self, fault: Fault, lasts: Duration) -> Result<()> {
        match fault {
            Fault::KillMaster => {
                let mut daemon = self.alone_with_master().await;
                self.kill(Who::Master, &mut daemon, fault, lasts).await
            }
            Fault::StopMaster => {
                let daemon = self.alone_with_master().await;
                self.stop(Who::Master, &daemon, fault, lasts).await
            }
            Fault::KillMinion(minion) => {
                let Some(seat) = self.fleet.seat(minion) else {
                    return Ok(());
                };
                let mut daemon = seat.daemon.lock().await;
                self.kill(Who::Minion(minion), &mut daemon, fault, lasts)
                    .await
            }
            Fault::StopMinion(minion) => {
                let Some(seat) = self.fleet.seat(minion) else {
                    return Ok(());
                };
                let daemon = seat.daemon.lock().await;
                self.stop(Who::Minion(minion), &daemon, fault, lasts).await
            }
            Fault::Link(minion, link_fault) => {
                self.link_fault(minion, link_fault, fault, lasts).await
            }
            Fault::FullDisk => self.full_disk_of_master(lasts).await,
            Fault::FullDiskOfMinion(minion) => self.full_disk_of_minion(minion, lasts).await,
            Fault::ChangeSpoolSync(minion) => self.change_spool_sync(minion, lasts).await,
            Fault::RollBackMinion(minion, boots) => {
                self.roll_back_minion(minion, boots, lasts).await
            }
            Fault::DeleteKey(minion) => self.delete_key(minion, lasts).await,
            Fault::ReplaceKey(minion) => self.replace_key(minion, lasts).await,
            Fault::RestartMaster => {
                let mut daemon = self.alone_with_master().await;
                self.restart(Who::Master, &mut daemon, fault, lasts).await
            }
            Fault::RestartMinion(minion) => {
                let Some(seat) = self.fleet.seat(minion) else {
                    return Ok(());
                };
                let mut daemon = seat.daemon.lock().await;
                self.restart(Who::Minion(minion), &mut daemon, fault, lasts)
                    .await
            }
            Fault::ClockOfMaster(hours) => self.step_clock(Who::Master, hours, fault, lasts).await,
            Fault::ClockOfMinion(minion, hours) => {
                self.step_clock(Who::Minion(minion), hours, fault, lasts)
                    .await
            }
            Fault::PowerLossOfMinion(minion) => self.power_loss_of_minion(minion, lasts).await,
            Fault::PowerLossOfMaster => self.power_loss_of_master(lasts).await,
            Fault::RestoreMaster => self.restore_master(lasts).await,
            Fault::CloneMinion(minion) => self.clone_minion(minion, lasts).await,
            Fault::KillNode(node) => self.kill_node(node, lasts).await,
            Fault::StopNode(node) => self.stop_node(node, lasts).await,
            Fault::SplitNodes => self.split_nodes(fault, lasts).await,
            Fault::MissedJobs(minion, jobs, first) => {
                self.begin(fault, lasts);
                self.missed_jobs(minion, jobs, first, lasts).await
            }
        }
    }

    /// Waits until no other fault has the master, and it was left alone for a while: a fault that took longer
    /// than planned does not make two out of one.
    async fn alone_with_master(self) -> MutexGuard<'a, Daemon> {
        let daemon = self.fleet.master.lock().await;
        let timeline = &self.fleet.timeline;
        let since = timeline.history().left_alone_since(Who::Master);
        Clock
            .pause((since + CALM).saturating_sub(timeline.now()))
            .await;
        daemon
    }

    fn begin(self, fault: Fault, lasts: Duration) {
        let seconds = lasts.as_secs_f64();
        self.fleet
            .timeline
            .note(format_args!("{fault}, for {seconds:.1} s"));
    }

    async fn kill(
        self,
        who: Who,
        daemon: &mut Daemon,
        fault: Fault,
        lasts: Duration,
    ) -> Result<()> {
        self.begin(fault, lasts);
        let _down = self.fleet.timeline.disturb(who, Condition::Down);
        daemon.kill();
        Clock.pause(lasts).await;
        daemon.start()?;
        self.fleet.timeline.note(format_args!("{who} is started"));
        Ok(())
    }

    /// Ends a daemon as a service manager does, and starts it.
    async fn restart(
        self,
        who: Who,
        daemon: &mut Daemon,
        fault: Fault,
        lasts: Duration,
    ) -> Result<()> {
        self.begin(fault, lasts);
        let _down = self.terminate(who, daemon).await;
        Clock.pause(lasts).await;
        daemon.start()?;
        self.fleet.timeline.note(format_args!("{who} is started"));
        Ok(())
    }

    /// Ends a daemon as a service manager does. It is there until it has ended: a minion lets its jobs end for a while.
    async fn terminate(self, who: Who, daemon: &mut Daemon) -> Disturbing {
        let ending = self.fleet.timeline.disturb(who, Condition::Disturbed);
        daemon.terminate().await;
        let down = self.fleet.timeline.disturb(who, Condition::Down);
        drop(ending);
        down
    }

    async fn stop(self, who: Who, daemon: &Daemon, fault: Fault, lasts: Duration) -> Result<()> {
        self.begin(fault, lasts);
        let _stopped = self.fleet.timeline.disturb(who, Condition::Stopped);
        daemon.signal(Signal::STOP);
        Clock.pause(lasts).await;
        daemon.signal(Signal::CONT);
        self.fleet.timeline.note(format_args!("{who} continues"));
        Ok(())
    }

    async fn link_fault(
        self,
        minion: usize,
        link_fault: LinkFault,
        fault: Fault,
        lasts: Duration,
    ) -> Result<()> {
        let Some(seat) = self.fleet.seat(minion) else {
            return Ok(());
        };
        if link_fault == LinkFault::HalfOpen && self.fleet.transport != Transport::Zeromq {
            let why = "only zeromq has a connection for publications alone";
            self.fleet.timeline.impossible("half-open link", why);
            return Ok(());
        }
        self.begin(fault, lasts);
        let condition = match link_fault {
            LinkFault::BlackHole => Condition::Unreachable,
            _ => Condition::Disturbed,
        };
        let _disturbed = self.fleet.timeline.disturb(Who::Minion(minion), condition);
        links::set(&seat.links, link_fault);
        Clock.pause(lasts).await;
        seat.links.iter().for_each(Link::clear);
        if link_fault != LinkFault::Cut {
            self.fleet
                .timeline
                .note(format_args!("link of m{minion}: clear"));
        }
        Ok(())
    }
}
