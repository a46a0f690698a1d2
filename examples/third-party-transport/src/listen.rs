//! Binding, accepting, and the upgrade from HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use saline_engine::net::bind_tcp;
use saline_engine::{Incoming, Listener};
use saline_protocol::transport::{Endpoint, Result, Source};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;

use crate::options::path;
use crate::pipe::{PROTOCOL, WebSocketPipe, config, explained, stream_of};

/// Connections that wait to be accepted, as listen(2) counts them.
const BACKLOG: u32 = 1024;

/// A TCP socket that listens.
#[derive(Debug)]
pub struct WebSocketListener {
    listener: TcpListener,
    path: Arc<str>,
}

/// Binds all addresses of `endpoint` or none. Returns the listeners and what was bound, port 0
/// replaced.
///
/// # Errors
/// `Refused` when an address is in use or the system says no.
///
/// # Cancel safety
/// Nothing stays bound when the future is dropped.
pub(crate) async fn bind(endpoint: &Endpoint) -> Result<(Vec<WebSocketListener>, Endpoint)> {
    let (listeners, bound) = bind_tcp(endpoint, BACKLOG).await?;
    let path: Arc<str> = path(endpoint).into();
    let listeners = listeners.into_iter().map(|listener| WebSocketListener {
        listener,
        path: Arc::clone(&path),
    });
    Ok((listeners.collect(), bound))
}

impl Listener for WebSocketListener {
    type Incoming = Accepted;

    async fn accept(&mut self) -> io::Result<Accepted> {
        let (stream, address) = self.listener.accept().await?;
        Ok(Accepted {
            stream,
            address,
            path: Arc::clone(&self.path),
        })
    }
}

/// A TCP connection that was accepted, and that will ask to be a WebSocket.
#[derive(Debug)]
pub struct Accepted {
    stream: TcpStream,
    address: SocketAddr,
    path: Arc<str>,
}

impl Incoming for Accepted {
    type Pipe = WebSocketPipe;

    fn source(&self) -> Source {
        Source::of(self.address)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.address)
    }

    async fn establish(self) -> io::Result<WebSocketPipe> {
        let path = self.path;
        #[allow(clippy::result_large_err, reason = "the library's own type")]
        let decide = |request: &Request, mut response: Response| {
            let mut refusal = ErrorResponse::new(None);
            *refusal.status_mut() = if request.uri().path() != &*path {
                StatusCode::NOT_FOUND
            } else if request.headers().get(SEC_WEBSOCKET_PROTOCOL) != Some(&PROTOCOL) {
                StatusCode::BAD_REQUEST
            } else {
                let headers = response.headers_mut();
                headers.insert(SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
                return Ok(response);
            };
            Err(refusal)
        };
        let stream = stream_of(self.stream)?;
        let upgraded = accept_hdr_async_with_config(stream, decide, Some(config())).await;
        upgraded.map(WebSocketPipe::new).map_err(explained)
    }
}
