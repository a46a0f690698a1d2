//! A network that is bad on purpose: a proxy between the clients and a server.

mod network_faults;
mod stream;
mod udp;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saline_protocol::transport::{Address, Endpoint, ServeAt};

use super::World;
use super::raw::{Place, address};
use crate::{Failure, Outcome, Wire};
use network_faults::NetworkFaults;

/// Stands between the clients and a server that has a [`Wire`], or whose connections the suite can open and accept. What is
/// said here of TCP holds for Unix sockets and for these connections as well; packets stay whole, and connections end where TCP's
/// are reset.
#[derive(Debug)]
pub struct Proxy {
    /// Where clients connect to.
    pub at: ServeAt,
    faults: Arc<NetworkFaults>,
}

impl Proxy {
    /// Starts one in front of a server at `behind`. What it draws follows the world's dice.
    ///
    /// # Errors
    /// When the suite's own sockets fail, or the backend has no wire.
    pub async fn start(world: &Arc<World>, behind: &ServeAt) -> Outcome<Self> {
        let faults = Arc::new(NetworkFaults::new(world.dice()));
        let requests = front(world, &behind.requests, &faults, 0).await?;
        let publications = match &behind.publications {
            Some(behind) => Some(front(world, behind, &faults, 1).await?),
            None => None,
        };
        Ok(Self {
            at: ServeAt {
                requests,
                publications,
            },
            faults,
        })
    }

    /// Nothing passes on the connections that stand, and nobody is told. Over TCP new ones work at
    /// once; over UDP, where the suite knows no connections, nothing passes until
    /// [`heal`](Self::heal).
    pub fn black_hole(&self) {
        self.faults.frozen.renew();
        self.faults.hole.store(true, Ordering::Relaxed);
    }

    /// As [`black_hole`](Self::black_hole), and new connections vanish too, for good.
    pub fn vanish(&self) {
        self.faults.gone.store(true, Ordering::Relaxed);
        self.black_hole();
    }

    /// Nothing more comes back from the server on the TCP connections that stand, and over UDP at all until
    /// [`heal`](Self::heal); what clients send arrives.
    pub fn mute_server(&self) {
        self.faults.mute.renew();
        self.faults.unheard.store(true, Ordering::Relaxed);
    }

    /// New TCP connections are closed as soon as they are there, or carried as before. Over UDP nothing passes meanwhile.
    pub fn hang_up(&self, hang_up: bool) {
        self.faults.closed.store(hang_up, Ordering::Relaxed);
    }

    /// TCP connections that clients have begun so far.
    pub fn visits(&self) -> usize {
        self.faults.visits.load(Ordering::Relaxed)
    }

    /// Datagrams that clients have sent so far.
    pub fn datagrams(&self) -> usize {
        self.faults.datagrams.load(Ordering::Relaxed)
    }

    /// Each direction of a client carries so many bytes in a second.
    pub fn throttle(&self, pace: usize) {
        self.faults.pace.store(pace, Ordering::Relaxed);
    }

    /// Records from now on what clients say over TCP.
    pub fn record(&self) {
        *self.faults.recorded() = Some(Vec::new());
    }

    /// What was recorded since it was last taken, for each front apart: requests, publications.
    pub fn recorded(&self) -> [Vec<Vec<u8>>; 2] {
        let pieces = self.faults.recorded().as_mut().map(std::mem::take);
        let mut fronts = [Vec::new(), Vec::new()];
        for (front, piece) in pieces.into_iter().flatten() {
            fronts[front].push(piece);
        }
        fronts
    }

    /// Datagrams pass again.
    pub fn heal(&self) {
        self.faults.hole.store(false, Ordering::Relaxed);
        self.faults.unheard.store(false, Ordering::Relaxed);
    }

    /// The TCP connections that stand are reset; new ones work.
    pub fn reset(&self) {
        self.faults.reset.renew();
    }

    /// From the next TCP connection on, bytes go one by one.
    pub fn slice(&self, slices: bool) {
        self.faults.slices.store(slices, Ordering::Relaxed);
    }

    /// The TCP connection that carries the byte number `bytes` from a client, from now on, is reset
    /// there; those after it work.
    pub fn cut_after(&self, bytes: usize) {
        self.faults.budget.store(bytes, Ordering::Relaxed);
    }

    /// Everything arrives so much later, and up to `jitter` more, in its order over TCP.
    pub fn delay(&self, delay: Duration, jitter: Duration) {
        self.faults.delay(delay, jitter);
    }

    /// Of a hundred datagrams so many are lost, so many come twice, and so many after their
    /// successor.
    pub fn spoil_datagrams(&self, lost: u64, doubled: u64, swapped: u64) {
        for (chance, value) in [
            (&self.faults.lost, lost),
            (&self.faults.doubled, doubled),
            (&self.faults.swapped, swapped),
        ] {
            chance.store(value, Ordering::Relaxed);
        }
    }

    /// Beside each datagram of a client come malformed ones from the same address: cut short, changed, and empty ones.
    pub fn add_malformed(&self, malformed: bool) {
        self.faults.malformed.store(malformed, Ordering::Relaxed);
    }

    /// What the client of the last TCP connection that began said first, up to some kilobytes.
    pub fn said_first(&self) -> Vec<u8> {
        self.faults.said().clone()
    }
}

fn socket<T>(result: std::io::Result<T>) -> Outcome<T> {
    result.map_err(|error| Failure::new(format!("a socket of the suite's proxy: {error}")))
}

/// Listens in front of `behind`, as the front of this number; returns where.
async fn front(
    world: &Arc<World>,
    behind: &Endpoint,
    faults: &Arc<NetworkFaults>,
    number: usize,
) -> Outcome<Endpoint> {
    let at = match world.wire() {
        Some(Wire::Udp) => Place::Address(udp::front(world, address(behind)?, faults).await?),
        None if !world.is_inside() => {
            return Err(Failure::new("a proxy for a backend without a wire"));
        }
        _ => stream::front(world, world.place(behind)?, faults, number).await?,
    };
    let mut front = behind.clone();
    front.address = match at {
        Place::Address(at) => Address::Network {
            addresses: vec![at.into()],
            path: None,
        },
        Place::Path(path, _) => Address::Local(path),
        // Its options may be a part of where it is.
        Place::Pipe(place) => return Ok(place.endpoint().clone()),
    };
    Ok(front)
}
