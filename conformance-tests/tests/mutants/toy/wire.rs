//! Frames: the length of what follows, a kind, a number, a body. A greeting stands before them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use saline_engine::Silence;
use saline_protocol::transport::{Address, Endpoint, Topic, TopicFilter};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

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

/// What a connection left unread, where that is the fault.
pub type Rest = Arc<Mutex<Vec<u8>>>;

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

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

/// What frames are read from.
#[derive(Debug)]
pub struct Source<R> {
    pub stream: R,
    /// The largest payload.
    pub most: usize,
    /// Bytes break it, not frames: a slow network brings them one by one.
    pub silence: Silence,
    pub fault: WireFault,
    pub rest: Option<Rest>,
}

impl<R: AsyncRead + Unpin> Source<R> {
    /// Reads what there is; no bytes are the end.
    async fn some(&mut self, into: &mut [u8]) -> io::Result<usize> {
        tokio::select! {
            biased;
            read = self.stream.read(into) => {
                self.silence.heard();
                read
            }
            () = self.silence.over() => Err(io::ErrorKind::TimedOut.into()),
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
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let length = u32::from_be_bytes(head) as usize;
        let _early = (self.fault == WireFault::AllocateAnnounced)
            .then(|| std::hint::black_box(vec![0u8; length]));
        if !(9..=self.most + 1024).contains(&length) {
            return Err(io::ErrorKind::InvalidData.into());
        }
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
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let number = u64::from_be_bytes(bytes[1..9].try_into().unwrap());
        Ok(Frame::new(bytes[0], number, Bytes::from(bytes).slice(9..)))
    }
}

/// Where an endpoint's socket is.
pub fn path(endpoint: &Endpoint, fault: WireFault) -> Option<PathBuf> {
    let Address::Local(path) = &endpoint.address else {
        return None;
    };
    if fault != WireFault::CutPath {
        return Some(path.clone());
    }
    let text = path.to_str().unwrap();
    let cut = Path::new(&text[..text.len().min(100)]).to_owned();
    // What is cut off may end in a slash or name the folder itself.
    Some(match cut.is_dir() || text.len() > 100 {
        true => PathBuf::from(format!("{}-cut", &text[..text.len().min(80)])),
        false => cut,
    })
}

pub async fn dial(endpoint: &Endpoint, fault: WireFault) -> io::Result<Box<dyn Stream>> {
    if let Some(path) = path(endpoint, fault) {
        return Ok(Box::new(UnixStream::connect(path).await?));
    }
    let mut last = io::ErrorKind::NotFound.into();
    if let Address::Network { addresses, .. } = &endpoint.address {
        for address in addresses {
            match TcpStream::connect((address.host.as_str(), address.port)).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Box::new(stream));
                }
                Err(error) => last = error,
            }
        }
    }
    Err(last)
}
