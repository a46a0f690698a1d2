//! A link of UDP datagrams, for quic.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use saline_protocol::transport::{Clock, Instant};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};

use super::conditions::{Conditions, cut, occupy};
use super::{LinkShared, MAX_PEERS};

/// The largest datagram.
const DATAGRAM: usize = 65_535;

/// The datagrams that are under way in one direction; further ones are dropped, as by a router.
const UNDER_WAY: usize = 512;

/// A datagram, and when it may arrive.
type Datagram = (Instant, Vec<u8>);

/// Takes datagrams at one address until the link is dropped, and returns it with its port.
pub(super) async fn open(
    here: SocketAddr,
    master: SocketAddr,
    shared: LinkShared,
) -> io::Result<SocketAddr> {
    let socket = Arc::new(UdpSocket::bind(here).await?);
    let here = socket.local_addr()?;
    let tasks = shared.tasks.clone();
    tasks.spawn(async move {
        let stop = shared.stop.clone();
        stop.run_until_cancelled(receive(socket, master, shared))
            .await;
    });
    Ok(here)
}

/// One direction: the queue of what is under way, and the datagram that the next one overtakes.
struct Lane {
    queue: mpsc::Sender<Datagram>,
    overtaken: Option<Datagram>,
    /// The state of an xorshift64*, so that it is the same every time.
    random: u64,
}

impl Lane {
    fn new(queue: mpsc::Sender<Datagram>) -> Self {
        Self {
            queue,
            overtaken: None,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    fn chance(&mut self, of_a_thousand: u16) -> bool {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) % 1000 < u64::from(of_a_thousand)
    }

    /// Takes a datagram, as far as the conditions let it pass.
    fn pass(&mut self, now: &Conditions, datagram: &[u8]) {
        if now.black_hole || self.chance(now.lost) {
            return;
        }
        let overtaken = self.overtaken.take();
        let datagram = (Clock.after(now.delay), datagram.to_vec());
        if self.chance(now.doubled) {
            // A full queue drops, as a router does.
            let _ = self.queue.try_send(datagram.clone());
        }
        if overtaken.is_none() && self.chance(now.reordered) {
            self.overtaken = Some(datagram);
            return;
        }
        for datagram in [Some(datagram), overtaken].into_iter().flatten() {
            let _ = self.queue.try_send(datagram);
        }
    }
}

/// Passes what minions send on to the master, from a socket of its own for each of them.
async fn receive(socket: Arc<UdpSocket>, master: SocketAddr, shared: LinkShared) {
    let mut peers: HashMap<SocketAddr, Lane> = HashMap::new();
    let mut buffer = vec![0; DATAGRAM];
    loop {
        // An error tells of an earlier datagram that nobody took.
        let Ok((count, peer)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let now = *shared.conditions.borrow();
        peers.retain(|_, lane| !lane.queue.is_closed());
        if !peers.contains_key(&peer) && peers.len() < MAX_PEERS {
            let (sender, queue) = mpsc::channel(UNDER_WAY);
            let back = Arc::clone(&socket);
            let of_peer = shared.clone();
            shared.tasks.spawn(async move {
                let stop = of_peer.stop.clone();
                let serve = serve(back, peer, master, queue, of_peer);
                stop.run_until_cancelled(serve).await;
            });
            peers.insert(peer, Lane::new(sender));
        }
        if let Some(lane) = peers.get_mut(&peer) {
            lane.pass(&now, &buffer[..count]);
        }
    }
}

/// Passes the datagrams of one minion's socket until the link is cut: then the next datagram gets another
/// socket, as after a change of address.
async fn serve(
    minion: Arc<UdpSocket>,
    peer: SocketAddr,
    master: SocketAddr,
    queue: mpsc::Receiver<Datagram>,
    shared: LinkShared,
) {
    let conditions = shared.conditions;
    let cuts = conditions.borrow().cuts;
    let Ok(upstream) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await else {
        return;
    };
    if upstream.connect(master).await.is_err() {
        return;
    }
    let (sender, back) = mpsc::channel(UNDER_WAY);
    let answers = async {
        let mut buffer = vec![0; DATAGRAM];
        let mut lane = Lane::new(sender);
        loop {
            // While no master is there, sending tells so here.
            let Ok(count) = upstream.recv(&mut buffer).await else {
                continue;
            };
            let now = *conditions.borrow();
            lane.pass(&now, &buffer[..count]);
        }
    };
    let to_master = deliver(queue, conditions.clone(), &upstream, master, |bytes| {
        shared.passed.send_modify(|passed| *passed += bytes);
    });
    let to_minion = deliver(back, conditions.clone(), &minion, peer, |_| {});
    tokio::select! {
        () = answers => {}
        () = to_master => {}
        () = to_minion => {}
        () = cut(conditions.clone(), cuts) => {}
    }
}

/// Delivers datagrams in their order, each when it is due and the link is free.
async fn deliver(
    mut queue: mpsc::Receiver<Datagram>,
    conditions: watch::Receiver<Conditions>,
    socket: &UdpSocket,
    to: SocketAddr,
    passed: impl Fn(u64),
) {
    while let Some((due, datagram)) = queue.recv().await {
        Clock.until(due).await;
        occupy(&conditions, datagram.len()).await;
        if !conditions.borrow().black_hole {
            // While nobody is there, it is lost, as on a wire.
            let _ = socket.send_to(&datagram, to).await;
            passed(datagram.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Carries, Link};
    use super::*;

    #[tokio::test]
    async fn datagrams_pass_a_black_hole_drops_them_and_a_cut_changes_the_address() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let master = UdpSocket::bind(any).await.unwrap();
        let routes = [(any, master.local_addr().unwrap())];
        let link = Link::open(Carries::Datagrams, &routes).await.unwrap();
        let minion = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        minion.connect(link.address().unwrap()).await.unwrap();
        let mut buffer = [0; 16];

        minion.send(b"one").await.unwrap();
        let (count, first) = master.recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..count], b"one");
        master.send_to(b"back", first).await.unwrap();
        let count = minion.recv(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..count], b"back");

        link.set(|now| now.black_hole = true);
        minion.send(b"lost").await.unwrap();
        let short = Clock.after(Duration::from_millis(200));
        assert!(
            Clock
                .deadline(short, master.recv_from(&mut buffer))
                .await
                .is_err()
        );

        link.clear();
        link.cut();
        // The one that still meets the old socket may be lost.
        let mut other = first;
        for _ in 0..50 {
            minion.send(b"two").await.unwrap();
            let short = Clock.after(Duration::from_millis(100));
            if let Ok(received) = Clock.deadline(short, master.recv_from(&mut buffer)).await {
                other = received.unwrap().1;
            }
            if other != first {
                break;
            }
        }
        assert_ne!(other, first);
    }

    #[test]
    fn datagrams_are_lost_doubled_and_overtaken_as_the_conditions_say() {
        let arrive = |change: fn(&mut Conditions)| {
            let mut conditions = Conditions::default();
            change(&mut conditions);
            let (sender, mut queue) = mpsc::channel(UNDER_WAY);
            let mut lane = Lane::new(sender);
            for number in 1..=4 {
                lane.pass(&conditions, &[number]);
            }
            let arrived = std::iter::from_fn(|| queue.try_recv().ok());
            arrived
                .map(|(_, datagram)| datagram[0])
                .collect::<Vec<u8>>()
        };
        assert_eq!(arrive(|_| {}), [1, 2, 3, 4]);
        assert!(arrive(|now| now.lost = 1000).is_empty());
        assert!(arrive(|now| now.black_hole = true).is_empty());
        assert_eq!(arrive(|now| now.doubled = 1000), [1, 1, 2, 2, 3, 3, 4, 4]);
        assert_eq!(arrive(|now| now.reordered = 1000), [2, 1, 4, 3]);
    }
}
