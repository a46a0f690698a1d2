//! The handshake with a client that connected.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use saline_protocol::transport::{Metric, Peer};

use super::connection::Connection;
use super::connection_tasks::{Reader, Writer};
use super::ungreeted::{Ungreeted, most_greeted};
use super::{CloseOnDrop, ServerCore};
use crate::pipe::{Incoming, Pipe};
use crate::wire::frame::header;
use crate::wire::{Frame, FrameKind, FrameReader, Greeting, SendBuffer, VERSIONS, Violation};

/// The reason why an accepted connection is no client.
enum Stranger {
    /// The peer went without a word: somebody looked whether the port is open.
    Looked,
    Late,
    Broke(Violation),
    /// The two sides do not agree, for a reason that an operator has to hear of.
    Disagrees(String),
}

impl Stranger {
    fn refuse(self, core: &ServerCore, peer: Peer) {
        let context = &core.lifetime.context;
        match self {
            Self::Looked => return,
            Self::Late => tracing::debug!(source = %peer.source, "a peer did not greet in time"),
            Self::Broke(Violation(why)) => {
                tracing::debug!(source = %peer.source, why, "not a client")
            }
            Self::Disagrees(why) => match peer.address {
                Some(address) => core.refusals.tell(context.clock, &address, &why),
                None => core.refusals.tell(context.clock, &peer.source, &why),
            },
        }
        context.count(Metric::PeersRefused);
    }
}

/// Shakes hands with a client, and reads what it sends until its connection ends.
pub(super) async fn greet<I: Incoming>(incoming: I, ungreeted: Ungreeted) {
    let open = Arc::clone(&ungreeted.open);
    let mut peer = Peer::new(0, incoming.source());
    peer.address = incoming.address();
    // Boxed: a connection that stands does not carry room for its handshake.
    let greeted = Box::pin(shake_hands(incoming, peer, &open, ungreeted)).await;
    match greeted {
        Ok(reader) => reader.run().await,
        Err(stranger) => stranger.refuse(&open.0, peer),
    }
}

async fn shake_hands<I: Incoming>(
    incoming: I,
    mut peer: Peer,
    open: &Arc<CloseOnDrop>,
    ungreeted: Ungreeted,
) -> Result<Reader<<I::Pipe as Pipe>::Read>, Stranger> {
    let core = &open.0;
    let context = &core.lifetime.context;
    let until = context.clock.after(context.limits.handshake_timeout);
    let introduced = tokio::select! {
        biased;
        () = core.lifetime.stop.cancelled() => return Err(Stranger::Looked),
        () = ungreeted.cut() => {
            return Err(Stranger::Broke(Violation("its source has most that have not greeted")));
        }
        introduced = context.clock.deadline(until, introduce(incoming, core)) => introduced,
    };
    let (client, frames, read, mut write) = introduced.map_err(|_| Stranger::Late)??;
    drop(ungreeted);
    peer.connection = core.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let connection = Connection::new(Arc::clone(core), peer, client);
    let speaks = VERSIONS.common(client.versions).is_some();
    let admitted = speaks && core.add(&connection);
    // From here on the reader takes the connection out again, however this ends.
    let reader = admitted.then(|| {
        context.count(Metric::Connected);
        Reader::new(&connection, read, frames)
    });
    let mut answer = SendBuffer::default();
    match admitted || !speaks {
        true => answer.copy(&Greeting::of_server(&context.limits).encode()),
        false => answer.copy(&header(FrameKind::Full, 0)),
    }
    let answering = async {
        while !poll_fn(|cx| answer.poll_write(cx, &mut write)).await? {}
        io::Result::Ok(())
    };
    let answered = context.clock.deadline(until, answering).await;
    let Some(reader) = reader else {
        return Err(match speaks {
            true if core.lifetime.stop.is_cancelled() => Stranger::Looked,
            true => Stranger::Disagrees(format!(
                "there are {} connections, as many as `connections` and the limit of open files let this end hold",
                most_greeted(&context.limits)
            )),
            false => Stranger::Disagrees(format!(
                "it speaks {} of the wire, this end {VERSIONS}: upgrade the older one",
                client.versions
            )),
        });
    };
    match answered {
        Ok(Ok(())) => {
            let writer = Writer {
                connection,
                pipe: write,
            };
            let open = Arc::clone(open);
            core.lifetime.spawn(async move {
                writer.run().await;
                drop(open);
            });
            Ok(reader)
        }
        // The reader goes, and the connection with it.
        _ => Err(Stranger::Looked),
    }
}

/// Makes a pipe of what came, and reads its greeting.
#[allow(clippy::type_complexity, reason = "the parts of one connection")]
async fn introduce<I: Incoming>(
    incoming: I,
    core: &ServerCore,
) -> Result<
    (
        Greeting,
        FrameReader,
        <I::Pipe as Pipe>::Read,
        <I::Pipe as Pipe>::Write,
    ),
    Stranger,
> {
    let pipe = incoming
        .establish()
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => Stranger::Disagrees(error.to_string()),
            _ => Stranger::Looked,
        })?;
    let (mut read, write) = pipe.split();
    let mut frames = FrameReader::of_client(&core.lifetime.context.limits);
    loop {
        match frames.next() {
            Ok(Some(Frame::Greeting(client))) => return Ok((client, frames, read, write)),
            Ok(Some(_)) => return Err(Stranger::Looked),
            Ok(None) => {}
            Err(_) if frames.looks_like_tls() => {
                let why = "it speaks TLS, and ssl is not set here";
                return Err(Stranger::Disagrees(why.to_owned()));
            }
            Err(violation) => return Err(Stranger::Broke(violation)),
        }
        match frames.fill(&mut read).await {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(Stranger::Disagrees(error.to_string()));
            }
            _ => return Err(Stranger::Looked),
        }
    }
}
