//! The task of a socket: finds the connection of each datagram, and watches the timers of all of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use saline_protocol::transport::{Clock, Instant};
use tokio::io::ReadBuf;

use super::backlog::Backlog;
use super::connection::Connection;
use super::connection_key::ConnectionKey;
use super::datagram::{Datagram, decode, encode};
use super::{DatagramSocket, MOST_UNREAD};
use crate::alarm::Alarm;
use crate::lock;

/// Datagrams that are received in one turn, before others get theirs.
const TURN: usize = 64;

/// How long nothing is received after an error of the system, which may not pass by itself.
const AFTER_ERROR: Duration = Duration::from_millis(10);

/// A socket and its connections.
pub(super) struct Driver {
    socket: Box<dyn DatagramSocket>,
    pub(super) clock: Clock,
    /// Connections that wait to be accepted, where the socket takes any.
    pub(super) backlog: Option<Backlog>,
    connections: Mutex<HashMap<ConnectionKey, Arc<Connection>>>,
    timers: Mutex<BTreeSet<(Instant, ConnectionKey)>>,
    /// Connections for whose datagrams the socket had no room.
    blocked: Mutex<HashSet<ConnectionKey>>,
    /// Bytes of all connections that were not read.
    unread: AtomicUsize,
    task: Mutex<Option<Waker>>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let connections = std::mem::take(&mut *lock(&self.connections));
        connections
            .values()
            .for_each(|connection| connection.closed());
    }
}

impl Driver {
    /// Returns the driver of `socket`, without connections.
    pub(super) fn new(
        socket: impl DatagramSocket,
        clock: Clock,
        backlog: Option<Backlog>,
    ) -> Arc<Self> {
        Arc::new(Self {
            socket: Box::new(socket),
            clock,
            backlog,
            connections: Mutex::default(),
            timers: Mutex::default(),
            blocked: Mutex::default(),
            unread: AtomicUsize::new(0),
            task: Mutex::default(),
        })
    }

    /// Returns the most bytes of a datagram.
    pub(super) fn largest_datagram(&self) -> usize {
        self.socket.largest_datagram()
    }

    /// Adds a connection. Returns false when there is one of this key.
    pub(super) fn add(&self, connection: &Arc<Connection>) -> bool {
        use std::collections::hash_map::Entry;
        match lock(&self.connections).entry(connection.key()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(Arc::clone(connection));
                true
            }
        }
    }

    /// Removes a connection, with its timer.
    pub(super) fn forget(&self, key: ConnectionKey, armed: Option<Instant>) {
        lock(&self.connections).remove(&key);
        lock(&self.blocked).remove(&key);
        if let Some(at) = armed {
            lock(&self.timers).remove(&(at, key));
        }
    }

    /// Resolves when the socket may have room: one that was just opened says first that it has none.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn writable(&self) {
        // An error is met again by those who send.
        let _ = poll_fn(|cx| self.socket.poll_writable(cx)).await;
    }

    /// Sends a datagram, which may be lost. Returns false when the socket has no room for it now.
    pub(super) fn send(&self, to: SocketAddr, datagram: &[u8]) -> bool {
        let sent = self.socket.try_send(datagram, to);
        !sent.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Has a connection told when the socket has room again.
    pub(super) fn block(&self, key: ConnectionKey) {
        lock(&self.blocked).insert(key);
        self.wake();
    }

    /// Sets the timer of a connection to an earlier time, or for the first time.
    pub(super) fn arm(&self, key: ConnectionKey, before: Option<Instant>, at: Instant) {
        let is_first = {
            let mut timers = lock(&self.timers);
            if let Some(before) = before {
                timers.remove(&(before, key));
            }
            timers.insert((at, key));
            timers.first() == Some(&(at, key))
        };
        if is_first {
            self.wake();
        }
    }

    fn wake(&self) {
        let task = lock(&self.task).take();
        task.into_iter().for_each(Waker::wake);
    }

    /// Whether more has arrived than may be held of all connections.
    pub(super) fn is_crowded(&self) -> bool {
        self.unread.load(Ordering::Relaxed) >= MOST_UNREAD
    }

    /// A connection held `before` bytes, and now holds others.
    pub(super) fn count_unread(&self, before: usize, now: usize) {
        match now >= before {
            true => self.unread.fetch_add(now - before, Ordering::Relaxed),
            false => self.unread.fetch_sub(before - now, Ordering::Relaxed),
        };
    }

    /// Serves the socket. Never ends by itself.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing is received or sent again any more.
    pub(super) async fn run(self: Arc<Self>) {
        let mut turns = Turns::new(&self);
        let mut alarm = Alarm::new(self.clock.now());
        self.writable().await;
        match poll_fn(|cx| turns.poll(&self, &mut alarm, cx)).await {}
    }

    /// Takes a datagram. Returns its connection, if that owes an acknowledgement.
    fn take(&self, from: SocketAddr, bytes: &[u8]) -> Option<Arc<Connection>> {
        let (id, datagram) = decode(bytes)?;
        let key = ConnectionKey {
            address: from,
            client: id.client,
        };
        let known = lock(&self.connections).get(&key).cloned();
        match (known, &self.backlog, datagram) {
            (Some(connection), Some(_), Datagram::Hello { .. }) => connection.welcome(self),
            (Some(connection), _, datagram) => {
                return connection.take(self, id, datagram).then_some(connection);
            }
            (None, Some(backlog), Datagram::Hello { version, cookie }) => {
                if let Some(answer) = backlog.take(key, (version, &cookie), self.clock.now()) {
                    self.send(from, &encode(id, &answer));
                }
            }
            // Who knows of no connection says so, to anybody but those who say the same.
            (
                None,
                _,
                Datagram::Data { .. } | Datagram::End { .. } | Datagram::Ack(_) | Datagram::Probe,
            ) => {
                self.send(from, &encode(id, &Datagram::Cut));
            }
            (None, ..) => {}
        }
        None
    }

    /// Whether it has no connection, and holds nothing of any.
    pub(super) fn is_idle(&self) -> bool {
        let is_unread = self.unread.load(Ordering::Relaxed) != 0;
        let is_asked = self
            .backlog
            .as_ref()
            .is_some_and(|backlog| !backlog.is_empty());
        let is_armed = !lock(&self.timers).is_empty();
        let is_blocked = !lock(&self.blocked).is_empty();
        lock(&self.connections).is_empty() && !(is_unread || is_asked || is_armed || is_blocked)
    }

    /// Has the connections look once at their timers, as if it were `now`: for the fuzz target, which does not wait.
    pub(super) fn let_timers_run_out(&self, now: Instant) {
        let timers = std::mem::take(&mut *lock(&self.timers));
        for (at, key) in timers {
            match self.find(key) {
                Some(connection) if at <= now => connection.look_at_timer(self, now),
                _ => {
                    lock(&self.timers).insert((at, key));
                }
            }
        }
    }

    /// Panics when it holds more than it may, or other bytes than it counts: for the fuzz target.
    pub(super) fn check_bounds(&self) {
        let connections = lock(&self.connections);
        let held = connections.values().map(|connection| connection.check());
        let all: usize = held.sum();
        assert_eq!(self.unread.load(Ordering::Relaxed), all);
        assert!(lock(&self.timers).len() <= connections.len());
        assert!(lock(&self.blocked).len() <= connections.len());
    }

    fn find(&self, key: ConnectionKey) -> Option<Arc<Connection>> {
        lock(&self.connections).get(&key).cloned()
    }

    /// Has the connections look at their timers that have run out. Returns when the next one does.
    fn look_at_timers(&self) -> Option<Instant> {
        let now = self.clock.now();
        loop {
            let key = {
                let mut timers = lock(&self.timers);
                let (at, key) = *timers.first()?;
                if at > now {
                    return Some(at);
                }
                timers.pop_first();
                key
            };
            if let Some(connection) = self.find(key) {
                connection.look_at_timer(self, now);
            }
        }
    }
}

/// What the task of a socket has of its own.
#[derive(Debug)]
pub(super) struct Turns {
    buffer: Vec<u8>,
    /// Connections that owe an acknowledgement, one for all that has arrived in this turn.
    owing: Vec<Arc<Connection>>,
    deaf_until: Option<Instant>,
}

impl Turns {
    pub(super) fn new(driver: &Driver) -> Self {
        Self {
            buffer: vec![0; driver.largest_datagram()],
            owing: Vec::new(),
            deaf_until: None,
        }
    }

    /// Takes what has arrived, and sends what is due for that. Returns how many datagrams have arrived.
    pub(super) fn turn(&mut self, driver: &Driver, cx: &mut Context<'_>) -> usize {
        let received = self.receive(driver, cx);
        for connection in self.owing.drain(..) {
            connection.acknowledge(driver);
        }
        // An error is met again by those who send.
        while !lock(&driver.blocked).is_empty() && driver.socket.poll_writable(cx).is_ready() {
            let blocked = std::mem::take(&mut *lock(&driver.blocked));
            for connection in blocked.into_iter().filter_map(|key| driver.find(key)) {
                connection.unblocked(driver);
            }
        }
        received
    }

    fn poll(
        &mut self,
        driver: &Driver,
        alarm: &mut Alarm,
        cx: &mut Context<'_>,
    ) -> Poll<Infallible> {
        *lock(&driver.task) = Some(cx.waker().clone());
        if self.turn(driver, cx) == TURN {
            cx.waker().wake_by_ref();
        }
        loop {
            let next = driver.look_at_timers();
            let Some(at) = next.into_iter().chain(self.deaf_until).min() else {
                return Poll::Pending;
            };
            alarm.set(at);
            if alarm.poll(cx).is_pending() {
                return Poll::Pending;
            }
            if self
                .deaf_until
                .take_if(|until| *until <= driver.clock.now())
                .is_some()
            {
                cx.waker().wake_by_ref();
            }
        }
    }

    /// Takes what has arrived. Returns how many datagrams.
    fn receive(&mut self, driver: &Driver, cx: &mut Context<'_>) -> usize {
        let mut received = 0;
        while received < TURN && self.deaf_until.is_none() {
            let mut into = ReadBuf::new(&mut self.buffer);
            match driver.socket.poll_receive(cx, &mut into) {
                Poll::Pending => break,
                Poll::Ready(Ok(from)) => {
                    self.owing.extend(driver.take(from, into.filled()));
                    received += 1;
                }
                Poll::Ready(Err(error)) => {
                    if error.kind() == ErrorKind::ConnectionRefused {
                        let all: Vec<_> = lock(&driver.connections).values().cloned().collect();
                        all.iter().for_each(|connection| connection.unheard(&error));
                    }
                    self.deaf_until = Some(driver.clock.after(AFTER_ERROR));
                }
            }
        }
        received
    }
}
