//! The two tasks that talk to one client: one reads, one writes.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::Bytes;
use saline_engine::Silence;
use saline_protocol::transport::Metric;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::batch::Batch;
use crate::connection::{Connection, Parcel, Todo};
use crate::decode::FrameReader;
use crate::frame::{Frame, Kind, Violation};
use crate::inbox::Incoming;
use crate::link::Pulse;
use crate::stream::{ReadHalf, WriteHalf};

/// The task that reads. Its end is the end of the connection.
pub(crate) struct Reader {
    pub(crate) connection: Arc<Connection>,
    pub(crate) stream: ReadHalf,
    pub(crate) frames: FrameReader,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let core = &self.connection.core;
        if !core.hub.cut(self.connection.peer.connection) {
            // It was cut by others, who do not know whether it has ended.
            self.connection.close();
        }
        self.connection.context().count(Metric::Disconnected);
    }
}

impl Reader {
    /// Reads until the connection ends.
    pub(crate) async fn run(mut self) {
        let connection = Arc::clone(&self.connection);
        let closed = connection.closed.clone();
        tokio::select! {
            biased;
            () = closed.cancelled() => {}
            read = self.read() => if let Err(Violation(why)) = read {
                tracing::debug!(peer = %connection.peer, why, "a peer broke the protocol");
                connection.context().count(Metric::PeersRefused);
            }
        }
    }

    async fn read(&mut self) -> Result<(), Violation> {
        let connection = Arc::clone(&self.connection);
        let core = Arc::clone(&connection.core);
        let lifetime = &core.lifetime;
        let clock = lifetime.context.clock;
        let pulse = Pulse::new(&lifetime.context.limits, &connection.client);
        let mut silence = Silence::new(clock, pulse.dead);
        // When a peer that is to close has had its time.
        let mut over = None;
        loop {
            if self.take().await? {
                // Time that it did not read says nothing about its peer.
                silence.heard();
            }
            tokio::select! {
                // First what has come in: on a busy machine both may be ready.
                biased;
                read = self.frames.fill(&mut self.stream) => match read {
                    Ok(0) => return Ok(()),
                    Ok(_) => silence.heard(),
                    Err(error) => {
                        tracing::debug!(peer = %connection.peer, %error, "a connection broke");
                        return Ok(());
                    }
                },
                () = silence.over(), if over.is_none() => {
                    tracing::debug!(peer = %connection.peer, "a peer is silent");
                    return Ok(());
                }
                () = clock.until(over.unwrap_or_else(|| clock.now())), if over.is_some() => {
                    tracing::debug!(peer = %connection.peer, "a peer does not close");
                    return Ok(());
                }
                () = connection.flushed.cancelled(), if over.is_none() => {
                    // Closing a socket that holds unread bytes resets it, which can cost the peer
                    // what it has not read yet. So it is the peer who closes, if it does so soon.
                    over = Some(lifetime.deadline().min(clock.after(pulse.dead)));
                }
            }
        }
    }

    /// Takes the frames that are there. Returns whether it had to wait.
    async fn take(&mut self) -> Result<bool, Violation> {
        let connection = &self.connection;
        let core = &connection.core;
        let limits = &core.lifetime.context.limits;
        let mut waited = false;
        let mut requests = Vec::new();
        let stopping = core.lifetime.stop.is_cancelled();
        let outcome = loop {
            let frame = match self.frames.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break Ok(()),
                Err(violation) => break Err(violation),
            };
            match frame {
                Frame::Request { .. } if stopping => {
                    // Its client learns from the end of the connection that it was too late.
                }
                Frame::Request { id, payload } => {
                    if !core.try_permit() {
                        waited = true;
                        connection.hand_over(&mut requests);
                        tokio::select! {
                            () = core.permit() => {}
                            () = core.lifetime.stop.cancelled() => continue,
                        }
                    }
                    requests.push(Incoming::new(connection, id, payload));
                }
                Frame::Subscribe { id, filters } => {
                    let most = limits.subscriptions_per_connection;
                    let subscribed = core.hub.subscribe(connection, id, filters, most);
                    if let Err(violation) = subscribed {
                        break Err(violation);
                    }
                }
                Frame::Unsubscribe(id) => core.hub.unsubscribe(connection.peer.connection, id),
                Frame::Ping => {}
                _ => break Err(Violation("a frame that means nothing here")),
            }
        };
        connection.hand_over(&mut requests);
        outcome?;
        waited |= connection.room().await;
        waited |= core.inbox.room().await;
        Ok(waited)
    }
}

/// The task that writes.
pub(crate) struct Writer {
    pub(crate) connection: Arc<Connection>,
    pub(crate) stream: WriteHalf,
}

impl Writer {
    /// Writes until the connection ends, or a graceful end has come to its own.
    pub(crate) async fn run(mut self) {
        let connection = Arc::clone(&self.connection);
        let closed = connection.closed.clone();
        tokio::select! {
            biased;
            () = closed.cancelled() => {}
            written = self.write() => match written {
                Ok(()) => connection.flushed.cancel(),
                Err(error) => {
                    tracing::debug!(peer = %connection.peer, %error, "a connection broke");
                    connection.close();
                }
            }
        }
    }

    async fn write(&mut self) -> std::io::Result<()> {
        let connection = Arc::clone(&self.connection);
        let lifetime = &connection.core.lifetime;
        let clock = lifetime.context.clock;
        let pulse = Pulse::new(&lifetime.context.limits, &connection.client);
        let (mut batch, mut taken) = (Batch::default(), Parcel::default());
        let mut spoke = clock.now();
        let quiet = clock.until(spoke + pulse.every);
        tokio::pin!(quiet);
        let mut stopping = lifetime.stop.is_cancelled();
        loop {
            match connection.take(&mut batch, &mut taken) {
                Todo::Write => {
                    self.write_all(&mut batch, &pulse).await?;
                    spoke = clock.now();
                    continue;
                }
                Todo::Closed => return Err(ErrorKind::ConnectionAborted.into()),
                Todo::Wait { answers_are_due } => {
                    if stopping && !answers_are_due {
                        return self.stream.shutdown().await;
                    }
                }
            }
            tokio::select! {
                biased;
                () = connection.wake.notified() => {
                    // Others are about to answer too: all of it goes in one write.
                    tokio::task::yield_now().await;
                }
                () = lifetime.stop.cancelled(), if !stopping => stopping = true,
                () = clock.until(lifetime.deadline()), if stopping => {
                    lifetime.cut_short();
                    return Err(ErrorKind::TimedOut.into());
                }
                () = &mut quiet => {
                    if clock.now() >= spoke + pulse.every {
                        // Idle now: what it needed while it was busy goes.
                        batch.rest();
                        taken = Parcel::default();
                        batch.frame(Kind::Ping, &[], &Bytes::new());
                        self.write_all(&mut batch, &pulse).await?;
                        spoke = clock.now();
                    }
                    quiet.set(clock.until(spoke + pulse.every));
                }
            }
        }
    }

    /// Writes `batch`. A peer that takes nothing for as long as a silent one would have is cut: our
    /// own clients read whatever comes, so its process or the way to it is gone.
    async fn write_all(&mut self, batch: &mut Batch, pulse: &Pulse) -> std::io::Result<()> {
        let lifetime = &self.connection.core.lifetime;
        let clock = lifetime.context.clock;
        loop {
            let mut until = clock.after(pulse.dead);
            if lifetime.stop.is_cancelled() {
                until = until.min(lifetime.deadline());
            }
            let writing = std::future::poll_fn(|cx| {
                if !batch.is_empty() {
                    ready!(batch.poll_write(cx, &mut self.stream))?;
                    if !batch.is_empty() {
                        return Poll::Ready(Ok(false));
                    }
                }
                // TLS may hold back what it has not handed to the socket.
                Pin::new(&mut self.stream).poll_flush(cx).map_ok(|()| true)
            });
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
                    return Err(Error::new(ErrorKind::TimedOut, elapsed));
                }
            }
        }
    }
}
