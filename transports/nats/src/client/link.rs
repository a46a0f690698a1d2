//! A link: an established connection to a server, the task that reads and writes it, and the handle that everybody
//! else has.
//!
//! Whoever has something to say puts it into the buffer of the [`Link`], and the task writes what has come together in
//! one call. Nothing is kept when the link breaks: what was in the buffer is lost with it, and its owners are told.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BytesMut;
use saline_engine::{IdleTimer, Keepalive, Lifetime, PingTimer};
use saline_protocol::transport::{Clock, Instant};
use tokio::io::AsyncWrite;
use tokio_util::io::poll_read_buf;
use tokio_util::sync::CancellationToken;

use super::{Established, Stream, disagrees};
use crate::protocol::{Message, Operation, PING, PONG, Parser, publish, subscribe, unsubscribe};

/// Bytes that wait to be written before no connection adds more of its own.
const BUFFER: usize = 256 * 1024;

/// The least room for a read, and the most.
const READ: usize = 4 * 1024;
const LARGE_READ: usize = 128 * 1024;

/// Refusals that are kept for whoever asks.
const REFUSALS: usize = 16;

/// What the owner of a link does with what arrives. Called by the task of the link, so it must not wait.
pub(crate) trait Handler: Send + 'static {
    /// Takes a message.
    fn message(&mut self, message: Message) -> Next;

    /// Takes an error of the server after which the link goes on, such as a refused publication.
    fn refused(&mut self, why: &str);

    /// Takes note that the link has ended.
    fn ended(&mut self, end: &LinkEnd);
}

/// What a link does after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It goes on.
    GoOn,
    /// It ends after this time.
    EndAfter(Duration),
}

/// Why a link has ended.
#[derive(Debug, Clone)]
pub(crate) struct LinkEnd(pub(crate) Arc<str>);

/// The handle of a link.
#[derive(Debug)]
pub(crate) struct Link {
    outgoing: Mutex<Outgoing>,
    /// Cancelled when the task has ended.
    pub(crate) over: CancellationToken,
    /// The user as a token of subjects.
    pub(crate) user: String,
    /// The server, for people to read.
    pub(crate) server: String,
    /// The largest payload that the server takes.
    pub(crate) max_payload: usize,
}

#[derive(Debug, Default)]
struct Outgoing {
    buffer: Vec<u8>,
    /// Wakes the task.
    task: Option<Waker>,
    /// Connections that wait for room, by their number.
    waiting: HashMap<u64, Waker>,
    /// PINGs that were put into the buffer, and PONGs that have arrived.
    pings: u64,
    pongs: u64,
    /// Those that wait for a PONG.
    pong_waiters: Vec<Waker>,
    /// What the server has refused.
    refusals: Vec<String>,
    /// The link ends when everything is written.
    is_closing: bool,
    end: Option<LinkEnd>,
}

impl Outgoing {
    fn wake_task(&mut self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }
}

impl Link {
    /// Starts the task of a link, among `tasks`.
    pub(crate) fn start<H: Handler>(
        established: Established,
        tasks: &Lifetime,
        handler: impl FnOnce(&Arc<Self>) -> H,
    ) -> Arc<Self> {
        let context = &tasks.context;
        let link = Arc::new(Self {
            outgoing: Mutex::default(),
            over: CancellationToken::new(),
            user: established.user,
            server: established.server,
            max_payload: established.max_payload,
        });
        let now = context.clock.now();
        let keepalive = Keepalive::new(&context.limits, context.limits.ping_interval);
        let task = LinkTask {
            handler: EndGuard {
                handler: handler(&link),
                link: Arc::clone(&link),
                end: LinkEnd("it was cut".into()),
            },
            stream: established.stream,
            parser: established.parser,
            link: Arc::clone(&link),
            writing: Vec::new(),
            written: 0,
            room: READ,
            clock: context.clock,
            idle: IdleTimer::new(now, keepalive.dead_after),
            ping: PingTimer::new(now, keepalive.ping_after),
            end_at: None,
        };
        tasks.spawn(Box::pin(task.run()));
        link
    }

    /// Returns a link without a task, whose buffer a test takes.
    #[cfg(test)]
    pub(crate) fn without_task() -> Arc<Self> {
        Arc::new(Self {
            outgoing: Mutex::default(),
            over: CancellationToken::new(),
            user: "u".to_owned(),
            server: "a test".to_owned(),
            max_payload: 1 << 20,
        })
    }

    /// Takes what was said.
    #[cfg(test)]
    pub(crate) fn take_said(&self) -> Vec<u8> {
        let mut outgoing = self.outgoing();
        let waiting = std::mem::take(&mut outgoing.waiting);
        waiting.into_values().for_each(Waker::wake);
        std::mem::take(&mut outgoing.buffer)
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        // Each change is consistent by itself, so a panic elsewhere does not spoil it.
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a command into the buffer, whether there is room or not: commands are few and short.
    pub(crate) fn say(&self, command: impl FnOnce(&mut Vec<u8>)) {
        let mut outgoing = self.outgoing();
        if outgoing.end.is_none() {
            command(&mut outgoing.buffer);
            outgoing.wake_task();
        }
    }

    /// The same, unless the buffer is full: for answers that a peer can cause at will.
    pub(crate) fn say_if_there_is_room(&self, command: impl FnOnce(&mut Vec<u8>)) {
        if self.outgoing().buffer.len() < BUFFER {
            self.say(command);
        }
    }

    /// The same, as soon as there is room. `number` is that of the connection that waits.
    pub(crate) fn poll_say(
        &self,
        cx: &mut Context<'_>,
        number: u64,
        command: impl FnOnce(&mut Vec<u8>),
    ) -> Poll<io::Result<()>> {
        let mut outgoing = self.outgoing();
        if let Some(end) = &outgoing.end {
            return Poll::Ready(Err(broken(end)));
        }
        if outgoing.buffer.len() >= BUFFER {
            outgoing.waiting.insert(number, cx.waker().clone());
            return Poll::Pending;
        }
        command(&mut outgoing.buffer);
        outgoing.wake_task();
        Poll::Ready(Ok(()))
    }

    /// Takes note that the connection of this number waits no more.
    pub(crate) fn forget(&self, number: u64) {
        self.outgoing().waiting.remove(&number);
    }

    /// Subscribes to a subject: its messages come with this number.
    pub(crate) fn subscribe(&self, subject: &str, number: u64) {
        self.say(|buffer| subscribe(buffer, subject, number));
    }

    /// Ends a subscription.
    pub(crate) fn unsubscribe(&self, number: u64) {
        self.say(|buffer| unsubscribe(buffer, number));
    }

    /// Publishes a message that needs no window.
    pub(crate) fn publish(&self, head: &str, payload: &[u8]) {
        self.say(|buffer| publish(buffer, head, &[io::IoSlice::new(payload)]));
    }

    /// Asks the server for a PONG, and returns its number.
    pub(crate) fn ping(&self) -> u64 {
        let mut outgoing = self.outgoing();
        outgoing.buffer.extend_from_slice(PING);
        outgoing.pings += 1;
        outgoing.wake_task();
        outgoing.pings
    }

    /// Is ready when the PONG of this number has come: the server has taken everything that was said before it.
    pub(crate) fn poll_pong(&self, cx: &mut Context<'_>, number: u64) -> Poll<io::Result<()>> {
        let mut outgoing = self.outgoing();
        if outgoing.pongs >= number {
            return Poll::Ready(Ok(()));
        }
        if let Some(end) = &outgoing.end {
            return Poll::Ready(Err(broken(end)));
        }
        if !outgoing
            .pong_waiters
            .iter()
            .any(|waiter| waiter.will_wake(cx.waker()))
        {
            outgoing.pong_waiters.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Waits until the server has taken everything that was said.
    ///
    /// # Errors
    /// `InvalidData` with what the server has refused since the last call; the link's end.
    ///
    /// # Cancel safety
    /// What was said stays said.
    pub(crate) async fn round_trip(&self) -> io::Result<()> {
        let number = self.ping();
        poll_fn(|cx| self.poll_pong(cx, number)).await?;
        let refusals = std::mem::take(&mut self.outgoing().refusals);
        match refusals.is_empty() {
            true => Ok(()),
            false => Err(disagrees(self.refusal(&refusals.join("; ")))),
        }
    }

    /// Returns a refusal of the server, with its name and the user.
    pub(crate) fn refusal(&self, why: &str) -> String {
        format!("{} refuses user {}: {why}", self.server, self.user)
    }

    /// Ends the link when everything that was said is written.
    pub(crate) fn close(&self) {
        let mut outgoing = self.outgoing();
        outgoing.is_closing = true;
        outgoing.wake_task();
    }

    /// Returns why the link has ended, once it has.
    pub(crate) fn end(&self) -> Option<LinkEnd> {
        self.outgoing().end.clone()
    }
}

/// Returns the error of a link that has ended.
pub(crate) fn broken(end: &LinkEnd) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, end.0.to_string())
}

/// The handler of a task, which is told of its end, however that comes.
struct EndGuard<H: Handler> {
    handler: H,
    link: Arc<Link>,
    end: LinkEnd,
}

impl<H: Handler> Drop for EndGuard<H> {
    fn drop(&mut self) {
        let (waiting, waiters) = {
            let mut outgoing = self.link.outgoing();
            outgoing.end = Some(self.end.clone());
            outgoing.buffer = Vec::new();
            let waiting = std::mem::take(&mut outgoing.waiting);
            (waiting, std::mem::take(&mut outgoing.pong_waiters))
        };
        self.handler.ended(&self.end);
        waiting.into_values().chain(waiters).for_each(Waker::wake);
        self.link.over.cancel();
    }
}

/// The task of a link.
struct LinkTask<H: Handler> {
    handler: EndGuard<H>,
    stream: Stream,
    parser: Parser,
    link: Arc<Link>,
    /// What is being written, and how much of it is.
    writing: Vec<u8>,
    written: usize,
    /// The room for the next read.
    room: usize,
    clock: Clock,
    idle: IdleTimer,
    ping: PingTimer,
    /// When the link ends, once that is known.
    end_at: Option<Instant>,
}

impl<H: Handler> LinkTask<H> {
    async fn run(mut self) {
        let why = loop {
            let mut until = self.idle.deadline().min(self.ping.deadline());
            if let Some(end_at) = self.end_at {
                until = until.min(end_at);
            }
            let clock = self.clock;
            tokio::select! {
                biased;
                why = poll_fn(|cx| self.poll(cx)) => {
                    if let Some(why) = why {
                        break why;
                    }
                }
                () = clock.until(until) => {
                    if let Some(why) = self.look_at_the_time() {
                        break why;
                    }
                }
            }
        };
        self.handler.end = LinkEnd(why.into());
        tracing::debug!(server = %self.link.server, why = %self.handler.end.0, "a link ended");
    }

    /// Does what is due. Returns why the link ends, if it does.
    fn look_at_the_time(&mut self) -> Option<String> {
        let now = self.clock.now();
        if self.end_at.is_some_and(|at| now >= at) {
            return Some("it was asked to end".to_owned());
        }
        if now >= self.idle.deadline() && self.idle.is_dead(now) {
            return Some(format!("{} is silent", self.link.server));
        }
        if now >= self.ping.deadline() {
            self.link.ping();
            self.ping.spoke(now);
        }
        None
    }

    /// Writes and reads until neither goes on. Ready with the reason when the link has ended, and without one when the
    /// time of its end has changed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<String>> {
        let end_at = self.end_at;
        loop {
            match self.poll_write(cx) {
                Poll::Ready(Ok(())) if self.link.outgoing().is_closing => {
                    return Poll::Ready(Some("it was closed".to_owned()));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Some(self.broke(&error))),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            match ready!(self.poll_read(cx)) {
                Ok(()) if self.end_at == end_at => {}
                Ok(()) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(self.broke(&error))),
            }
        }
    }

    fn broke(&self, error: &io::Error) -> String {
        // What the server said last explains it better than the end of the connection.
        match self.link.outgoing().refusals.last() {
            Some(refusal) => self.link.refusal(refusal),
            None => format!("the connection to {} broke: {error}", self.link.server),
        }
    }

    /// Writes everything that was said. Ready when all is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.written == self.writing.len() && !self.refill(cx) {
                return Pin::new(&mut self.stream).poll_flush(cx);
            }
            let stream = Pin::new(&mut self.stream);
            let wrote = ready!(stream.poll_write(cx, &self.writing[self.written..]))?;
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += wrote;
        }
    }

    /// Takes what was said since. Returns false when that is nothing.
    fn refill(&mut self, cx: &mut Context<'_>) -> bool {
        self.written = 0;
        self.writing.clear();
        let mut outgoing = self.link.outgoing();
        if outgoing.buffer.is_empty() {
            let known = outgoing.task.as_ref();
            if !known.is_some_and(|task| task.will_wake(cx.waker())) {
                outgoing.task = Some(cx.waker().clone());
            }
            if self.writing.capacity() > READ {
                // Idle: what it needed while it was busy goes.
                self.writing = Vec::new();
            }
            return false;
        }
        std::mem::swap(&mut self.writing, &mut outgoing.buffer);
        let waiting = std::mem::take(&mut outgoing.waiting);
        drop(outgoing);
        waiting.into_values().for_each(Waker::wake);
        true
    }

    /// Reads once, and hands on what has arrived.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.parser.buffer.reserve(self.room);
        let stream = Pin::new(&mut self.stream);
        let read = match poll_read_buf(stream, cx, &mut self.parser.buffer) {
            Poll::Ready(read) => read.map_err(saline_tls::explained)?,
            Poll::Pending => {
                if self.parser.buffer.is_empty() {
                    // An idle link keeps no room for what may come.
                    self.parser.buffer = BytesMut::new();
                    self.room = READ;
                }
                return Poll::Pending;
            }
        };
        if read == 0 {
            let why = "the server hung up";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, why)));
        }
        if read >= self.room {
            self.room = (self.room * 2).min(LARGE_READ);
        }
        let now = self.clock.now();
        self.idle.heard(now);
        self.ping.spoke(now);
        self.handle(now)?;
        Poll::Ready(Ok(()))
    }

    /// Hands on the operations that have arrived.
    fn handle(&mut self, now: Instant) -> io::Result<()> {
        loop {
            let operation = self.parser.next();
            match operation.map_err(|error| disagrees(error.to_string()))? {
                None => return Ok(()),
                Some(Operation::Message(message)) => {
                    if let Next::EndAfter(time) = self.handler.handler.message(message) {
                        let at = now + time;
                        self.end_at = Some(self.end_at.map_or(at, |before| before.min(at)));
                    }
                }
                Some(Operation::Ping) => self.link.say(|buffer| buffer.extend_from_slice(PONG)),
                Some(Operation::Pong) => {
                    let waiters = {
                        let mut outgoing = self.link.outgoing();
                        outgoing.pongs += 1;
                        std::mem::take(&mut outgoing.pong_waiters)
                    };
                    waiters.into_iter().for_each(Waker::wake);
                }
                Some(Operation::Error(why)) => {
                    {
                        let mut outgoing = self.link.outgoing();
                        if outgoing.refusals.len() < REFUSALS {
                            outgoing.refusals.push(why.clone());
                        }
                    }
                    self.handler.handler.refused(&why);
                }
                Some(Operation::Info(_) | Operation::Ok) => {}
            }
        }
    }
}
