//! A network in memory, whose sockets are as bad as they are told to be.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::ReadBuf;

use super::{DatagramSocket, VirtualReadPipe, VirtualWritePipe};
use crate::lock;
use crate::pipe::{ReadPipe, WritePipe};

/// Carries datagrams between sockets at once, or as its faults will have it.
#[derive(Debug, Default)]
pub(super) struct Network(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    inboxes: HashMap<SocketAddr, Inbox>,
    faults: Faults,
    random: u64,
    /// Bytes that were sent to each address.
    sent: HashMap<SocketAddr, usize>,
}

#[derive(Debug, Default)]
struct Inbox {
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    waker: Option<Waker>,
}

/// How many of a hundred datagrams meet a fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Faults {
    pub(super) lost: u64,
    pub(super) doubled: u64,
    pub(super) overtaken: u64,
    /// The socket has no room at first.
    pub(super) blocked: u64,
}

impl State {
    fn happens(&mut self, of_a_hundred: u64) -> bool {
        // xorshift64*, so that it is the same every time.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % 100 < of_a_hundred
    }
}

impl Network {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let network = Self::default();
        lock(&network.0).random = seed + 1;
        Arc::new(network)
    }

    pub(super) fn set(&self, faults: Faults) {
        lock(&self.0).faults = faults;
    }

    /// Binds an address; a free one has no socket.
    pub(super) fn bind(self: &Arc<Self>, own: SocketAddr) -> MemorySocket {
        let before = lock(&self.0).inboxes.insert(own, Inbox::default());
        assert!(before.is_none(), "{own} is in use");
        let network = Arc::clone(self);
        MemorySocket {
            network,
            own,
            has_room: AtomicBool::new(false),
        }
    }

    /// Whether nothing is lost or delayed.
    pub(super) fn is_good(&self) -> bool {
        lock(&self.0).faults == Faults::default()
    }

    pub(super) fn is_free(&self, address: SocketAddr) -> bool {
        !lock(&self.0).inboxes.contains_key(&address)
    }

    pub(super) fn sent_to(&self, address: SocketAddr) -> usize {
        lock(&self.0)
            .sent
            .get(&address)
            .copied()
            .unwrap_or_default()
    }
}

#[derive(Debug)]
pub(super) struct MemorySocket {
    network: Arc<Network>,
    own: SocketAddr,
    /// As Tokio's, a socket has no room before it was asked for any.
    has_room: AtomicBool,
}

impl Drop for MemorySocket {
    fn drop(&mut self) {
        lock(&self.network.0).inboxes.remove(&self.own);
    }
}

impl MemorySocket {
    /// Sends a datagram as a stranger does.
    pub(super) fn say(&self, datagram: &[u8], to: SocketAddr) {
        self.has_room.store(true, Ordering::Relaxed);
        self.try_send(datagram, to).unwrap();
    }

    /// Returns the next datagram that has arrived.
    pub(super) fn received(&self) -> Option<Vec<u8>> {
        let mut state = lock(&self.network.0);
        let inbox = state.inboxes.get_mut(&self.own)?;
        inbox.waiting.pop_front().map(|(_, datagram)| datagram)
    }
}

impl DatagramSocket for MemorySocket {
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let mut state = lock(&self.network.0);
        let inbox = state.inboxes.get_mut(&self.own).unwrap();
        match inbox.waiting.pop_front() {
            Some((from, datagram)) => {
                into.put_slice(&datagram);
                Poll::Ready(Ok(from))
            }
            None => {
                inbox.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn try_send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        let mut state = lock(&self.network.0);
        let faults = state.faults;
        if !self.has_room.load(Ordering::Relaxed) || state.happens(faults.blocked) {
            return Err(ErrorKind::WouldBlock.into());
        }
        *state.sent.entry(to).or_default() += datagram.len();
        let copies = match (state.happens(faults.lost), state.happens(faults.doubled)) {
            (true, _) => 0,
            (false, doubled) => 1 + usize::from(doubled),
        };
        let overtaken = state.happens(faults.overtaken);
        let Some(inbox) = state.inboxes.get_mut(&to) else {
            return Err(ErrorKind::ConnectionRefused.into());
        };
        for _ in 0..copies {
            let place = inbox
                .waiting
                .len()
                .saturating_sub(3 * usize::from(overtaken));
            inbox.waiting.insert(place, (self.own, datagram.to_vec()));
        }
        let waker = inbox.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.has_room.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

/// Writes all of `bytes`.
pub(super) async fn write(pipe: &mut VirtualWritePipe, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let piece = [IoSlice::new(bytes)];
        let count = std::future::poll_fn(|cx| pipe.poll_write(cx, &piece)).await?;
        bytes = &bytes[count..];
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Says that nothing follows, and waits until the peer knows.
pub(super) async fn finish(pipe: &mut VirtualWritePipe) -> io::Result<()> {
    std::future::poll_fn(|cx| pipe.poll_finish(cx)).await
}

/// Reads what is there, at most 1000 bytes; nothing at the end.
pub(super) async fn read(pipe: &mut VirtualReadPipe) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 1000];
    let mut into = ReadBuf::new(&mut bytes);
    std::future::poll_fn(|cx| pipe.poll_read(cx, &mut into)).await?;
    let count = into.filled().len();
    bytes.truncate(count);
    Ok(bytes)
}

/// Reads to the end.
pub(super) async fn read_all(pipe: &mut VirtualReadPipe) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let some = read(pipe).await?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(some);
    }
}
