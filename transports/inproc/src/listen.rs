//! Binding and accepting.

use std::io;
use std::sync::Arc;

use saline_engine::{Incoming, Listener, StreamPipe};
use saline_protocol::transport::{Address, Endpoint, Error, ErrorKind, Result, Source};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use crate::dial::InProcPipe;
use crate::switchboard::{Switchboard, TakenName};

/// A name that is listened at. Dropping it frees the name.
#[derive(Debug)]
pub struct InProcListener {
    accepted: mpsc::Receiver<DuplexStream>,
    _name: TakenName,
}

/// Takes every name of `endpoint` or none. Returns what was taken, port 0 replaced.
///
/// # Errors
/// `Refused` when a name is taken, or no port is free.
pub(crate) fn bind(
    switchboard: &Arc<Switchboard>,
    endpoint: &Endpoint,
) -> Result<(Vec<InProcListener>, Endpoint)> {
    let refused = |name: &str, why: &str| {
        Error::new(
            ErrorKind::Refused,
            format!("cannot listen on {name}: {why}"),
        )
    };
    let mut bound = endpoint.clone();
    let names = match &mut bound.address {
        Address::Local(path) => vec![path.display().to_string()],
        Address::Network { addresses, .. } => {
            for address in addresses.iter_mut().filter(|address| address.port == 0) {
                let port = switchboard.free_port(&address.host);
                address.port = port.ok_or_else(|| refused(&address.host, "no port is free"))?;
            }
            addresses.iter().map(ToString::to_string).collect()
        }
    };
    let mut listeners = Vec::with_capacity(names.len());
    for name in names {
        let listening = switchboard.listen(name.clone());
        let (taken, accepted) = listening.ok_or_else(|| refused(&name, "it is taken"))?;
        listeners.push(InProcListener {
            accepted,
            _name: taken,
        });
    }
    Ok((listeners, bound))
}

impl Listener for InProcListener {
    type Incoming = Accepted;

    async fn accept(&mut self) -> io::Result<Accepted> {
        match self.accepted.recv().await {
            Some(stream) => Ok(Accepted(stream)),
            // The switchboard holds the other end for as long as the name is taken.
            None => std::future::pending().await,
        }
    }
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted(DuplexStream);

impl Incoming for Accepted {
    type Pipe = InProcPipe;

    fn source(&self) -> Source {
        Source::Process
    }

    async fn establish(self) -> io::Result<InProcPipe> {
        Ok(StreamPipe::of(self.0))
    }
}
