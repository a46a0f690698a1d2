//! The two tasks that talk to one client: one reads, one writes.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use saline_protocol::transport::{AdmissionLimits, Metric};

use super::connection::Connection;
use super::requests::InboundRequest;
use crate::alarm::{Alarm, IdleWatch};
use crate::gather;
use crate::pipe::{ReadPipe, WritePipe};
use crate::state::{Drained, Keepalive, Next, PingTimer, Ticks};
use crate::wire::{BOUNDARY, Frame, FrameKind, FrameReader, SendBuffer, Violation};

/// Permits that a reader takes at once; it gives back what it does not need.
const PERMITS: usize = 64;

/// The task that reads. Its end is the end of the connection.
#[derive(Debug)]
pub(super) struct Reader<R> {
    connection: Arc<Connection>,
    pipe: R,
    frames: FrameReader,
    /// Permits that it holds for requests to come.
    permits: usize,
    /// Bytes that it has reported as part of unfinished requests, while it is not admitted.
    partial_bytes: usize,
}

impl<R> Drop for Reader<R> {
    fn drop(&mut self) {
        self.report_partial(0);
        let core = &self.connection.core;
        // Unless others have cut it, who have closed it too.
        core.disconnect(self.connection.number());
        core.resume(core.requests.leave(self.connection.number()));
        core.release_permits(std::mem::take(&mut self.permits));
        if self.connection.has_session() {
            core.departures.push(self.connection.peer);
        }
        self.connection.context().count(Metric::Disconnected);
    }
}

impl<R> Reader<R> {
    /// Returns the reader of a connection that was added to the hub: dropping it removes it there.
    pub(super) fn new(connection: &Arc<Connection>, pipe: R, frames: FrameReader) -> Self {
        Self {
            connection: Arc::clone(connection),
            pipe,
            frames,
            permits: 0,
            partial_bytes: 0,
        }
    }

    /// Reports how many bytes of unfinished requests there are. Returns how many all connections have
    /// that are not admitted.
    fn report_partial(&mut self, bytes: usize) -> usize {
        let all = &self.connection.core.partial_bytes;
        let before = std::mem::replace(&mut self.partial_bytes, bytes);
        match bytes >= before {
            true => all.fetch_add(bytes - before, Ordering::Relaxed) + (bytes - before),
            false => all.fetch_sub(before - bytes, Ordering::Relaxed) - (before - bytes),
        }
    }
}

impl<R: ReadPipe> Reader<R> {
    /// Reads until the connection ends.
    pub(super) async fn run(mut self) {
        let connection = Arc::clone(&self.connection);
        tokio::select! {
            biased;
            () = connection.closed.cancelled() => {}
            // Whatever it does meanwhile, and whatever is waited for on its account.
            () = too_late(&connection) => {
                tracing::debug!(peer = %connection.peer, "a peer has no session in time");
                connection.context().count(Metric::PeersRefused);
            }
            read = self.read() => if let Err(Violation(why)) = read {
                tracing::debug!(peer = %connection.peer, why, "a peer broke the protocol");
                connection.context().count(Metric::PeersRefused);
            }
        }
    }

    async fn read(&mut self) -> Result<(), Violation> {
        let connection = Arc::clone(&self.connection);
        let lifetime = &connection.core.lifetime;
        let clock = lifetime.context.clock;
        let keepalive = Keepalive::new(&lifetime.context.limits, connection.client.ping);
        let ticks = Ticks::new(connection.core.started, &keepalive);
        let mut idle = IdleWatch::new(clock, keepalive.dead_after, &self.pipe, Some(ticks));
        let mut admission = lifetime.context.limits.admission.clone().map(Admission);
        // When a peer that is to close has had its time.
        let mut over = None;
        let mut flushed = pin!(connection.flushed.cancelled());
        loop {
            if self.connection.has_session()
                && let Some(Admission(_)) = admission.take()
            {
                self.frames.admit(&self.connection.context().limits);
                self.report_partial(0);
            }
            let taken = tokio::select! {
                biased;
                taken = self.take() => taken,
                // It may wait in line for a permit, or until less is owed. A broken connection is noticed by the writer.
                () = idle.dead_unread() => {
                    tracing::debug!(peer = %connection.peer, "a peer is silent that is not read");
                    return Ok(());
                }
            };
            if taken? {
                // Time that it did not read says nothing about its peer.
                idle.heard();
            }
            if let Some(pending) = &admission {
                // What has arrived as a whole is taken: the rest is unfinished.
                pending.bound(self)?;
            }
            tokio::select! {
                // First what has come in: on a busy machine both may be ready.
                biased;
                read = self.frames.fill(&mut self.pipe) => match read {
                    Ok(0) => return Ok(()),
                    Ok(_) => idle.heard(),
                    Err(error) if error.kind() == ErrorKind::InvalidData => {
                        tracing::debug!(peer = %connection.peer, %error, "a peer broke a rule");
                        connection.context().count(Metric::PeersRefused);
                        return Ok(());
                    }
                    Err(error) => {
                        tracing::debug!(peer = %connection.peer, %error, "a connection broke");
                        return Ok(());
                    }
                },
                () = idle.dead(), if over.is_none() => {
                    tracing::debug!(peer = %connection.peer, "a peer is silent");
                    return Ok(());
                }
                () = clock.until(over.unwrap_or_else(|| clock.now())), if over.is_some() => {
                    tracing::debug!(peer = %connection.peer, "a peer does not close");
                    return Ok(());
                }
                () = &mut flushed, if over.is_none() => {
                    // Closing a socket that holds unread bytes resets it, which can cost the peer
                    // what it has not read yet. So it is the peer who closes, if it does so soon.
                    over = Some(lifetime.deadline().min(clock.after(keepalive.dead_after)));
                }
            }
        }
    }

    /// Takes the frames that are there. Returns whether it had to wait.
    async fn take(&mut self) -> Result<bool, Violation> {
        let connection = Arc::clone(&self.connection);
        let core = &connection.core;
        let mut requests = Vec::new();
        let mut waited = false;
        let taken = self.take_frames(&mut requests, &mut waited).await;
        // Also before a violation: what came in before it is good.
        hand_over(&connection, &mut requests);
        if self.permits > 0 {
            core.release_permits(std::mem::take(&mut self.permits));
        }
        taken?;
        waited |= connection.room().await;
        waited |= core.requests.room().await;
        Ok(waited)
    }

    async fn take_frames(
        &mut self,
        requests: &mut Vec<InboundRequest>,
        waited: &mut bool,
    ) -> Result<(), Violation> {
        let connection = Arc::clone(&self.connection);
        let core = &connection.core;
        let number = connection.number();
        let is_stopping = core.lifetime.stop.is_cancelled();
        while let Some(frame) = self.frames.next()? {
            match frame {
                Frame::Request { .. } if is_stopping => {
                    // Its client learns from the end of the connection that it was too late.
                }
                Frame::Request { id, payload } => {
                    if self.permits == 0 && !self.reserve(false) {
                        *waited = true;
                        hand_over(&connection, requests);
                        tokio::select! {
                            () = self.permit() => {}
                            () = core.lifetime.stop.cancelled() => continue,
                        }
                    }
                    requests.push(InboundRequest::new(&connection, id, payload));
                    // Those that came with it, as far as there are permits.
                    let before = requests.len();
                    let more = |id, payload| {
                        requests.push(InboundRequest::new(&connection, id, payload));
                    };
                    let taken = self
                        .frames
                        .messages(FrameKind::Request, self.permits - 1, more);
                    self.permits -= 1 + requests.len() - before;
                    taken?;
                }
                Frame::Subscribe { id, filters } => {
                    let most = connection.most_filters();
                    let mut hub = core.hub();
                    if let Some(granted) = hub.subscribe(number, id, filters, most)? {
                        // Under the lock: before anything that is published from now on.
                        connection.confirm(id, granted);
                    }
                }
                Frame::Unsubscribe(id) => core.hub().unsubscribe(number, id),
                Frame::Ping => {}
                _ => return Err(Violation("a frame that means nothing here")),
            }
        }
        Ok(())
    }

    /// Takes permits, if there are any. If not, the connection waits in line for them.
    fn reserve(&mut self, in_turn: bool) -> bool {
        let core = &self.connection.core;
        let number = self.connection.number();
        let (granted, next) = core.requests.reserve(number, PERMITS, in_turn);
        self.permits += granted;
        core.resume(next);
        granted > 0
    }

    /// Waits for its turn to take permits.
    async fn permit(&mut self) {
        loop {
            self.connection.permits.notified().await;
            if self.reserve(true) {
                return;
            }
        }
    }
}

/// Hands requests to the handler.
fn hand_over(connection: &Connection, requests: &mut Vec<InboundRequest>) {
    if !requests.is_empty() {
        connection.expect_answers(requests.len());
        connection.core.requests.push(requests);
    }
}

/// Resolves when a peer that is not admitted has had its time.
async fn too_late(connection: &Connection) {
    let context = connection.context();
    if let Some(limits) = &context.limits.admission {
        context.clock.pause(limits.time).await;
        if !connection.has_session() {
            return;
        }
    }
    std::future::pending().await
}

/// The bytes of an unfinished request that any peer may hold, whatever others hold: a message of a handshake
/// is smaller.
const HANDSHAKE_ROOM: usize = 8192;

/// Bounds the unfinished requests of a connection until a session stands with its peer.
struct Admission(AdmissionLimits);

impl Admission {
    /// Bounds the unfinished requests of a peer that is not admitted. When there are too many of all such
    /// peers, only one that holds more than a handshake needs is cut.
    fn bound<R>(&self, reader: &mut Reader<R>) -> Result<(), Violation> {
        let held = reader.frames.partial_bytes();
        let too_many = reader.report_partial(held) > self.0.partial_bytes;
        match too_many && held > HANDSHAKE_ROOM {
            true => Err(Violation("too many bytes of requests without a session")),
            false => Ok(()),
        }
    }
}

/// The task that writes.
#[derive(Debug)]
pub(super) struct Writer<W> {
    pub(super) connection: Arc<Connection>,
    pub(super) pipe: W,
}

impl<W: WritePipe> Writer<W> {
    /// Writes until the connection ends, or a graceful end has come to its own.
    pub(super) async fn run(mut self) {
        let connection = Arc::clone(&self.connection);
        tokio::select! {
            biased;
            () = connection.closed.cancelled() => self.pipe.abort(),
            written = self.write() => match written {
                Ok(()) => connection.flushed.cancel(),
                Err(error) => {
                    tracing::debug!(peer = %connection.peer, %error, "a connection broke");
                    self.pipe.abort();
                    connection.close();
                }
            }
        }
    }

    async fn write(&mut self) -> io::Result<()> {
        let connection = Arc::clone(&self.connection);
        let lifetime = &connection.core.lifetime;
        let clock = lifetime.context.clock;
        let keepalive = Keepalive::new(&lifetime.context.limits, connection.client.ping);
        let (mut buffer, mut drained) = (SendBuffer::default(), Drained::default());
        let mut ping = PingTimer::new(clock.now(), keepalive.ping_after);
        let ticks = Ticks::new(connection.core.started, &keepalive);
        let mut alarm = Alarm::new(ticks.before(ping.deadline(), clock.now()));
        let mut stopping = lifetime.stop.is_cancelled();
        // The future is made once, since all connections wait for the same token.
        let mut stop = pin!(lifetime.stop.cancelled());
        loop {
            match connection.drain(&mut buffer, &mut drained) {
                Next::Write => {
                    let size = buffer.len();
                    self.write_all(&mut buffer, &keepalive).await?;
                    ping.spoke(clock.now());
                    if size >= BOUNDARY {
                        // As long as a pipe has room, the others would wait, and the reader among them
                        // would take its peer for silent.
                        tokio::task::yield_now().await;
                    }
                    continue;
                }
                Next::Closed => return Err(ErrorKind::ConnectionAborted.into()),
                Next::Wait { answers_are_due } => {
                    if stopping && !answers_are_due {
                        return self.finish().await;
                    }
                }
            }
            tokio::select! {
                biased;
                () = connection.wake.notified() => {
                    gather(&connection.wake, || connection.gathered()).await;
                }
                () = &mut stop, if !stopping => stopping = true,
                () = clock.until(lifetime.deadline()), if stopping => {
                    lifetime.cut_short();
                    return Err(ErrorKind::TimedOut.into());
                }
                () = alarm.rings() => {
                    if ticks.is_due(ping.deadline(), clock.now()) {
                        // Idle now: what it needed while it was busy goes.
                        buffer.rest();
                        connection.rest();
                        drained = Drained::default();
                        buffer.frame(FrameKind::Ping, &[], &Bytes::new());
                        self.write_all(&mut buffer, &keepalive).await?;
                        ping.spoke(clock.now());
                    }
                    alarm.set(ticks.before(ping.deadline(), clock.now()));
                }
            }
        }
    }

    /// Writes `buffer`. A peer that takes nothing for as long as a silent one would have is cut: our
    /// own clients read whatever comes, so its process or the way to it is gone.
    async fn write_all(
        &mut self,
        buffer: &mut SendBuffer,
        keepalive: &Keepalive,
    ) -> io::Result<()> {
        let lifetime = &self.connection.core.lifetime;
        let clock = lifetime.context.clock;
        loop {
            let mut until = clock.after(keepalive.dead_after);
            if lifetime.stop.is_cancelled() {
                until = until.min(lifetime.deadline());
            }
            let writing = poll_fn(|cx| buffer.poll_write(cx, &mut self.pipe));
            match clock.deadline(until, writing).await {
                Ok(written) => {
                    if written? {
                        return Ok(());
                    }
                }
                Err(elapsed) => {
                    if lifetime.stop.is_cancelled() {
                        lifetime.cut_short();
                    }
                    return Err(io::Error::new(ErrorKind::TimedOut, elapsed));
                }
            }
        }
    }

    /// Tells the peer that nothing follows.
    async fn finish(&mut self) -> io::Result<()> {
        let lifetime = &self.connection.core.lifetime;
        let clock = lifetime.context.clock;
        let finishing = poll_fn(|cx| self.pipe.poll_finish(cx));
        match clock.deadline(lifetime.deadline(), finishing).await {
            Ok(finished) => finished,
            Err(elapsed) => {
                lifetime.cut_short();
                Err(io::Error::new(ErrorKind::TimedOut, elapsed))
            }
        }
    }
}

#[cfg(test)]
mod tests;
