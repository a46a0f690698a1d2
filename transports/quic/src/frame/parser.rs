//! Cutting what comes in into frames.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use saline_protocol::transport::{Topic, TopicFilter};

use super::{Asked, Bounds, Broken, Frame, HEADER, Kind, VERSION};

/// What came together is copied out of its packets together, so many bytes at once: quinn hands out
/// slices of blocks that hold up to 64 packets. A small message that is kept keeps its page.
const PAGE: usize = 4 * 1024;

/// Cuts bytes into frames.
#[derive(Debug)]
pub(super) struct Parser {
    bounds: Bounds,
    /// What came last. A frame that is all in one page shares it.
    pages: VecDeque<Bytes>,
    /// A frame that is spread over pages, or not all there. It grows by what has come, never by what
    /// was announced.
    spread: BytesMut,
    /// Of the last message: most often one topic follows itself.
    topic: Option<Topic>,
}

/// What a header says, within its bounds.
#[derive(Debug, Clone, Copy)]
struct Head {
    kind: Kind,
    number: u64,
    length: usize,
}

impl Head {
    /// The header at the beginning of `bytes`, if all of it is there.
    fn read(mut bytes: &[u8], bounds: &Bounds) -> Result<Option<Self>, Broken> {
        if bytes.len() < HEADER {
            return Ok(None);
        }
        let kind = Kind::read(bytes.get_u8()).ok_or(Broken::Violation("an unknown frame"))?;
        let number = bytes.get_u64_le();
        let length = bytes.get_u32_le() as usize;
        if length > bounds.most(kind, number) {
            return Err(Broken::Violation("a frame above the limit"));
        }
        Ok(Some(Self {
            kind,
            number,
            length,
        }))
    }
}

impl Parser {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            pages: VecDeque::new(),
            spread: BytesMut::new(),
            topic: None,
        }
    }

    /// Whether nothing is there, not even a part of a frame.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.spread.is_empty()
    }

    /// How many bytes are kept.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.spread.len() + self.pages.iter().map(Bytes::len).sum::<usize>()
    }

    /// Takes bytes in, when there is no whole frame left.
    pub(super) fn feed(&mut self, chunks: &[Bytes]) -> Result<(), Broken> {
        let mut left = chunks.iter().map(Bytes::len).sum::<usize>();
        let mut page = BytesMut::new();
        for chunk in chunks {
            let mut bytes = &chunk[..];
            // The rest of a frame that was begun goes where its beginning is.
            if !self.spread.is_empty() && self.pages.is_empty() && page.is_empty() {
                while let (missing @ 1.., _) = self.missing()?
                    && !bytes.is_empty()
                {
                    let (these, rest) = bytes.split_at(missing.min(bytes.len()));
                    self.spread.extend_from_slice(these);
                    bytes = rest;
                    left -= these.len();
                }
            }
            while !bytes.is_empty() {
                if page.is_empty() {
                    page = BytesMut::with_capacity(left.min(PAGE));
                }
                let room = PAGE - page.len();
                let (these, rest) = bytes.split_at(room.min(bytes.len()));
                page.extend_from_slice(these);
                bytes = rest;
                left -= these.len();
                if page.len() == PAGE {
                    self.pages.push_back(std::mem::take(&mut page).freeze());
                }
            }
        }
        if !page.is_empty() {
            self.pages.push_back(page.freeze());
        }
        Ok(())
    }

    /// The next frame. `None` when none is whole; no page is left then.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Broken> {
        loop {
            if self.spread.is_empty()
                && let Some(page) = self.pages.front_mut()
                && let Some(head) = Head::read(page, &self.bounds)?
                && page.len() - HEADER >= head.length
            {
                let mut body = page.split_to(HEADER + head.length);
                body.advance(HEADER);
                if page.is_empty() {
                    self.pages.pop_front();
                }
                return decode(head, body, &mut self.topic).map(Some);
            }
            let (missing, head) = self.missing()?;
            if let (0, Some(head)) = (missing, head) {
                let mut body = std::mem::take(&mut self.spread).freeze();
                body.advance(HEADER);
                return decode(head, body, &mut self.topic).map(Some);
            }
            let Some(page) = self.pages.front_mut() else {
                return Ok(None);
            };
            self.spread
                .extend_from_slice(&page.split_to(missing.min(page.len())));
            if page.is_empty() {
                self.pages.pop_front();
            }
        }
    }

    /// How much is missing of what is spread, as far as that is known, and its head when that is
    /// there.
    fn missing(&self) -> Result<(usize, Option<Head>), Broken> {
        let have = self.spread.len();
        Ok(match Head::read(&self.spread, &self.bounds)? {
            None => (HEADER - have, None),
            Some(head) => (HEADER + head.length - have, Some(head)),
        })
    }
}

fn decode(head: Head, mut body: Bytes, last: &mut Option<Topic>) -> Result<Frame, Broken> {
    let Head { kind, number, .. } = head;
    Ok(match kind {
        Kind::Hello => {
            if number != VERSION {
                return Err(Broken::Violation("another version of the protocol"));
            }
            let mut asked = Vec::new();
            while !body.is_empty() {
                let id = body.try_get_u64_le().map_err(|_| SHORT)?;
                let count = body.try_get_u16_le().map_err(|_| SHORT)?;
                let filters = (0..count).map(|_| filter(&mut body));
                let filters = filters.collect::<Result<_, _>>()?;
                asked.push(Asked { id, filters });
            }
            Frame::Hello(asked)
        }
        Kind::Subscribe => {
            let mut filters = Vec::new();
            while !body.is_empty() {
                filters.push(filter(&mut body)?);
            }
            let id = number;
            Frame::Subscribe(Asked { id, filters })
        }
        Kind::Unsubscribe => Frame::Unsubscribe(number),
        Kind::Request => Frame::Request(number, body),
        Kind::Reply => Frame::Reply(number, body),
        Kind::NoReply => Frame::NoReply(number),
        Kind::Welcome if number == VERSION => Frame::Welcome,
        Kind::Welcome => return Err(Broken::Violation("another version of the protocol")),
        Kind::Subscribed => Frame::Subscribed(number),
        Kind::Refused => Frame::Refused(number),
        Kind::Message => {
            let length = usize::try_from(number).map_err(|_| SHORT)?;
            if length > body.len() {
                return Err(SHORT);
            }
            let topic = match last {
                Some(last) if last.as_str().as_bytes() == &body[..length] => last.clone(),
                other => other.insert(topic(&body[..length])?).clone(),
            };
            body.advance(length);
            Frame::Message(topic, body)
        }
        Kind::Announced => Frame::Announced(topic(&body)?),
        Kind::Lost => Frame::Lost(number, body.try_get_u64_le().map_err(|_| SHORT)?),
        Kind::Goodbye => Frame::Goodbye(number),
    })
}

const SHORT: Broken = Broken::Violation("a body shorter than it says");

fn filter(body: &mut Bytes) -> Result<TopicFilter, Broken> {
    let prefix = body.try_get_u8().map_err(|_| SHORT)?;
    let length = usize::from(body.try_get_u16_le().map_err(|_| SHORT)?);
    if length > body.len() {
        return Err(SHORT);
    }
    let topic = topic(&body.split_to(length))?;
    match prefix {
        0 => Ok(TopicFilter::Exact(topic)),
        1 => Ok(TopicFilter::Prefix(topic)),
        _ => Err(Broken::Violation("an unknown filter")),
    }
}

fn topic(bytes: &[u8]) -> Result<Topic, Broken> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| Topic::parse(text).ok())
        .ok_or(Broken::Violation("not a topic"))
}
