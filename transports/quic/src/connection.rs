//! One connection, as the server holds it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use quinn::{Connection, SendStream, VarInt};
use saline_protocol::transport::{Answer, Metric, ReplyRoute, ReplyToken};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::batch::Batch;
use crate::frame::{Asked, Bounds, Broken, Frame, FrameReader, Kind, LARGE, header};
use crate::inbox::Arrived;
use crate::queue::{Alone, Lane, Queue};
use crate::state::ServerCore;
use crate::{certificate, gather, lock};

/// Codes with which a connection is closed.
pub(crate) mod code {
    use quinn::VarInt;

    /// Everything was said.
    pub(crate) const DONE: VarInt = VarInt::from_u32(0);
    /// The peer broke the protocol or a limit.
    pub(crate) const VIOLATION: VarInt = VarInt::from_u32(1);
    /// The server holds as many connections as it may.
    pub(crate) const FULL: VarInt = VarInt::from_u32(2);
    /// The server cut this peer.
    pub(crate) const CUT: VarInt = VarInt::from_u32(3);
    /// This end goes.
    pub(crate) const SHUTDOWN: VarInt = VarInt::from_u32(4);
}

/// What is known of a connection beside the task that serves it.
#[derive(Debug)]
pub(crate) struct ServerLink {
    pub(crate) number: u64,
    pub(crate) address: SocketAddr,
    pub(crate) core: Arc<ServerCore>,
    /// Ends the connection.
    pub(crate) cut: CancellationToken,
    /// Set when that was done: looking at the token takes a lock.
    closed: AtomicBool,
    /// Nothing more will be asked of this link: it says goodbye.
    finishing: AtomicBool,
    /// Requests of this connection that are handed out.
    pub(crate) owed: AtomicUsize,
    replies: Mutex<Replies>,
    replied: Notify,
    pub(crate) publications: Queue,
    pub(crate) alone: Lane,
}

#[derive(Debug, Default)]
struct Replies {
    batch: Batch,
    /// The writer has nothing to do.
    idle: bool,
    closed: bool,
}

impl ServerLink {
    pub(crate) fn new(number: u64, address: SocketAddr, core: &Arc<ServerCore>) -> Arc<Self> {
        Arc::new(Self {
            number,
            address,
            core: Arc::clone(core),
            cut: CancellationToken::new(),
            closed: AtomicBool::new(false),
            finishing: AtomicBool::new(false),
            owed: AtomicUsize::new(0),
            replies: Mutex::default(),
            replied: Notify::new(),
            publications: Queue::new(core.limits()),
            alone: Lane::default(),
        })
    }

    /// Sends an answer. Whoever has gone gets none.
    pub(crate) fn reply(&self, request: u64, answer: Answer) {
        let mut replies = lock(&self.replies);
        if replies.closed {
            return;
        }
        match answer {
            Answer::Reply(payload) if payload.len() > LARGE => {
                drop(replies);
                let head = header(Kind::Reply, request, payload.len());
                return self.alone.push(Alone {
                    head: Bytes::copy_from_slice(&head),
                    payload,
                    is_publication: false,
                });
            }
            Answer::Reply(payload) => replies.batch.frame(Kind::Reply, request, &payload),
            Answer::NoReply => replies.batch.bare(Kind::NoReply, request),
        }
        let idle = std::mem::take(&mut replies.idle);
        drop(replies);
        if idle {
            self.replied.notify_one();
        }
    }

    /// Every reply that waits, to be written next. When there is none, the next one wakes the writer.
    fn take_replies(&self) -> Vec<Bytes> {
        let mut replies = lock(&self.replies);
        replies.idle = replies.batch.is_empty();
        replies.batch.take()
    }

    /// Whether the connection is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Makes the task write what there is, say goodbye, and wait for the client to close.
    pub(crate) fn finish(&self) {
        self.finishing.store(true, Ordering::Release);
        self.replied.notify_one();
        self.publications.wake.notify_one();
        self.alone.wake.notify_one();
    }

    fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Acquire)
    }

    /// Forgets everything that was to be sent, and ends the task.
    pub(crate) fn close(&self) {
        let closed = Replies {
            closed: true,
            ..Replies::default()
        };
        *lock(&self.replies) = closed;
        self.publications.close();
        self.alone.close();
        self.closed.store(true, Ordering::Release);
        self.cut.cancel();
    }
}

impl ReplyRoute for ServerLink {
    fn answer(&self, token: ReplyToken, answer: Answer) {
        self.reply(token.request, answer);
        self.owed.fetch_sub(1, Ordering::SeqCst);
        self.core.answered();
    }
}

/// Takes the link out of the server's books, however its task ends.
struct Registered(Arc<ServerLink>);

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.core.unregister(&self.0);
    }
}

/// Serves one connection, from its first packet to its end.
pub(crate) async fn attend(
    core: Arc<ServerCore>,
    incoming: quinn::Incoming,
    half_open: OwnedSemaphorePermit,
) {
    let Ok(connecting) = incoming.accept() else {
        return;
    };
    let clock = core.context.clock;
    let deadline = clock.after(core.limits().handshake_timeout);
    let peer = connecting.remote_address();
    let connection = match clock.deadline(deadline, connecting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            if let Some(why) = certificate::why(&error) {
                core.context.count(Metric::PeersRefused);
                core.refusals.tell(clock, &peer, &why);
            }
            return;
        }
        Err(_) => return,
    };
    let bounds = Bounds::new(core.limits());
    let greeting = greet(&connection, bounds);
    let (send, reader, asked) = match clock.deadline(deadline, greeting).await {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(Broken::Gone)) => return,
        Ok(Err(Broken::Violation(why))) => return refuse(&core, &connection, code::VIOLATION, why),
        Err(_) => return refuse(&core, &connection, code::VIOLATION, "no greeting in time"),
    };
    drop(half_open);
    let link = match core.register(connection.remote_address(), asked) {
        Ok(link) => link,
        Err((code, why)) => return refuse(&core, &connection, code, why),
    };
    let registered = Registered(link);
    let link = &registered.0;
    let Err(end) = tokio::select! {
        biased;
        () = link.cut.cancelled() => return connection.close(code::CUT, b"cut"),
        end = read(&core, link, reader) => end,
        end = write(link, &connection, send) => end,
    };
    if let Broken::Violation(why) = end {
        refuse(&core, &connection, code::VIOLATION, why);
    }
}

fn refuse(core: &ServerCore, connection: &Connection, code: VarInt, why: &str) {
    core.context.count(Metric::PeersRefused);
    tracing::debug!(peer = %connection.remote_address(), why, "refused a peer");
    connection.close(code, why.as_bytes());
}

/// Waits for the client's stream and its Hello.
async fn greet(
    connection: &Connection,
    bounds: Bounds,
) -> Result<(SendStream, FrameReader, Vec<Asked>), Broken> {
    let (send, receive) = connection.accept_bi().await?;
    let mut reader = FrameReader::new(receive, bounds);
    match reader.next().await? {
        Some(Frame::Hello(asked)) => Ok((send, reader, asked)),
        _ => Err(Broken::Violation("no greeting")),
    }
}

/// Takes what the client asks, in order, until the link breaks.
async fn read(
    core: &Arc<ServerCore>,
    link: &Arc<ServerLink>,
    mut reader: FrameReader,
) -> Result<Infallible, Broken> {
    let mut requests = Vec::new();
    loop {
        while let Some(frame) = reader.ready()? {
            match frame {
                Frame::Request(id, payload) => {
                    if !core.try_permit() {
                        // Those that came before it are handed up while it waits.
                        core.inbox.take(&mut requests);
                        core.permit().await?;
                    }
                    requests.push(Arrived::new(link, id, payload));
                }
                Frame::Subscribe(asked) => {
                    link.publications.room_to_confirm().await;
                    core.subscribe(link, asked)?;
                }
                Frame::Unsubscribe(id) => core.unsubscribe(link, id),
                _ => return Err(Broken::Violation("a frame that only a server sends")),
            }
        }
        core.inbox.take(&mut requests);
        tokio::task::consume_budget().await;
        if !reader.more().await? {
            // Only we end this stream.
            return Err(Broken::Violation("the stream of requests ended"));
        }
    }
}

/// Writes replies, publications and what is large, until the link breaks. When it is to finish, all is
/// written and the client, which alone knows when it has read it, is waited for.
async fn write(
    link: &ServerLink,
    connection: &Connection,
    mut replies: SendStream,
) -> Result<Infallible, Broken> {
    let mut publications = connection.open_uni().await?;
    let (_, _, opened) = tokio::try_join!(
        write_replies(link, &mut replies),
        write_publications(link, &mut publications),
        write_alone(link, connection),
    )?;
    let mut goodbye = Batch::default();
    goodbye.bare(Kind::Goodbye, opened);
    publications.write_all_chunks(&mut goodbye.take()).await?;
    // The streams are open, so this does not fail; dropping them would do the same.
    let _ = (publications.finish(), replies.finish());
    connection.closed().await;
    Err(Broken::Gone)
}

async fn write_replies(link: &ServerLink, stream: &mut SendStream) -> Result<(), Broken> {
    loop {
        // Looked at first: whatever was answered before is in the batch.
        let finishing = link.is_finishing();
        let mut blocks = link.take_replies();
        if !blocks.is_empty() {
            stream.write_all_chunks(&mut blocks).await?;
        } else if finishing {
            return Ok(());
        } else {
            link.replied.notified().await;
            gather(|| lock(&link.replies).batch.len()).await;
        }
    }
}

async fn write_publications(link: &ServerLink, stream: &mut SendStream) -> Result<(), Broken> {
    let mut batch = Batch::default();
    loop {
        let finishing = link.is_finishing();
        link.publications.take(&mut batch);
        if !batch.is_empty() {
            stream.write_all_chunks(&mut batch.take()).await?;
        } else if finishing {
            return Ok(());
        } else {
            link.publications.wake.notified().await;
            gather(|| link.publications.waiting()).await;
        }
    }
}

/// Returns how many streams it opened.
async fn write_alone(link: &ServerLink, connection: &Connection) -> Result<u64, Broken> {
    let mut opened = 0;
    loop {
        let finishing = link.is_finishing();
        if let Some(message) = link.alone.take(&link.publications) {
            let mut stream = connection.open_uni().await?;
            // What is small goes first.
            let _ = stream.set_priority(-1);
            let mut blocks = [message.head, message.payload];
            stream.write_all_chunks(&mut blocks).await?;
            let _ = stream.finish();
            opened += 1;
        } else if finishing {
            return Ok(opened);
        } else {
            link.alone.wake.notified().await;
        }
    }
}
