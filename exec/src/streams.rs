//! The standard streams of a command, and their way to `saline-exec`.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The standard streams of a command.
#[derive(Debug)]
pub struct Streams {
    /// Descriptor 0.
    pub input: OwnedFd,
    /// Descriptor 1.
    pub output: OwnedFd,
    /// Descriptor 2.
    pub error: OwnedFd,
}

impl Streams {
    /// Sends the streams and a frame.
    ///
    /// # Errors
    /// When the other side is gone.
    pub(crate) fn send(&self, mut to: &UnixStream, frame: &[u8]) -> io::Result<()> {
        let descriptors = [&self.input, &self.output, &self.error].map(AsFd::as_fd);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let parts = [IoSlice::new(frame)];
        let sent = sendmsg(to, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
        to.write_all(&frame[sent..])
    }

    /// Receives streams, and the bytes that came with them.
    ///
    /// # Errors
    /// When the other side is gone or sends something else.
    pub(crate) fn receive(from: impl AsFd) -> io::Result<(Self, Vec<u8>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = vec![0; 4096];
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(from, &mut parts, &mut ancillary, flags)?;
        bytes.truncate(received.bytes);
        let mut descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let mut descriptors = descriptors.next().into_iter().flatten();
        let mut next = || {
            descriptors
                .next()
                .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        };
        let streams = Self {
            input: next()?,
            output: next()?,
            error: next()?,
        };
        Ok((streams, bytes))
    }
}

/// Returns a reader of `first`, then of `rest`.
pub(crate) fn continued(first: Vec<u8>, rest: impl Read) -> impl Read {
    io::Cursor::new(first).chain(rest)
}
