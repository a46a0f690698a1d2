//! One end of a connection in memory, whose frames a test reads and writes by itself, and what such tests share.

use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use saline_protocol::transport::{Clock, Limits, TopicFilter};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

use super::frame::header;
use super::{Bounds, Frame, FrameKind, FrameReader, Greeting};
use crate::StreamPipe;
use crate::pipe::{Pipe, WritePipe};

/// The pipe of either end.
pub(crate) type MemoryPipe = StreamPipe<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// The end of a peer that a test plays.
pub(crate) struct PlayedPeer {
    read: <MemoryPipe as Pipe>::Read,
    write: <MemoryPipe as Pipe>::Write,
    frames: FrameReader,
}

impl PlayedPeer {
    /// Returns a client that has said nothing, and the pipe of its server. Either takes so many bytes that were not read.
    pub(crate) fn client(limits: &Limits, room: usize) -> (Self, MemoryPipe) {
        Self::new(FrameReader::new(Bounds::client(limits)), room)
    }

    /// Returns a server that has said nothing, and the pipe of its client.
    pub(crate) fn server(limits: &Limits, room: usize) -> (Self, MemoryPipe) {
        Self::new(FrameReader::of_client(limits), room)
    }

    fn new(frames: FrameReader, room: usize) -> (Self, MemoryPipe) {
        let (near, far) = tokio::io::duplex(room);
        let (read, write) = StreamPipe::of(near).split();
        let peer = Self {
            read,
            write,
            frames,
        };
        (peer, StreamPipe::of(far))
    }

    /// Sends these bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = poll_fn(|cx| self.write.poll_write(cx, &[IoSlice::new(rest)])).await;
            rest = &rest[sent.expect("the other end is there")..];
        }
    }

    /// Sends a frame.
    pub(crate) async fn say(&mut self, kind: FrameKind, body: &[u8]) {
        self.send(&frame(kind, body)).await;
    }

    /// Greets, and returns the greeting of the other end.
    pub(crate) async fn greet(&mut self, greeting: Greeting) -> Greeting {
        self.send(&greeting.encode()).await;
        match self.hears().await {
            Some(Frame::Greeting(greeting)) => greeting,
            other => panic!("{other:?} instead of a greeting"),
        }
    }

    /// Returns the next frame of the other end; none when it has ended the connection.
    pub(crate) async fn hears(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self
                .frames
                .next()
                .expect("the engine keeps to the protocol")
            {
                return Some(frame);
            }
            match self.frames.fill(&mut self.read).await {
                Ok(1..) => {}
                _ => return None,
            }
        }
    }

    /// Takes what has arrived, without waiting for more. Returns how many bytes have, since the greeting.
    pub(crate) fn arrived(&mut self) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let mut fill = || pin!(self.frames.fill(&mut self.read)).poll(&mut cx);
        while let Poll::Ready(Ok(1..)) = fill() {}
        self.frames.partial_bytes()
    }

    /// Waits until the other end has ended the connection, whatever it says before.
    pub(crate) async fn hears_the_end(&mut self) {
        while self.hears().await.is_some() {}
    }
}

/// Returns a whole frame.
pub(crate) fn frame(kind: FrameKind, body: &[u8]) -> Vec<u8> {
    [&header(kind, body.len()), body].concat()
}

/// Returns a frame whose body is a number and a payload.
pub(crate) fn numbered(kind: FrameKind, id: u64, payload: &[u8]) -> Vec<u8> {
    frame(kind, &[&id.to_le_bytes(), payload].concat())
}

/// Returns the filters of these topics.
pub(crate) fn filters(topics: &[&str]) -> Vec<TopicFilter> {
    let filter = |topic: &&str| TopicFilter::Exact(topic.parse().unwrap());
    topics.iter().map(filter).collect()
}

/// Waits for what has to happen by itself, and fails when it does not.
pub(crate) async fn soon<T>(happens: impl Future<Output = T>) -> T {
    let until = Clock.after(Duration::from_secs(1));
    let happened = Clock.deadline(until, happens).await;
    happened.expect("it happens without anybody doing more")
}
