//! Clients whose servers say what a test has written down.

mod connection;
mod dialing;
mod played;
mod requests;
mod subscriptions;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use saline_protocol::transport::{Clock, Endpoint, HostPort, Instant, Limits, Result};
use tokio::io::ReadBuf;

use crate::lock;
use crate::net::Candidate;
use crate::pipe::{Dialer, Pipe, ReadPipe, WritePipe};
use crate::wire::Greeting;

/// Reaches the places of an endpoint as it is told to.
struct ScriptedDialer {
    places: usize,
    /// What comes of each attempt; those beyond them stay without an answer.
    attempts: Mutex<VecDeque<io::Result<ScriptedPipe>>>,
    /// When each place was tried.
    dialed: Arc<Mutex<Vec<Instant>>>,
}

impl ScriptedDialer {
    fn new(places: usize, attempts: impl IntoIterator<Item = io::Result<ScriptedPipe>>) -> Self {
        Self {
            places,
            attempts: Mutex::new(attempts.into_iter().collect()),
            dialed: Arc::default(),
        }
    }
}

impl Dialer for ScriptedDialer {
    type Pipe = ScriptedPipe;

    async fn candidates(&self, _: &Endpoint) -> Result<Vec<Candidate>> {
        Ok(vec![
            Candidate::Name(HostPort::new("place", 1));
            self.places
        ])
    }

    async fn dial(&self, _: &Candidate) -> io::Result<ScriptedPipe> {
        lock(&self.dialed).push(Clock.now());
        let attempt = lock(&self.attempts).pop_front();
        match attempt {
            Some(attempt) => attempt,
            None => std::future::pending().await,
        }
    }
}

/// A connection to a server that follows a script.
#[derive(Default)]
struct ScriptedPipe {
    certificate: Option<[u8; 32]>,
    says: ScriptedRead,
    takes: ScriptedWrite,
}

/// What the server says; nothing is the end. Behind it the server is silent.
#[derive(Default)]
struct ScriptedRead(VecDeque<io::Result<Vec<u8>>>);

/// A pipe that writes as the test says.
#[derive(Default)]
struct ScriptedWrite {
    /// Nothing is accepted, for this reason.
    refuses: Option<ErrorKind>,
    /// What comes of the farewell; none where the server does not take it.
    farewell: Option<io::Result<()>>,
    is_aborted: Arc<AtomicBool>,
}

impl ScriptedPipe {
    /// A server that says this, piece by piece.
    fn saying(pieces: impl IntoIterator<Item = io::Result<Vec<u8>>>) -> Self {
        Self {
            says: ScriptedRead(pieces.into_iter().collect()),
            ..Self::default()
        }
    }

    /// A server that greets, says this and is silent.
    fn greeting(more: &[u8]) -> Self {
        let greeting = Greeting::of_server(&Limits::default()).encode();
        Self::saying([Ok([&greeting, more].concat())])
    }
}

impl Pipe for ScriptedPipe {
    type Read = ScriptedRead;
    type Write = ScriptedWrite;

    fn peer_certificate(&self) -> Option<[u8; 32]> {
        self.certificate
    }

    fn split(self) -> (ScriptedRead, ScriptedWrite) {
        (self.says, self.takes)
    }
}

impl ReadPipe for ScriptedRead {
    fn poll_read(&mut self, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.0.pop_front() {
            Some(said) => Poll::Ready(said.map(|bytes| into.put_slice(&bytes))),
            None => Poll::Pending,
        }
    }
}

impl WritePipe for ScriptedWrite {
    fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let count = pieces.iter().map(|piece| piece.len()).sum();
        Poll::Ready(self.refuses.map_or(Ok(count), |kind| Err(kind.into())))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.farewell.take().map_or(Poll::Pending, Poll::Ready)
    }

    fn abort(&mut self) {
        self.is_aborted.store(true, Ordering::Relaxed);
    }
}

fn endpoint() -> Endpoint {
    Endpoint::network("tcp", HostPort::new("place", 1))
}
