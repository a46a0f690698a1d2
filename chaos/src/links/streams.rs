//! A link of TCP connections, for tcp and both ports of zeromq.

use std::io;
use std::net::SocketAddr;

use saline_protocol::transport::{Clock, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use super::conditions::{Conditions, cut, occupy, passable};
use super::{MAX_PEERS, Shared};

/// The bytes that pass at once.
const CHUNK: usize = 16 * 1024;

/// The chunks that are under way in one direction: with a delay they are what the wire holds.
const UNDER_WAY: usize = 64;

/// Listens at one port until the link is dropped.
pub(super) async fn open(here: SocketAddr, master: SocketAddr, shared: Shared) -> io::Result<()> {
    let listener = TcpListener::bind(here).await?;
    let tasks = shared.tasks.clone();
    tasks.spawn(async move {
        let stop = shared.stop.clone();
        stop.run_until_cancelled(accept(listener, master, shared))
            .await;
    });
    Ok(())
}

async fn accept(listener: TcpListener, master: SocketAddr, shared: Shared) {
    loop {
        let Ok((minion, _)) = listener.accept().await else {
            // No descriptor is left, perhaps; connections end meanwhile.
            Clock.pause(std::time::Duration::from_millis(50)).await;
            continue;
        };
        if shared.tasks.len() > MAX_PEERS {
            continue;
        }
        let (conditions, stop) = (shared.conditions.clone(), shared.stop.clone());
        shared.tasks.spawn(async move {
            stop.run_until_cancelled(serve(minion, master, conditions))
                .await;
        });
    }
}

/// Passes bytes in both directions until both have ended or the link is cut.
async fn serve(minion: TcpStream, master: SocketAddr, conditions: watch::Receiver<Conditions>) {
    let cuts = conditions.borrow().cuts;
    let pass = async {
        if !passable(&mut conditions.clone()).await {
            return;
        }
        // Without a master the minion's connection ends at once, as a refused one would.
        let Ok(master) = TcpStream::connect(master).await else {
            return;
        };
        let _ = (minion.set_nodelay(true), master.set_nodelay(true));
        let (from_minion, to_minion) = minion.into_split();
        let (from_master, to_master) = master.into_split();
        tokio::join!(
            pass(from_minion, to_master, conditions.clone()),
            pass(from_master, to_minion, conditions.clone()),
        );
    };
    let cut = cut(conditions.clone(), cuts);
    tokio::select! {
        () = pass => {}
        () = cut => {}
    }
}

/// Passes bytes in one direction until it ends, and then tells the other side the end.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut conditions: watch::Receiver<Conditions>,
) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let mut of_reader = conditions.clone();
    let read = async move {
        let mut buffer = vec![0; CHUNK];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if !passable(&mut of_reader).await {
                return;
            }
            let due = Clock.after(of_reader.borrow().delay);
            if sender.send((due, buffer[..count].to_vec())).await.is_err() {
                return;
            }
        }
        // The end of the stream does not pass a black hole either.
        passable(&mut of_reader).await;
    };
    let write = async {
        while let Some((due, chunk)) = receiver.recv().await {
            Clock.until(due).await;
            occupy(&conditions, chunk.len()).await;
            if !passable(&mut conditions).await || to.write_all(&chunk).await.is_err() {
                return;
            }
        }
        // It may have ended already.
        let _ = to.shutdown().await;
    };
    tokio::pin!(read, write);
    tokio::select! {
        () = &mut read => write.await,
        () = &mut write => {}
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use super::super::Link;
    use super::*;
    use crate::arguments::Transport;
    use crate::fleet::Ports;
    use crate::plan::LinkFault;

    /// A "master" that sends back what it gets, and a link to it.
    async fn echo() -> (Link, SocketAddr) {
        let ports = Ports::find(Transport::Tcp).unwrap();
        let master = TcpListener::bind((Ipv4Addr::LOCALHOST, ports.requests))
            .await
            .unwrap();
        let host = IpAddr::V4(Ipv4Addr::new(127, 0, 78, 1));
        let link = Link::open(Transport::Tcp, host, ports).await.unwrap();
        let tracker = tokio_util::task::TaskTracker::new();
        tracker.clone().spawn(async move {
            while let Ok((stream, _)) = master.accept().await {
                tracker.spawn(async move {
                    let (mut from, mut to) = stream.into_split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        (link, SocketAddr::new(host, ports.requests))
    }

    async fn there_and_back(stream: &mut TcpStream) -> Duration {
        let begin = Clock.now();
        stream.write_all(b"ping").await.unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"ping");
        Clock.now() - begin
    }

    #[tokio::test]
    async fn bytes_pass_and_a_delay_holds_them_in_both_directions() {
        let (link, at) = echo().await;
        let mut stream = TcpStream::connect(at).await.unwrap();
        there_and_back(&mut stream).await;
        link.set(LinkFault::Delay(100));
        assert!(there_and_back(&mut stream).await >= Duration::from_millis(200));
        link.clear();
        there_and_back(&mut stream).await;
    }

    #[tokio::test]
    async fn a_throttle_makes_bytes_slow() {
        let (link, at) = echo().await;
        let mut stream = TcpStream::connect(at).await.unwrap();
        there_and_back(&mut stream).await;
        link.set(LinkFault::Throttle(40));
        assert!(there_and_back(&mut stream).await >= Duration::from_millis(200));
    }

    #[tokio::test]
    async fn a_black_hole_holds_everything_until_it_is_gone() {
        let (link, at) = echo().await;
        let mut stream = TcpStream::connect(at).await.unwrap();
        there_and_back(&mut stream).await;
        link.set(LinkFault::BlackHole);
        let short = Clock.after(Duration::from_millis(200));
        stream.write_all(b"held").await.unwrap();
        let mut answer = [0; 4];
        let early = Clock.deadline(short, stream.read_exact(&mut answer)).await;
        assert!(early.is_err());
        link.clear();
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"held");
    }

    #[tokio::test]
    async fn a_cut_ends_connections_and_takes_new_ones() {
        let (link, at) = echo().await;
        let mut stream = TcpStream::connect(at).await.unwrap();
        there_and_back(&mut stream).await;
        link.set(LinkFault::Cut);
        let ended = stream.read(&mut [0; 4]).await;
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        there_and_back(&mut TcpStream::connect(at).await.unwrap()).await;
    }
}
