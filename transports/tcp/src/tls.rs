//! TLS around a TCP connection, where `ssl` asks for it. Local endpoints stay clear.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::{Address, Clock, Context, Endpoint, Result, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::pipe::TcpPipe;

/// What TLS is told that it carries: whoever speaks another protocol is refused in the handshake.
const PROTOCOL: &[u8] = b"saline-tcp/1";

/// How long a refused peer has to hear why.
const FAREWELL: Duration = Duration::from_secs(1);
/// What it may still have sent, in bytes.
const UNREAD: u64 = 64 * 1024;

/// The connecting side.
#[derive(Clone)]
pub(crate) struct Connector {
    connector: TlsConnector,
    tls: Tls,
}

impl Connector {
    /// As `context` says; `None` where links to `endpoint` are clear.
    ///
    /// # Errors
    /// `Config` when `ssl` asks for what cannot be.
    pub(crate) fn new(endpoint: &Endpoint, context: &Context) -> Result<Option<Self>> {
        let Some(tls) = wanted(endpoint, context) else {
            return Ok(None);
        };
        let config = saline_tls::client(Some(tls), PROTOCOL)?;
        Ok(Some(Self {
            connector: TlsConnector::from(Arc::new(config)),
            tls: tls.clone(),
        }))
    }

    /// Shakes hands with the server that is asked for as `host`.
    ///
    /// # Errors
    /// `InvalidData` when either side refuses the other, `InvalidInput` when no certificate can name
    /// `host`.
    ///
    /// # Cancel safety
    /// The connection is closed when the future is dropped.
    pub(crate) async fn connect(&self, host: &str, socket: TcpStream) -> io::Result<TcpPipe> {
        let name = saline_tls::server_name(host, Some(&self.tls));
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let shaken = self.connector.connect(name, socket).await;
        let stream = shaken
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, saline_tls::why(&error)))?;
        let shown = stream.get_ref().1.peer_certificates();
        let hash = shown.and_then(|chain| chain.first().map(|der| saline_tls::hash(der)));
        Ok(TcpPipe::tls(TlsStream::Client(stream), hash))
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

/// The serving side.
#[derive(Clone)]
pub struct Acceptor {
    acceptor: TlsAcceptor,
    /// SHA-256 of the certificate that it shows.
    pub(crate) certificate: [u8; 32],
}

impl Acceptor {
    /// As `context` says; `None` where connections to `endpoint` are clear.
    ///
    /// # Errors
    /// `Config` when `ssl` asks for what cannot be.
    pub(crate) fn new(endpoint: &Endpoint, context: &Context) -> Result<Option<Self>> {
        let Some(tls) = wanted(endpoint, context) else {
            return Ok(None);
        };
        let (config, certificate) = saline_tls::server(Some(tls), PROTOCOL)?;
        Ok(Some(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate,
        }))
    }

    /// Shakes hands with a client.
    ///
    /// # Errors
    /// `InvalidData` when either side refuses the other, who is told as far as it listens; else the
    /// system's.
    ///
    /// # Cancel safety
    /// The connection is closed when the future is dropped.
    pub(crate) async fn accept(&self, clock: Clock, socket: TcpStream) -> io::Result<TcpPipe> {
        match self.acceptor.accept(socket).into_fallible().await {
            Ok(stream) => Ok(TcpPipe::tls(TlsStream::Server(stream), None)),
            Err((error, socket)) => {
                if saline_tls::is_of_tls(&error) {
                    let told = say_farewell(socket);
                    let _ = clock.deadline(clock.after(FAREWELL), told).await;
                }
                Err(saline_tls::explained(error))
            }
        }
    }
}

/// A socket that is closed with something unread is reset, and the reset may overtake the alert that
/// says why.
async fn say_farewell(mut socket: TcpStream) -> io::Result<()> {
    socket.shutdown().await?;
    let mut unread = socket.take(UNREAD);
    let mut scrap = [0; 1024];
    while unread.read(&mut scrap).await? > 0 {}
    Ok(())
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

fn wanted<'a>(endpoint: &Endpoint, context: &'a Context) -> Option<&'a Tls> {
    match endpoint.address {
        Address::Network { .. } => context.tls.as_ref(),
        Address::Local(_) => None,
    }
}
