//! A virtual connection: two subjects, numbered messages, a window of bytes and an end. A state machine with the wakers of
//! the two halves of its pipe; what it says goes into the buffer of its link.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use tokio::io::ReadBuf;

use crate::client::Link;
use crate::hello_queue::WelcomePlace;
use crate::message::{self, Content, HEADER, Numbered};
use crate::protocol::publish;
use crate::subjects::Subjects;
use crate::{LARGEST_MESSAGE, WINDOW};

/// The window at first, so that a stranger fills little: it grows by what is read.
const FIRST_WINDOW: u64 = 16 * 1024;

/// The room for bytes that an idle connection may keep.
const IDLE_ROOM: usize = 4 * 1024;

/// One end of a virtual connection.
#[derive(Debug)]
pub(crate) struct Connection {
    link: Arc<Link>,
    /// The number of this end in its process.
    number: u64,
    side: Side,
    /// The most bytes of one message.
    largest: usize,
    state: Mutex<State>,
}

/// Which end it is, and where it publishes.
#[derive(Debug)]
pub(crate) enum Side {
    /// A server's, which publishes on this subject.
    Server(String),
    /// A client's.
    Client(ClientSide),
}

/// The end of a client, which learns where to publish when it is opened.
#[derive(Debug)]
pub(crate) struct ClientSide {
    pub(crate) subjects: Subjects,
    pub(crate) user: String,
    pub(crate) id: String,
    head: OnceLock<String>,
}

impl ClientSide {
    /// Returns the end called `id` of a user, which is not open.
    pub(crate) fn new(subjects: &Subjects, user: &str, id: &str) -> Self {
        Self {
            subjects: subjects.clone(),
            user: user.to_owned(),
            id: id.to_owned(),
            head: OnceLock::new(),
        }
    }

    fn open(&self, instance: &str) {
        let (user, id) = (&self.user, &self.id);
        let up = self.subjects.up(user, instance, id);
        // Where nobody has subscribed to the subject of a publication, its reply subject is told so: the server has gone.
        let head = format!("{up} {}", self.subjects.down(user, id));
        let _ = self.head.set(head);
    }
}

#[derive(Debug)]
struct State {
    receiving: Receiving,
    sending: Sending,
    /// Why neither direction goes on. What had arrived before is still read.
    broken: Option<(io::ErrorKind, String)>,
    opening: Opening,
    /// The place of a server's end of which nothing has come yet.
    welcome: Option<WelcomePlace>,
}

/// How far a client is in opening a connection; a server's is open from the beginning.
#[derive(Debug)]
enum Opening {
    Asked(Option<Waker>),
    Open,
}

#[derive(Debug, Default)]
struct Receiving {
    /// The number of the next message.
    next: u64,
    bytes: BytesMut,
    /// Bytes that have arrived, and that were read.
    arrived: u64,
    read: u64,
    /// How many bytes the peer may have sent, as it was told.
    allowed: u64,
    /// Looks for a sign of life while the peer had no room to give one.
    blind_looks: u64,
    /// Nothing follows.
    is_over: bool,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct Sending {
    next: u64,
    sent: u64,
    allowed: u64,
    /// This end has said that nothing follows, and the PONG after which the server of NATS has taken that.
    finished: Option<u64>,
    waker: Option<Waker>,
}

/// The number of the end of a connection that was made last in this process.
static LAST: AtomicU64 = AtomicU64::new(0);

impl Connection {
    /// Returns one end over `link`. A client's is not open before the server says so.
    pub(crate) fn new(link: &Arc<Link>, side: Side) -> Arc<Self> {
        let opening = match side {
            Side::Server(_) => Opening::Open,
            Side::Client(_) => Opening::Asked(None),
        };
        Arc::new(Self {
            link: Arc::clone(link),
            number: LAST.fetch_add(1, Ordering::Relaxed),
            side,
            largest: LARGEST_MESSAGE.min(link.max_payload) - HEADER,
            state: Mutex::new(State {
                receiving: Receiving {
                    allowed: FIRST_WINDOW,
                    ..Receiving::default()
                },
                sending: Sending {
                    allowed: FIRST_WINDOW,
                    ..Sending::default()
                },
                broken: None,
                opening,
                welcome: None,
            }),
        })
    }

    /// Keeps `welcome` until the peer has said something, or the connection is over.
    pub(crate) fn keep(&self, welcome: WelcomePlace) {
        self.state().welcome = Some(welcome);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is consistent by itself, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the subject of what this end says, with its reply subject where it has one; empty before it is open.
    fn head(&self) -> &str {
        match &self.side {
            Side::Server(head) => head,
            Side::Client(client) => client.head.get().map_or("", String::as_str),
        }
    }

    /// Whether nothing but the greeting has come from the peer.
    pub(crate) fn is_fresh(&self) -> bool {
        self.state().receiving.next == 0
    }

    /// Returns a number that changes when a message has come. It also changes with every look while the window is full: a peer
    /// that may send no bytes says nothing by its silence.
    pub(crate) fn signs_of_life(&self) -> u64 {
        let receiving = &mut self.state().receiving;
        if receiving.arrived == receiving.allowed {
            receiving.blind_looks += 1;
        }
        receiving.next + receiving.blind_looks
    }

    /// Returns the most bytes of one message.
    pub(crate) fn largest(&self) -> usize {
        self.largest
    }

    /// Returns the link.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Takes a message of the peer; none where it was larger than any may be. Returns what it says of the server, if it
    /// opens the connection.
    pub(crate) fn take<'m>(&self, payload: Option<&'m [u8]>) -> Option<message::Announcement<'m>> {
        let decoded = payload
            .ok_or("a message is too large")
            .and_then(Numbered::decode);
        let message = match decoded {
            Ok(message) => message,
            Err(why) => {
                self.violated(why);
                return None;
            }
        };
        let mut state = self.state();
        if message.content == Content::Cut {
            drop(state);
            self.break_off(
                io::ErrorKind::ConnectionReset,
                "the peer cut the connection",
            );
            return None;
        }
        let expected = state.receiving.next;
        let is_client = matches!(self.side, Side::Client(_));
        if is_client && expected > 0 && matches!(message.content, Content::Welcome(_)) {
            // The greeting was repeated, and so was its answer.
            return None;
        }
        if message.number != expected {
            drop(state);
            self.violated(&format!(
                "message {} came where {expected} was due: messages were repeated or lost",
                message.number
            ));
            return None;
        }
        state.receiving.next += 1;
        let welcome = state.welcome.take();
        if let (Side::Client(client), Content::Welcome(server)) = (&self.side, &message.content) {
            client.open(server.instance);
        }
        let outcome = state.take(message.content);
        drop(state);
        drop(welcome);
        match outcome {
            Ok(Took::Nothing) => None,
            Ok(Took::Wake(waker)) => {
                waker.wake();
                None
            }
            Ok(Took::Opened(announcement, waker)) => {
                if let Some(waker) = waker {
                    waker.wake();
                }
                Some(announcement)
            }
            Err(Refusal::Violated(why)) => {
                self.violated(why);
                None
            }
            Err(Refusal::Refused(why)) => {
                self.break_off(io::ErrorKind::InvalidData, &why);
                None
            }
        }
    }

    /// Ends the connection because its peer broke a rule.
    fn violated(&self, why: &str) {
        self.break_off(io::ErrorKind::InvalidData, why);
    }

    /// Ends both directions.
    pub(crate) fn break_off(&self, kind: io::ErrorKind, why: &str) {
        let mut state = self.state();
        if state.broken.is_some() {
            return;
        }
        state.broken = Some((kind, why.to_owned()));
        let mut wakers = [
            state.receiving.waker.take(),
            state.sending.waker.take(),
            None,
        ];
        if let Opening::Asked(waker) = &mut state.opening {
            wakers[2] = waker.take();
        }
        let welcome = state.welcome.take();
        drop(state);
        drop(welcome);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Is ready when the server has taken the connection.
    pub(crate) fn poll_open(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        if let Some(error) = state.error() {
            return Poll::Ready(Err(error));
        }
        match &mut state.opening {
            Opening::Open => Poll::Ready(Ok(())),
            Opening::Asked(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Reads what has arrived, and lets the peer send more when there is room for it.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let receiving = &mut state.receiving;
        if receiving.bytes.is_empty() {
            if receiving.is_over {
                return Poll::Ready(Ok(()));
            }
            if let Some(error) = state.error() {
                return Poll::Ready(Err(error));
            }
            state.receiving.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let size = receiving.bytes.len().min(into.remaining());
        into.put_slice(&receiving.bytes[..size]);
        receiving.bytes.advance(size);
        receiving.read += size as u64;
        if receiving.bytes.is_empty() && receiving.bytes.capacity() > IDLE_ROOM {
            receiving.bytes = BytesMut::new();
        }
        if let Some(credit) = state.credit() {
            let message = Numbered {
                number: state.sending.take_number(),
                content: Content::Credit(credit),
            };
            // Under the lock: numbers travel in their order.
            self.link.publish(self.head(), &message.encode());
        }
        Poll::Ready(Ok(()))
    }

    /// Sends bytes from the front of `pieces`, as far as the window and the buffer of the link have room.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        if let Some(error) = state.error() {
            return Poll::Ready(Err(error));
        }
        let sending = &mut state.sending;
        let window = usize::try_from(sending.allowed - sending.sent).unwrap_or(usize::MAX);
        if window == 0 {
            sending.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let header = message::data_header(sending.next);
        let mut parts = vec![IoSlice::new(&header)];
        let mut size = 0;
        for piece in pieces {
            let part = piece.len().min(window.min(self.largest) - size);
            if part > 0 {
                parts.push(IoSlice::new(&piece[..part]));
                size += part;
            }
        }
        let said = self.link.poll_say(cx, self.number, |buffer| {
            publish(buffer, self.head(), &parts);
        });
        said.map_ok(|()| {
            sending.next += 1;
            sending.sent += size as u64;
            size
        })
    }

    /// Says that nothing follows, and is ready when the server of NATS has taken that.
    pub(crate) fn poll_finish(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state();
        let pong = match state.sending.finished {
            Some(pong) => pong,
            None => {
                if let Some(error) = state.error() {
                    return Poll::Ready(Err(error));
                }
                self.say_end(&mut state)
            }
        };
        drop(state);
        self.link.poll_pong(cx, pong)
    }

    /// Says that nothing follows. What is said over the link is written after this end has gone, too.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        if state.sending.finished.is_none() && state.broken.is_none() {
            self.say_end(&mut state);
        }
    }

    fn say_end(&self, state: &mut State) -> u64 {
        let message = Numbered {
            number: state.sending.take_number(),
            content: Content::End,
        };
        self.link.publish(self.head(), &message.encode());
        let pong = self.link.ping();
        state.sending.finished = Some(pong);
        pong
    }

    /// Lets go of the connection: a peer that does not know yet that it is over is told.
    pub(crate) fn hang_up(&self) {
        let state = self.state();
        let is_cut = state.broken.as_ref();
        let knows = is_cut.is_some_and(|(kind, _)| *kind != io::ErrorKind::InvalidData)
            || state.sending.finished.is_some();
        drop(state);
        if !knows && !self.head().is_empty() {
            self.link.publish(self.head(), &message::cut());
        }
        self.link.forget(self.number);
        self.break_off(
            io::ErrorKind::ConnectionAborted,
            "this end has cut the connection",
        );
    }

    /// Tells the peer that it has a connection now, with an instance of a server, and that NATS is to say on the subject
    /// `unheard` if nobody hears that. Said once more when the peer has asked again because the first one did not reach it.
    pub(crate) fn welcome(&self, announcement: message::Announcement<'_>, unheard: &str) {
        let mut state = self.state();
        let message = Numbered {
            number: 0,
            content: Content::Welcome(announcement),
        };
        state.sending.next = state.sending.next.max(1);
        let head = format!("{} {unheard}", self.head());
        self.link.publish(&head, &message.encode());
    }
}

/// What a message has led to.
enum Took<'m> {
    Nothing,
    Wake(Waker),
    Opened(message::Announcement<'m>, Option<Waker>),
}

/// Why a message ends its connection.
enum Refusal {
    Violated(&'static str),
    /// The server does not take the connection.
    Refused(String),
}

impl State {
    fn error(&self) -> Option<io::Error> {
        let (kind, why) = self.broken.as_ref()?;
        Some(io::Error::new(*kind, why.clone()))
    }

    /// Takes what a message carries, whose number was right.
    fn take<'m>(&mut self, content: Content<'m>) -> Result<Took<'m>, Refusal> {
        let violated = |why| Err(Refusal::Violated(why));
        if let Opening::Asked(waker) = &mut self.opening {
            return match content {
                Content::Welcome(announcement) => {
                    let waker = waker.take();
                    self.opening = Opening::Open;
                    Ok(Took::Opened(announcement, waker))
                }
                Content::Refused(why) => Err(Refusal::Refused(why)),
                _ => violated("a message before the connection was open"),
            };
        }
        if self.receiving.is_over && !matches!(content, Content::Credit(_)) {
            return violated("a message behind the end");
        }
        let waker = match content {
            Content::Data(bytes) => {
                let receiving = &mut self.receiving;
                receiving.arrived += bytes.len() as u64;
                if receiving.arrived > receiving.allowed {
                    return violated("more bytes than the window allows");
                }
                receiving.bytes.extend_from_slice(bytes);
                receiving.waker.take()
            }
            Content::End => {
                self.receiving.is_over = true;
                self.receiving.waker.take()
            }
            Content::Credit(allowed) => {
                let sending = &mut self.sending;
                if allowed < sending.allowed || allowed > sending.sent.saturating_add(WINDOW) {
                    return violated("a credit that cannot be");
                }
                sending.allowed = allowed;
                sending.waker.take()
            }
            Content::Welcome(_) | Content::Refused(_) | Content::Cut => {
                return violated("a message that means nothing here");
            }
        };
        Ok(waker.map_or(Took::Nothing, Took::Wake))
    }

    /// Returns how many bytes the peer may have sent, when it is time to tell it.
    fn credit(&mut self) -> Option<u64> {
        let receiving = &mut self.receiving;
        let window = WINDOW.min(FIRST_WINDOW + receiving.read);
        let allowed = receiving.read + window;
        let is_due = allowed - receiving.allowed >= window / 2;
        let is_wanted = is_due && !receiving.is_over && self.broken.is_none();
        if !is_wanted {
            return None;
        }
        receiving.allowed = allowed;
        Some(allowed)
    }
}

impl Sending {
    fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

#[cfg(test)]
mod tests;
