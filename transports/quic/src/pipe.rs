//! The stream of a connection as a pipe, and how a connection ends.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn::{Connection, ConnectionError, ReadError, RecvStream, SendStream, VarInt, WriteError};
use saline_engine::{Lifetime, Pipe, ReadPipe, SignsOfLife, WritePipe};
use tokio::io::ReadBuf;
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use crate::certificate;

/// The code of a connection that ends because everything was said.
pub(crate) const DONE: VarInt = VarInt::from_u32(0);
/// The code of a connection that this end cuts.
pub(crate) const CUT: VarInt = VarInt::from_u32(1);

/// A connection and its one stream. Dropping both halves closes it.
#[derive(Debug)]
pub struct QuicPipe {
    send: SendStream,
    receive: RecvStream,
    end: Arc<ConnectionEnd>,
}

/// What both halves hold: the connection, and for a client the endpoint that serves it alone.
#[derive(Debug)]
struct ConnectionEnd {
    connection: Connection,
    side: Side,
}

/// Which side of a connection this is.
#[derive(Debug)]
enum Side {
    Client(ClientEndpoint),
    /// Set when a connection is dropped that is not over: its peer has to be told.
    Server(Arc<AtomicBool>),
}

/// The endpoint of a client's connection. Dropping it ends its tasks.
#[derive(Debug)]
pub(crate) struct ClientEndpoint {
    pub(crate) endpoint: quinn::Endpoint,
    /// quinn's tasks for it.
    pub(crate) tasks: Arc<Lifetime>,
    pub(crate) _cut: DropGuard,
    /// Notified after each packet.
    pub(crate) sent: Arc<Notify>,
}

impl Drop for ConnectionEnd {
    fn drop(&mut self) {
        if self.connection.close_reason().is_none() {
            self.connection.close(CUT, b"");
            if let Side::Server(has_cut) = &self.side {
                has_cut.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl QuicPipe {
    /// Makes a pipe of a connection that was accepted. `has_cut` is set when it is cut.
    pub(crate) fn accepted(
        connection: Connection,
        (send, receive): (SendStream, RecvStream),
        has_cut: Arc<AtomicBool>,
    ) -> Self {
        Self {
            send,
            receive,
            end: Arc::new(ConnectionEnd {
                connection,
                side: Side::Server(has_cut),
            }),
        }
    }

    /// Makes a pipe of a connection that was dialled over an endpoint of its own.
    pub(crate) fn dialled(
        connection: Connection,
        (send, receive): (SendStream, RecvStream),
        client: ClientEndpoint,
    ) -> Self {
        Self {
            send,
            receive,
            end: Arc::new(ConnectionEnd {
                connection,
                side: Side::Client(client),
            }),
        }
    }
}

impl Pipe for QuicPipe {
    type Read = QuicReadPipe;
    type Write = QuicWritePipe;

    fn peer_certificate(&self) -> Option<[u8; 32]> {
        certificate::shown(&self.end.connection)
    }

    fn split(self) -> (QuicReadPipe, QuicWritePipe) {
        let read = QuicReadPipe {
            stream: self.receive,
            end: Arc::clone(&self.end),
        };
        let write = QuicWritePipe {
            stream: self.send,
            end: self.end,
            finishing: None,
        };
        (read, write)
    }
}

/// The half that reads.
#[derive(Debug)]
pub struct QuicReadPipe {
    stream: RecvStream,
    end: Arc<ConnectionEnd>,
}

impl ReadPipe for QuicReadPipe {
    fn signs_of_life(&self) -> Option<SignsOfLife> {
        let connection = self.end.connection.clone();
        Some(Box::new(move || {
            let received = connection.stats().frame_rx;
            received.acks + received.stream
        }))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_read_buf(cx, into).map(|read| match read {
            // A client that has read everything closes the connection and not its stream.
            Err(ReadError::ConnectionLost(ConnectionError::ApplicationClosed(closed)))
                if closed.error_code == DONE =>
            {
                Ok(())
            }
            Err(ReadError::ConnectionLost(error)) => Err(lost(error)),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(()),
        })
    }
}

/// Returns the end of a connection as an error: as `InvalidData` that says why if it was TLS.
pub(crate) fn lost(error: ConnectionError) -> io::Error {
    match certificate::why(&error) {
        Some(why) => io::Error::new(io::ErrorKind::InvalidData, why),
        None => error.into(),
    }
}

/// Returns why nothing can be written any more.
fn broken(error: WriteError) -> io::Error {
    match error {
        WriteError::ConnectionLost(error) => lost(error),
        error => error.into(),
    }
}

/// The half that writes.
pub struct QuicWritePipe {
    stream: SendStream,
    end: Arc<ConnectionEnd>,
    finishing: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl WritePipe for QuicWritePipe {
    fn keeps_shared_memory(&self) -> bool {
        true
    }

    fn poll_write_shared(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &Bytes,
    ) -> Poll<io::Result<usize>> {
        let mut chunks = [bytes.clone()];
        // The future keeps nothing between its polls: it writes, or notes whom to wake.
        let written = pin!(self.stream.write_chunks(&mut chunks)).poll(cx);
        written.map(|written| match written {
            Ok(written) => Ok(written.bytes),
            Err(error) => Err(broken(error)),
        })
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut written = 0;
        for piece in pieces {
            match Pin::new(&mut self.stream).poll_write(cx, piece) {
                Poll::Ready(Ok(count)) => {
                    written += count;
                    if count < piece.len() {
                        break;
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(broken(error))),
                Poll::Pending if written == 0 => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(written))
    }

    /// A server ends its stream, and the client reads to its end. A client closes the connection,
    /// since it alone knows when it has read everything, and ends its endpoint.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.end.side, Side::Server(_)) {
            // Fails for a stream that has ended: then nothing follows either.
            let _ = self.stream.finish();
            return Poll::Ready(Ok(()));
        }
        let finishing = self.finishing.get_or_insert_with(|| {
            let end = Arc::clone(&self.end);
            Box::pin(async move {
                if let Side::Client(client) = &end.side {
                    say_goodbye(&end.connection, &client.sent).await;
                    // Cut where they stand: what had to be sent is.
                    let _ = client.tasks.shutdown(std::time::Duration::ZERO).await;
                }
            })
        });
        finishing.as_mut().poll(cx).map(Ok)
    }

    fn abort(&mut self) {
        self.end.connection.close(CUT, b"");
    }
}

/// Closes a connection, and waits until the peer was told so, unless it is over already.
async fn say_goodbye(connection: &Connection, sent: &Notify) {
    if connection.close_reason().is_some() {
        return;
    }
    let packets = || connection.stats().udp_tx.datagrams;
    connection.close(DONE, b"");
    let before = packets();
    // Once it is closed, a connection sends nothing but its goodbye. A packet that went in the moment
    // of closing may have been that or not: then the engine's time runs out, which costs little.
    while packets() == before {
        sent.notified().await;
    }
}

impl fmt::Debug for QuicWritePipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicWritePipe").finish_non_exhaustive()
    }
}
