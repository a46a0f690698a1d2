//! A link between minions and a master: a proxy with an address of its own, which puts faults on it.

mod conditions;
mod datagrams;
mod streams;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use conditions::Conditions;

/// The largest number of connections or peers of one link.
const MAX_PEERS: usize = 256;

/// What a link passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// TCP connections, for tcp and both ports of zeromq.
    Streams,
    /// UDP datagrams, for quic.
    Datagrams,
}

impl Carries {
    /// Returns what a link for this transport passes.
    pub fn of(transport: &str) -> Self {
        match transport {
            "quic" => Self::Datagrams,
            _ => Self::Streams,
        }
    }
}

/// A link to a master. Dropping it ends its tasks.
#[derive(Debug)]
pub struct Link {
    conditions: watch::Sender<Conditions>,
    passed: watch::Receiver<u64>,
    addresses: Vec<SocketAddr>,
    _tasks: DropGuard,
}

/// What the tasks of a link share.
#[derive(Debug, Clone)]
struct LinkShared {
    conditions: watch::Receiver<Conditions>,
    /// The bytes that went to the master.
    passed: Arc<watch::Sender<u64>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Link {
    /// Listens at the first address of each route, and passes everything on to the second.
    ///
    /// # Errors
    /// When an address is taken.
    pub async fn open(carries: Carries, routes: &[(SocketAddr, SocketAddr)]) -> io::Result<Self> {
        let (conditions, receiver) = watch::channel(Conditions::default());
        let (passed, bytes) = watch::channel(0);
        let stop = CancellationToken::new();
        let shared = LinkShared {
            conditions: receiver,
            passed: Arc::new(passed),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        };
        let mut addresses = Vec::new();
        for &(here, master) in routes {
            let shared = shared.clone();
            addresses.push(match carries {
                Carries::Streams => streams::open(here, master, shared).await?,
                Carries::Datagrams => datagrams::open(here, master, shared).await?,
            });
        }
        Ok(Self {
            conditions,
            passed: bytes,
            addresses,
            _tasks: stop.drop_guard(),
        })
    }

    /// Returns the address at which the link takes the connections of its first route.
    pub fn address(&self) -> Option<SocketAddr> {
        self.addresses.first().copied()
    }

    /// Changes the conditions, until [`clear`](Self::clear).
    pub fn set(&self, change: impl FnOnce(&mut Conditions)) {
        self.conditions.send_modify(change);
    }

    /// Lets everything pass again.
    pub fn clear(&self) {
        self.conditions.send_modify(Conditions::clear);
    }

    /// Ends every connection, and takes new ones. Datagrams come from another port from now on, as behind a router
    /// that was restarted.
    pub fn cut(&self) {
        self.conditions
            .send_modify(|conditions| conditions.cuts += 1);
    }

    /// Returns the bytes that went to the master so far.
    pub fn passed(&self) -> u64 {
        *self.passed.borrow()
    }

    /// Waits until so many bytes went to the master.
    pub async fn wait_until_passed(&self, bytes: u64) {
        // An error means that no task of the link runs any more, which a deadline of the caller tells.
        let _ = self.passed.clone().wait_for(|now| *now >= bytes).await;
    }
}
