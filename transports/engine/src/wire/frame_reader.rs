//! Cutting what arrives into frames, whoever sent it.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use saline_protocol::transport::{Limits, Topic};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::bounds::Bounds;
use super::decode::{Frame, decode, publication};
use super::frame::{FrameKind, HEADER, ID, Violation};
use crate::pipe::ReadPipe;

/// Bodies up to this size are copied out of the read buffer, so that a small message that is kept
/// does not keep the buffer; larger ones get a buffer of their own.
const SMALL: usize = 16 * 1024;
/// The read buffer of an idle connection.
const IDLE_CAPACITY: usize = 1024;
/// The read buffer of a busy one.
const MAX_CAPACITY: usize = 64 * 1024;
/// The read buffer of one whose peer is not admitted.
const STRANGERS_CAPACITY: usize = 4 * IDLE_CAPACITY;
/// Small frames that came together are copied out together, so many bytes at once. One that is kept
/// keeps the others.
const PAGE: usize = 16 * 1024;
/// Frames that came together are not copied out if they have this size on average: they take the read buffer
/// with them, all of which one that is kept keeps.
const SPLIT: usize = 512;

/// A large frame that is on its way.
#[derive(Debug)]
struct Large {
    kind: FrameKind,
    length: usize,
    body: BytesMut,
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub(crate) struct FrameReader {
    bounds: Bounds,
    buffer: BytesMut,
    room: usize,
    most_room: usize,
    large: Option<Large>,
    /// The topic of the last publication: most often one topic follows itself.
    topic: Option<Topic>,
    /// Whole frames that came before what is in the buffer.
    page: Bytes,
}

impl FrameReader {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            buffer: BytesMut::new(),
            room: IDLE_CAPACITY,
            most_room: MAX_CAPACITY,
            large: None,
            topic: None,
            page: Bytes::new(),
        }
    }

    /// Returns the reader of what a client sends to a server with these limits.
    pub(crate) fn of_client(limits: &Limits) -> Self {
        let mut reader = Self::new(Bounds::server(limits));
        if limits.admission.is_some() {
            reader.most_room = STRANGERS_CAPACITY;
        }
        reader
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
            let mut body = BytesMut::with_capacity(length.min(here.max(self.most_room)));
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
        self.run_of(FrameKind::Publication, usize::MAX, |page, body, last| {
            let (topic, from) = publication(&page[body.clone()], last)?;
            into.push((topic, page.slice(body.start + from..body.end)));
            Ok(())
        })
    }

    /// Takes up to `most` requests, or replies, that come next among frames that came together, as
    /// [`publications`](Self::publications) does.
    ///
    /// # Errors
    /// As [`next`](Self::next); those before the violation were taken.
    pub(crate) fn messages(
        &mut self,
        kind: FrameKind,
        most: usize,
        mut take: impl FnMut(u64, Bytes),
    ) -> Result<(), Violation> {
        self.run_of(kind, most, |page, body, _| {
            let id = page[body.clone()].first_chunk().copied();
            let id = id.ok_or(Violation("a frame that is too short"))?;
            take(
                u64::from_le_bytes(id),
                page.slice(body.start + ID..body.end),
            );
            Ok(())
        })
    }

    /// Takes the frames of one kind, at most so many, that come next among frames that came together: by
    /// `take`, with the page, where a body stands in it, and the topic of the last publication.
    fn run_of(
        &mut self,
        wanted: FrameKind,
        most: usize,
        mut take: impl FnMut(&Bytes, Range<usize>, &mut Option<Topic>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        if self.page.is_empty() && self.large.is_none() {
            self.turn_page();
        }
        let (mut start, mut taken) = (0, 0);
        while taken < most
            && let Some((kind, length)) = head(&self.page[start..])
            && kind == Some(wanted)
        {
            self.bounds.check(kind, length)?;
            let body = start + HEADER..start + HEADER + length;
            (start, taken) = (body.end, taken + 1);
            take(&self.page, body, &mut self.topic)?;
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
            self.page = match end / count >= SPLIT {
                true => self.buffer.split_to(end).freeze(),
                false => {
                    let page = Bytes::copy_from_slice(&self.buffer[..end]);
                    self.buffer.advance(end);
                    page
                }
            };
        }
    }

    fn note(&mut self, frame: &Frame) {
        match frame {
            Frame::Greeting(_) => self.bounds.greeted = true,
            // Pings come when a link is idle: what it needed while it was busy goes.
            Frame::Ping if self.buffer.is_empty() && self.room > IDLE_CAPACITY => {
                self.buffer = BytesMut::new();
                self.room = IDLE_CAPACITY;
            }
            _ => {}
        }
    }

    /// Takes what a client may send that is admitted, from now on.
    pub(crate) fn admit(&mut self, limits: &Limits) {
        self.bounds.admit(limits);
        self.most_room = MAX_CAPACITY;
    }

    /// Returns how many bytes of frames are held that have not arrived as a whole.
    pub(crate) fn partial_bytes(&self) -> usize {
        let large = self.large.as_ref();
        self.buffer.len() + large.map_or(0, |large| large.body.len())
    }

    /// Reads what has arrived; 0 at the end of the stream.
    ///
    /// # Cancel safety
    /// No byte is lost when the future is dropped.
    pub(crate) async fn fill<R: ReadPipe>(&mut self, pipe: &mut R) -> io::Result<usize> {
        let mut pipe = Reading(pipe);
        if let Some(large) = &mut self.large {
            let missing = large.length - large.body.len();
            if large.body.len() == large.body.capacity() {
                large.body.reserve(missing.min(large.body.len()));
            }
            return pipe.read_buf(&mut (&mut large.body).limit(missing)).await;
        }
        self.buffer.reserve(self.room);
        let room = self.buffer.capacity() - self.buffer.len();
        let read = pipe.read_buf(&mut self.buffer).await?;
        if read == room && self.room < self.most_room {
            self.room *= 4;
        }
        Ok(read)
    }

    /// Whether what has arrived, which is none of our frames, begins as a handshake of TLS or an alert
    /// does.
    pub(crate) fn looks_like_tls(&self) -> bool {
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

/// Returns the kind, if it is one, and the length of the body that follows.
fn head(bytes: &[u8]) -> Option<(Option<FrameKind>, usize)> {
    let [a, b, c, d, kind] = *bytes.first_chunk::<HEADER>()?;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    Some((FrameKind::of(kind), length))
}

/// A pipe as Tokio reads it, which knows how to read into memory that is not initialized.
struct Reading<'a, R>(&'a mut R);

impl<R: ReadPipe> AsyncRead for Reading<'_, R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut().0.poll_read(cx, into)
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod fill_tests;
