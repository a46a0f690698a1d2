//! One link, as the client holds it: how it comes to stand, what flows over it, and its end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn::{Connection, SendStream, VarInt};
use saline_protocol::transport::{Context, Error, ErrorKind, Instant, Metric, Result, no_reply};
use tokio::sync::Notify;

use crate::batch::Batch;
use crate::client::ClientCore;
use crate::connection::code;
use crate::frame::{Bounds, Broken, Frame, FrameReader};
use crate::runtime::{ContextRuntime, Tasks};
use crate::socket::Icmp;
use crate::sorter::Sorter;
use crate::{certificate, gather, lock, socket};

/// How long an end waits for its last packet to go.
const CLOSING: Duration = Duration::from_millis(250);

/// A link that stands. Dropping it cuts it.
#[derive(Debug)]
pub(crate) struct Link {
    connection: Connection,
    requests: SendStream,
    replies: FrameReader,
    publications: FrameReader,
    /// Notified after each packet.
    sent: Arc<Notify>,
    // After what they drive.
    tasks: Arc<Tasks>,
    _endpoint: quinn::Endpoint,
}

impl Link {
    /// Connects to `peer`, which was asked for as `name`, over a socket of its own, greets the server
    /// with every subscription there is, and waits for its welcome.
    ///
    /// # Errors
    /// `Unreachable` when nobody answers until then, the server has no room, or it speaks something
    /// else; `Closed` when the client is shut down meanwhile. Nothing of the attempt is left.
    ///
    /// # Cancel safety
    /// Everything is closed, but may not be gone yet, when the future is dropped.
    pub(crate) async fn open(
        core: &ClientCore,
        peer: SocketAddr,
        name: &str,
        until: Instant,
    ) -> Result<Self> {
        let tasks = Tasks::new(&core.context);
        let sent = Arc::new(Notify::new());
        let standing = stand(core, peer, name, &tasks, &sent);
        let standing = core.context.clock.deadline(until, standing);
        let stands = match core.unless_closed(standing).await {
            Ok(Ok(stands)) => stands,
            Ok(Err(_)) => Err(unreachable(peer, "no answer in time")),
            Err(closed) => Err(closed),
        };
        match stands {
            Ok(standing) => Ok(Self {
                connection: standing.connection,
                requests: standing.requests,
                replies: standing.replies,
                publications: standing.publications,
                sent,
                tasks,
                _endpoint: standing.endpoint,
            }),
            Err(error) => {
                tasks.end().await;
                Err(error)
            }
        }
    }

    /// Carries requests, replies and publications until the link breaks or the server has said
    /// goodbye.
    pub(crate) async fn carry(&mut self, core: &ClientCore) {
        let bounds = Bounds::new(&core.context.limits);
        let flow = Flow::default();
        let reading = async {
            tokio::try_join!(
                read_replies(core, &mut self.replies),
                read_publications(core, &flow, &mut self.publications),
                read_alone(core, &flow, &self.connection, bounds),
            )
            .map(drop)
        };
        let end = tokio::select! {
            end = reading => end,
            Err(end) = write(core, &mut self.requests) => Err(end),
        };
        match end {
            // The server waits for this: only we know that everything has been read.
            Ok(()) => self.say_goodbye(code::DONE, &core.context).await,
            Err(Broken::Violation(why)) => {
                core.context.count(Metric::PeersRefused);
                tracing::debug!(endpoint = %core.endpoint, why, "the server broke the protocol");
                self.say_goodbye(code::VIOLATION, &core.context).await;
            }
            Err(Broken::Gone) => {}
        }
    }

    /// Closes the connection and waits until the server was told, unless it is gone already.
    async fn say_goodbye(&self, code: VarInt, context: &Context) {
        if self.connection.close_reason().is_some() {
            return;
        }
        self.connection.close(code, b"");
        let closed = self.packets();
        let told = async {
            // Once it is closed, a connection sends nothing but its goodbye. What went in the moment
            // of closing may have been that or not: then the time runs out, which costs little.
            while self.packets() == closed {
                self.sent.notified().await;
            }
        };
        let _ = context
            .clock
            .deadline(context.clock.after(CLOSING), told)
            .await;
    }

    /// How many packets went out.
    fn packets(&self) -> u64 {
        self.connection.stats().udp_tx.datagrams
    }

    /// Closes the link: when this returns, nothing of it is left.
    pub(crate) async fn close(self, context: &Context) {
        self.say_goodbye(code::DONE, context).await;
        self.tasks.end().await;
    }
}

/// What a link consists of.
struct Standing {
    endpoint: quinn::Endpoint,
    connection: Connection,
    requests: SendStream,
    replies: FrameReader,
    publications: FrameReader,
}

async fn stand(
    core: &ClientCore,
    peer: SocketAddr,
    name: &str,
    tasks: &Arc<Tasks>,
    sent: &Arc<Notify>,
) -> Result<Standing> {
    let opened = || {
        let socket = socket::open(socket::anywhere(peer), core.udp_buffer, false)?;
        let icmp = Icmp::ask(&socket, peer)?;
        let runtime = ContextRuntime::new(tasks, Arc::clone(sent));
        let endpoint = quinn::Endpoint::new(Default::default(), None, socket, runtime)?;
        Ok((endpoint, icmp))
    };
    let (endpoint, icmp) =
        opened().map_err(|error: io::Error| unreachable(peer, "no socket").with_source(error))?;
    let connecting = endpoint
        .connect_with(core.config.clone(), peer, name)
        .map_err(|error| unreachable(peer, "cannot connect").with_source(error))?;
    let greeting = async {
        let connection = connecting.await?;
        // Before anybody learns that the link stands.
        *lock(&core.certificate) = certificate::shown(&connection);
        let greeted = greet(core, &connection).await;
        // What QUIC says of the end says more than that it was one.
        let streams = greeted.map_err(|broken| {
            let reason = connection.close_reason();
            reason.map_or(Failed::Broken(broken), Failed::Quic)
        })?;
        Ok((connection, streams))
    };
    let (connection, (requests, replies, publications)) = tokio::select! {
        greeted = greeting => greeted.map_err(|failed| match failed {
            Failed::Quic(error) => {
                let why = certificate::why(&error).unwrap_or_else(|| error.to_string());
                unreachable(peer, why).with_source(error)
            }
            Failed::Broken(broken) => unreachable(peer, &broken).with_source(broken),
        })?,
        error = icmp.refused() => {
            return Err(unreachable(peer, "nobody listens").with_source(error));
        }
    };
    // Where this fails, a router's word may end the link: no reason not to have one.
    let _ = icmp.stop(peer);
    Ok(Standing {
        endpoint,
        connection,
        requests,
        replies,
        publications,
    })
}

fn unreachable(peer: SocketAddr, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unreachable, format!("{peer}: {why}"))
}

/// Why a link did not come to stand.
enum Failed {
    Quic(quinn::ConnectionError),
    Broken(Broken),
}

impl From<quinn::ConnectionError> for Failed {
    fn from(error: quinn::ConnectionError) -> Self {
        Self::Quic(error)
    }
}

async fn greet(
    core: &ClientCore,
    connection: &Connection,
) -> Result<(SendStream, FrameReader, FrameReader), Broken> {
    let bounds = Bounds::new(&core.context.limits);
    let (mut requests, replies) = connection.open_bi().await?;
    let mut hello = Batch::default();
    hello.hello(&core.subscriptions.greet());
    requests.write_all_chunks(&mut hello.take()).await?;
    let mut publications = FrameReader::new(connection.accept_uni().await?, bounds);
    match publications.next().await? {
        Some(Frame::Welcome) => {
            core.subscriptions.welcome();
            Ok((requests, FrameReader::new(replies, bounds), publications))
        }
        _ => Err(Broken::Violation("no welcome")),
    }
}

/// What the readers of a link tell each other.
#[derive(Debug)]
struct Flow {
    sorter: Mutex<Sorter>,
    /// A large message was announced, or all of them.
    announced: Notify,
    /// A large message arrived.
    arrived: Notify,
    /// How many large messages there are in all, once the server has said goodbye.
    in_all: AtomicU64,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            sorter: Mutex::default(),
            announced: Notify::new(),
            arrived: Notify::new(),
            in_all: AtomicU64::new(u64::MAX),
        }
    }
}

async fn write(core: &ClientCore, stream: &mut SendStream) -> Result<Infallible, Broken> {
    let (mut batch, mut taken) = (Batch::default(), Vec::new());
    loop {
        core.subscriptions.write(&mut batch);
        core.line.write(&mut batch, &mut taken);
        if batch.is_empty() {
            core.line.wake.notified().await;
            gather(|| core.line.waiting()).await;
        } else {
            stream.write_all_chunks(&mut batch.take()).await?;
        }
    }
}

async fn read_replies(core: &ClientCore, reader: &mut FrameReader) -> Result<(), Broken> {
    let mut outcomes = Vec::new();
    loop {
        while let Some(frame) = reader.ready()? {
            outcomes.push(match frame {
                Frame::Reply(id, payload) => (id, Ok(payload)),
                Frame::NoReply(id) => (id, Err(no_reply())),
                _ => return Err(Broken::Violation("not a reply")),
            });
        }
        core.line.settle(&mut outcomes);
        tokio::task::consume_budget().await;
        if !reader.more().await? {
            return Ok(());
        }
    }
}

async fn read_publications(
    core: &ClientCore,
    flow: &Flow,
    reader: &mut FrameReader,
) -> Result<(), Broken> {
    let subscriptions = &core.subscriptions;
    // Messages that came together are handed over together.
    let mut messages = Vec::new();
    loop {
        while let Some(frame) = reader.ready()? {
            if let Frame::Message(topic, payload) = frame {
                messages.push((topic, payload));
                continue;
            }
            lock(&flow.sorter).messages(subscriptions, &mut messages);
            match frame {
                Frame::Announced(topic) => {
                    lock(&flow.sorter).announced(subscriptions, topic);
                    flow.announced.notify_one();
                }
                Frame::Lost(id, count) => lock(&flow.sorter).lost(subscriptions, id, count),
                Frame::Subscribed(id) => subscriptions.confirmed(id),
                Frame::Refused(id) => subscriptions.refused(id),
                Frame::Goodbye(in_all) => {
                    flow.in_all.store(in_all, Ordering::Release);
                    flow.announced.notify_one();
                }
                _ => return Err(Broken::Violation("not a publication")),
            }
        }
        lock(&flow.sorter).messages(subscriptions, &mut messages);
        // What is read at once is little, so that it is soon enough to look here.
        while lock(&flow.sorter).is_full() {
            flow.arrived.notified().await;
        }
        tokio::task::consume_budget().await;
        if !reader.more().await? {
            return Ok(());
        }
    }
}

/// Reads what travels alone, one after the other.
async fn read_alone(
    core: &ClientCore,
    flow: &Flow,
    connection: &Connection,
    bounds: Bounds,
) -> Result<(), Broken> {
    let mut read = 0;
    while read != flow.in_all.load(Ordering::Acquire) {
        let stream = tokio::select! {
            stream = connection.accept_uni() => stream?,
            () = flow.announced.notified() => continue,
        };
        match FrameReader::new(stream, bounds).next().await? {
            Some(Frame::Reply(id, payload)) => core.line.settle(&mut vec![(id, Ok(payload))]),
            Some(Frame::Message(topic, payload)) => {
                while !lock(&flow.sorter).arrived(&topic, &payload)? {
                    flow.announced.notified().await;
                }
                flow.arrived.notify_one();
            }
            _ => return Err(Broken::Violation("not a large message")),
        }
        read += 1;
    }
    Ok(())
}

/// When the attempt at one of `left` addresses has to be given up, so that each has its share.
pub(crate) fn share(now: Instant, until: Instant, left: usize) -> Instant {
    let share = u32::try_from(left).unwrap_or(u32::MAX).max(1);
    now + until.saturating_duration_since(now) / share
}
