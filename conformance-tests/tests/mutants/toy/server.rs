//! The serving side: a listener, and an agent for each connection.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use saline_engine::Silence;
use saline_inproc::InProc;
use saline_protocol::transport::{
    Address, Client, Context, Delivery, Endpoint, Error, ErrorKind, HostPort, Lost, Peer, Result,
    ServeAt, Server, ServerControl, Transport,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::wire::{self, Frame, Rest, Stream};
use crate::wire_fault::WireFault;

/// Long enough to count as never.
const NEVER: Duration = Duration::from_secs(3600);

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Refused, format!("cannot listen: {error}"))
}

async fn bind(at: &Endpoint, fault: WireFault) -> Result<(Listener, Endpoint)> {
    let mut bound = at.clone();
    if let Some(path) = wire::path(at, fault) {
        let standing = std::fs::symlink_metadata(&path).is_ok();
        let replace = match fault {
            WireFault::AlwaysUnlink => standing,
            WireFault::NeverUnlink => false,
            // Only a socket to which nobody listens refuses; a file is no socket.
            _ => {
                use std::os::unix::fs::FileTypeExt;
                let socket = std::fs::symlink_metadata(&path);
                let socket = socket.is_ok_and(|found| found.file_type().is_socket());
                socket && std::os::unix::net::UnixStream::connect(&path).is_err()
            }
        };
        if replace {
            std::fs::remove_file(&path).map_err(refused)?;
        }
        let listener = UnixListener::bind(&path).map_err(refused)?;
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, own).map_err(refused)?;
        return Ok((Listener::Unix(listener), bound));
    }
    let Address::Network { addresses, .. } = &mut bound.address else {
        return Err(refused("no address"));
    };
    let first = (addresses[0].host.as_str(), addresses[0].port);
    let listener = TcpListener::bind(first).await.map_err(refused)?;
    let local = listener.local_addr().map_err(refused)?;
    addresses[0] = HostPort::new(addresses[0].host.clone(), local.port());
    Ok((Listener::Tcp(listener), bound))
}

#[derive(Debug, Clone)]
struct House {
    inner: Arc<InProc>,
    at: Endpoint,
    context: Context,
    fault: WireFault,
    rest: Rest,
    down: CancellationToken,
    running: TaskTracker,
}

pub async fn serve(
    inner: &Arc<InProc>,
    at: ServeAt,
    context: Context,
    fault: WireFault,
    rest: &Rest,
) -> Result<Server> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let (listener, bound) = bind(&at.requests, fault).await?;
    let name = format!("toy-{}", LAST.fetch_add(1, Ordering::Relaxed));
    let inner_at = ServeAt {
        requests: Endpoint::network("inproc", HostPort::new(name, 1)),
        publications: None,
    };
    let mut server = inner.serve(inner_at, context.clone()).await?;
    let house = House {
        inner: Arc::clone(inner),
        at: server.bound.requests.clone(),
        context: context.clone(),
        fault,
        rest: Arc::clone(rest),
        down: context.cancel.child_token(),
        running: TaskTracker::new(),
    };
    let token = house.running.token();
    let accepting = house.clone();
    context.spawn(async move {
        let _running = token;
        let down = accepting.down.clone();
        tokio::select! {
            () = down.cancelled() => {}
            () = accept(&listener, &accepting) => {}
        }
    });
    server.bound.requests = bound.clone();
    server.control = Arc::new(Control {
        inner: server.control,
        house,
        bound,
    });
    Ok(server)
}

async fn accept(listener: &Listener, house: &House) {
    loop {
        let Ok(stream) = listener.accept().await else {
            continue;
        };
        match house.fault {
            WireFault::HandshakeInline => {
                if let Ok(stream) = greet(stream, house).await {
                    start(house, stream, true);
                }
            }
            WireFault::EndOnGarbage => match greet(stream, house).await {
                Ok(stream) => start(house, stream, true),
                Err(_) => return,
            },
            _ => start(house, stream, false),
        }
    }
}

fn start(house: &House, stream: Box<dyn Stream>, greeted: bool) {
    let (own, token) = (house.clone(), house.running.token());
    house.context.spawn(async move {
        let _running = token;
        let stream = match greeted {
            true => Ok(stream),
            false => greet(stream, &own).await,
        };
        if let Ok(stream) = stream {
            let down = own.down.clone();
            tokio::select! {
                () = down.cancelled() => {}
                _ = connection(stream, &own) => {}
            }
        }
    });
}

/// The greeting, within the time for handshakes.
async fn greet(mut stream: Box<dyn Stream>, house: &House) -> io::Result<Box<dyn Stream>> {
    let clock = house.context.clock;
    let until = clock.after(house.context.limits.handshake_timeout);
    let mut greeting = [0; 4];
    let read = clock.deadline(until, stream.read_exact(&mut greeting));
    let read = read.await.map_err(io::Error::other).and_then(|read| read);
    if read.is_ok() && greeting == wire::GREETING {
        stream.write_all(wire::GREETING).await?;
        return Ok(stream);
    }
    match house.fault {
        WireFault::LeakConnections => std::mem::forget(stream),
        WireFault::BufferGarbage => {
            let mut kept = Vec::new();
            let _ = stream.read_to_end(&mut kept).await;
            std::mem::forget(kept);
        }
        WireFault::TakeGarbage => {
            let agent = house.inner.connect(&house.at, house.context.child()).await;
            if let Ok(agent) = agent {
                let garbage = greeting.to_vec().into();
                drop(agent.request(garbage, clock.after(NEVER)).await);
            }
        }
        _ => {}
    }
    Err(io::ErrorKind::InvalidData.into())
}

async fn connection(stream: Box<dyn Stream>, house: &House) -> io::Result<()> {
    let limits = house.context.limits.clone();
    let context = house.context.child();
    let agent = house.inner.connect(&house.at, context.clone()).await;
    let agent = agent.map_err(io::Error::other)?;
    let _end = context.cancel.clone().drop_guard();
    let room = match house.fault {
        WireFault::BufferForSlow => 1_000_000,
        _ => 16,
    };
    let (out, mut queued) = mpsc::channel::<Frame>(room);
    let (from, mut to) = tokio::io::split(stream);
    let mut from = wire::Source {
        stream: from,
        most: limits.max_message,
        silence: Silence::new(
            context.clock,
            match house.fault {
                WireFault::BufferForSlow | WireFault::NoPings => NEVER,
                _ => limits.ping_interval * 2,
            },
        ),
        fault: house.fault,
        rest: Some(Arc::clone(&house.rest)),
    };
    let writing = async {
        while let Some(frame) = queued.recv().await {
            wire::write(&mut to, &frame).await?;
        }
        io::Result::Ok(())
    };
    let reading = async {
        let mut subscriptions = HashMap::new();
        loop {
            let frame = from.frame().await?;
            match frame.kind {
                wire::PING => drop(out.try_send(frame)),
                wire::REQUEST => {
                    let (agent, out) = (Arc::clone(&agent), out.clone());
                    let clock = context.clock;
                    context.spawn(async move {
                        let outcome = agent.request(frame.body, clock.after(NEVER)).await;
                        let answer = match outcome {
                            Ok(reply) => Frame::new(wire::REPLY, frame.number, reply),
                            Err(_) => Frame::new(wire::NO_REPLY, frame.number, ""),
                        };
                        let _ = out.send(answer).await;
                    });
                }
                wire::SUBSCRIBE => {
                    let filters = frame.as_filters().ok_or(io::ErrorKind::InvalidData)?;
                    let own = CancellationToken::new();
                    subscriptions.insert(frame.number, own.clone().drop_guard());
                    let (agent, out) = (Arc::clone(&agent), out.clone());
                    context.spawn(async move {
                        tokio::select! {
                            () = own.cancelled() => {}
                            () = forward(agent, out, frame.number, filters) => {}
                        }
                    });
                }
                wire::UNSUBSCRIBE => drop(subscriptions.remove(&frame.number)),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    };
    tokio::select! {
        done = writing => done,
        done = reading => done,
    }
}

async fn forward(
    agent: Arc<dyn Client>,
    out: mpsc::Sender<Frame>,
    number: u64,
    filters: Vec<saline_protocol::transport::TopicFilter>,
) {
    let until = saline_protocol::transport::Clock.after(NEVER);
    let Ok(mut subscriber) = agent.subscribe(None, filters, until).await else {
        return;
    };
    let _ = out.send(Frame::new(wire::SUBSCRIBED, number, "")).await;
    while let Some(delivery) = subscriber.next().await {
        let frame = match delivery {
            Delivery::Message { topic, payload } => Frame::publication(number, &topic, &payload),
            Delivery::Lagged(Lost::Messages(n)) => {
                Frame::new(wire::LAGGED, number, n.to_be_bytes().to_vec())
            }
            _ => continue,
        };
        if out.send(frame).await.is_err() {
            return;
        }
    }
}

#[derive(Debug)]
struct Control {
    inner: Arc<dyn ServerControl>,
    house: House,
    bound: Endpoint,
}

#[async_trait]
impl ServerControl for Control {
    fn disconnect(&self, peer: Peer) -> bool {
        self.inner.disconnect(peer)
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        let outcome = self.inner.shutdown(deadline).await;
        self.house.down.cancel();
        self.house.running.close();
        self.house.running.wait().await;
        if let Some(path) = wire::path(&self.bound, self.house.fault)
            && self.house.fault != WireFault::LeaveSocket
        {
            let _ = std::fs::remove_file(path);
        }
        outcome
    }
}
