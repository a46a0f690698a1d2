//! The proxy over UDP.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use saline_protocol::transport::{Clock, Instant};
use tokio::net::UdpSocket;

use super::network_faults::NetworkFaults;
use super::{World, socket};
use crate::Outcome;

/// The largest datagram that there is.
const DATAGRAM: usize = 65_536;

/// How long a datagram that is to come after its successor waits for one.
const HELD: Duration = Duration::from_millis(10);

/// Bytes that wait in one direction of one client where so many are carried in a second; more are lost, as in a router.
const WAITING: usize = 64 * 1024;

/// Listens in front of `server`; returns where.
pub(super) async fn front(
    world: &Arc<World>,
    server: SocketAddr,
    faults: &Arc<NetworkFaults>,
) -> Outcome<SocketAddr> {
    let listening = Arc::new(socket(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await)?);
    let at = socket(listening.local_addr())?;
    let (tasks, faults) = (Arc::clone(world), Arc::clone(faults));
    world.spawn(async move {
        let mut flows: HashMap<SocketAddr, Path> = HashMap::new();
        let mut buffer = vec![0; DATAGRAM];
        loop {
            // An error is about an earlier datagram, whose receiver has gone.
            let Ok((count, client)) = listening.recv_from(&mut buffer).await else {
                continue;
            };
            faults.datagrams.fetch_add(1, Ordering::Relaxed);
            if faults.closed.load(Ordering::Relaxed) {
                continue;
            }
            let flow = match flows.entry(client) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(first) => {
                    let Ok(up) = connect(server).await else {
                        continue;
                    };
                    *faults.said() = buffer[..count].to_vec();
                    let up = Arc::new(up);
                    let back = Path::new(Arc::clone(&listening), Some(client), &faults);
                    tasks.spawn(returning(Arc::clone(&up), back, Arc::clone(&tasks)));
                    first.insert(Path::new(up, None, &faults))
                }
            };
            flow.pass(&tasks, buffer[..count].to_vec()).await;
        }
    });
    Ok(at)
}

async fn connect(server: SocketAddr) -> std::io::Result<UdpSocket> {
    // Not any address: a port taken of all of them could be that of a server which comes back.
    let up = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    up.connect(server).await?;
    Ok(up)
}

/// Carries what the server sends back to one client.
async fn returning(up: Arc<UdpSocket>, mut back: Path, tasks: Arc<World>) {
    let mut buffer = vec![0; DATAGRAM];
    loop {
        // The server may not be there yet, or no more.
        match up.recv(&mut buffer).await {
            Ok(count) => back.pass(&tasks, buffer[..count].to_vec()).await,
            Err(_) => Clock.pause(HELD).await,
        }
    }
}

/// One direction of one client.
#[derive(Debug, Clone)]
struct Path {
    through: Arc<UdpSocket>,
    /// Where to, unless the socket is connected.
    to: Option<SocketAddr>,
    faults: Arc<NetworkFaults>,
    /// The datagram that waits for its successor.
    held: Arc<std::sync::Mutex<Option<Vec<u8>>>>,
    /// When all that waits will have been carried, where so many bytes are in a second.
    carried: Instant,
}

impl Path {
    fn new(through: Arc<UdpSocket>, to: Option<SocketAddr>, faults: &Arc<NetworkFaults>) -> Self {
        Self {
            through,
            to,
            faults: Arc::clone(faults),
            held: Arc::default(),
            carried: Clock.now(),
        }
    }

    /// How long a datagram of `count` bytes waits for those before it; `None` when it is lost, because too many do.
    fn queue(&mut self, count: usize) -> Option<Duration> {
        let pace @ 1.. = self.faults.pace.load(Ordering::Relaxed) else {
            return Some(Duration::ZERO);
        };
        let time = |bytes: usize| Duration::from_micros((bytes * 1_000_000 / pace) as u64);
        let now = Clock.now();
        let begins = self.carried.max(now);
        if begins - now > time(WAITING) {
            return None;
        }
        self.carried = begins + time(count);
        Some(self.carried - now)
    }

    /// Applies the faults to `datagram`.
    async fn pass(&mut self, tasks: &Arc<World>, datagram: Vec<u8>) {
        let faults = Arc::clone(&self.faults);
        let is_set = |fault: &AtomicBool| fault.load(Ordering::Relaxed);
        let from_server = self.to.is_some();
        if is_set(&faults.hole)
            || is_set(&faults.closed)
            || (from_server && is_set(&faults.unheard))
            || faults.happens(&faults.lost)
        {
            return;
        }
        if !from_server && is_set(&faults.malformed) {
            for malformed in faults.malformed(&datagram) {
                self.send(&malformed).await;
            }
        }
        let earlier = self.take();
        if earlier.is_none() && faults.happens(&faults.swapped) {
            self.hold(datagram);
            let late = self.clone();
            tasks.spawn(async move {
                Clock.pause(HELD).await;
                if let Some(datagram) = late.take() {
                    late.send(&datagram).await;
                }
            });
            return;
        }
        let Some(queued) = self.queue(datagram.len()) else {
            return;
        };
        let wait = queued + self.faults.wait(0).unwrap_or_default();
        if !wait.is_zero() {
            let (late, tasks) = (self.clone(), tasks);
            tasks.spawn(async move {
                Clock.pause(wait).await;
                late.send(&datagram).await;
            });
            return;
        }
        self.send(&datagram).await;
        if faults.happens(&faults.doubled) {
            self.send(&datagram).await;
        }
        if let Some(earlier) = earlier {
            self.send(&earlier).await;
        }
    }

    /// What cannot be sent is lost, as datagrams are.
    async fn send(&self, datagram: &[u8]) {
        let _ = match self.to {
            Some(to) => self.through.send_to(datagram, to).await,
            None => self.through.send(datagram).await,
        };
    }

    fn take(&self) -> Option<Vec<u8>> {
        let held = self.held.lock();
        held.unwrap_or_else(std::sync::PoisonError::into_inner)
            .take()
    }

    fn hold(&self, datagram: Vec<u8>) {
        let held = self.held.lock();
        *held.unwrap_or_else(std::sync::PoisonError::into_inner) = Some(datagram);
    }
}
