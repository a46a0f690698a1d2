//! A virtual connection as a pipe, and what happens when it is dropped.

use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll};

use saline_engine::{Pipe, ReadPipe, SignsOfLife, WritePipe};
use tokio::io::ReadBuf;

use crate::connection::Connection;

/// A virtual connection. Dropping both halves ends it.
#[derive(Debug)]
pub struct NatsPipe(Arc<ConnectionEnd>);

/// What both halves hold.
struct ConnectionEnd {
    connection: Arc<Connection>,
    owner: Owner,
}

/// Whose end it is.
pub(crate) enum Owner {
    /// A client's, whose link ends with it.
    Client,
    /// A server's, which lets go of it by this.
    Server(Box<dyn Fn() + Send + Sync>),
}

impl fmt::Debug for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connection.fmt(f)
    }
}

impl Drop for ConnectionEnd {
    fn drop(&mut self) {
        self.connection.hang_up();
        match &self.owner {
            Owner::Client => self.connection.link().close(),
            Owner::Server(release) => release(),
        }
    }
}

impl NatsPipe {
    /// Makes a pipe of a connection.
    pub(crate) fn new(connection: Arc<Connection>, owner: Owner) -> Self {
        Self(Arc::new(ConnectionEnd { connection, owner }))
    }
}

impl Pipe for NatsPipe {
    type Read = NatsReadPipe;
    type Write = NatsWritePipe;

    fn split(self) -> (NatsReadPipe, NatsWritePipe) {
        (NatsReadPipe(Arc::clone(&self.0)), NatsWritePipe(self.0))
    }
}

/// The half that reads.
#[derive(Debug)]
pub struct NatsReadPipe(Arc<ConnectionEnd>);

impl ReadPipe for NatsReadPipe {
    fn signs_of_life(&self) -> Option<SignsOfLife> {
        let connection = Arc::clone(&self.0.connection);
        Some(Box::new(move || connection.signs_of_life()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.connection.poll_read(cx, into)
    }
}

/// The half that writes.
#[derive(Debug)]
pub struct NatsWritePipe(Arc<ConnectionEnd>);

impl WritePipe for NatsWritePipe {
    fn largest_write(&self) -> usize {
        self.0.connection.largest()
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.connection.poll_write(cx, pieces)
    }

    /// A client's link ends with its pipe, so it waits until the server of NATS has taken everything. A server's link
    /// outlives the pipe, and the listener waits for it.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.0.owner {
            Owner::Client => self.0.connection.poll_finish(cx),
            Owner::Server(_) => {
                self.0.connection.finish();
                Poll::Ready(Ok(()))
            }
        }
    }
}
