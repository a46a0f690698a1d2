//! The link of each minion to the master: a proxy with an address of its own, which injects faults.

mod conditions;
mod datagrams;
mod streams;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::arguments::Transport;
use crate::fleet::Ports;
use crate::plan::LinkFault;
use conditions::Conditions;

/// The largest number of connections or peers of one link.
const MAX_PEERS: usize = 256;

/// The link of a minion. Dropping it ends its tasks.
#[derive(Debug)]
pub(crate) struct Link {
    conditions: watch::Sender<Conditions>,
    _tasks: DropGuard,
}

/// What the tasks of a link share.
#[derive(Debug, Clone)]
struct Shared {
    conditions: watch::Receiver<Conditions>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Link {
    /// Listens on `host` at the master's ports, and passes everything on to 127.0.0.1.
    ///
    /// # Errors
    /// When an address is taken.
    pub(crate) async fn open(transport: Transport, host: IpAddr, ports: Ports) -> io::Result<Self> {
        let (conditions, receiver) = watch::channel(Conditions::default());
        let stop = CancellationToken::new();
        let shared = Shared {
            conditions: receiver,
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        };
        let master = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let here = |port| SocketAddr::new(host, port);
        match transport {
            Transport::Quic => {
                let port = ports.requests;
                datagrams::open(here(port), master(port), shared).await?;
            }
            Transport::Tcp | Transport::Zeromq => {
                for port in [ports.requests, ports.publications] {
                    streams::open(here(port), master(port), shared.clone()).await?;
                }
            }
        }
        Ok(Self {
            conditions,
            _tasks: stop.drop_guard(),
        })
    }

    /// Sets the fault. A cut is over at once; the others last until [`clear`](Self::clear).
    pub(crate) fn set(&self, fault: LinkFault) {
        self.conditions
            .send_modify(|conditions| conditions.set(fault));
    }

    /// Lets everything pass again.
    pub(crate) fn clear(&self) {
        self.conditions.send_modify(Conditions::clear);
    }
}
