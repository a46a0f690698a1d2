//! Taking connections, and their handshake.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use saline_protocol::transport::{Metric, Peer};
use tokio::io::AsyncWriteExt;

use crate::connection::Connection;
use crate::decode::{Bounds, FrameReader};
use crate::frame::{Frame, Hello, Kind, VERSION, Violation, header};
use crate::peer::{Reader, Writer};
use crate::server::{Core, Open};
use crate::stream::{Listener, Socket, Stream};
use crate::tls::is_of_tls;

/// Connections that may be in their handshake at once, beside those that stand.
const HALF_OPEN: usize = 1024;

/// The task that accepts.
pub(crate) async fn accept(listener: Listener, open: Arc<Open>) {
    let core = &open.0;
    let context = &core.lifetime.context;
    let mut backoff = context.backoff.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            () = core.lifetime.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, address)) => {
                backoff.reset();
                if core.half_open.load(Ordering::Relaxed) >= HALF_OPEN {
                    context.count(Metric::PeersRefused);
                    continue;
                }
                let half_open = HalfOpen::new(Arc::clone(&open));
                core.lifetime.spawn(greet(socket, address, half_open));
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                tracing::warn!(%error, "refused");
                context.count(Metric::PeersRefused);
            }
            Err(error) if is_of_one_connection(&error) => {
                tracing::debug!(%error, "a connection went before it was accepted");
            }
            Err(error) => {
                // Out of descriptors or memory: trying again at once would only take a processor.
                let delay = backoff.next_delay();
                tracing::warn!(%error, ?delay, "cannot accept connections");
                tokio::select! {
                    () = core.lifetime.stop.cancelled() => return,
                    () = context.clock.pause(delay) => {}
                }
            }
        }
    }
}

fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput, NotConnected,
    };
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | InvalidInput | NotConnected
    )
}

/// A connection that has not shaken hands, counted.
struct HalfOpen(Arc<Open>);

impl HalfOpen {
    fn new(open: Arc<Open>) -> Self {
        open.0.half_open.fetch_add(1, Ordering::Relaxed);
        Self(open)
    }
}

impl Drop for HalfOpen {
    fn drop(&mut self) {
        self.0.0.half_open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why somebody who connected is no client.
enum Stranger {
    /// It went without a word: somebody looked whether we are there.
    Looked,
    Broke(Violation),
    /// It and we do not agree about TLS.
    Tls(String),
}

impl Stranger {
    fn refuse(self, core: &Core, address: Option<SocketAddr>) {
        let context = &core.lifetime.context;
        match (self, address) {
            (Self::Looked, _) => return,
            (Self::Tls(why), Some(address)) => {
                core.refusals.tell(context.clock, &address, &why);
            }
            (Self::Tls(why), None) => tracing::debug!(why, "not a client"),
            (Self::Broke(violation), _) => {
                tracing::debug!(?address, why = violation.0, "not a client");
            }
        }
        context.count(Metric::PeersRefused);
    }
}

/// Hears who it is.
async fn introduce(
    core: &Core,
    socket: Socket,
    frames: &mut FrameReader,
) -> Result<(Hello, Stream), Stranger> {
    let mut stream = match (&core.acceptor, socket) {
        (Some(acceptor), Socket::Tcp(socket)) => {
            // Boxed: the many that come without TLS do not carry room for its handshake.
            let accepting = Box::pin(acceptor.accept(core.lifetime.context.clock, socket));
            accepting.await.map_err(|error| {
                if is_of_tls(&error) {
                    Stranger::Tls(saline_tls::why(&error))
                } else {
                    Stranger::Looked
                }
            })?
        }
        (_, socket) => socket.clear(),
    };
    loop {
        match frames.next() {
            Ok(Some(Frame::Hello(client))) => return Ok((client, stream)),
            Ok(Some(_)) => return Err(Stranger::Looked),
            Ok(None) => {}
            Err(_) if frames.is_tls() => {
                let why = "it speaks TLS, and ssl is not set here".to_owned();
                return Err(Stranger::Tls(why));
            }
            Err(violation) => return Err(Stranger::Broke(violation)),
        }
        if !matches!(frames.fill(&mut stream.read).await, Ok(1..)) {
            return Err(Stranger::Looked);
        }
    }
}

/// Shakes hands with a client, and reads what it sends until its connection ends.
async fn greet(socket: Socket, address: Option<SocketAddr>, half_open: HalfOpen) {
    let open = Arc::clone(&half_open.0);
    let core = &open.0;
    let context = &core.lifetime.context;
    let mut frames = FrameReader::new(Bounds::server(&context.limits));
    let until = context.clock.after(context.limits.handshake_timeout);
    let introduced = introduce(core, socket, &mut frames);
    let (client, mut stream) = tokio::select! {
        biased;
        () = core.lifetime.stop.cancelled() => return,
        introduced = context.clock.deadline(until, introduced) => match introduced {
            Ok(Ok(client)) => client,
            Ok(Err(stranger)) => return stranger.refuse(core, address),
            Err(_) => {
                tracing::debug!(?address, "a peer did not say hello in time");
                context.count(Metric::PeersRefused);
                return;
            }
        },
    };
    drop(half_open);
    let number = core.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let connection = Connection::new(Arc::clone(core), Peer::new(number, address), client);
    let own = Hello::new(&context.limits).encode();
    let full = header(Kind::Full, 0);
    let admitted =
        client.version == VERSION && core.hub.admit(&connection, context.limits.connections);
    // A few bytes into an empty socket: they fit.
    let answer = if admitted || client.version != VERSION {
        &own[..]
    } else {
        &full[..]
    };
    let reader = admitted.then(|| {
        context.count(Metric::Connected);
        Reader {
            connection: Arc::clone(&connection),
            stream: stream.read,
            frames,
        }
    });
    let answering = async {
        stream.write.write_all(answer).await?;
        stream.write.flush().await
    };
    let written = context.clock.deadline(until, answering).await;
    let Some(reader) = reader else {
        context.count(Metric::PeersRefused);
        return;
    };
    if matches!(written, Ok(Ok(()))) {
        let writer = Writer {
            connection,
            stream: stream.write,
        };
        let writing = Arc::clone(&open);
        core.lifetime.spawn(async move {
            let _open = writing;
            writer.run().await;
        });
        reader.run().await;
    }
}
