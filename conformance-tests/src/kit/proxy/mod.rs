//! A network that is bad on purpose: a proxy between the clients and a server.

mod tcp;
mod udp;
mod weather;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saline_protocol::transport::{Address, Endpoint, HostPort, ServeAt};

use super::World;
use crate::{Expecting, Failure, Outcome, Wire};
use weather::Weather;

/// Stands between the clients and a server whose wire is TCP or UDP.
#[derive(Debug)]
pub struct Proxy {
    /// Where clients connect to.
    pub at: ServeAt,
    weather: Arc<Weather>,
}

impl Proxy {
    /// Starts one in front of a server at `behind`. What it draws follows the world's dice.
    ///
    /// # Errors
    /// When the suite's own sockets fail, or the backend has no wire.
    pub async fn start(world: &Arc<World>, behind: &ServeAt) -> Outcome<Self> {
        let weather = Arc::new(Weather::new(world.dice()));
        let requests = front(world, &behind.requests, &weather).await?;
        let publications = match &behind.publications {
            Some(behind) => Some(front(world, behind, &weather).await?),
            None => None,
        };
        Ok(Self {
            at: ServeAt {
                requests,
                publications,
            },
            weather,
        })
    }

    /// Nothing passes on the connections that stand, and nobody is told. Over TCP new ones work at
    /// once; over UDP, where the suite knows no connections, nothing passes until
    /// [`heal`](Self::heal).
    pub fn black_hole(&self) {
        self.weather.frozen.renew();
        self.weather.hole.store(true, Ordering::Relaxed);
    }

    /// As [`black_hole`](Self::black_hole), and new connections vanish too, for good.
    pub fn vanish(&self) {
        self.weather.gone.store(true, Ordering::Relaxed);
        self.black_hole();
    }

    /// Nothing more comes back from the server on the TCP connections that stand; what clients send
    /// arrives.
    pub fn mute_server(&self) {
        self.weather.mute.renew();
    }

    /// Datagrams pass again.
    pub fn heal(&self) {
        self.weather.hole.store(false, Ordering::Relaxed);
    }

    /// The TCP connections that stand are reset; new ones work.
    pub fn reset(&self) {
        self.weather.reset.renew();
    }

    /// From the next TCP connection on, bytes go one by one.
    pub fn slice(&self, slices: bool) {
        self.weather.slices.store(slices, Ordering::Relaxed);
    }

    /// The TCP connection that carries the byte number `bytes` from a client, from now on, is reset
    /// there; those after it work.
    pub fn cut_after(&self, bytes: usize) {
        self.weather.budget.store(bytes, Ordering::Relaxed);
    }

    /// Everything arrives so much later, and up to `jitter` more, in its order over TCP.
    pub fn delay(&self, delay: Duration, jitter: Duration) {
        self.weather.delay(delay, jitter);
    }

    /// Of a hundred datagrams so many are lost, so many come twice, and so many after their
    /// successor.
    pub fn spoil_datagrams(&self, lost: u64, doubled: u64, swapped: u64) {
        for (chance, value) in [
            (&self.weather.lost, lost),
            (&self.weather.doubled, doubled),
            (&self.weather.swapped, swapped),
        ] {
            chance.store(value, Ordering::Relaxed);
        }
    }

    /// What the client of the last TCP connection that began said first, up to some kilobytes.
    pub fn said_first(&self) -> Vec<u8> {
        self.weather.said().clone()
    }
}

fn socket<T>(result: std::io::Result<T>) -> Outcome<T> {
    result.map_err(|error| Failure::new(format!("a socket of the suite's proxy: {error}")))
}

/// The first socket address of `endpoint`, which was bound.
pub(crate) fn address(endpoint: &Endpoint) -> Outcome<SocketAddr> {
    let first = match &endpoint.address {
        Address::Network { addresses, .. } => addresses.first(),
        Address::Local(_) => None,
    };
    first
        .and_then(HostPort::as_socket_address)
        .expecting("the socket address of what was bound")
}

/// Listens in front of `behind`; returns where.
async fn front(world: &Arc<World>, behind: &Endpoint, weather: &Arc<Weather>) -> Outcome<Endpoint> {
    let server = address(behind)?;
    let at = match world.backend().wire() {
        Some(Wire::Tcp) => tcp::front(world, server, weather).await?,
        Some(Wire::Udp) => udp::front(world, server, weather).await?,
        None => return Err(Failure::new("a proxy for a backend without a wire")),
    };
    let mut front = behind.clone();
    front.address = Address::Network {
        addresses: vec![at.into()],
        path: None,
    };
    Ok(front)
}
