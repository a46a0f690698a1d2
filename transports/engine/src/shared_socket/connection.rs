//! A virtual connection: both directions, and the wakers of the two halves of its pipe.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};

use saline_protocol::transport::Instant;
use tokio::io::ReadBuf;

use super::connection_key::ConnectionKey;
use super::cookie::{COOKIE, Cookie};
use super::datagram::{ConnectionId, DATA_OVERHEAD, Datagram, VERSION, encode};
use super::driver::Driver;
use super::receiving::{Receiving, Took};
use super::sending::{Sending, TimedOut};
use crate::lock;

/// One end of a virtual connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// The socket, which the connection does not keep.
    driver: Weak<Driver>,
    key: ConnectionKey,
    /// The most bytes of a segment.
    largest: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    id: ConnectionId,
    opening: Opening,
    sending: Sending,
    receiving: Receiving,
    /// Bytes that the socket counts as held by this connection.
    held: usize,
    owes_ack: bool,
    /// Why neither direction goes on. What had arrived before is still read.
    broken: Option<(ErrorKind, String)>,
    /// The peer was cut or has gone, and had everything but the end.
    is_finished: bool,
    /// Datagrams of the peer.
    heard: u64,
    /// When the socket's task looks at the timer.
    armed: Option<Instant>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// How far a client is in opening a connection; a server's is open from the beginning.
#[derive(Debug)]
enum Opening {
    Asked(Cookie),
    Open,
}

impl Connection {
    /// Returns a client's end, which is not open.
    pub(super) fn dialled(driver: &Arc<Driver>, key: ConnectionKey) -> Arc<Self> {
        Self::new(driver, key, 0, Opening::Asked([0; COOKIE]))
    }

    /// Returns a server's end, with its own number.
    pub(super) fn accepted(driver: &Arc<Driver>, key: ConnectionKey, server: u64) -> Arc<Self> {
        Self::new(driver, key, server, Opening::Open)
    }

    fn new(driver: &Arc<Driver>, key: ConnectionKey, server: u64, opening: Opening) -> Arc<Self> {
        let client = key.client;
        Arc::new(Self {
            driver: Arc::downgrade(driver),
            key,
            largest: driver.largest_datagram() - DATA_OVERHEAD,
            state: Mutex::new(State {
                id: ConnectionId { client, server },
                opening,
                sending: Sending::new(driver.clock.now()),
                receiving: Receiving::new(),
                held: 0,
                owes_ack: false,
                broken: None,
                is_finished: false,
                heard: 0,
                armed: None,
                reader: None,
                writer: None,
            }),
        })
    }

    /// Returns what it is known by.
    pub(super) fn key(&self) -> ConnectionKey {
        self.key
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the socket, if it is there. To be called before the state is locked: who drops the last one closes every connection.
    fn driver(&self) -> Option<Arc<Driver>> {
        self.driver.upgrade()
    }

    /// Sends `datagram` once; it may be lost.
    fn say(&self, driver: &Driver, id: ConnectionId, datagram: &Datagram<'_>) {
        driver.send(self.key.address, &encode(id, datagram));
    }

    /// Asks for the connection, of a server that has not answered.
    pub(super) fn ask(&self) {
        let driver = self.driver();
        let state = self.state();
        if let (Opening::Asked(cookie), Some(driver)) = (&state.opening, &driver) {
            self.say_hello(driver, state.id, *cookie);
        }
    }

    fn say_hello(&self, driver: &Driver, id: ConnectionId, cookie: Cookie) {
        let version = VERSION;
        self.say(driver, id, &Datagram::Hello { version, cookie });
    }

    /// Tells the client that it has a connection: again when it asks again, until something else has come from it.
    pub(super) fn welcome(&self, driver: &Driver) {
        let state = self.state();
        if state.heard == 0 {
            self.say(driver, state.id, &Datagram::Welcome);
        }
    }

    /// Is ready when the server has taken the connection.
    pub(super) fn poll_open(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        if let Some(error) = state.error() {
            return Poll::Ready(Err(error));
        }
        match state.opening {
            Opening::Open => Poll::Ready(Ok(())),
            Opening::Asked(_) => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Takes a datagram of the peer. Returns whether an acknowledgement is owed that was not before.
    pub(super) fn take(&self, driver: &Driver, id: ConnectionId, datagram: Datagram<'_>) -> bool {
        let mut state = self.state();
        if state.broken.is_some() {
            return false;
        }
        if matches!(state.opening, Opening::Asked(_)) {
            self.take_answer(driver, state, id, &datagram);
            return false;
        }
        if id != state.id {
            return false;
        }
        state.heard += 1;
        let taken = match datagram {
            Datagram::Data {
                packet,
                segment,
                bytes,
            } => state.receive((packet, segment), bytes, driver),
            Datagram::End { packet, segment } => state.receive((packet, segment), &[], driver),
            Datagram::Ack(ack) => {
                let acknowledged = state.sending.acknowledged(&ack, driver.clock.now());
                self.pump(&mut state, driver);
                acknowledged.map(|changed| state.writer.take_if(|_| changed))
            }
            Datagram::Probe => {
                state.owes_ack = true;
                Ok(None)
            }
            Datagram::Cut => {
                state.is_finished = state.sending.lacks_only_the_end();
                let why = "the peer cut the connection, or knows of none";
                self.break_off(state, ErrorKind::ConnectionReset, why);
                return false;
            }
            Datagram::Hello { .. } | Datagram::Retry { .. } | Datagram::Welcome => Ok(None),
        };
        state.count_held(driver);
        match taken {
            Ok(waker) => {
                let owes_ack = state.owes_ack;
                drop(state);
                waker.into_iter().for_each(Waker::wake);
                owes_ack
            }
            Err(why) => {
                self.say(driver, id, &Datagram::Cut);
                self.break_off(state, ErrorKind::InvalidData, why);
                false
            }
        }
    }

    /// Takes an answer of the server to the question for a connection.
    fn take_answer(
        &self,
        driver: &Driver,
        mut state: MutexGuard<'_, State>,
        id: ConnectionId,
        answer: &Datagram<'_>,
    ) {
        match *answer {
            Datagram::Retry { version, .. } if version != VERSION => {
                let why = format!(
                    "the server speaks version {version} of the datagrams, this end {VERSION}: upgrade the older one"
                );
                self.break_off(state, ErrorKind::InvalidData, &why);
            }
            Datagram::Retry { cookie, .. } => {
                if let Opening::Asked(last) = &mut state.opening
                    && *last != cookie
                {
                    *last = cookie;
                    self.say_hello(driver, state.id, cookie);
                }
            }
            Datagram::Welcome => {
                state.id = id;
                state.opening = Opening::Open;
                let waker = state.reader.take();
                drop(state);
                waker.into_iter().for_each(Waker::wake);
            }
            Datagram::Cut => {
                let why = "the server takes no more connections now";
                self.break_off(state, ErrorKind::ConnectionRefused, why);
            }
            _ => {}
        }
    }

    /// Ends an attempt to connect, because the system says that nobody listens there.
    pub(super) fn unheard(&self, error: &io::Error) {
        let state = self.state();
        if matches!(state.opening, Opening::Asked(_)) {
            let why = format!(
                "nothing listens on port {} ({error})",
                self.key.address.port()
            );
            self.break_off(state, ErrorKind::ConnectionRefused, &why);
        }
    }

    /// Ends both directions, since the socket is gone.
    pub(super) fn closed(&self) {
        self.break_off(
            self.state(),
            ErrorKind::ConnectionAborted,
            "the socket is closed",
        );
    }

    fn break_off(&self, mut state: MutexGuard<'_, State>, kind: ErrorKind, why: &str) {
        if state.broken.is_some() {
            return;
        }
        state.broken = Some((kind, why.to_owned()));
        let wakers = [state.reader.take(), state.writer.take()];
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Sends the acknowledgement that is owed.
    pub(super) fn acknowledge(&self, driver: &Driver) {
        let mut state = self.state();
        if state.owes_ack {
            self.say_ack(driver, &mut state);
        }
    }

    fn say_ack(&self, driver: &Driver, state: &mut State) {
        state.owes_ack = false;
        self.say(driver, state.id, &Datagram::Ack(state.receiving.ack()));
    }

    /// Sends the segments that are due, as far as the windows and the socket have room.
    fn pump(&self, state: &mut State, driver: &Driver) {
        while state.broken.is_none()
            && let Some(next) = state.sending.next()
        {
            let (packet, segment, bytes) = (next.packet, next.segment, next.bytes);
            let datagram = match bytes.is_empty() {
                true => Datagram::End { packet, segment },
                false => Datagram::Data {
                    packet,
                    segment,
                    bytes,
                },
            };
            if !driver.send(self.key.address, &encode(state.id, &datagram)) {
                driver.block(self.key);
                break;
            }
            state.sending.sent(driver.clock.now());
        }
        self.arm(state, driver);
    }

    /// Has the timer looked at when it runs out. A look that comes too early costs less than setting it with every datagram.
    fn arm(&self, state: &mut State, driver: &Driver) {
        if let Some(deadline) = state.sending.deadline()
            && state.armed.is_none_or(|armed| deadline < armed)
            && state.broken.is_none()
        {
            driver.arm(self.key, state.armed, deadline);
            state.armed = Some(deadline);
        }
    }

    /// The socket has room again.
    pub(super) fn unblocked(&self, driver: &Driver) {
        let mut state = self.state();
        self.pump(&mut state, driver);
        if state.sending.room() > 0 {
            let waker = state.writer.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Looks at the timer, for which it was armed.
    pub(super) fn look_at_timer(&self, driver: &Driver, now: Instant) {
        let mut state = self.state();
        state.armed = None;
        if state.broken.is_none()
            && state
                .sending
                .deadline()
                .is_some_and(|deadline| deadline <= now)
        {
            match state.sending.timed_out(now) {
                TimedOut::Resend => self.pump(&mut state, driver),
                TimedOut::Probe => self.say(driver, state.id, &Datagram::Probe),
            }
        }
        self.arm(&mut state, driver);
    }

    /// Returns a number that changes with every datagram of the peer. One that may send no bytes asks for leave now and then.
    pub(super) fn signs_of_life(&self) -> u64 {
        self.state().heard
    }

    /// Panics when it holds more of its peer than it may. Returns how many bytes it holds.
    pub(super) fn check(&self) -> usize {
        let state = self.state();
        state.receiving.check();
        state.receiving.held()
    }

    /// Reads what has arrived, and lets the peer send more when there is room for it.
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let driver = self.driver();
        let mut state = self.state();
        if state.receiving.read(into) {
            if let Some(driver) = &driver {
                state.count_held(driver);
                if state.receiving.allow() && state.broken.is_none() {
                    self.say_ack(driver, &mut state);
                }
            }
            return Poll::Ready(Ok(()));
        }
        if state.receiving.is_over() {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = state.error() {
            return Poll::Ready(Err(error));
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Accepts bytes from the front of `pieces`, as far as the windows and the socket have room for them.
    pub(super) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let driver = self.driver();
        let mut state = self.state();
        let driver = state.usable(driver.as_deref())?;
        let mut pieces = pieces.iter().map(|piece| &piece[..]);
        let (mut piece, mut accepted) = (&[][..], 0);
        loop {
            let room = state.sending.room().min(self.largest);
            let mut segment = Vec::new();
            while segment.len() < room {
                if piece.is_empty() {
                    let Some(next) = pieces.next() else {
                        break;
                    };
                    piece = next;
                }
                let (taken, rest) = piece.split_at(piece.len().min(room - segment.len()));
                segment.extend_from_slice(taken);
                piece = rest;
            }
            if segment.is_empty() {
                break;
            }
            accepted += segment.len();
            state.sending.push(segment, driver.clock.now());
            self.pump(&mut state, driver);
        }
        if accepted > 0 {
            return Poll::Ready(Ok(accepted));
        }
        state.sending.wait_for_room(driver.clock.now());
        self.arm(&mut state, driver);
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Says that nothing follows, and is ready when the peer has everything.
    pub(super) fn poll_finish(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let driver = self.driver();
        let mut state = self.state();
        if !state.sending.has_ended() {
            let driver = state.usable(driver.as_deref())?;
            state.sending.end(driver.clock.now());
            self.pump(&mut state, driver);
        }
        if state.is_finished || state.sending.is_acknowledged() {
            return Poll::Ready(Ok(()));
        }
        state.usable(driver.as_deref())?;
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Lets go of the connection: a peer that does not know yet that it is over is told.
    pub(super) fn hang_up(&self) {
        let Some(driver) = self.driver() else {
            return;
        };
        let mut state = self.state();
        if state.owes_ack {
            self.say_ack(&driver, &mut state);
        }
        let has_ended = state.sending.has_ended() && state.sending.is_acknowledged();
        let is_over = has_ended && state.receiving.is_over();
        if state.broken.is_none() && !is_over {
            self.say(&driver, state.id, &Datagram::Cut);
        }
        state.receiving = Receiving::new();
        state.count_held(&driver);
        driver.forget(self.key, state.armed.take());
        let why = "this end has cut the connection";
        self.break_off(state, ErrorKind::ConnectionAborted, why);
    }
}

impl State {
    fn error(&self) -> Option<io::Error> {
        let (kind, why) = self.broken.as_ref()?;
        Some(io::Error::new(*kind, why.clone()))
    }

    /// Returns the socket of a connection that is not over.
    fn usable<'d>(&self, driver: Option<&'d Driver>) -> io::Result<&'d Driver> {
        let gone = || io::Error::new(ErrorKind::ConnectionAborted, "the socket is closed");
        match self.error() {
            Some(error) => Err(error),
            None => driver.ok_or_else(gone),
        }
    }

    /// Takes a segment. Returns who waits for it.
    fn receive(
        &mut self,
        numbers: (u64, u64),
        bytes: &[u8],
        driver: &Driver,
    ) -> Result<Option<Waker>, &'static str> {
        let took = self.receiving.take(numbers, bytes, driver.is_crowded())?;
        self.owes_ack |= took != Took::Dropped;
        Ok(self.reader.take_if(|_| took == Took::Readable))
    }

    /// Tells the socket how many bytes are held.
    fn count_held(&mut self, driver: &Driver) {
        let held = self.receiving.held();
        driver.count_unread(std::mem::replace(&mut self.held, held), held);
    }
}
