//! Cutting what arrives into frames, whoever sent it.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use saline_protocol::transport::{Limits, MAX_BYTES, Topic, TopicFilter};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::frame::{Frame, HEADER, HELLO, Hello, Kind, Violation};

/// The most bytes of one filter in a subscription.
const FILTER: usize = 1 + 2 + MAX_BYTES;
/// Bodies up to this size are copied out of the read buffer, so that a small message that is kept
/// does not keep the buffer; larger ones get a buffer of their own.
const SMALL: usize = 16 * 1024;
/// The read buffer of an idle connection.
const ROOM: usize = 4 * 1024;
/// The read buffer of a busy one.
const MOST_ROOM: usize = 64 * 1024;
/// Small frames that came together are copied out together, so many bytes at once. One that is kept
/// keeps the others.
const PAGE: usize = 16 * 1024;

/// What one side may be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    server: bool,
    max_message: usize,
    filters: usize,
    /// The hello has been read.
    greeted: bool,
}

impl Bounds {
    /// What a server takes from clients.
    pub(crate) fn server(limits: &Limits) -> Self {
        Self {
            server: true,
            max_message: limits.max_message,
            filters: limits.subscriptions_per_connection,
            greeted: false,
        }
    }

    /// What a client takes from its server.
    pub(crate) fn client(limits: &Limits) -> Self {
        Self {
            server: false,
            ..Self::server(limits)
        }
    }

    /// Whether a body of `length` bytes is possible.
    fn check(&self, kind: Option<Kind>, length: usize) -> Result<Kind, Violation> {
        let Some(kind) = kind else {
            return Err(Violation("a frame of an unknown kind"));
        };
        let (from_client, least, most) = match kind {
            Kind::Hello => (self.server, HELLO, HELLO),
            Kind::Full => (false, 0, 0),
            Kind::Request => (true, 8, self.max_message.saturating_add(8)),
            Kind::Reply => (false, 8, self.max_message.saturating_add(8)),
            Kind::NoReply | Kind::Subscribed | Kind::Denied => (false, 8, 8),
            Kind::Unsubscribe => (true, 8, 8),
            Kind::Subscribe => (
                true,
                10,
                self.filters.saturating_mul(FILTER).saturating_add(10),
            ),
            Kind::Publication => (false, 3, self.max_message.saturating_add(2 + MAX_BYTES)),
            Kind::Lagged => (false, 16, 16),
            Kind::Ping => (self.server, 0, 0),
        };
        let first = matches!(kind, Kind::Hello | Kind::Full);
        if first == self.greeted {
            Err(Violation("a frame out of its turn"))
        } else if from_client != self.server {
            Err(Violation("a frame that this side is not sent"))
        } else if length < least || length > most {
            Err(Violation("a frame of an impossible length"))
        } else {
            Ok(kind)
        }
    }
}

/// A large frame that is on its way.
#[derive(Debug)]
struct Large {
    kind: Kind,
    length: usize,
    body: BytesMut,
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub(crate) struct FrameReader {
    bounds: Bounds,
    buffer: BytesMut,
    room: usize,
    large: Option<Large>,
    /// Of the last publication: most often one topic follows itself.
    topic: Option<Topic>,
    /// Whole frames that came before what is in the buffer.
    page: Bytes,
}

impl FrameReader {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            buffer: BytesMut::new(),
            room: ROOM,
            large: None,
            topic: None,
            page: Bytes::new(),
        }
    }

    /// The next frame of the bytes that are there; `None` when it is not complete.
    ///
    /// # Errors
    /// When the peer broke the protocol; the connection is of no use then.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Violation> {
        if let Some(frame) = self.next_of_page()? {
            return Ok(Some(frame));
        }
        if self.large.is_none() {
            let Some((kind, length)) = head(&self.buffer) else {
                return Ok(None);
            };
            let kind = self.bounds.check(kind, length)?;
            if length <= SMALL {
                let Some(body) = self.buffer.get(HEADER..HEADER + length) else {
                    return Ok(None);
                };
                let copy = |from: usize| Bytes::copy_from_slice(&body[from..]);
                let frame = decode(kind, body, &mut self.topic, copy)?;
                self.buffer.advance(HEADER + length);
                self.note(&frame);
                return Ok(Some(frame));
            }
            self.buffer.advance(HEADER);
            let here = self.buffer.len().min(length);
            let mut body = BytesMut::with_capacity(length.min(here.max(MOST_ROOM)));
            body.extend_from_slice(&self.buffer[..here]);
            self.buffer.advance(here);
            self.large = Some(Large { kind, length, body });
        }
        match self.large.take() {
            Some(large) if large.body.len() == large.length => {
                let body = large.body.freeze();
                let rest = |from| body.slice(from..);
                let frame = decode(large.kind, &body, &mut self.topic, rest)?;
                Ok(Some(frame))
            }
            unfinished => {
                self.large = unfinished;
                Ok(None)
            }
        }
    }

    /// The next frame of those that came together.
    fn next_of_page(&mut self) -> Result<Option<Frame>, Violation> {
        if self.page.is_empty() && self.large.is_none() {
            self.turn_page();
        }
        let Some((kind, length)) = head(&self.page) else {
            return Ok(None);
        };
        let kind = self.bounds.check(kind, length)?;
        let (page, end) = (&self.page, HEADER + length);
        let rest = |from| page.slice(HEADER + from..end);
        let frame = decode(kind, &page[HEADER..end], &mut self.topic, rest)?;
        if end == self.page.len() {
            self.page = Bytes::new();
        } else {
            self.page.advance(end);
        }
        self.note(&frame);
        Ok(Some(frame))
    }

    /// Takes the publications that come next among frames that came together: the bulk of what a
    /// subscriber reads, without a [`Frame`] for each.
    ///
    /// # Errors
    /// As [`next`](Self::next); those before the violation are in `into`.
    pub(crate) fn publications(&mut self, into: &mut Vec<(Topic, Bytes)>) -> Result<(), Violation> {
        if self.page.is_empty() && self.large.is_none() {
            self.turn_page();
        }
        let mut start = 0;
        while let Some((kind @ Some(Kind::Publication), length)) = head(&self.page[start..]) {
            self.bounds.check(kind, length)?;
            let (body, end) = (start + HEADER, start + HEADER + length);
            let (topic, from) = publication(&self.page[body..end], &mut self.topic)?;
            into.push((topic, self.page.slice(body + from..end)));
            start = end;
        }
        if start == self.page.len() {
            self.page = Bytes::new();
        } else {
            self.page.advance(start);
        }
        Ok(())
    }

    /// Makes a page of the small frames that are in the buffer, if there are several.
    fn turn_page(&mut self) {
        let (mut count, mut end) = (0, 0);
        while let Some((_, length)) = head(&self.buffer[end..]) {
            let next = end.saturating_add(HEADER).saturating_add(length);
            if next > PAGE.min(self.buffer.len()) {
                break;
            }
            (count, end) = (count + 1, next);
        }
        if count > 1 {
            self.page = Bytes::copy_from_slice(&self.buffer[..end]);
            self.buffer.advance(end);
        }
    }

    fn note(&mut self, frame: &Frame) {
        match frame {
            Frame::Hello(_) => self.bounds.greeted = true,
            // Pings come when a link is idle: what it needed while it was busy goes.
            Frame::Ping if self.buffer.is_empty() && self.room > ROOM => {
                self.buffer = BytesMut::new();
                self.room = ROOM;
            }
            _ => {}
        }
    }

    /// Reads what has arrived; 0 at the end of the stream.
    ///
    /// # Cancel safety
    /// No byte is lost when the future is dropped.
    pub(crate) async fn fill<R>(&mut self, stream: &mut R) -> std::io::Result<usize>
    where
        R: AsyncRead + Unpin,
    {
        if let Some(large) = &mut self.large {
            let missing = large.length - large.body.len();
            if large.body.len() == large.body.capacity() {
                large.body.reserve(missing.min(large.body.len()));
            }
            return stream.read_buf(&mut (&mut large.body).limit(missing)).await;
        }
        self.buffer.reserve(self.room);
        let room = self.buffer.capacity() - self.buffer.len();
        let read = stream.read_buf(&mut self.buffer).await?;
        if read == room && self.room < MOST_ROOM {
            self.room *= 4;
        }
        Ok(read)
    }

    /// Whether what has arrived, which is none of our frames, begins as a handshake of TLS or an alert
    /// does.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.buffer[..], [0x15 | 0x16, 3, 0..=4, ..])
    }

    /// Takes bytes as if they had arrived.
    #[cfg(test)]
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        if let Some(large) = &mut self.large {
            let missing = (large.length - large.body.len()).min(bytes.len());
            large.body.extend_from_slice(&bytes[..missing]);
            bytes.advance(missing);
        }
        self.buffer.extend_from_slice(bytes);
    }
}

/// The kind, if it is one, and the length of the body that follows.
fn head(bytes: &[u8]) -> Option<(Option<Kind>, usize)> {
    let [a, b, c, d, kind] = *bytes.first_chunk::<HEADER>()?;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    Some((Kind::of(kind), length))
}

/// Reads a body whose length was checked. `last` is the topic of the publication before; `payload`
/// gives what begins at a place.
fn decode(
    kind: Kind,
    body: &[u8],
    last: &mut Option<Topic>,
    payload: impl FnOnce(usize) -> Bytes,
) -> Result<Frame, Violation> {
    let id = || body.first_chunk().copied().map(u64::from_le_bytes);
    let short = Violation("a frame that is too short");
    Ok(match kind {
        Kind::Hello => Frame::Hello(Hello::decode(body)?),
        Kind::Full => Frame::Full,
        Kind::Request => Frame::Request {
            id: id().ok_or(short)?,
            payload: payload(8),
        },
        Kind::Reply => Frame::Reply {
            id: id().ok_or(short)?,
            payload: payload(8),
        },
        Kind::NoReply => Frame::NoReply(id().ok_or(short)?),
        Kind::Subscribe => Frame::Subscribe {
            id: id().ok_or(short)?,
            filters: filters(body.get(8..).ok_or(short)?)?,
        },
        Kind::Subscribed => Frame::Subscribed(id().ok_or(short)?),
        Kind::Denied => Frame::Denied(id().ok_or(short)?),
        Kind::Unsubscribe => Frame::Unsubscribe(id().ok_or(short)?),
        Kind::Publication => {
            let (topic, from) = publication(body, last)?;
            Frame::Publication {
                topic,
                payload: payload(from),
            }
        }
        Kind::Lagged => Frame::Lagged {
            id: id().ok_or(short)?,
            count: body
                .get(8..)
                .and_then(|rest| rest.first_chunk().copied())
                .map(u64::from_le_bytes)
                .ok_or(short)?,
        },
        Kind::Ping => Frame::Ping,
    })
}

/// The topic of a publication, and where its payload begins. `last` is the topic of the one before.
fn publication(body: &[u8], last: &mut Option<Topic>) -> Result<(Topic, usize), Violation> {
    let (text, rest) = text(body)?;
    let topic = match last {
        Some(last) if last.as_str().as_bytes() == text => last.clone(),
        other => other.insert(topic(text)?).clone(),
    };
    Ok((topic, body.len() - rest.len()))
}

/// What stands behind its length, and what is behind it.
fn text(bytes: &[u8]) -> Result<(&[u8], &[u8]), Violation> {
    bytes
        .split_first_chunk()
        .and_then(|(length, rest)| rest.split_at_checked(u16::from_le_bytes(*length).into()))
        .ok_or(Violation("a topic that is cut off"))
}

fn topic(text: &[u8]) -> Result<Topic, Violation> {
    let text = std::str::from_utf8(text).ok();
    text.and_then(|text| Topic::parse(text).ok())
        .ok_or(Violation("a topic that is none"))
}

fn filters(bytes: &[u8]) -> Result<Vec<TopicFilter>, Violation> {
    let (count, mut rest) = bytes
        .split_first_chunk()
        .ok_or(Violation("a subscription without a count"))?;
    let count = u16::from_le_bytes(*count);
    let mut filters = Vec::new();
    for _ in 0..count {
        let (&kind, text) = rest
            .split_first()
            .ok_or(Violation("a subscription that is too short"))?;
        let (text, after) = self::text(text)?;
        let topic = topic(text)?;
        filters.push(match kind {
            0 => TopicFilter::Exact(topic),
            1 => TopicFilter::Prefix(topic),
            _ => return Err(Violation("a filter of an unknown kind")),
        });
        rest = after;
    }
    if filters.is_empty() || !rest.is_empty() {
        return Err(Violation("a subscription that is too long"));
    }
    Ok(filters)
}

#[cfg(test)]
mod tests;
