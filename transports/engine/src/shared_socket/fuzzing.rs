//! A shared socket without a network and a task, for the fuzz target: it is handed what arrives, and hands out what it sends. No
//! part of the interface.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use saline_protocol::transport::Clock;
use tokio::io::ReadBuf;

use super::DatagramSocket;
use super::backlog::Backlog;
use super::connection::Connection;
use super::connection_key::ConnectionKey;
use super::datagram::{self, ConnectionId};
use super::driver::{Driver, Turns};
use super::listen::VirtualIncoming;
use super::pipe::{VirtualPipe, VirtualReadPipe, VirtualWritePipe};
use crate::lock;
use crate::pipe::{Incoming, Pipe, ReadPipe, WritePipe};

/// The other end of a connection: its address, and the number that the client chose.
pub type Peer = (SocketAddr, u64);

/// What came of reading a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Came {
    /// These bytes, and more may follow.
    Bytes(Vec<u8>),
    /// These bytes, and then the end.
    End(Vec<u8>),
    /// These bytes, and then the connection was found broken.
    Broken(Vec<u8>),
}

/// Datagrams on their way to a socket, and away from it.
#[derive(Debug, Default)]
struct Memory {
    arrived: VecDeque<(SocketAddr, Vec<u8>)>,
    sent: Vec<(SocketAddr, Vec<u8>)>,
    is_full: bool,
}

impl DatagramSocket for Arc<Mutex<Memory>> {
    fn poll_receive(
        &self,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let Some((from, bytes)) = lock(self).arrived.pop_front() else {
            return Poll::Pending;
        };
        into.put_slice(&bytes[..bytes.len().min(into.remaining())]);
        Poll::Ready(Ok(from))
    }

    fn try_send(&self, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        let mut memory = lock(self);
        if memory.is_full {
            return Err(ErrorKind::WouldBlock.into());
        }
        memory.sent.push((to, bytes.to_vec()));
        Ok(())
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match lock(self).is_full {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }
}

/// A socket and the connections that were opened over it.
#[derive(Debug)]
pub struct SharedSocket {
    driver: Arc<Driver>,
    turns: Turns,
    memory: Arc<Mutex<Memory>>,
    pipes: BTreeMap<ConnectionKey, (VirtualReadPipe, VirtualWritePipe)>,
}

fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

impl SharedSocket {
    fn new(backlog: Option<Backlog>) -> Self {
        let memory = Arc::<Mutex<Memory>>::default();
        let driver = Driver::new(Arc::clone(&memory), Clock, backlog);
        Self {
            turns: Turns::new(&driver),
            driver,
            memory,
            pipes: BTreeMap::new(),
        }
    }

    /// Returns one that takes connections.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn serving() -> io::Result<Self> {
        Ok(Self::new(Some(Backlog::new(Clock.now())?)))
    }

    /// Returns one that has asked for a connection.
    pub fn dialling((address, client): Peer) -> Self {
        let mut socket = Self::new(None);
        let key = ConnectionKey { address, client };
        let connection = Connection::dialled(&socket.driver, key);
        socket.driver.add(&connection);
        connection.ask();
        let pipe = VirtualPipe::new(connection, None);
        socket.pipes.insert(key, pipe.split());
        socket
    }

    /// Takes a datagram.
    pub fn take(&mut self, from: SocketAddr, bytes: Vec<u8>) {
        lock(&self.memory).arrived.push_back((from, bytes));
        self.turn();
    }

    fn turn(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        self.turns.turn(&self.driver, &mut cx);
    }

    /// Returns what was sent since the last call.
    pub fn sent(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        std::mem::take(&mut lock(&self.memory).sent)
    }

    /// Makes connections of all that wait. Returns whose they are.
    ///
    /// # Errors
    /// When the system gives no randomness, or a connection was there already.
    pub fn accept(&mut self) -> io::Result<Vec<Peer>> {
        let mut peers = Vec::new();
        while let Some(backlog) = &self.driver.backlog
            && let Some(key) = now_or_never(backlog.next())
        {
            let incoming = VirtualIncoming::new(&self.driver, key);
            let pipe = now_or_never(incoming.establish());
            let pipe = pipe.unwrap_or_else(|| Err(ErrorKind::WouldBlock.into()))?;
            self.pipes.insert(key, pipe.split());
            peers.push((key.address, key.client));
        }
        Ok(peers)
    }

    /// Returns the connections, in order.
    pub fn peers(&self) -> Vec<Peer> {
        let keys = self.pipes.keys();
        keys.map(|key| (key.address, key.client)).collect()
    }

    fn pipe(&mut self, peer: Peer) -> Option<&mut (VirtualReadPipe, VirtualWritePipe)> {
        let (address, client) = peer;
        self.pipes.get_mut(&ConnectionKey { address, client })
    }

    /// Reads all that has arrived on a connection.
    pub fn read(&mut self, peer: Peer) -> Came {
        let (mut all, mut room) = (Vec::new(), [0; 4096]);
        let Some((pipe, _)) = self.pipe(peer) else {
            return Came::Broken(all);
        };
        loop {
            let mut into = ReadBuf::new(&mut room);
            let mut cx = Context::from_waker(Waker::noop());
            match pipe.poll_read(&mut cx, &mut into) {
                Poll::Ready(Ok(())) if into.filled().is_empty() => return Came::End(all),
                Poll::Ready(Ok(())) => all.extend_from_slice(into.filled()),
                Poll::Ready(Err(_)) => return Came::Broken(all),
                Poll::Pending => return Came::Bytes(all),
            }
        }
    }

    /// Writes once, as much as a connection takes.
    pub fn write(&mut self, peer: Peer, bytes: &[u8]) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let pieces = [IoSlice::new(bytes)];
        match self
            .pipe(peer)
            .map(|(_, pipe)| pipe.poll_write(&mut cx, &pieces))
        {
            Some(Poll::Ready(Ok(count))) => count,
            _ => 0,
        }
    }

    /// Says on a connection that nothing follows.
    pub fn finish(&mut self, peer: Peer) {
        let mut cx = Context::from_waker(Waker::noop());
        if let Some((_, pipe)) = self.pipe(peer) {
            // The peer may never acknowledge it.
            let _ = pipe.poll_finish(&mut cx);
        }
    }

    /// Lets go of a connection.
    pub fn drop_connection(&mut self, (address, client): Peer) {
        self.pipes.remove(&ConnectionKey { address, client });
    }

    /// Says whether there is room for what it sends.
    pub fn set_full(&mut self, is_full: bool) {
        lock(&self.memory).is_full = is_full;
        self.turn();
    }

    /// Has it look at the timers that run out within this time.
    pub fn pass(&mut self, time: Duration) {
        self.driver.let_timers_run_out(Clock.after(time));
    }

    /// Checks that what it holds is bounded, and counted.
    pub fn check_bounds(&self) {
        self.driver.check_bounds();
    }

    /// Whether it holds nothing of any connection.
    pub fn is_idle(&self) -> bool {
        self.driver.is_idle()
    }
}

/// Decodes a datagram, encodes it again, and checks that it says the same.
pub fn check_encoding(bytes: &[u8]) {
    if let Some((id, said)) = datagram::decode(bytes) {
        let again = datagram::encode(id, &said);
        assert_eq!(datagram::decode(&again), Some((id, said)));
    }
}

/// Returns the bytes of a datagram, whatever they are, with the tag behind them.
pub fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let number = |at: usize| {
        let bytes = body.get(at..).and_then(<[u8]>::first_chunk).copied();
        bytes.map(u64::from_be_bytes)
    };
    let (client, server) = number(1).zip(number(9)).unwrap_or_default();
    let tag = datagram::tag_of(ConnectionId { client, server }, &body);
    body.extend(tag);
    body
}
