//! Binding and accepting.

use std::io;
use std::path::Path;

use saline_engine::net::{UnixSocketFile, claim_path};
use saline_engine::{Incoming, Listener};
use saline_protocol::transport::{
    Address, Endpoint, Error, ErrorKind, LocalAccess, Result, Source,
};
use tokio::net::{UnixListener, UnixStream};

use crate::pipe::SeqPacketPipe;
use crate::socket;

/// A socket that listens at a path. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct SeqPacketListener {
    listener: UnixListener,
    file: UnixSocketFile,
}

/// Binds the path of `endpoint`, and listens there.
///
/// # Errors
/// `Refused` when the path is in use or its folder is open to others; `Config` when the endpoint is
/// not a path, or one that no socket can have.
///
/// # Cancel safety
/// Nothing stays bound when the future is dropped.
pub(crate) async fn bind(endpoint: &Endpoint) -> Result<SeqPacketListener> {
    let Address::Local(path) = &endpoint.address else {
        let why = format!("{endpoint}: this transport serves paths only");
        return Err(Error::new(ErrorKind::Config, why));
    };
    let connect = async |path: &Path| socket::connect(path).map(drop);
    let (listener, file) = claim_path(
        path,
        LocalAccess::OwnUser,
        connect,
        socket::bind,
        socket::listen,
    )
    .await?;
    Ok(SeqPacketListener { listener, file })
}

impl Listener for SeqPacketListener {
    type Incoming = Accepted;

    async fn accept(&mut self) -> io::Result<Accepted> {
        let (stream, _) = self.listener.accept().await?;
        let uid = stream.peer_cred()?.uid();
        self.file.check_peer(uid)?;
        Ok(Accepted { stream, uid })
    }
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    stream: UnixStream,
    uid: u32,
}

impl Incoming for Accepted {
    type Pipe = SeqPacketPipe;

    fn source(&self) -> Source {
        Source::User(self.uid)
    }

    async fn establish(self) -> io::Result<SeqPacketPipe> {
        Ok(SeqPacketPipe::new(self.stream))
    }
}
