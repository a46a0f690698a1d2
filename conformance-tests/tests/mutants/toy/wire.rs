//! Frames: the length of what follows, a kind, a number, a body. A greeting stands before them, to which
//! the server adds the largest payload and the number of topics that it takes before admission.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Clock, Instant, Topic, TopicFilter};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::admission::Entry;
use crate::wire_fault::WireFault;

pub const GREETING: &[u8] = b"toy1";
pub const REQUEST: u8 = 1;
pub const REPLY: u8 = 2;
pub const NO_REPLY: u8 = 3;
pub const SUBSCRIBE: u8 = 4;
pub const SUBSCRIBED: u8 = 5;
pub const PUBLICATION: u8 = 6;
pub const LAGGED: u8 = 7;
pub const UNSUBSCRIBE: u8 = 8;
pub const PING: u8 = 9;
pub const DENIED: u8 = 10;
pub const ADMITTED: u8 = 11;

/// What a connection left unread, where that is the fault.
pub type Rest = Arc<Mutex<Vec<u8>>>;

#[derive(Debug, Clone)]
pub struct Frame {
    pub kind: u8,
    pub number: u64,
    pub body: Bytes,
}

impl Frame {
    pub fn new(kind: u8, number: u64, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self { kind, number, body }
    }

    pub fn publication(number: u64, topic: &Topic, payload: &[u8]) -> Self {
        let mut body = (topic.as_str().len() as u16).to_be_bytes().to_vec();
        body.extend_from_slice(topic.as_str().as_bytes());
        body.extend_from_slice(payload);
        Self::new(PUBLICATION, number, body)
    }

    pub fn as_publication(&self) -> Option<(Topic, Bytes)> {
        let length = usize::from(u16::from_be_bytes(*self.body.first_chunk()?));
        let topic = std::str::from_utf8(self.body.get(2..2 + length)?).ok()?;
        Some((Topic::parse(topic).ok()?, self.body.slice(2 + length..)))
    }

    pub fn subscribe(number: u64, filters: &[TopicFilter]) -> Self {
        let lines = filters.iter().map(|filter| match filter {
            TopicFilter::Exact(topic) => format!("={topic}\n"),
            TopicFilter::Prefix(topic) => format!("+{topic}\n"),
        });
        Self::new(SUBSCRIBE, number, lines.collect::<String>())
    }

    pub fn as_filters(&self) -> Option<Vec<TopicFilter>> {
        let lines = std::str::from_utf8(&self.body).ok()?.lines();
        lines
            .map(|line| match line.split_at_checked(1)? {
                ("=", topic) => Topic::parse(topic).ok().map(TopicFilter::Exact),
                (_, topic) => Topic::parse(topic).ok().map(TopicFilter::Prefix),
            })
            .collect()
    }
}

pub async fn write(to: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(13 + frame.body.len());
    bytes.extend_from_slice(&(9 + frame.body.len() as u32).to_be_bytes());
    bytes.push(frame.kind);
    bytes.extend_from_slice(&frame.number.to_be_bytes());
    bytes.extend_from_slice(&frame.body);
    to.write_all(&bytes).await?;
    to.flush().await
}

/// How long a peer may still be silent, in eighths of what is allowed. One of them that took longer,
/// because this process did not run, counts as one.
#[derive(Debug)]
pub struct IdleTimer {
    eighth: Duration,
    left: u32,
    /// When the next of them is over.
    tick: Instant,
}

impl IdleTimer {
    pub fn new(allowed: Duration) -> Self {
        Self {
            eighth: allowed / 8,
            left: 8,
            tick: Clock.after(allowed / 8),
        }
    }

    fn heard(&mut self) {
        self.left = 8;
        self.tick = Clock.after(self.eighth);
    }

    async fn over(&mut self) {
        while self.left > 0 {
            Clock.until(self.tick).await;
            self.left -= 1;
            self.tick = Clock.after(self.eighth);
        }
    }
}

/// What frames are read from.
#[derive(Debug)]
pub struct Source<R> {
    pub stream: R,
    /// The largest payload.
    pub most: usize,
    /// Bytes break it, not frames: a slow network brings them one by one.
    pub idle: IdleTimer,
    pub fault: WireFault,
    pub rest: Option<Rest>,
    /// Where it comes from somebody who may not be admitted.
    pub entry: Option<Entry>,
}

/// Why a frame was not read, where it is the peer's fault.
fn broken() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl<R: AsyncRead + Unpin> Source<R> {
    /// Reads what there is; no bytes are the end.
    async fn some(&mut self, into: &mut [u8]) -> io::Result<usize> {
        tokio::select! {
            biased;
            read = self.stream.read(into) => {
                if self.fault != WireFault::MessagesAreLife {
                    self.idle.heard();
                }
                read
            }
            () = self.idle.over() => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Reads one frame. Not cancel safe: it is read in a loop of its own.
    pub async fn frame(&mut self) -> io::Result<Frame> {
        let mut head = [0; 4];
        let mut have = 0;
        while have < head.len() {
            have += match self.some(&mut head[have..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => count,
            };
            if self.fault == WireFault::ReadIsMessage && have < head.len() {
                return Err(broken());
            }
        }
        let length = u32::from_be_bytes(head) as usize;
        let _early = (self.fault == WireFault::AllocateAnnounced)
            .then(|| std::hint::black_box(vec![0u8; length]));
        let tight = self.entry.as_ref().and_then(Entry::most);
        let most = tight.unwrap_or(self.most).min(self.most);
        if !(9..=most + 1024).contains(&length) {
            return Err(broken());
        }
        let bytes = self.body(length).await?;
        self.idle.heard();
        let number = u64::from_be_bytes(bytes[1..9].try_into().unwrap());
        let frame = Frame::new(bytes[0], number, bytes.slice(9..));
        // The room beyond it is for topics and filters.
        let large = matches!(frame.kind, REQUEST | REPLY) && frame.body.len() > most;
        match large && self.fault != WireFault::TakeLarge {
            true => Err(broken()),
            false => Ok(frame),
        }
    }

    /// The `length` bytes of a frame after its head.
    async fn body(&mut self, length: usize) -> io::Result<Bytes> {
        let entry = self.entry.clone();
        let mut partial = entry.as_ref().map(Entry::partial);
        let mut bytes = vec![0; length];
        let mut have = 0;
        if let Some(rest) = &self.rest
            && self.fault == WireFault::KeepPartial
        {
            let kept = std::mem::take(&mut *rest.lock().unwrap());
            have = kept.len().min(length);
            bytes[..have].copy_from_slice(&kept[..have]);
        }
        while have < length {
            let count = self.some(&mut bytes[have..]).await.unwrap_or(0);
            if count == 0 {
                if let Some(rest) = &self.rest {
                    *rest.lock().unwrap() = bytes[..have].to_vec();
                }
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            have += count;
            if self.fault == WireFault::ReadIsMessage && have < length {
                return Err(broken());
            }
            if partial.as_mut().is_some_and(|partial| !partial.add(count)) {
                return Err(broken());
            }
        }
        Ok(bytes.into())
    }
}
