//! Connecting.

use std::io;

use saline_engine::Dialer;
use saline_engine::net::Candidate;

use crate::pipe::SeqPacketPipe;
use crate::socket;

/// Connects to paths.
#[derive(Debug)]
pub(crate) struct SeqPacketDialer;

impl Dialer for SeqPacketDialer {
    type Pipe = SeqPacketPipe;

    async fn dial(&self, candidate: &Candidate) -> io::Result<SeqPacketPipe> {
        match candidate {
            Candidate::Local(path) => Ok(SeqPacketPipe::new(socket::connect(path)?)),
            other => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{other:?} is not a path"),
            )),
        }
    }
}
