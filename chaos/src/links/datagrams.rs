//! A link of UDP datagrams, for quic.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use saline_protocol::transport::{Clock, Instant};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};

use super::conditions::{Conditions, cut, occupy};
use super::{MAX_PEERS, Shared};

/// The largest datagram.
const DATAGRAM: usize = 65_535;

/// The datagrams that are under way in one direction; further ones are dropped, as by a router.
const UNDER_WAY: usize = 512;

/// A datagram, and when it may arrive.
type Datagram = (Instant, Vec<u8>);

/// Takes datagrams at one port until the link is dropped.
pub(super) async fn open(here: SocketAddr, master: SocketAddr, shared: Shared) -> io::Result<()> {
    let socket = Arc::new(UdpSocket::bind(here).await?);
    let tasks = shared.tasks.clone();
    tasks.spawn(async move {
        let stop = shared.stop.clone();
        stop.run_until_cancelled(receive(socket, master, shared))
            .await;
    });
    Ok(())
}

/// Passes what minions send on to the master, from a socket of its own for each of them.
async fn receive(socket: Arc<UdpSocket>, master: SocketAddr, shared: Shared) {
    let mut peers: HashMap<SocketAddr, mpsc::Sender<Datagram>> = HashMap::new();
    let mut buffer = vec![0; DATAGRAM];
    loop {
        // An error tells of an earlier datagram that nobody took.
        let Ok((count, peer)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let now = *shared.conditions.borrow();
        if now.black_hole {
            continue;
        }
        peers.retain(|_, queue| !queue.is_closed());
        if !peers.contains_key(&peer) && peers.len() < MAX_PEERS {
            let (sender, queue) = mpsc::channel(UNDER_WAY);
            let back = Arc::clone(&socket);
            let (conditions, stop) = (shared.conditions.clone(), shared.stop.clone());
            shared.tasks.spawn(async move {
                let serve = serve(back, peer, master, queue, conditions);
                stop.run_until_cancelled(serve).await;
            });
            peers.insert(peer, sender);
        }
        if let Some(queue) = peers.get(&peer) {
            // A full queue drops, as a router does.
            let _ = queue.try_send((Clock.after(now.delay), buffer[..count].to_vec()));
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
    conditions: watch::Receiver<Conditions>,
) {
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
        loop {
            // While no master is there, sending tells so here.
            let Ok(count) = upstream.recv(&mut buffer).await else {
                continue;
            };
            let now = *conditions.borrow();
            if !now.black_hole {
                let _ = sender.try_send((Clock.after(now.delay), buffer[..count].to_vec()));
            }
        }
    };
    let to_master = deliver(queue, conditions.clone(), &upstream, master);
    let to_minion = deliver(back, conditions.clone(), &minion, peer);
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
) {
    while let Some((due, datagram)) = queue.recv().await {
        Clock.until(due).await;
        occupy(&conditions, datagram.len()).await;
        if !conditions.borrow().black_hole {
            // While nobody is there, it is lost, as on a wire.
            let _ = socket.send_to(&datagram, to).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::super::Link;
    use super::*;
    use crate::arguments::Transport;
    use crate::fleet::Ports;
    use crate::plan::LinkFault;

    #[tokio::test]
    async fn datagrams_pass_a_black_hole_drops_them_and_a_cut_changes_the_address() {
        let ports = Ports::find(Transport::Quic).unwrap();
        let master = UdpSocket::bind((Ipv4Addr::LOCALHOST, ports.requests))
            .await
            .unwrap();
        let host = IpAddr::V4(Ipv4Addr::new(127, 0, 78, 2));
        let link = Link::open(Transport::Quic, host, ports).await.unwrap();
        let minion = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        minion.connect((host, ports.requests)).await.unwrap();
        let mut buffer = [0; 16];

        minion.send(b"one").await.unwrap();
        let (count, first) = master.recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..count], b"one");
        master.send_to(b"back", first).await.unwrap();
        let count = minion.recv(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..count], b"back");

        link.set(LinkFault::BlackHole);
        minion.send(b"lost").await.unwrap();
        let short = Clock.after(Duration::from_millis(200));
        assert!(
            Clock
                .deadline(short, master.recv_from(&mut buffer))
                .await
                .is_err()
        );

        link.clear();
        link.set(LinkFault::Cut);
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
}
