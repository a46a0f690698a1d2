//! Connections over UDP: numbered segments that are sent again until they are acknowledged. A client says hello, gets a cookie that
//! is made of its address, and is welcome with that; before, nothing is kept of it. Each datagram has the number that the client
//! chose, since the system gives the port of one that has gone to the next.

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

/// Every datagram begins with its kind and the number of its connection.
const HEAD: usize = 1 + size_of::<ConnectionNumber>();
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

/// What a client calls its connection.
type ConnectionNumber = u64;

/// Splits a datagram into kind, number of the connection, and rest.
fn split(datagram: &[u8]) -> Option<(u8, ConnectionNumber, &[u8])> {
    let ((&kind, number), rest) = datagram
        .split_at_checked(HEAD)
        .and_then(|(head, rest)| Some((head.split_first()?, rest)))?;
    Some((kind, u64::from_be_bytes(number.try_into().ok()?), rest))
}

/// Where the datagrams of one connection go.
#[derive(Debug, Clone)]
struct Way {
    socket: Arc<UdpSocket>,
    /// Unless the socket is connected.
    to: Option<SocketAddr>,
    connection: ConnectionNumber,
}

impl Way {
    /// Sends a datagram, which is lost where the socket does not take it.
    async fn send(&self, kind: u8, bytes: &[u8]) {
        let datagram = [&[kind], &self.connection.to_be_bytes()[..], bytes].concat();
        let _ = match self.to {
            Some(to) => self.socket.send_to(&datagram, to).await,
            None => self.socket.send(&datagram).await,
        };
    }

    async fn send_number(&self, kind: u8, number: u32, bytes: &[u8]) {
        self.send(kind, &[&number.to_be_bytes()[..], bytes].concat())
            .await;
    }
}

/// The kind of a datagram, and what follows the number of its connection.
type Arrived = (u8, Vec<u8>);

/// Carries one connection between `near` and what has `arrived`, until either ends.
async fn carry(near: DuplexStream, mut arrived: mpsc::Receiver<Arrived>, way: Way) {
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
                let Some((kind, rest)) = datagram else { break };
                if kind == BYE {
                    break;
                }
                let Some((number, bytes)) = rest.split_first_chunk() else { continue };
                let number = u32::from_be_bytes(*number);
                match kind {
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
    way.send(BYE, &[]).await;
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
    peers: HashMap<(SocketAddr, ConnectionNumber), mpsc::Sender<Arrived>>,
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
        if self.fault == WireFault::TrustConnected && self.peers.keys().any(|(at, _)| *at == from) {
            let _ = std::hint::black_box(&datagram[..HEAD]);
        }
        let Some((kind, connection, rest)) = split(datagram) else {
            return;
        };
        let way = Way {
            socket: Arc::clone(&self.socket),
            to: Some(from),
            connection,
        };
        let known = self.peers.get(&(from, connection));
        match (known.filter(|peer| !peer.is_closed()), kind) {
            (Some(_), HELLO) => way.send(WELCOME, &[]).await,
            (Some(peer), _) => {
                // A datagram that the channel has no room for is lost.
                let _ = peer.try_send((kind, rest.to_vec()));
            }
            (None, HELLO) if rest.len() == 8 => {
                let right = self.secret.hash_one(from).to_be_bytes();
                if rest == right || self.fault == WireFault::TrustFirst {
                    self.enter(way.clone(), from);
                    way.send(WELCOME, &[]).await;
                    return;
                }
                let mut answer = right.to_vec();
                if self.fault == WireFault::Amplify {
                    answer.resize(SEGMENT, 0);
                }
                way.send(COOKIE, &answer).await;
            }
            // The connection is none of this server's.
            (None, DATA | ACK) => way.send(BYE, &[]).await,
            _ => {}
        }
    }

    fn enter(&mut self, way: Way, from: SocketAddr) {
        self.peers.retain(|_, peer| !peer.is_closed());
        let (near, far) = duplex(INSIDE);
        let (peer, arrived) = mpsc::channel(4 * WINDOW);
        if self.accepted.try_send(far).is_ok() {
            self.peers.insert((from, way.connection), peer);
            self.context.spawn(carry(near, arrived, way));
        }
    }
}

pub async fn dial(to: SocketAddr, context: &Context) -> io::Result<DuplexStream> {
    let socket = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
    socket.connect(to).await?;
    let way = Way {
        socket: Arc::clone(&socket),
        to: None,
        // Of a hasher with new keys: a random number.
        connection: RandomState::new().hash_one(to),
    };
    let mut cookie = vec![0; 8];
    let mut buffer = vec![0; 65_536];
    loop {
        way.send(HELLO, &cookie).await;
        let answer = Clock.deadline(Clock.after(AGAIN), socket.recv(&mut buffer));
        let Ok(count) = answer.await else { continue };
        match split(&buffer[..count?]).filter(|(_, number, _)| *number == way.connection) {
            Some((WELCOME, ..)) => break,
            Some((COOKIE, _, given)) => cookie = given[..8.min(given.len())].to_vec(),
            _ => {}
        }
    }
    let (near, far) = duplex(INSIDE);
    let (peer, arrived) = mpsc::channel(4 * WINDOW);
    let own = way.connection;
    context.spawn(async move {
        let reading = async {
            // An error is the system's word that nobody listens there.
            while let Ok(count) = socket.recv(&mut buffer).await {
                if let Some((kind, number, rest)) = split(&buffer[..count])
                    && number == own
                {
                    let _ = peer.try_send((kind, rest.to_vec()));
                }
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
