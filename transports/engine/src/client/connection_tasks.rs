//! The two tasks of a client's connection: one reads, one writes.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use saline_protocol::transport::{Metric, Topic};
use tokio_util::sync::CancellationToken;

use super::ClientCore;
use super::requests::Taken;
use crate::alarm::{Alarm, IdleWatch};
use crate::pipe::{ReadPipe, WritePipe};
use crate::state::{Keepalive, PingTimer};
use crate::wire::{BOUNDARY, Frame, FrameKind, FrameReader, Violation};
use crate::{FAREWELL, gather};

/// The task that reads.
#[derive(Debug)]
pub(super) struct Reader<R> {
    pub(super) pipe: R,
    pub(super) frames: FrameReader,
    pub(super) core: Arc<ClientCore>,
    pub(super) keepalive: Keepalive,
}

impl<R: ReadPipe> Reader<R> {
    /// Reads until the connection ends or `over` is cancelled.
    pub(super) async fn run(mut self, over: CancellationToken) {
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            () = self.read() => {}
        }
    }

    async fn read(&mut self) {
        let (mut outcomes, mut arrived) = (Vec::new(), Vec::new());
        let context = &self.core.lifetime.context;
        let mut idle = IdleWatch::new(context.clock, self.keepalive.dead_after, &self.pipe, None);
        loop {
            let taken = take(&mut self.frames, &self.core, &mut outcomes, &mut arrived);
            // Also before a violation: what came in before it is good.
            self.core.requests.settle(&mut outcomes);
            self.core.deliver(&mut arrived);
            if let Err(Violation(why)) = taken {
                tracing::warn!(why, "the server broke the protocol");
                context.count(Metric::PeersRefused);
                return;
            }
            tokio::select! {
                // First what has come in: on a busy machine both may be ready.
                biased;
                read = self.frames.fill(&mut self.pipe) => match read {
                    Ok(0) => return,
                    Ok(_) => idle.heard(),
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        tracing::warn!(%error, "the server broke a rule of the connection");
                        context.count(Metric::PeersRefused);
                        return;
                    }
                    Err(error) => {
                        tracing::debug!(%error, "the connection broke while reading");
                        return;
                    }
                },
                () = idle.dead() => {
                    tracing::debug!("the server is silent");
                    return;
                }
            }
        }
    }
}

/// Takes the frames that have arrived.
fn take(
    frames: &mut FrameReader,
    core: &ClientCore,
    outcomes: &mut Vec<(u64, Option<Bytes>)>,
    arrived: &mut Vec<(Topic, Bytes)>,
) -> Result<(), Violation> {
    loop {
        frames.messages(FrameKind::Reply, usize::MAX, |id, payload| {
            outcomes.push((id, Some(payload)));
        })?;
        frames.publications(arrived)?;
        // Page by page: what is not many at once stays in the processor's cache.
        core.deliver(arrived);
        let Some(frame) = frames.next()? else {
            return Ok(());
        };
        match frame {
            Frame::Reply { id, payload } => outcomes.push((id, Some(payload))),
            Frame::NoReply(id) => outcomes.push((id, None)),
            Frame::Publication { topic, payload } => arrived.push((topic, payload)),
            Frame::Subscribed(id) => {
                // What came before is not for it.
                core.deliver(arrived);
                core.confirmed(id);
            }
            Frame::SubscriptionRefused(id) => {
                core.deliver(arrived);
                core.refused(id);
            }
            Frame::Lagged { id, count } if count > 0 => {
                core.deliver(arrived);
                core.subscriptions().lagged(id, count);
            }
            Frame::Ping => {}
            Frame::Admitted => core.admitted(),
            _ => return Err(Violation("a frame that means nothing here")),
        }
    }
}

/// The task that writes.
#[derive(Debug)]
pub(super) struct Writer<W> {
    pub(super) pipe: W,
    pub(super) core: Arc<ClientCore>,
    pub(super) keepalive: Keepalive,
    /// The largest payload that the server takes.
    pub(super) largest: usize,
}

impl<W: WritePipe> Writer<W> {
    /// Writes until the connection breaks or `over` is cancelled; then it says goodbye, as far as the
    /// connection takes it at once.
    pub(super) async fn run(mut self, over: CancellationToken) {
        let written = tokio::select! {
            biased;
            () = over.cancelled() => Ok(()),
            written = self.write() => written,
        };
        if let Err(error) = written {
            tracing::debug!(%error, "the connection broke while writing");
            return self.pipe.abort();
        }
        let lifetime = &self.core.lifetime;
        let clock = lifetime.context.clock;
        let mut until = clock.after(FAREWELL);
        if lifetime.stop.is_cancelled() {
            until = until.min(lifetime.deadline());
        }
        let finished = poll_fn(|cx| self.pipe.poll_finish(cx));
        if !matches!(clock.deadline(until, finished).await, Ok(Ok(()))) {
            self.pipe.abort();
        }
    }

    async fn write(&mut self) -> io::Result<()> {
        let core = Arc::clone(&self.core);
        let requests = &core.requests;
        let clock = core.lifetime.context.clock;
        let mut taken = Taken::default();
        let mut ping = PingTimer::new(clock.now(), self.keepalive.ping_after);
        let mut alarm = Alarm::new(ping.deadline());
        loop {
            if self.stage(&mut taken) {
                let size = requests.staged().buffer.len();
                while !requests.write_once(&mut self.pipe).await? {}
                ping.spoke(clock.now());
                if size >= BOUNDARY {
                    // As long as a pipe has room, the others would wait, and the reader among them would
                    // take the server for silent.
                    tokio::task::yield_now().await;
                }
                continue;
            }
            tokio::select! {
                biased;
                () = requests.wake.notified() => {
                    gather(&requests.wake, || requests.gathered()).await;
                }
                () = alarm.rings() => {
                    if clock.now() >= ping.deadline() {
                        // Idle now: what it needed while it was busy goes.
                        taken = Taken::default();
                        self.stage_ping();
                        while !requests.write_once(&mut self.pipe).await? {}
                        ping.spoke(clock.now());
                    }
                    alarm.set(ping.deadline());
                }
            }
        }
    }

    /// Says that the client is alive, when there is nothing else to say.
    fn stage_ping(&self) {
        let mut staged = self.core.requests.staged();
        staged.buffer.rest();
        staged.buffer.frame(FrameKind::Ping, &[], &Bytes::new());
    }

    /// Puts together what there is to say; what is about subscriptions comes first.
    fn stage(&self, taken: &mut Taken) -> bool {
        let core = &self.core;
        let mut staged = core.requests.staged();
        core.announce_subscriptions(&mut staged.buffer);
        let now = core.lifetime.context.clock.now();
        core.requests.stage(&mut staged, self.largest, now, taken)
    }
}
