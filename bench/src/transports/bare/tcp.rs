//! Bare tokio TCP: writes coalesced, publications encoded once for all connections.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use saline_protocol::transport::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::callers;
use super::frame::{ROOM, burst, publication, put, take};
use crate::Result;
use crate::transports::flow_limit::{FlowLimit, STEPS, SubscriberCount};
use crate::transports::plan::Work;
use crate::transports::side::{ClientSide, ServerSide, first};

/// A listener, and what came to it.
#[derive(Debug)]
pub(crate) struct Serving {
    at: String,
    accepted: mpsc::Receiver<mpsc::Sender<Bytes>>,
    subscribers: Vec<mpsc::Sender<Bytes>>,
    next: u64,
    _accepting: JoinSet<std::io::Result<()>>,
}

impl Serving {
    /// Listens.
    pub(crate) async fn start(work: Work) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?.to_string();
        let (queues, accepted) = mpsc::channel(work.clients());
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut serving = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                match work {
                    Work::Requests { .. } => serving.spawn(echo(stream)),
                    Work::FanOut { .. } => {
                        let (queue, bursts) = mpsc::channel(STEPS as usize);
                        let _ = queues.send(queue).await;
                        serving.spawn(write(stream, bursts))
                    }
                };
            }
        });
        Ok(Self {
            at,
            accepted,
            subscribers: Vec::new(),
            next: 0,
            _accepting: accepting,
        })
    }
}

async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let mut input = BytesMut::with_capacity(ROOM);
    let mut output = Vec::new();
    while stream.read_buf(&mut input).await? > 0 {
        while let Some((number, payload)) = take(&mut input) {
            put(&mut output, number, &payload);
        }
        input.reserve(ROOM / 2);
        stream.write_all(&output).await?;
        output.clear();
    }
    Ok(())
}

async fn write(mut stream: TcpStream, mut bursts: mpsc::Receiver<Bytes>) -> std::io::Result<()> {
    while let Some(burst) = bursts.recv().await {
        stream.write_all(&burst).await?;
    }
    Ok(())
}

#[async_trait]
impl ServerSide for Serving {
    fn at(&self) -> Vec<String> {
        vec![self.at.clone()]
    }

    async fn subscribed(&mut self, subscribers: usize) -> Result<()> {
        while self.subscribers.len() < subscribers {
            let queue = self.accepted.recv().await.ok_or("not listening")?;
            self.subscribers.push(queue);
        }
        Ok(())
    }

    async fn publish(&mut self, payload: &Bytes, times: u64) -> Result<()> {
        let burst = burst(payload, times, &mut self.next);
        for queue in &self.subscribers {
            queue.send(burst.clone()).await?;
        }
        Ok(())
    }

    async fn stop(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The connecting half.
#[derive(Debug)]
pub(crate) struct Clients {
    at: String,
    /// A task for every request.
    callers: bool,
    asking: Option<TcpStream>,
    readers: JoinSet<std::io::Result<()>>,
}

impl Clients {
    /// None is connected yet.
    pub(crate) fn new(at: Vec<String>, callers: bool) -> Result<Self> {
        Ok(Self {
            at: first(&at)?,
            callers,
            asking: None,
            readers: JoinSet::new(),
        })
    }
}

#[async_trait]
impl ClientSide for Clients {
    async fn ask(&mut self, outstanding: usize, bytes: usize, run: Duration) -> Result<u64> {
        if self.callers {
            let stream = TcpStream::connect(&self.at).await?;
            stream.set_nodelay(true)?;
            let (reader, writer) = stream.into_split();
            return callers::ask(reader, writer, outstanding, bytes, run).await;
        }
        let mut stream = match self.asking.take() {
            Some(stream) => stream,
            None => TcpStream::connect(&self.at).await?,
        };
        stream.set_nodelay(true)?;
        let mut input = BytesMut::with_capacity(ROOM);
        let mut output = Vec::with_capacity(outstanding * (12 + bytes));
        for number in 0..outstanding {
            put(&mut output, number as u64, &vec![7; bytes]);
        }
        let end = Clock.after(run);
        let (mut waiting, mut answered) = (outstanding, 0);
        while waiting > 0 {
            stream.write_all(&output).await?;
            output.clear();
            stream.read_buf(&mut input).await?;
            let over = Clock.now() >= end;
            while let Some((number, payload)) = take(&mut input) {
                answered += 1;
                match over {
                    true => waiting -= 1,
                    false => put(&mut output, number, &payload),
                }
            }
            input.reserve(ROOM / 2);
        }
        self.asking = Some(stream);
        Ok(answered)
    }

    async fn subscribe(
        &mut self,
        subscribers: usize,
        bytes: usize,
        limit: &Arc<FlowLimit>,
    ) -> Result<()> {
        for _ in 0..subscribers {
            let stream = TcpStream::connect(&self.at).await?;
            self.readers.spawn(read(stream, bytes, limit.subscriber()));
        }
        Ok(())
    }
}

async fn read(
    mut stream: TcpStream,
    bytes: usize,
    mut count: SubscriberCount,
) -> std::io::Result<()> {
    let mut input = BytesMut::with_capacity(ROOM);
    while stream.read_buf(&mut input).await? > 0 {
        while let Some((number, _topic, payload)) = publication(&mut input) {
            match payload.len() == bytes {
                true => count.numbered(number),
                false => count.lost(1),
            }
        }
        input.reserve(ROOM / 2);
    }
    Ok(())
}
