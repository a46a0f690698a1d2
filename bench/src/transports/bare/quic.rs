//! Bare quinn: one framed stream a connection, chunks coalesced, publications encoded once for all.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{Connection, Endpoint, EndpointConfig, RecvStream, SendStream, TokioRuntime};
use rustix::net::sockopt;
use saline_protocol::transport::Clock;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::callers;
use super::frame::{ROOM, burst, publication, put, take};
use crate::Result;
use crate::transports::flow_limit::{FlowLimit, STEPS, SubscriberCount};
use crate::transports::plan::Work;
use crate::transports::side::{ClientSide, ServerSide, first};

/// The buffers of a socket, each way: with the system's 208 KiB a fan-out loses packets.
const UDP_BUFFER: usize = 4 * 1024 * 1024;

/// The name in the certificate.
const NAME: &str = "bare";

fn socket() -> Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, UDP_BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, UDP_BUFFER)?;
    }
    if sockopt::set_socket_send_buffer_size_force(&socket, UDP_BUFFER).is_err() {
        sockopt::set_socket_send_buffer_size(&socket, UDP_BUFFER)?;
    }
    Ok(socket)
}

fn endpoint(server: Option<quinn::ServerConfig>) -> Result<Endpoint> {
    let (config, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
    Ok(Endpoint::new(config, server, socket()?, runtime)?)
}

/// An endpoint, and what came to it.
#[derive(Debug)]
pub(crate) struct Serving {
    at: Vec<String>,
    accepted: mpsc::Receiver<mpsc::Sender<Bytes>>,
    subscribers: Vec<mpsc::Sender<Bytes>>,
    next: u64,
    _accepting: JoinSet<Result<()>>,
}

impl Serving {
    /// Serves under a certificate that it makes; it is a part of where it serves.
    pub(crate) fn start(work: Work) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let certificate: &CertificateDer<'static> = made.cert.der();
        let config = quinn::ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
        let endpoint = endpoint(Some(config))?;
        let der = certificate.iter().map(|byte| format!("{byte:02x}"));
        let at = vec![endpoint.local_addr()?.to_string(), der.collect()];
        let (queues, accepted) = mpsc::channel(work.clients());
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut serving = JoinSet::new();
            while let Some(incoming) = endpoint.accept().await {
                let connecting = incoming.accept()?;
                let queues = queues.clone();
                serving.spawn(serve(connecting, work, queues));
            }
            Ok(())
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

async fn serve(
    connecting: quinn::Connecting,
    work: Work,
    queues: mpsc::Sender<mpsc::Sender<Bytes>>,
) -> Result<()> {
    let connection = connecting.await?;
    match work {
        Work::Requests { .. } => {
            let (output, input) = connection.accept_bi().await?;
            echo(output, input).await
        }
        Work::FanOut { .. } => {
            let mut stream = connection.open_uni().await?;
            let (queue, mut bursts) = mpsc::channel(STEPS as usize);
            queues.send(queue).await?;
            while let Some(burst) = bursts.recv().await {
                stream.write_chunk(burst).await?;
            }
            Ok(())
        }
    }
}

async fn echo(mut output: SendStream, mut stream: RecvStream) -> Result<()> {
    let mut input = BytesMut::with_capacity(ROOM);
    while let Some(chunk) = stream.read_chunk(ROOM, true).await? {
        input.extend_from_slice(&chunk.bytes);
        let mut answers = Vec::with_capacity(input.len());
        while let Some((number, payload)) = take(&mut input) {
            put(&mut answers, number, &payload);
        }
        output.write_chunk(answers.into()).await?;
    }
    Ok(())
}

#[async_trait]
impl ServerSide for Serving {
    fn at(&self) -> Vec<String> {
        self.at.clone()
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
    at: SocketAddr,
    config: quinn::ClientConfig,
    /// A task for every request.
    callers: bool,
    asking: Option<(Connection, SendStream, RecvStream)>,
    endpoints: Vec<Endpoint>,
    readers: JoinSet<Result<()>>,
}

impl Clients {
    /// None is connected yet.
    pub(crate) fn new(at: &[String], callers: bool) -> Result<Self> {
        let hex = at.get(1).ok_or("no certificate")?;
        let bytes = (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16));
        let mut roots = RootCertStore::empty();
        roots.add(bytes.collect::<Result<Vec<_>, _>>()?.into())?;
        Ok(Self {
            at: first(at)?.parse()?,
            config: quinn::ClientConfig::with_root_certificates(Arc::new(roots))?,
            callers,
            asking: None,
            endpoints: Vec::new(),
            readers: JoinSet::new(),
        })
    }

    /// From a socket of its own, as another machine would.
    async fn connect(&mut self) -> Result<Connection> {
        let endpoint = endpoint(None)?;
        let connecting = endpoint.connect_with(self.config.clone(), self.at, NAME)?;
        self.endpoints.push(endpoint);
        Ok(connecting.await?)
    }
}

#[async_trait]
impl ClientSide for Clients {
    async fn ask(&mut self, outstanding: usize, bytes: usize, run: Duration) -> Result<u64> {
        if self.callers {
            let connection = self.connect().await?;
            let (writer, reader) = connection.open_bi().await?;
            return callers::ask(reader, writer, outstanding, bytes, run).await;
        }
        if self.asking.is_none() {
            let connection = self.connect().await?;
            let (output, input) = connection.open_bi().await?;
            self.asking = Some((connection, output, input));
        }
        let (_, stream, answers) = self.asking.as_mut().ok_or("not connected")?;
        let mut input = BytesMut::with_capacity(ROOM);
        let mut output = Vec::with_capacity(outstanding * (12 + bytes));
        for number in 0..outstanding {
            put(&mut output, number as u64, &vec![7; bytes]);
        }
        let end = Clock.after(run);
        let (mut waiting, mut answered) = (outstanding, 0);
        while waiting > 0 {
            let room = output.capacity();
            if !output.is_empty() {
                let chunk = std::mem::replace(&mut output, Vec::with_capacity(room));
                stream.write_chunk(chunk.into()).await?;
            }
            let chunk = answers.read_chunk(ROOM, true).await?.ok_or("closed")?;
            input.extend_from_slice(&chunk.bytes);
            let over = Clock.now() >= end;
            while let Some((number, payload)) = take(&mut input) {
                answered += 1;
                match over {
                    true => waiting -= 1,
                    false => put(&mut output, number, &payload),
                }
            }
        }
        Ok(answered)
    }

    async fn subscribe(
        &mut self,
        subscribers: usize,
        bytes: usize,
        limit: &Arc<FlowLimit>,
    ) -> Result<()> {
        for _ in 0..subscribers {
            let connection = self.connect().await?;
            self.readers
                .spawn(read(connection, bytes, limit.subscriber()));
        }
        Ok(())
    }
}

async fn read(connection: Connection, bytes: usize, mut count: SubscriberCount) -> Result<()> {
    let mut stream = connection.accept_uni().await?;
    let mut input = BytesMut::with_capacity(ROOM);
    while let Some(chunk) = stream.read_chunk(ROOM, true).await? {
        input.extend_from_slice(&chunk.bytes);
        while let Some((number, _topic, payload)) = publication(&mut input) {
            match payload.len() == bytes {
                true => count.numbered(number),
                false => count.lost(1),
            }
        }
    }
    Ok(())
}
