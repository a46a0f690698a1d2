//! A connection of packets as a pipe of bytes. Boundaries between packets mean nothing.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use saline_engine::{Pipe, ReadPipe, WritePipe};
use tokio::io::{Interest, ReadBuf};
use tokio::net::UnixStream;

/// The largest packet: a quarter of what the system lets wait in a socket by default.
const LARGEST: usize = 48 * 1024;

/// A connection. Both halves wait for one socket.
#[derive(Debug)]
pub(crate) struct SeqPacketPipe(Arc<UnixStream>);

impl SeqPacketPipe {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self(Arc::new(stream))
    }
}

impl Pipe for SeqPacketPipe {
    type Read = SeqPacketRead;
    type Write = SeqPacketWrite;

    fn split(self) -> (SeqPacketRead, SeqPacketWrite) {
        let read = SeqPacketRead {
            stream: Arc::clone(&self.0),
            packet: Vec::new(),
            taken: 0,
        };
        (read, SeqPacketWrite(self.0))
    }
}

/// The half that reads.
#[derive(Debug)]
pub(crate) struct SeqPacketRead {
    stream: Arc<UnixStream>,
    /// The last packet, and how much of it was handed on. What a reader leaves of a packet is lost, so
    /// that packets are read as a whole.
    packet: Vec<u8>,
    taken: usize,
}

impl SeqPacketRead {
    /// Receives the next packet; an empty one when the peer has finished.
    fn poll_packet(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let mut packet = Vec::with_capacity(LARGEST);
            let received = self.stream.try_io(Interest::READABLE, || {
                let room = spare_capacity(&mut packet);
                Ok(recv(&self.stream, room, RecvFlags::TRUNC)?)
            });
            return Poll::Ready(match received {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => Err(error),
                Ok((_, size)) if size <= packet.len() => Ok(packet),
                Ok((_, size)) => {
                    let why = format!("a packet of {size} bytes, where {LARGEST} are the most");
                    Err(io::Error::new(ErrorKind::InvalidData, why))
                }
            });
        }
    }
}

impl ReadPipe for SeqPacketRead {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.taken == self.packet.len() {
            // An idle connection holds no room for a packet.
            (self.packet, self.taken) = (Vec::new(), 0);
            self.packet = ready!(self.poll_packet(cx))?;
        }
        let rest = &self.packet[self.taken..];
        let count = rest.len().min(into.remaining());
        into.put_slice(&rest[..count]);
        self.taken += count;
        Poll::Ready(Ok(()))
    }
}

/// The half that writes.
#[derive(Debug)]
pub(crate) struct SeqPacketWrite(Arc<UnixStream>);

impl WritePipe for SeqPacketWrite {
    fn largest_write(&self) -> usize {
        LARGEST
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            let sent = self.0.try_io(Interest::WRITABLE, || {
                let mut nothing = SendAncillaryBuffer::default();
                Ok(sendmsg(&self.0, pieces, &mut nothing, SendFlags::NOSIGNAL)?)
            });
            match sent {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(shutdown(&self.0, Shutdown::Write)?))
    }
}
