//! Connecting.

use std::io;
use std::sync::Arc;

use saline_engine::net::Candidate;
use saline_engine::{Dialer, StreamPipe};
use saline_protocol::transport::{Address, Endpoint, Result};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex};

use crate::switchboard::Switchboard;

/// Bytes on their way, each way.
const ON_THE_WAY: usize = 256 * 1024;

/// A pipe that does not leave the process.
pub type InProcPipe = StreamPipe<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// Connects to names of one switchboard.
#[derive(Debug)]
pub struct InProcDialer(Arc<Switchboard>);

impl InProcDialer {
    /// Returns a dialer for `switchboard`.
    pub(crate) fn new(switchboard: &Arc<Switchboard>) -> Self {
        Self(Arc::clone(switchboard))
    }
}

impl Dialer for InProcDialer {
    type Pipe = InProcPipe;

    async fn candidates(&self, endpoint: &Endpoint) -> Result<Vec<Candidate>> {
        Ok(match &endpoint.address {
            Address::Network { addresses, .. } => {
                addresses.iter().cloned().map(Candidate::Name).collect()
            }
            Address::Local(path) => vec![Candidate::Local(path.clone())],
        })
    }

    async fn dial(&self, candidate: &Candidate) -> io::Result<InProcPipe> {
        let name = match candidate {
            Candidate::Name(name) => name.to_string(),
            Candidate::Local(path) => path.display().to_string(),
            other => format!("{other:?}"),
        };
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens there");
        let listener = self.0.find(&name).ok_or_else(refused)?;
        let (near, far) = duplex(ON_THE_WAY);
        listener.send(far).await.map_err(|_| refused())?;
        Ok(StreamPipe::of(near))
    }
}
