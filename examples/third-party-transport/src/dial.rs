//! Connecting.

use std::io;

use saline_engine::Dialer;
use saline_engine::net::Candidate;
use saline_protocol::transport::HostPort;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Error as WsError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;

use crate::pipe::{PROTOCOL, WebSocketPipe, config, explained, stream_of};

/// Connects to one endpoint.
#[derive(Debug)]
pub struct WebSocketDialer {
    /// The path of the request that opens a WebSocket.
    pub(crate) path: String,
}

impl Dialer for WebSocketDialer {
    type Pipe = WebSocketPipe;

    async fn dial(&self, candidate: &Candidate) -> io::Result<WebSocketPipe> {
        let Candidate::Network { address, host } = candidate else {
            let why = format!("{candidate:?} is not an address that a WebSocket can use");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        let url = format!("ws://{}{}", HostPort::new(host, address.port()), self.path);
        let mut request = url.as_str().into_client_request().map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{url}: {error}"))
        })?;
        let headers = request.headers_mut();
        headers.insert(SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
        let stream = stream_of(TcpStream::connect(address).await?)?;
        match client_async_with_config(request, stream, Some(config())).await {
            Ok((socket, _)) => Ok(WebSocketPipe::new(socket)),
            Err(WsError::Http(answer)) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{url} answers {} and opens no WebSocket", answer.status()),
            )),
            Err(error) => Err(explained(error)),
        }
    }
}
