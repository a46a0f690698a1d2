//! A way for the fuzz targets to the reader of frames and to a shared socket, which nobody else outside of the engine needs. No
//! part of the interface.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use saline_protocol::transport::Limits;
use tokio::io::ReadBuf;

use crate::pipe::ReadPipe;
pub use crate::shared_socket::fuzzing::{Came, Peer, SharedSocket, check_encoding, sealed};
use crate::wire::frame::{header, subscribe};
use crate::wire::{Bounds, Frame, FrameKind, FrameReader, PublicationFrame};

/// Bytes that have arrived, of which each read takes some.
struct Arrived {
    bytes: Vec<u8>,
    at: usize,
    slice: usize,
}

impl ReadPipe for Arrived {
    fn poll_read(&mut self, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let rest = &self.bytes[self.at..];
        let taken = rest.len().min(self.slice).min(into.remaining());
        into.put_slice(&rest[..taken]);
        self.at += taken;
        Poll::Ready(Ok(()))
    }
}

/// The frames that a reader made of a stream of bytes, and how it ended.
#[derive(Debug, PartialEq)]
pub struct ReadFrames {
    frames: Vec<Frame>,
    /// How the peer broke the protocol, if it did.
    pub violation: Option<&'static str>,
    /// The bytes that are held of a frame that is not complete.
    pub partial_bytes: usize,
}

/// Reads what a peer sends, `slice` bytes at once, as a server does or as a client does. The first frame is
/// a greeting.
pub fn read_frames(is_server: bool, limits: &Limits, bytes: &[u8], slice: usize) -> ReadFrames {
    let bounds = match is_server {
        true => Bounds::server(limits),
        false => Bounds::client(limits),
    };
    let mut reader = FrameReader::new(bounds);
    let mut arrived = Arrived {
        bytes: bytes.to_vec(),
        at: 0,
        slice: slice.max(1),
    };
    let (mut frames, mut violation) = (Vec::new(), None);
    while violation.is_none() && fill(&mut reader, &mut arrived) > 0 {
        violation = take_frames(&mut reader, is_server, &mut frames);
    }
    ReadFrames {
        frames,
        violation,
        partial_bytes: reader.partial_bytes(),
    }
}

fn fill(reader: &mut FrameReader, arrived: &mut Arrived) -> usize {
    let filled = pin!(reader.fill(arrived));
    match filled.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(read) => read.unwrap_or_default(),
        // Bytes that have arrived are there.
        Poll::Pending => 0,
    }
}

/// Takes the frames that are complete, as the tasks of a connection do: what came together of one kind is
/// taken at once.
fn take_frames(
    reader: &mut FrameReader,
    is_server: bool,
    frames: &mut Vec<Frame>,
) -> Option<&'static str> {
    loop {
        let messages = if is_server {
            FrameKind::Request
        } else {
            FrameKind::Reply
        };
        let message = |id, payload| {
            frames.push(match is_server {
                true => Frame::Request { id, payload },
                false => Frame::Reply { id, payload },
            });
        };
        if let Err(violation) = reader.messages(messages, usize::MAX, message) {
            return Some(violation.0);
        }
        if !is_server {
            let mut publications = Vec::new();
            let taken = reader.publications(&mut publications);
            let publication = |(topic, payload)| Frame::Publication { topic, payload };
            frames.extend(publications.into_iter().map(publication));
            if let Err(violation) = taken {
                return Some(violation.0);
            }
        }
        match reader.next() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return None,
            Err(violation) => return Some(violation.0),
        }
    }
}

impl ReadFrames {
    /// Returns the number of frames.
    pub fn count(&self) -> usize {
        self.frames.len()
    }

    /// Encodes the frames again. A greeting loses the extensions that no reader knows.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for frame in &self.frames {
            let mut put = |kind, parts: &[&[u8]]| {
                let body = parts.concat();
                bytes.extend_from_slice(&header(kind, body.len()));
                bytes.extend_from_slice(&body);
            };
            match frame {
                Frame::Greeting(greeting) => bytes.extend(greeting.encode()),
                Frame::Full => put(FrameKind::Full, &[]),
                Frame::Request { id, payload } => {
                    put(FrameKind::Request, &[&id.to_le_bytes(), payload]);
                }
                Frame::Reply { id, payload } => {
                    put(FrameKind::Reply, &[&id.to_le_bytes(), payload]);
                }
                Frame::NoReply(id) => put(FrameKind::NoReply, &[&id.to_le_bytes()]),
                Frame::Subscribe { id, filters } => bytes.extend(subscribe(*id, filters)),
                Frame::Subscribed(id) => put(FrameKind::Subscribed, &[&id.to_le_bytes()]),
                Frame::SubscriptionRefused(id) => {
                    put(FrameKind::SubscriptionRefused, &[&id.to_le_bytes()]);
                }
                Frame::Unsubscribe(id) => put(FrameKind::Unsubscribe, &[&id.to_le_bytes()]),
                Frame::Publication { topic, payload } => {
                    let frame = PublicationFrame::new(topic, payload.clone());
                    bytes.extend_from_slice(&frame.head);
                    bytes.extend_from_slice(&frame.tail);
                }
                Frame::Lagged { id, count } => {
                    put(
                        FrameKind::Lagged,
                        &[&id.to_le_bytes(), &count.to_le_bytes()],
                    );
                }
                Frame::Admitted => put(FrameKind::Admitted, &[]),
                Frame::Ping => put(FrameKind::Ping, &[]),
            }
        }
        bytes
    }
}
