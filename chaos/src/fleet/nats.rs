//! The cluster of NATS that carries everything over the transport `nats`, and the links between its servers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use saline_testing::links::{Carries, Link};
use saline_testing::{NatsServer, Ports};
use tokio::sync::Mutex;

use super::processes::launcher;
use crate::error::{ChaosError, Result};
use crate::plan::NODES;

/// As `docs/nats.md` recommends.
const CONFIGURATION: &str = "ping_interval: 5s\nping_max: 2\n";

/// The servers of NATS, each with a link that the others reach it by.
#[derive(Debug)]
pub(crate) struct NatsCluster {
    nodes: Vec<Mutex<NatsServer>>,
    /// Where the servers take clients.
    pub(crate) clients: Vec<SocketAddr>,
    /// Everything that the servers say to each other.
    pub(crate) routes: Link,
}

impl NatsCluster {
    /// Starts the servers, and waits until they know each other.
    pub(crate) async fn start() -> Result<Self> {
        let mut ports = Vec::new();
        let mut routes = Vec::new();
        for _ in 0..NODES {
            let taken = Ports::find("nats").map_err(ChaosError::Ports)?;
            ports.push(taken.requests);
            let here = SocketAddr::from((Ipv4Addr::LOCALHOST, taken.publications));
            let node = SocketAddr::from((Ipv4Addr::LOCALHOST, taken.requests));
            routes.push((here, node));
        }
        let link = Link::open(Carries::Streams, &routes).await;
        let behind: Vec<SocketAddr> = routes.iter().map(|(here, _)| *here).collect();
        let nodes = NatsServer::cluster_behind(&ports, &behind, CONFIGURATION, Some(&launcher()))
            .ok_or_else(|| {
            let why = "nats-server is not installed (Debian: apt-get install nats-server)";
            ChaosError::Command(why.to_owned())
        })?;
        Ok(Self {
            clients: nodes.iter().map(NatsServer::address).collect(),
            nodes: nodes.into_iter().map(Mutex::new).collect(),
            routes: link.map_err(ChaosError::Ports)?,
        })
    }

    /// Returns a server; they are numbered from 1.
    pub(crate) fn node(&self, number: usize) -> Option<&Mutex<NatsServer>> {
        self.nodes.get(number.checked_sub(1)?)
    }

    /// Returns the section `nats` of a file whose daemon reaches the servers at `host`.
    pub(crate) fn section(&self, host: IpAddr) -> String {
        let at = |server: &SocketAddr| SocketAddr::new(host, server.port());
        let servers: Vec<SocketAddr> = self.clients.iter().map(at).collect();
        NatsServer::section(&servers, "saline.chaos")
    }
}
