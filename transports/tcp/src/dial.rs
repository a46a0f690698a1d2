//! Connecting.

use std::io;

use saline_engine::Dialer;
use saline_engine::net::Candidate;
use saline_protocol::transport::{Context, Endpoint, Result};
use tokio::net::{TcpStream, UnixStream};

use crate::options::nodelay;
use crate::pipe::TcpPipe;
use crate::tls::Connector;

/// Connects to one endpoint.
#[derive(Debug)]
pub struct TcpDialer {
    nodelay: bool,
    /// Where connections are encrypted.
    connector: Option<Connector>,
}

impl TcpDialer {
    /// Returns a dialer for `endpoint`, with TLS as `context` asks for it.
    ///
    /// # Errors
    /// `Config` when `ssl` asks for what cannot be.
    pub(crate) fn new(endpoint: &Endpoint, context: &Context) -> Result<Self> {
        Ok(Self {
            nodelay: nodelay(&endpoint.options),
            connector: Connector::new(endpoint, context)?,
        })
    }
}

impl Dialer for TcpDialer {
    type Pipe = TcpPipe;

    async fn dial(&self, candidate: &Candidate) -> io::Result<TcpPipe> {
        match candidate {
            Candidate::Network { address, host } => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(self.nodelay)?;
                match &self.connector {
                    Some(tls) => tls.connect(host, stream).await,
                    None => Ok(TcpPipe::tcp(stream)),
                }
            }
            Candidate::Local(path) => Ok(TcpPipe::unix(UnixStream::connect(path).await?)),
            other => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{other:?} is not an address that TCP can use"),
            )),
        }
    }
}
