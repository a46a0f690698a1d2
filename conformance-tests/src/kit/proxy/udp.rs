//! The proxy over UDP.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use saline_protocol::transport::Clock;
use tokio::net::UdpSocket;

use super::weather::Weather;
use super::{World, socket};
use crate::Outcome;

/// The largest datagram that there is.
const DATAGRAM: usize = 65_536;

/// How long a datagram that is to come after its successor waits for one.
const HELD: Duration = Duration::from_millis(10);

/// Listens in front of `server`; returns where.
pub(super) async fn front(
    world: &Arc<World>,
    server: SocketAddr,
    weather: &Arc<Weather>,
) -> Outcome<SocketAddr> {
    let listening = Arc::new(socket(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await)?);
    let at = socket(listening.local_addr())?;
    let (tasks, weather) = (Arc::clone(world), Arc::clone(weather));
    world.spawn(async move {
        let mut flows: HashMap<SocketAddr, Path> = HashMap::new();
        let mut buffer = vec![0; DATAGRAM];
        loop {
            // An error is about an earlier datagram, whose receiver has gone.
            let Ok((count, client)) = listening.recv_from(&mut buffer).await else {
                continue;
            };
            let flow = match flows.entry(client) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(first) => {
                    let Ok(up) = connect(server).await else {
                        continue;
                    };
                    *weather.said() = buffer[..count].to_vec();
                    let up = Arc::new(up);
                    let back = Path::new(Arc::clone(&listening), Some(client), &weather);
                    tasks.spawn(returning(Arc::clone(&up), back, Arc::clone(&tasks)));
                    first.insert(Path::new(up, None, &weather))
                }
            };
            flow.pass(&tasks, buffer[..count].to_vec()).await;
        }
    });
    Ok(at)
}

async fn connect(server: SocketAddr) -> std::io::Result<UdpSocket> {
    let up = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
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
    weather: Arc<Weather>,
    /// The datagram that waits for its successor.
    held: Arc<std::sync::Mutex<Option<Vec<u8>>>>,
}

impl Path {
    fn new(through: Arc<UdpSocket>, to: Option<SocketAddr>, weather: &Arc<Weather>) -> Self {
        Self {
            through,
            to,
            weather: Arc::clone(weather),
            held: Arc::default(),
        }
    }

    /// Lets the weather have its way with `datagram`.
    async fn pass(&mut self, tasks: &Arc<World>, datagram: Vec<u8>) {
        let weather = &self.weather;
        if weather.hole.load(Ordering::Relaxed) || weather.happens(&weather.lost) {
            return;
        }
        let earlier = self.take();
        if earlier.is_none() && weather.happens(&weather.swapped) {
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
        if let Some(wait) = weather.wait(0) {
            let (late, tasks) = (self.clone(), tasks);
            tasks.spawn(async move {
                Clock.pause(wait).await;
                late.send(&datagram).await;
            });
            return;
        }
        self.send(&datagram).await;
        if weather.happens(&weather.doubled) {
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
