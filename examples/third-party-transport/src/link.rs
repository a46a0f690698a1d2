//! A WebSocket: how it is dialled, how large its messages may be, and when it counts as dead.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, ready};

use bytes::BytesMut;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use saline_engine::{Silence};
use saline_protocol::transport::{Context, Endpoint, Error, ErrorKind, HostPort, Instant, Limits, Result};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::frame::{Encoded, OVERHEAD};
use crate::lock;
use crate::options::{addresses, path};

/// The subprotocol that both sides must name: what is in the messages, and its version.
pub(crate) const PROTOCOL: HeaderValue = HeaderValue::from_static("saline.1");

/// What is put together before it is written.
const WRITE_BUFFER: usize = 128 * 1024;
/// The longest HTTP head.
const HEAD: usize = 8 * 1024;
/// A message above this is sent in fragments, so that neither side works on a large one for so long
/// that it counts as silent, and no header announces more than this.
const FRAGMENT: usize = 128 * 1024;
/// What one connection reads at once.
const READ_BUFFER: usize = 16 * 1024;

/// The half that is read.
pub(crate) type Source = SplitStream<WebSocketStream<Watched>>;
/// The half that is written.
pub(crate) type Sink = SplitSink<WebSocketStream<Watched>, Message>;

/// The bounds of a WebSocket. A message that announces more than a payload may have is refused
/// before it is read, and what waits to be written cannot grow without end, whatever the other side
/// pings.
pub(crate) fn config(limits: &Limits) -> WebSocketConfig {
    let largest = limits.max_message.saturating_add(OVERHEAD);
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_write_buffer_size(4 * WRITE_BUFFER)
        .max_message_size(Some(largest))
        .max_frame_size(Some(FRAGMENT))
}

/// Whether the other side broke a rule, and did not just go.
pub(crate) fn is_violation(error: &WsError) -> bool {
    use ProtocolError::{HandshakeIncomplete, ResetWithoutClosingHandshake};
    !matches!(
        error,
        WsError::Protocol(ResetWithoutClosingHandshake | HandshakeIncomplete)
            | WsError::Io(_)
            | WsError::ConnectionClosed
            | WsError::AlreadyClosed
    )
}

/// Whether bytes come in. Bytes, not messages: a large one takes its time.
#[derive(Debug)]
pub(crate) struct Heard(Mutex<Silence>);

impl Heard {
    /// Something came in, or nobody listened until now.
    pub(crate) fn note(&self) {
        lock(&self.0).heard();
    }

    /// Resolves when nothing has come since two pings.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn silence(&self) {
        poll_fn(|cx| lock(&self.0).poll_over(cx)).await;
    }
}

/// A TCP stream that notes when bytes come in, and hands the HTTP head on in one piece: the library
/// takes a head that comes in many small ones for an attack, which a slow network is not.
#[derive(Debug)]
pub(crate) struct Watched {
    stream: TcpStream,
    heard: Arc<Heard>,
    /// What was read of the head, and what came behind it.
    head: BytesMut,
    /// Its end has not come.
    gathering: bool,
}

impl Watched {
    /// Watches `stream`, and says where it notes what it hears.
    pub(crate) fn new(stream: TcpStream, context: &Context) -> io::Result<(Self, Arc<Heard>)> {
        // Messages are put together by the writer, so waiting for more would only delay them.
        stream.set_nodelay(true)?;
        // Noticed within two pings, told a little before.
        let silence = Silence::new(context.clock, context.limits.ping_interval * 39 / 20);
        let heard = Arc::new(Heard(Mutex::new(silence)));
        let watched = Self {
            stream,
            heard: Arc::clone(&heard),
            head: BytesMut::new(),
            gathering: true,
        };
        Ok((watched, heard))
    }

    /// Reads what there is; no bytes are the end.
    fn poll_hear(
        &mut self,
        cx: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.heard.note();
        }
        Poll::Ready(Ok(()))
    }

    /// Reads until the head is complete, too long to be one, or there is no more.
    fn poll_head(&mut self, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        while self.gathering {
            let mut piece = [0; 512];
            let mut piece = ReadBuf::new(&mut piece);
            ready!(self.poll_hear(cx, &mut piece))?;
            let piece = piece.filled();
            // An end that lies across two pieces begins at most three bytes before the second.
            let from = self.head.len().saturating_sub(3);
            self.head.extend_from_slice(piece);
            let ended = self.head[from..].windows(4).any(|end| end == b"\r\n\r\n");
            self.gathering = !ended && !piece.is_empty() && self.head.len() < HEAD;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_head(cx))?;
        if this.head.is_empty() {
            return this.poll_hear(cx, buffer);
        }
        let most = this.head.len().min(buffer.remaining());
        buffer.put_slice(&this.head.split_to(most));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// A link of a client that stands.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) source: Source,
    pub(crate) sink: Sink,
    pub(crate) heard: Arc<Heard>,
}

impl Link {
    /// Tries every address of `endpoint` once, in its order, until `until`. Names are resolved each
    /// time.
    ///
    /// # Errors
    /// `Unreachable` when none answers; `Config` when the endpoint cannot be one of ours.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays connected.
    pub(crate) async fn dial(
        endpoint: &Endpoint,
        context: &Context,
        until: Instant,
    ) -> Result<Self> {
        let clock = context.clock;
        let unreachable =
            |why: &str| Error::new(ErrorKind::Unreachable, format!("{endpoint}: {why}"));
        let mut last = unreachable("it has no address");
        let mut places = Vec::new();
        for address in addresses(endpoint)? {
            let looked_up = tokio::net::lookup_host((address.host.as_str(), address.port));
            match clock.deadline(until, looked_up).await {
                Ok(Ok(found)) => places.extend(found.map(|place| (address, place))),
                Ok(Err(error)) => last = unreachable("no such name").with_source(error),
                Err(_) => last = unreachable("its name was not resolved in time"),
            }
        }
        for (index, (address, place)) in places.iter().enumerate() {
            // One that does not answer leaves time for those behind it.
            let left = u32::try_from(places.len() - index).unwrap_or(u32::MAX);
            let share = clock.now() + until.saturating_duration_since(clock.now()) / left;
            let share = share.min(clock.after(context.limits.handshake_timeout));
            let greeting = Self::greet(address, *place, endpoint, context);
            match clock.deadline(share, greeting).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(error)) if error.kind() == ErrorKind::Config => return Err(error),
                Ok(Err(error)) => last = error,
                Err(_) => last = unreachable("no answer in time"),
            }
        }
        Err(last)
    }

    async fn greet(
        address: &HostPort,
        place: SocketAddr,
        endpoint: &Endpoint,
        context: &Context,
    ) -> Result<Self> {
        let unreachable = || Error::new(ErrorKind::Unreachable, format!("cannot open {endpoint}"));
        let request = upgrade(address, endpoint)?;
        let stream = TcpStream::connect(place)
            .await
            .map_err(|error| unreachable().with_source(error))?;
        let (stream, heard) =
            Watched::new(stream, context).map_err(|error| unreachable().with_source(error))?;
        let (socket, _) = client_async_with_config(request, stream, Some(config(&context.limits)))
            .await
            .map_err(|error| unreachable().with_source(error))?;
        let (sink, source) = socket.split();
        Ok(Self {
            source,
            sink,
            heard,
        })
    }
}

/// The HTTP request that opens a WebSocket.
fn upgrade(address: &HostPort, endpoint: &Endpoint) -> Result<Request> {
    let url = format!("ws://{address}{}", path(endpoint));
    let mut request = url.as_str().into_client_request().map_err(|error| {
        Error::new(ErrorKind::Config, format!("{url} is no address")).with_source(error)
    })?;
    let headers = request.headers_mut();
    headers.insert(SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
    Ok(request)
}

/// Sends what `next` yields, for as long as the socket takes it, and then flushes. A message is taken
/// from `next` only when there is room for it.
pub(crate) async fn send_all(
    sink: &mut Sink,
    mut next: impl FnMut() -> Option<Encoded>,
) -> std::result::Result<(), WsError> {
    loop {
        std::future::poll_fn(|cx| sink.poll_ready_unpin(cx)).await?;
        let Some(Encoded { head, payload }) = next() else {
            return sink.flush().await;
        };
        if payload.len() <= FRAGMENT / 2 {
            let whole = [head, payload].concat();
            sink.start_send_unpin(Message::binary(whole))?;
            continue;
        }
        let (mut piece, mut rest, mut kind) = (head, payload, Data::Binary);
        loop {
            let frame = Frame::message(piece, OpCode::Data(kind), rest.is_empty());
            sink.start_send_unpin(Message::Frame(frame))?;
            if rest.is_empty() {
                break;
            }
            std::future::poll_fn(|cx| sink.poll_ready_unpin(cx)).await?;
            (piece, kind) = (rest.split_to(rest.len().min(FRAGMENT)), Data::Continue);
        }
    }
}
