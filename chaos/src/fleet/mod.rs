//! The system under test: a master, its minions and their links, as real processes on loopback.

mod config;
mod daemon;
mod nats;
mod operator;
mod processes;
mod services;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_protocol::transport::{Clock, Instant};
use saline_testing::Ports;
use saline_testing::links::Link;
use tokio::sync::Mutex;

use crate::arguments::{Arguments, Transport};
use crate::disk::SmallDisk;
use crate::error::{ChaosError, Result};
use crate::links;
use crate::sabotage::Sabotage;
use crate::timeline::{Condition, Timeline, Who};

pub(crate) use config::{
    change_spool_sync, copy_disk, copy_minion, journal, keep_master_state, ledgers, put_disk_back,
    remove_identity, set_clock, store,
};
pub(crate) use daemon::{Daemon, ProcessUsage};
pub(crate) use nats::NatsCluster;
pub(crate) use operator::Operator;
pub(crate) use processes::kill_instance;
pub(crate) use services::{cached_files, database, fetched, fetched_files, last_made, served};

/// How long the master and all minions may take to be there at first.
const START: Duration = Duration::from_secs(60);

/// How often it is looked whether something has become so, where nothing tells.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The sizes of the disks of the master and of each minion, in bytes. They hold what a run keeps there, with its largest
/// returns.
const MASTER_DISK: u64 = 8 * 1024 * 1024 * 1024;
const MINION_DISK: u64 = 256 * 1024 * 1024;

/// A minion of the fleet: its process, and its link to the master.
#[derive(Debug)]
pub(crate) struct MinionSeat {
    pub(crate) daemon: Mutex<Daemon>,
    /// Locked while there is a clone of the minion, and, before `daemon`, while the minion gets another key: a clone with the
    /// earlier key would take the place of the minion for good.
    pub(crate) identity: Mutex<()>,
    /// One link for each port of the master; with zeromq the second one carries publications.
    pub(crate) links: Vec<Link>,
    /// The small disk of the minion, or why there is none.
    pub(crate) disk: Result<SmallDisk, String>,
}

/// The system under test.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) master: Mutex<Daemon>,
    pub(crate) minions: Vec<MinionSeat>,
    pub(crate) operator: Operator,
    pub(crate) timeline: Timeline,
    /// The small disk of the master, or why there is none.
    pub(crate) disk: Result<SmallDisk, String>,
    pub(crate) sabotage: Option<Sabotage>,
    pub(crate) transport: Transport,
    /// The servers of NATS, where they carry everything.
    pub(crate) nats: Option<NatsCluster>,
    root: PathBuf,
}

impl Fleet {
    /// Writes the configurations below `root` and opens the links. Starts no process.
    pub(crate) async fn new(
        root: &Path,
        arguments: &Arguments,
        own_mounts: Result<(), String>,
    ) -> Result<Self> {
        let (transport, sabotage) = (arguments.transport, arguments.sabotage);
        config::make_folders(root)?;
        // Before anything is written below it.
        let disk = own_mounts
            .clone()
            .and_then(|()| SmallDisk::mount(&config::master_state(root), MASTER_DISK));
        let ports = Ports::find(transport.name()).map_err(ChaosError::Ports)?;
        let nats = match transport {
            Transport::Nats => Some(NatsCluster::start().await?),
            _ => None,
        };
        let section = |host| {
            nats.as_ref()
                .map(|nats| nats.section(host))
                .unwrap_or_default()
        };
        let of_master = section(IpAddr::V4(Ipv4Addr::LOCALHOST));
        config::write_master(root, transport, ports, arguments.heartbeat(), &of_master)?;
        let passes = match &nats {
            Some(nats) => nats.clients.iter().map(SocketAddr::port).collect(),
            None => vec![ports.requests, ports.publications],
        };
        let timeline = Timeline::new();
        let mut seats = Vec::new();
        for number in 1..=usize::from(arguments.minions) {
            let host = minion_address(number);
            let links = links::open(transport, host, &passes)
                .await
                .map_err(ChaosError::Ports)?;
            config::write_minion(root, number, transport, host, ports, &section(host))?;
            let instance = format!("m{number}");
            let disk = own_mounts.clone().and_then(|()| {
                SmallDisk::mount(&config::minion_state(root, &instance), MINION_DISK)
            });
            seats.push(MinionSeat {
                daemon: Mutex::new(Daemon::minion(root, &instance, sabotage)),
                identity: Mutex::default(),
                links,
                disk,
            });
        }
        Ok(Self {
            master: Mutex::new(Daemon::master(root, sabotage)),
            minions: seats,
            operator: Operator::new(root),
            timeline,
            disk,
            sabotage,
            transport,
            nats,
            root: root.to_owned(),
        })
    }

    /// Starts the master and all minions, and waits until the master calls all of them present.
    pub(crate) async fn start(&self) -> Result<()> {
        let deadline = Clock.after(START);
        self.master.lock().await.start()?;
        while self.operator.present().await.is_none() {
            self.look_again(deadline, "the start of the master").await?;
        }
        for seat in &self.minions {
            seat.daemon.lock().await.start()?;
        }
        loop {
            let present = self.operator.present().await.unwrap_or_default();
            if present.len() == self.minions.len() {
                return Ok(());
            }
            self.look_again(deadline, "the presence of all minions")
                .await?;
        }
    }

    async fn look_again(&self, deadline: Instant, what: &str) -> Result<()> {
        if Clock.now() > deadline {
            return Err(ChaosError::Deadline {
                what: what.to_owned(),
                within: START,
                logs: config::logs(&self.root),
            });
        }
        Clock.pause(POLL_INTERVAL).await;
        Ok(())
    }

    /// Returns the seat of a minion; they are numbered from 1.
    pub(crate) fn seat(&self, minion: usize) -> Option<&MinionSeat> {
        self.minions.get(minion.checked_sub(1)?)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Starts every daemon again that ended by itself, as a supervisor would, and notes that it did.
    /// Daemons that are under a fault are left alone.
    pub(crate) async fn restart_ended(&self) {
        let master = self.master.try_lock().ok().into_iter();
        let minions = self.minions.iter().enumerate();
        let minions = minions.filter_map(|(index, seat)| {
            let daemon = seat.daemon.try_lock().ok()?;
            Some((Who::Minion(index + 1), daemon))
        });
        for (who, mut daemon) in master.map(|master| (Who::Master, master)).chain(minions) {
            let Some(status) = daemon.ended() else {
                continue;
            };
            let tail = daemon.last_log_lines(3);
            self.timeline
                .ended_by_itself(who, format!("{status}; {tail}"));
            let _down = self.timeline.disturb(who, Condition::Down);
            if let Err(error) = daemon.start() {
                self.timeline.note(format!("{who} does not start: {error}"));
            }
        }
    }

    /// Kills every process of the run, those that jobs started included.
    pub(crate) async fn end(&self) {
        self.master.lock().await.kill();
        for seat in &self.minions {
            seat.daemon.lock().await.kill();
        }
        processes::kill_all_below(&self.root);
    }
}

/// Returns the address at which one minion reaches the master: its own, so that its link can fail alone.
fn minion_address(number: usize) -> IpAddr {
    let number = u8::try_from(number).unwrap_or(u8::MAX);
    IpAddr::V4(Ipv4Addr::new(127, 0, 77, number))
}
