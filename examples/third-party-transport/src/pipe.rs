//! A WebSocket as a pipe of bytes. They travel in binary messages, whose boundaries mean nothing.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use saline_engine::{Pipe, ReadPipe, WritePipe};
use tokio::io::{Join, ReadBuf, join};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use crate::http_head::HeadFirst;

/// The subprotocol that both sides name: what is in the messages, and its version.
pub(crate) const PROTOCOL: HeaderValue = HeaderValue::from_static("saline.1");

/// The largest message. The reader hands a message on when all of it is there, and time without
/// anything read is silence: on a slow network a larger one would count as such.
const LARGEST: usize = 16 * 1024;

/// The TCP connection under a WebSocket.
pub(crate) type Stream = Join<HeadFirst<OwnedReadHalf>, OwnedWriteHalf>;

/// Makes a stream for the WebSocket library of a TCP connection.
///
/// # Errors
/// The system's.
pub(crate) fn stream_of(stream: TcpStream) -> io::Result<Stream> {
    // The engine puts small messages together, so waiting for more would only delay them.
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    Ok(join(HeadFirst::new(read), write))
}

/// Returns the bounds of a WebSocket: a message that announces more than the largest is refused before
/// memory is taken for it, and each message is written at once, so that few bytes wait unsent.
pub(crate) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(LARGEST)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * LARGEST)
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST))
}

/// Returns an error of the library as one of a pipe: `InvalidData` when the peer broke a rule.
pub(crate) fn explained(error: WsError) -> io::Error {
    use ProtocolError::{HandshakeIncomplete, ResetWithoutClosingHandshake};
    match error {
        WsError::Io(error) => error,
        WsError::Protocol(ResetWithoutClosingHandshake | HandshakeIncomplete)
        | WsError::ConnectionClosed
        | WsError::AlreadyClosed => io::Error::new(io::ErrorKind::ConnectionReset, error),
        violation => io::Error::new(io::ErrorKind::InvalidData, violation),
    }
}

/// A WebSocket that is open.
#[derive(Debug)]
pub struct WebSocketPipe(WebSocketStream<Stream>);

impl WebSocketPipe {
    pub(crate) fn new(socket: WebSocketStream<Stream>) -> Self {
        Self(socket)
    }
}

impl Pipe for WebSocketPipe {
    type Read = WebSocketRead;
    type Write = WebSocketWrite;

    fn split(self) -> (WebSocketRead, WebSocketWrite) {
        let (sink, stream) = self.0.split();
        let read = WebSocketRead {
            stream,
            message: Bytes::new(),
        };
        (read, WebSocketWrite(sink))
    }
}

/// The half that reads.
#[derive(Debug)]
pub struct WebSocketRead {
    stream: SplitStream<WebSocketStream<Stream>>,
    /// What was not read yet of the last message.
    message: Bytes,
}

impl ReadPipe for WebSocketRead {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // An empty message is not the end, so it is passed over.
        while self.message.is_empty() {
            self.message = match ready!(self.stream.poll_next_unpin(cx)) {
                Some(Ok(Message::Binary(message))) => message,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
                Some(Ok(_)) => {
                    let why = "a WebSocket message that is not binary";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
                }
                Some(Err(error)) => return Poll::Ready(Err(explained(error))),
            };
        }
        let count = self.message.len().min(into.remaining());
        into.put_slice(&self.message[..count]);
        self.message.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// The half that writes.
#[derive(Debug)]
pub struct WebSocketWrite(SplitSink<WebSocketStream<Stream>, Message>);

impl WritePipe for WebSocketWrite {
    fn largest_write(&self) -> usize {
        LARGEST
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.0.poll_ready_unpin(cx)).map_err(explained)?;
        let count = pieces.iter().map(|piece| piece.len()).sum();
        let mut message = Vec::with_capacity(count);
        for piece in pieces {
            message.extend_from_slice(piece);
        }
        let sent = self.0.start_send_unpin(Message::binary(message));
        Poll::Ready(sent.map(|()| count).map_err(explained))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush_unpin(cx).map_err(explained)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_close_unpin(cx).map_err(explained)
    }
}
