//! The faults that a plan may have.

use std::fmt;

use clap::ValueEnum;

use super::Token;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum FaultKind {
    /// kill -9 of the master, and a start
    KillMaster,
    /// kill -9 of a minion, and a start
    KillMinion,
    /// SIGTERM to the master, and a start
    RestartMaster,
    /// SIGTERM to a minion, and a start
    RestartMinion,
    /// SIGSTOP and SIGCONT of the master
    StopMaster,
    /// SIGSTOP and SIGCONT of a minion
    StopMinion,
    /// Delayed bytes between a minion and the master
    Delay,
    /// Few bytes a second between a minion and the master
    Throttle,
    /// No bytes between a minion and the master, and no end of the connection
    BlackHole,
    /// An end of all connections of a minion
    Cut,
    /// No publications to a minion, while its requests pass
    HalfOpen,
    /// A full disk of the master
    FullDisk,
    /// A full disk of a minion
    FullDiskOfMinion,
    /// A step of the master's clock
    ClockOfMaster,
    /// A step of a minion's clock
    ClockOfMinion,
    /// A loss of power of a minion
    PowerLossOfMinion,
    /// A loss of power of the master
    PowerLossOfMaster,
    /// Another `spool_sync` for a minion, and a loss of power
    ChangeSpoolSync,
    /// A disk of a minion that was replaced with an earlier copy
    RollBackMinion,
    /// A store of the master that was replaced with an older copy
    RestoreMaster,
    /// A second machine with the id and the key of a minion
    CloneMinion,
    /// More jobs than one page of missed ones, while a minion is away
    MissedJobs,
    /// A key that an operator deletes; its minion is let in again
    DeleteKey,
    /// A minion with another key under the same id
    ReplaceKey,
    /// kill -9 of a server of NATS, and a start
    KillNode,
    /// SIGSTOP and SIGCONT of a server of NATS
    StopNode,
    /// No bytes between the servers of NATS, and no end of their connections
    SplitNodes,
}

impl FaultKind {
    /// Every kind of fault; those of the servers of NATS where there are some.
    pub(crate) fn all(with_nodes: bool) -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|kind| with_nodes || !kind.is_of_nodes())
            .collect()
    }

    /// Whether it is done to servers of NATS.
    pub(crate) fn is_of_nodes(self) -> bool {
        matches!(self, Self::KillNode | Self::StopNode | Self::SplitNodes)
    }
}

/// A fault of the link between a minion and the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkFault {
    /// Every byte is this many milliseconds late, in each direction.
    Delay(u64),
    /// This many bytes a second pass, in each direction.
    Throttle(u64),
    /// The link delivers nothing in either direction.
    BlackHole,
    /// Every connection ends at once; new ones are taken.
    Cut,
    /// No publications arrive. Only zeromq has a connection for them alone.
    HalfOpen,
}

/// A fault. Minions are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    KillMaster,
    KillMinion(usize),
    RestartMaster,
    RestartMinion(usize),
    StopMaster,
    StopMinion(usize),
    Link(usize, LinkFault),
    FullDisk,
    FullDiskOfMinion(usize),
    /// A step of so many hours.
    ClockOfMaster(i64),
    /// A step of so many hours.
    ClockOfMinion(usize, i64),
    PowerLossOfMinion(usize),
    PowerLossOfMaster,
    ChangeSpoolSync(usize),
    /// Whether the machine is restarted too: a disk may be put back below a system that goes on.
    RollBackMinion(usize, bool),
    RestoreMaster,
    CloneMinion(usize),
    /// So many jobs, whose tokens begin with this one.
    MissedJobs(usize, usize, Token),
    DeleteKey(usize),
    ReplaceKey(usize),
    /// Servers of NATS are numbered from 1.
    KillNode(usize),
    StopNode(usize),
    SplitNodes,
}

impl Fault {
    /// Returns the minion that it concerns, if it is one.
    pub(crate) fn minion(self) -> Option<usize> {
        match self {
            Self::KillMinion(minion)
            | Self::RestartMinion(minion)
            | Self::StopMinion(minion)
            | Self::Link(minion, _)
            | Self::FullDiskOfMinion(minion)
            | Self::ClockOfMinion(minion, _)
            | Self::PowerLossOfMinion(minion)
            | Self::ChangeSpoolSync(minion)
            | Self::RollBackMinion(minion, _)
            | Self::CloneMinion(minion)
            | Self::MissedJobs(minion, ..)
            | Self::DeleteKey(minion)
            | Self::ReplaceKey(minion) => Some(minion),
            Self::KillMaster
            | Self::RestartMaster
            | Self::StopMaster
            | Self::FullDisk
            | Self::ClockOfMaster(_)
            | Self::PowerLossOfMaster
            | Self::RestoreMaster
            | Self::KillNode(_)
            | Self::StopNode(_)
            | Self::SplitNodes => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillMaster => write!(f, "kill -9 of the master"),
            Self::KillMinion(minion) => write!(f, "kill -9 of m{minion}"),
            Self::RestartMaster => write!(f, "SIGTERM to the master"),
            Self::RestartMinion(minion) => write!(f, "SIGTERM to m{minion}"),
            Self::StopMaster => write!(f, "SIGSTOP of the master"),
            Self::StopMinion(minion) => write!(f, "SIGSTOP of m{minion}"),
            Self::Link(minion, LinkFault::Delay(by)) => {
                write!(f, "link of m{minion}: delayed by {by} ms")
            }
            Self::Link(minion, LinkFault::Throttle(bytes)) => {
                write!(f, "link of m{minion}: throttled to {bytes} bytes a second")
            }
            Self::Link(minion, LinkFault::BlackHole) => {
                write!(f, "link of m{minion}: black hole")
            }
            Self::Link(minion, LinkFault::Cut) => write!(f, "link of m{minion}: cut"),
            Self::Link(minion, LinkFault::HalfOpen) => {
                write!(f, "link of m{minion}: no publications")
            }
            Self::FullDiskOfMinion(minion) => write!(f, "full disk of m{minion}"),
            Self::FullDisk => write!(f, "full disk of the master"),
            Self::ClockOfMaster(hours) => write!(f, "clock of the master: {hours:+} h"),
            Self::ClockOfMinion(minion, hours) => write!(f, "clock of m{minion}: {hours:+} h"),
            Self::PowerLossOfMinion(minion) => write!(f, "power loss of m{minion}"),
            Self::PowerLossOfMaster => write!(f, "power loss of the master"),
            Self::ChangeSpoolSync(minion) => {
                write!(f, "another spool_sync for m{minion}, and a power loss")
            }
            Self::RollBackMinion(minion, boots) => {
                let boot = if *boots {
                    "another boot"
                } else {
                    "the same boot"
                };
                write!(f, "copy of the disk of m{minion}, to be put back in {boot}")
            }
            Self::DeleteKey(minion) => write!(f, "key of m{minion}: deleted"),
            Self::ReplaceKey(minion) => write!(f, "key of m{minion}: replaced"),
            Self::RestoreMaster => write!(f, "backup of the master, to be restored"),
            Self::KillNode(node) => write!(f, "kill -9 of server {node} of NATS"),
            Self::StopNode(node) => write!(f, "SIGSTOP of server {node} of NATS"),
            Self::SplitNodes => write!(f, "routes of NATS: black hole"),
            Self::CloneMinion(minion) => write!(f, "clone of m{minion}"),
            Self::MissedJobs(minion, jobs, _) => write!(f, "{jobs} jobs that m{minion} misses"),
        }
    }
}
