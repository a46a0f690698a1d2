//! A virtual connection as a pipe.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio_util::sync::DropGuard;

use super::connection::Connection;
use crate::pipe::{Pipe, ReadPipe, SignsOfLife, WritePipe};

/// A virtual connection. Dropping both halves ends it.
#[derive(Debug)]
pub struct VirtualPipe(Arc<ConnectionEnd>);

/// What both halves hold.
#[derive(Debug)]
struct ConnectionEnd {
    connection: Arc<Connection>,
    /// A client's, whose task ends with it.
    _cut: Option<DropGuard>,
}

impl Drop for ConnectionEnd {
    fn drop(&mut self) {
        self.connection.hang_up();
    }
}

impl VirtualPipe {
    pub(super) fn new(connection: Arc<Connection>, cut: Option<DropGuard>) -> Self {
        Self(Arc::new(ConnectionEnd {
            connection,
            _cut: cut,
        }))
    }
}

impl Pipe for VirtualPipe {
    type Read = VirtualReadPipe;
    type Write = VirtualWritePipe;

    fn split(self) -> (VirtualReadPipe, VirtualWritePipe) {
        (
            VirtualReadPipe(Arc::clone(&self.0)),
            VirtualWritePipe(self.0),
        )
    }
}

/// The half that reads.
#[derive(Debug)]
pub struct VirtualReadPipe(Arc<ConnectionEnd>);

impl ReadPipe for VirtualReadPipe {
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
pub struct VirtualWritePipe(Arc<ConnectionEnd>);

impl WritePipe for VirtualWritePipe {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.connection.poll_write(cx, pieces)
    }

    /// Ready when the peer has acknowledged the end.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.connection.poll_finish(cx)
    }
}
