//! The bytes on the wire.
//!
//! Every stream carries frames: 13 bytes of header and a body. All numbers are little-endian.
//!
//! ```text
//! kind u8 | number u64 | length of the body u32 | body
//! ```
//!
//! | frame | way | number | body |
//! |---|---|---|---|
//! | Hello | client, first | version | subscriptions: id u64, count u16, filters |
//! | Subscribe | client | subscription | filters: prefix u8, length u16, topic |
//! | Unsubscribe | client | subscription | |
//! | Request | client | request | payload |
//! | Reply, NoReply | server | request | payload |
//! | Welcome | server, first publication stream | version | |
//! | Subscribed, Refused | publications | subscription | |
//! | Message | publications | length of the topic | topic, payload |
//! | Announced | publications | | topic of a message that travels on a stream of its own |
//! | Lost | publications | subscription | how many u64 |
//! | Goodbye | publications, last | streams opened for large messages | |
//!
//! The client opens one bidirectional stream (Hello to NoReply), the server one unidirectional
//! stream (publications). Replies and publications above [`LARGE`] travel alone, each on a
//! unidirectional stream of its own, so that they delay nothing; requests never do, because
//! they are to be handed out in the order in which they were made.

mod parser;

use bytes::{BufMut, Bytes, BytesMut};
use quinn::{ReadError, RecvStream};
use saline_protocol::transport::{Limits, MAX_BYTES, Topic, TopicFilter};

use parser::Parser;

/// The version of this protocol, in Hello and Welcome.
pub(crate) const VERSION: u64 = 1;

/// The bytes before each body.
pub(crate) const HEADER: usize = 13;

/// A payload above this is large: it gets a stream of its own where order allows it.
pub(crate) const LARGE: usize = 64 * 1024;

/// Up to this, bytes are copied to be coalesced. Above it their block is shared.
pub(crate) const COPIED: usize = 4 * 1024;

/// The most packets' worth of bytes that is read at once.
const CHUNKS: usize = 32;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Hello = 1,
    Subscribe = 2,
    Unsubscribe = 3,
    Request = 4,
    Reply = 16,
    NoReply = 17,
    Welcome = 32,
    Subscribed = 33,
    Refused = 34,
    Message = 35,
    Announced = 36,
    Lost = 37,
    Goodbye = 38,
}

impl Kind {
    fn read(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Subscribe,
            3 => Self::Unsubscribe,
            4 => Self::Request,
            16 => Self::Reply,
            17 => Self::NoReply,
            32 => Self::Welcome,
            33 => Self::Subscribed,
            34 => Self::Refused,
            35 => Self::Message,
            36 => Self::Announced,
            37 => Self::Lost,
            38 => Self::Goodbye,
            _ => return None,
        })
    }
}

/// What one subscription asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The client's number for it.
    pub(crate) id: u64,
    /// One or more.
    pub(crate) filters: Vec<TopicFilter>,
}

/// A frame that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Hello(Vec<Asked>),
    Subscribe(Asked),
    Unsubscribe(u64),
    Request(u64, Bytes),
    Reply(u64, Bytes),
    NoReply(u64),
    Welcome,
    Subscribed(u64),
    Refused(u64),
    Message(Topic, Bytes),
    Announced(Topic),
    Lost(u64, u64),
    Goodbye(u64),
}

/// Why no more can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The peer sent what it must not.
    #[error("the peer broke the protocol: {0}")]
    Violation(&'static str),
    /// The connection is gone.
    #[error("the connection is gone")]
    Gone,
}

impl From<ReadError> for Broken {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(_) => Self::Violation("a stream was reset"),
            _ => Self::Gone,
        }
    }
}

impl From<quinn::ConnectionError> for Broken {
    fn from(_: quinn::ConnectionError) -> Self {
        Self::Gone
    }
}

impl From<quinn::WriteError> for Broken {
    fn from(error: quinn::WriteError) -> Self {
        match error {
            quinn::WriteError::Stopped(_) => Self::Violation("a stream was stopped"),
            _ => Self::Gone,
        }
    }
}

/// How long bodies may be: known before a byte of one is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    max_message: usize,
    subscriptions: usize,
}

impl Bounds {
    /// As the limits say.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            max_message: limits.max_message,
            subscriptions: limits.subscriptions_per_connection,
        }
    }

    /// The most bytes of a body, given its kind and number.
    fn most(&self, kind: Kind, number: u64) -> usize {
        match kind {
            // A subscription has at least one filter, so this covers its own header as well.
            Kind::Hello | Kind::Subscribe => self.subscriptions.saturating_mul(MAX_BYTES + 16),
            Kind::Request | Kind::Reply => self.max_message,
            Kind::Message => usize::try_from(number)
                .unwrap_or(MAX_BYTES)
                .min(MAX_BYTES)
                .saturating_add(self.max_message),
            Kind::Announced => MAX_BYTES,
            Kind::Lost => 8,
            _ => 0,
        }
    }
}

/// Reads frames from a stream.
#[derive(Debug)]
pub(crate) struct FrameReader {
    stream: RecvStream,
    parser: Parser,
}

impl FrameReader {
    /// Reads what comes over `stream`.
    pub(crate) fn new(stream: RecvStream, bounds: Bounds) -> Self {
        let parser = Parser::new(bounds);
        Self { stream, parser }
    }

    /// A frame that has come in already.
    pub(crate) fn ready(&mut self) -> Result<Option<Frame>, Broken> {
        self.parser.next()
    }

    /// Waits until more has come in; false at the end of the stream. Everything that was
    /// [`ready`](Self::ready) has to be taken before.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn more(&mut self) -> Result<bool, Broken> {
        let mut chunks: [Bytes; CHUNKS] = Default::default();
        let Some(count) = self.stream.read_chunks(&mut chunks).await? else {
            if self.parser.is_empty() {
                return Ok(false);
            }
            return Err(Broken::Violation("a stream ended within a frame"));
        };
        self.parser.feed(&chunks[..count])?;
        Ok(true)
    }

    /// The next frame; `None` at the end of the stream.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, Broken> {
        loop {
            if let Some(frame) = self.ready()? {
                return Ok(Some(frame));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }
}

/// A header. Bodies are at most `Capabilities::max_message` and a topic, which fits.
pub(crate) fn header(kind: Kind, number: u64, length: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = kind as u8;
    header[1..9].copy_from_slice(&number.to_le_bytes());
    header[9..].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    header
}

/// The header and topic of a Message, to be followed by its payload.
pub(crate) fn message_head(topic: &Topic, payload: usize) -> BytesMut {
    let name = topic.as_str().as_bytes();
    let length = name.len() + payload;
    let small = if payload <= LARGE { payload } else { 0 };
    let mut head = BytesMut::with_capacity(HEADER + name.len() + small);
    head.put_slice(&header(Kind::Message, name.len() as u64, length));
    head.put_slice(name);
    head
}

#[cfg(test)]
mod tests;
