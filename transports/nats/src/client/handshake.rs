//! Connecting to a server: INFO, TLS, CONNECT, and the PONG that says that the login was accepted.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use saline_protocol::transport::{Context, HostPort, Result, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;

use super::{Authentication, Login, Stream, disagrees};
use crate::LARGEST_MESSAGE;
use crate::protocol::{Connect, Operation, PING, PONG, Parser, ServerInfo};

/// The smallest `max_payload` of a server that Saline works with.
const LEAST_PAYLOAD: usize = 1024;

/// Connects to servers, with one configuration.
pub(crate) struct Connector {
    authentication: Authentication,
    /// The name of the connection in what the server shows.
    name: String,
    tls: Option<(TlsConnector, Tls)>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("authentication", &self.authentication)
            .finish_non_exhaustive()
    }
}

/// A connection whose server has accepted the login.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) stream: Stream,
    pub(crate) parser: Parser,
    /// The user as a token of subjects.
    pub(crate) user: String,
    /// The server, for people to read.
    pub(crate) server: String,
    /// The largest payload that the server takes.
    pub(crate) max_payload: usize,
}

impl Connector {
    /// Returns a connector that uses TLS where `context` asks for it.
    ///
    /// # Errors
    /// `Config` when `ssl` asks for what cannot be.
    pub(crate) fn new(
        authentication: Authentication,
        name: String,
        context: &Context,
    ) -> Result<Self> {
        let tls = match &context.tls {
            None => None,
            Some(tls) => {
                let mut config = saline_tls::client(Some(tls), b"nats")?;
                // What is negotiated inside of TLS has no name in NATS.
                config.alpn_protocols.clear();
                Some((TlsConnector::from(Arc::new(config)), tls.clone()))
            }
        };
        Ok(Self {
            authentication,
            name,
            tls,
        })
    }

    /// Connects to the server at `address`, which the configuration calls `host`.
    ///
    /// # Errors
    /// `InvalidInput` when no server could ever be reached with this configuration; `InvalidData`, with a text that
    /// names the server, when it and this client do not agree; else the system's.
    ///
    /// # Cancel safety
    /// The connection is closed when the future is dropped.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        host: &str,
        context: &Context,
    ) -> io::Result<Established> {
        let server = format!("the NATS server {}", HostPort::new(host, address.port()));
        let login = self.authentication.read(context).await?;
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let named = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidData => disagrees(format!("{server}: {error}")),
            _ => error,
        };
        let shaken = self.shake_hands(stream, host, &login);
        let (stream, parser, info) = shaken.await.map_err(named)?;
        Ok(Established {
            stream,
            parser,
            user: login.user,
            server,
            max_payload: info.max_payload,
        })
    }

    async fn shake_hands(
        &self,
        stream: TcpStream,
        host: &str,
        login: &Login,
    ) -> io::Result<(Stream, Parser, ServerInfo)> {
        let mut parser = Parser::new(LARGEST_MESSAGE);
        let mut stream = Either::Left(stream);
        let info = match next(&mut stream, &mut parser).await? {
            Operation::Info(json) => json,
            Operation::Error(why) => return Err(disagrees(why)),
            _ => return Err(disagrees("it does not begin as a NATS server does")),
        };
        let info: ServerInfo = serde_json::from_slice(&info)
            .map_err(|error| disagrees(format!("its INFO is malformed: {error}")))?;
        check(&info)?;
        stream = self.secure(stream, &parser, host, &info).await?;
        let mut connect = Connect {
            tls_required: self.tls.is_some(),
            name: self.name.clone(),
            lang: "rust",
            version: env!("CARGO_PKG_VERSION"),
            protocol: 1,
            headers: true,
            no_responders: true,
            ..Connect::default()
        };
        login.add_to(&mut connect, &info)?;
        let json = serde_json::to_string(&connect).map_err(io::Error::other)?;
        let said = zeroize::Zeroizing::new(format!("CONNECT {json}\r\n").into_bytes());
        stream.write_all(&said).await?;
        stream.write_all(PING).await?;
        stream.flush().await?;
        loop {
            match next(&mut stream, &mut parser).await? {
                Operation::Pong => return Ok((stream, parser, info)),
                Operation::Ping => {
                    stream.write_all(PONG).await?;
                    stream.flush().await?;
                }
                // Newer servers say once more who they are.
                Operation::Info(_) | Operation::Ok => {}
                Operation::Error(why) => {
                    let user = &login.user;
                    return Err(disagrees(format!("it refuses the login of {user}: {why}")));
                }
                Operation::Message(_) => return Err(disagrees("a message before the login")),
            }
        }
    }

    /// Makes a connection of TLS of it where `ssl` asks for that.
    async fn secure(
        &self,
        stream: Stream,
        parser: &Parser,
        host: &str,
        info: &ServerInfo,
    ) -> io::Result<Stream> {
        let (connector, tls) = match &self.tls {
            None if info.tls_required => {
                return Err(disagrees("it asks for TLS, and ssl is not set here"));
            }
            None => return Ok(stream),
            Some(_) if !info.tls_required && !info.tls_available => {
                return Err(disagrees("it has no TLS, and ssl is set here"));
            }
            Some((connector, tls)) => (connector, tls),
        };
        let Either::Left(stream) = stream else {
            return Ok(stream);
        };
        if !parser.buffer.is_empty() {
            return Err(disagrees("it speaks before the handshake of TLS"));
        }
        let name = saline_tls::server_name(host, Some(tls));
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let secured = connector.connect(name, stream).await;
        let stream = secured.map_err(saline_tls::explained)?;
        Ok(Either::Right(Box::new(stream)))
    }
}

/// Looks whether Saline can work with the server.
fn check(info: &ServerInfo) -> io::Result<()> {
    if !info.headers {
        return Err(disagrees(format!(
            "it is of version {:?}, which knows no headers: Saline needs 2.2 or newer",
            info.version
        )));
    }
    if info.max_payload < LEAST_PAYLOAD {
        return Err(disagrees(format!(
            "its max_payload is {}: Saline needs {LEAST_PAYLOAD} or more",
            info.max_payload
        )));
    }
    if info.ldm {
        return Err(disagrees("it is about to stop (lame duck mode)"));
    }
    Ok(())
}

/// Reads the next operation.
async fn next(stream: &mut Stream, parser: &mut Parser) -> io::Result<Operation> {
    loop {
        match parser.next() {
            Ok(Some(operation)) => return Ok(operation),
            Ok(None) => {}
            Err(error) => return Err(disagrees(error.to_string())),
        }
        if stream
            .read_buf(&mut parser.buffer)
            .await
            .map_err(saline_tls::explained)?
            == 0
        {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the NATS server hung up before the login was accepted",
            ));
        }
    }
}
