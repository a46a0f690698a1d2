//! A link of TCP connections, for tcp and both ports of zeromq.

use std::io;
use std::net::SocketAddr;

use saline_protocol::transport::{Clock, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use super::conditions::{Conditions, cut, occupy, passable};
use super::{LinkShared, MAX_PEERS};

/// The bytes that pass at once.
const CHUNK: usize = 16 * 1024;

/// The chunks that are under way in one direction: with a delay they are what the wire holds.
const UNDER_WAY: usize = 64;

/// Listens at one address until the link is dropped, and returns it with its port.
pub(super) async fn open(
    here: SocketAddr,
    master: SocketAddr,
    shared: LinkShared,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(here).await?;
    let here = listener.local_addr()?;
    let tasks = shared.tasks.clone();
    tasks.spawn(async move {
        let stop = shared.stop.clone();
        stop.run_until_cancelled(accept(listener, master, shared))
            .await;
    });
    Ok(here)
}

async fn accept(listener: TcpListener, master: SocketAddr, shared: LinkShared) {
    loop {
        let Ok((minion, _)) = listener.accept().await else {
            // No descriptor is left, perhaps; connections end meanwhile.
            Clock.pause(std::time::Duration::from_millis(50)).await;
            continue;
        };
        if shared.tasks.len() > MAX_PEERS {
            continue;
        }
        let shared = shared.clone();
        shared.tasks.clone().spawn(async move {
            let stop = shared.stop.clone();
            stop.run_until_cancelled(serve(minion, master, shared))
                .await;
        });
    }
}

/// Passes bytes in both directions until both have ended or the link is cut.
async fn serve(minion: TcpStream, master: SocketAddr, shared: LinkShared) {
    let conditions = shared.conditions;
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
            pass(from_minion, to_master, conditions.clone(), |bytes| {
                shared.passed.send_modify(|passed| *passed += bytes);
            }),
            pass(from_master, to_minion, conditions.clone(), |_| {}),
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
    passed: impl Fn(u64),
) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let mut of_reader = conditions.clone();
    let read = async move {
        let mut buffer = vec![0; CHUNK];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if !passable(&mut of_reader).await {
                return;
            }
            // The sender is held up as by a narrow wire; a queue of what waits for one would hold more than a wire does.
            occupy(&of_reader, count).await;
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
            if !passable(&mut conditions).await || to.write_all(&chunk).await.is_err() {
                return;
            }
            passed(chunk.len() as u64);
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
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::super::{Carries, Link};
    use super::*;

    /// A "master" that sends back what it gets, and a link to it.
    async fn echo() -> (Link, SocketAddr) {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let master = TcpListener::bind(any).await.unwrap();
        let routes = [(any, master.local_addr().unwrap())];
        let link = Link::open(Carries::Streams, &routes).await.unwrap();
        let at = link.address().unwrap();
        let tracker = tokio_util::task::TaskTracker::new();
        tracker.clone().spawn(async move {
            while let Ok((stream, _)) = master.accept().await {
                tracker.spawn(async move {
                    let (mut from, mut to) = stream.into_split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        (link, at)
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
        link.set(|now| now.delay = Duration::from_millis(100));
        assert!(there_and_back(&mut stream).await >= Duration::from_millis(200));
        link.clear();
        there_and_back(&mut stream).await;
    }

    #[tokio::test]
    async fn a_throttle_makes_bytes_slow() {
        let (link, at) = echo().await;
        let mut stream = TcpStream::connect(at).await.unwrap();
        there_and_back(&mut stream).await;
        link.set(|now| now.bytes_a_second = Some(40));
        assert!(there_and_back(&mut stream).await >= Duration::from_millis(200));
    }

    #[tokio::test]
    async fn a_black_hole_holds_everything_until_it_is_gone() {
        let (link, at) = echo().await;
        let mut stream = TcpStream::connect(at).await.unwrap();
        there_and_back(&mut stream).await;
        link.set(|now| now.black_hole = true);
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
        link.cut();
        let ended = stream.read(&mut [0; 4]).await;
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        there_and_back(&mut TcpStream::connect(at).await.unwrap()).await;
    }
}
