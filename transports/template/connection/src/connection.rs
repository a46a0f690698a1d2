//! The connection: dialling it, accepting it, and the pipe that it is.

use std::io;
use std::net::SocketAddr;

use saline_engine::net::{Candidate, bind_tcp};
use saline_engine::{Connections, Dialer, Incoming, Listener, StreamPipe};
use saline_protocol::transport::{Context, Endpoint, Result, Source};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::Template;

/// YOURS: the pipe. Anything that is `AsyncRead` and `AsyncWrite` is one by `StreamPipe::of`; a
/// connection of packets implements `Pipe` itself.
pub type TemplatePipe = StreamPipe<OwnedReadHalf, OwnedWriteHalf>;

/// Connections that wait to be accepted, as listen(2) counts them.
const BACKLOG: u32 = 1024;

/// Opens connections.
#[derive(Debug)]
pub struct TemplateDialer;

impl Dialer for TemplateDialer {
    type Pipe = TemplatePipe;

    async fn dial(&self, candidate: &Candidate) -> io::Result<TemplatePipe> {
        let Candidate::Network { address, .. } = candidate else {
            let why = format!("{candidate:?} has no host and port");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        // YOURS: connect, and shake hands. The engine resolves names, bounds the time, and tries again.
        pipe_of(TcpStream::connect(address).await?)
    }
}

impl Connections for Template {
    type Dialer = TemplateDialer;
    type Listener = TemplateListener;

    fn dialer(&self, _: &Endpoint, _: &Context) -> Result<TemplateDialer> {
        Ok(TemplateDialer) // YOURS: with what it needs to know of the endpoint or the context.
    }

    async fn bind(&self, at: &Endpoint, _: &Context) -> Result<(Vec<TemplateListener>, Endpoint)> {
        // YOURS: `net::bind_udp` and `net::claim_path` do so for other sockets.
        let (listeners, bound) = bind_tcp(at, BACKLOG).await?;
        Ok((listeners.into_iter().map(TemplateListener).collect(), bound))
    }
}

/// A socket that listens.
#[derive(Debug)]
pub struct TemplateListener(TcpListener);

impl Listener for TemplateListener {
    type Incoming = Accepted;

    async fn accept(&mut self) -> io::Result<Accepted> {
        // YOURS: the next connection. Wait for nothing that its peer does.
        let (stream, address) = self.0.accept().await?;
        Ok(Accepted { stream, address })
    }
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    stream: TcpStream,
    address: SocketAddr,
}

impl Incoming for Accepted {
    type Pipe = TemplatePipe;

    fn source(&self) -> Source {
        // YOURS: where the peer comes from. Peers that are one party name one source.
        Source::of(self.address)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.address)
    }

    async fn establish(self) -> io::Result<TemplatePipe> {
        // YOURS: shake hands. It runs apart, and the engine bounds the time and the number of these.
        pipe_of(self.stream)
    }
}

fn pipe_of(stream: TcpStream) -> io::Result<TemplatePipe> {
    // The engine puts small messages together, so waiting for more would only delay them.
    stream.set_nodelay(true)?;
    Ok(StreamPipe::of_tcp(stream))
}
