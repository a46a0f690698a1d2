//! Connections over UDP: numbered segments that are sent again until they are acknowledged. A client says hello, gets a cookie that
//! is made of its address, and is welcome with that; before, nothing is kept of it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::{Clock, Context};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::UdpSocket;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::wire_fault::WireFault;

const HELLO: u8 = 1;
const COOKIE: u8 = 2;
const WELCOME: u8 = 3;
const DATA: u8 = 4;
const ACK: u8 = 5;
const BYE: u8 = 6;

/// A kind and a number stand before the bytes of a segment.
const HEAD: usize = 5;
/// Bytes of a segment.
const SEGMENT: usize = 1200;
/// Segments that are not acknowledged, and those that came too early.
const WINDOW: usize = 32;
/// Bytes of a connection on their way inside of this process, each way.
const INSIDE: usize = 64 * 1024;
/// When what is not acknowledged is sent again, and how many segments of it.
const AGAIN: Duration = Duration::from_millis(50);
const AT_ONCE: usize = 4;
/// How long an end that has finished waits for the last acknowledgements.
const FAREWELL: Duration = Duration::from_millis(200);

/// Where the datagrams of one connection go.
#[derive(Debug, Clone)]
struct Way {
    socket: Arc<UdpSocket>,
    /// Unless the socket is connected.
    to: Option<SocketAddr>,
}

impl Way {
    /// Sends a datagram, which is lost where the socket does not take it.
    async fn send(&self, datagram: &[u8]) {
        let _ = match self.to {
            Some(to) => self.socket.send_to(datagram, to).await,
            None => self.socket.send(datagram).await,
        };
    }

    async fn send_number(&self, kind: u8, number: u32, bytes: &[u8]) {
        let mut datagram = vec![kind];
        datagram.extend_from_slice(&number.to_be_bytes());
        datagram.extend_from_slice(bytes);
        self.send(&datagram).await;
    }
}

/// Carries one connection between `near` and what has `arrived`, until either ends.
async fn carry(near: DuplexStream, mut arrived: mpsc::Receiver<Vec<u8>>, way: Way) {
    let (mut from, mut to) = tokio::io::split(near);
    let mut unacknowledged: VecDeque<Vec<u8>> = VecDeque::new();
    let (mut first, mut expected) = (0_u32, 0_u32);
    let mut early: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let mut ready: Vec<u8> = Vec::new();
    let mut buffer = vec![0; SEGMENT];
    let mut again = Clock.after(AGAIN);
    let mut end = None;
    while end.is_none() || !unacknowledged.is_empty() {
        let last = end.unwrap_or(again);
        tokio::select! {
            // What has no room waits in the channel, which has room for a window.
            datagram = arrived.recv(), if ready.len() < INSIDE => {
                let Some(datagram) = datagram else { break };
                if datagram.first() == Some(&BYE) {
                    break;
                }
                let Some((head, bytes)) = datagram.split_at_checked(HEAD) else { continue };
                let number = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
                match head[0] {
                    DATA => {
                        let ahead = number.wrapping_sub(expected) as usize;
                        if ahead < WINDOW {
                            early.insert(number, bytes.to_vec());
                        }
                        while let Some(bytes) = early.remove(&expected) {
                            ready.extend_from_slice(&bytes);
                            expected = expected.wrapping_add(1);
                        }
                        way.send_number(ACK, expected, &[]).await;
                    }
                    ACK => {
                        let count = number.wrapping_sub(first) as usize;
                        if count <= unacknowledged.len() {
                            unacknowledged.drain(..count);
                            first = number;
                            again = Clock.after(AGAIN);
                        }
                    }
                    _ => {}
                }
            }
            count = from.read(&mut buffer), if end.is_none() && unacknowledged.len() < WINDOW => {
                let Ok(count @ 1..) = count else {
                    end = Some(Clock.after(FAREWELL));
                    continue;
                };
                let number = first.wrapping_add(unacknowledged.len() as u32);
                if unacknowledged.is_empty() {
                    again = Clock.after(AGAIN);
                }
                way.send_number(DATA, number, &buffer[..count]).await;
                unacknowledged.push_back(buffer[..count].to_vec());
            }
            written = to.write(&ready), if !ready.is_empty() => match written {
                Ok(count @ 1..) => drop(ready.drain(..count)),
                _ => break,
            },
            () = Clock.until(again), if !unacknowledged.is_empty() => {
                for (number, bytes) in (first..).zip(&unacknowledged).take(AT_ONCE) {
                    way.send_number(DATA, number, bytes).await;
                }
                again = Clock.after(AGAIN);
            }
            () = Clock.until(last), if end.is_some() => break,
        }
    }
    way.send(&[BYE]).await;
}

/// A UDP socket that takes connections.
#[derive(Debug)]
pub struct UdpListener {
    accepted: Mutex<mpsc::Receiver<DuplexStream>>,
    pub at: SocketAddr,
    _end: DropGuard,
}

impl UdpListener {
    pub async fn bind(
        at: (&str, u16),
        context: &Context,
        fault: WireFault,
    ) -> io::Result<UdpListener> {
        let socket = Arc::new(UdpSocket::bind(at).await?);
        let at = socket.local_addr()?;
        let (accepted, taken) = mpsc::channel(4096);
        let end = context.cancel.child_token();
        let driver = Driver {
            socket,
            accepted,
            peers: HashMap::new(),
            secret: RandomState::new(),
            context: context.clone(),
            fault,
        };
        context.spawn(driver.run(end.clone()));
        Ok(Self {
            accepted: Mutex::new(taken),
            at,
            _end: end.drop_guard(),
        })
    }

    pub async fn accept(&self) -> io::Result<DuplexStream> {
        match self.accepted.lock().await.recv().await {
            Some(stream) => Ok(stream),
            // As when the driver has died: nobody comes any more.
            None => std::future::pending().await,
        }
    }
}

/// Reads the socket, and finds the connection of each datagram.
struct Driver {
    socket: Arc<UdpSocket>,
    accepted: mpsc::Sender<DuplexStream>,
    peers: HashMap<SocketAddr, mpsc::Sender<Vec<u8>>>,
    secret: RandomState,
    context: Context,
    fault: WireFault,
}

impl Driver {
    async fn run(mut self, end: CancellationToken) {
        let mut buffer = vec![0; 65_536];
        loop {
            let received = tokio::select! {
                () = end.cancelled() => return,
                received = self.socket.recv_from(&mut buffer) => received,
            };
            // An error is about an earlier datagram, whose receiver has gone.
            let Ok((count, from)) = received else {
                continue;
            };
            self.take(&buffer[..count], from).await;
        }
    }

    async fn take(&mut self, datagram: &[u8], from: SocketAddr) {
        let way = Way {
            socket: Arc::clone(&self.socket),
            to: Some(from),
        };
        let known = self.peers.get(&from).filter(|peer| !peer.is_closed());
        match (known, datagram.split_first()) {
            (Some(_), Some((&HELLO, _))) => way.send(&[WELCOME]).await,
            (Some(peer), _) => {
                if self.fault == WireFault::TrustConnected && datagram != [BYE] {
                    let _ = std::hint::black_box(&datagram[..HEAD]);
                }
                // A datagram that the channel has no room for is lost.
                let _ = peer.try_send(datagram.to_vec());
            }
            (None, Some((&HELLO, cookie))) if cookie.len() == 8 => {
                let right = self.secret.hash_one(from).to_be_bytes();
                if cookie == right || self.fault == WireFault::TrustFirst {
                    self.enter(way.clone(), from);
                    way.send(&[WELCOME]).await;
                    return;
                }
                let mut answer = vec![COOKIE];
                answer.extend_from_slice(&right);
                if self.fault == WireFault::Amplify {
                    answer.resize(SEGMENT, 0);
                }
                way.send(&answer).await;
            }
            // The connection is none of this server's.
            (None, Some((&(DATA | ACK), _))) => way.send(&[BYE]).await,
            _ => {}
        }
    }

    fn enter(&mut self, way: Way, from: SocketAddr) {
        self.peers.retain(|_, peer| !peer.is_closed());
        let (near, far) = duplex(INSIDE);
        let (peer, arrived) = mpsc::channel(4 * WINDOW);
        if self.accepted.try_send(far).is_ok() {
            self.context.spawn(carry(near, arrived, way));
            self.peers.insert(from, peer);
        }
    }
}

pub async fn dial(to: SocketAddr, context: &Context) -> io::Result<DuplexStream> {
    let socket = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
    socket.connect(to).await?;
    let mut hello = vec![HELLO, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut buffer = vec![0; 65_536];
    loop {
        socket.send(&hello).await?;
        let answer = Clock.deadline(Clock.after(AGAIN), socket.recv(&mut buffer));
        let Ok(count) = answer.await else { continue };
        match buffer[..count?].split_first() {
            Some((&WELCOME, _)) => break,
            Some((&COOKIE, cookie)) => hello = [&[HELLO], &cookie[..8.min(cookie.len())]].concat(),
            _ => {}
        }
    }
    let (near, far) = duplex(INSIDE);
    let (peer, arrived) = mpsc::channel(4 * WINDOW);
    let way = Way {
        socket: Arc::clone(&socket),
        to: None,
    };
    context.spawn(async move {
        let reading = async {
            // An error is the system's word that nobody listens there.
            while let Ok(count) = socket.recv(&mut buffer).await {
                let _ = peer.try_send(buffer[..count].to_vec());
            }
            drop(peer);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = reading => {}
            () = carry(near, arrived, way) => {}
        }
    });
    Ok(far)
}
