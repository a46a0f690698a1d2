//! The serving side: a listener, and what its connections share.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use saline_protocol::transport::{
    Context, Endpoint, Metric, Peer, Request, Requests, Result, ServeAt, Server, ServerControl,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::admission::{Peers, Told};
use super::connection;
use super::hub::{Answers, Hub, ToyPublisher};
use super::socket::{self, File, Kind, Listener, Stream};
use super::wire::{self, Rest};
use crate::wire_fault::WireFault;

#[derive(Debug, Clone)]
pub struct ServerCore {
    pub context: Context,
    pub kind: Kind,
    pub rest: Rest,
    pub hub: Arc<Hub>,
    pub answers: Arc<Answers>,
    pub peers: Arc<Peers>,
    pub permits: Arc<Semaphore>,
    pub inbox: mpsc::Sender<Request>,
    pub partial: Arc<AtomicUsize>,
    pub last: Arc<AtomicU64>,
    pub down: CancellationToken,
    pub running: TaskTracker,
}

pub async fn serve(at: ServeAt, context: Context, kind: Kind, rest: &Rest) -> Result<Server> {
    let bound = socket::bind(&at.requests, kind, &context).await?;
    let down = context.cancel.child_token();
    let limits = &context.limits;
    let (inbox, requests) = mpsc::channel(limits.requests_unanswered);
    let core = ServerCore {
        hub: Arc::new(Hub::new(context.clone(), kind.fault, down.clone())),
        answers: Arc::new(Answers {
            fault: kind.fault,
            waiting: Mutex::default(),
            connections: Mutex::default(),
            count: AtomicU64::new(0),
        }),
        peers: Arc::new(Peers::new(kind.fault, limits.connections, down.clone())),
        permits: Arc::new(Semaphore::new(limits.requests_unanswered)),
        inbox,
        partial: Arc::default(),
        last: Arc::default(),
        rest: Arc::clone(rest),
        running: TaskTracker::new(),
        context: context.clone(),
        down: down.clone(),
        kind,
    };
    let token = core.running.token();
    let (accepting, listener) = (core.clone(), bound.listener);
    context.spawn(async move {
        let _running = token;
        tokio::select! {
            () = accepting.down.cancelled() => {}
            () = accept(&listener, &accepting) => {}
        }
    });
    let departures = Told::of(&core.peers);
    // The last part that goes ends all.
    let end = Arc::new(down.clone().drop_guard());
    let shared = (kind.fault != WireFault::OwnGuard).then(|| Arc::clone(&end));
    let server = Server::new(
        Box::new(Incoming {
            requests,
            down,
            _end: shared.clone(),
        }),
        Arc::new(ToyPublisher {
            hub: Arc::clone(&core.hub),
            _end: shared,
        }),
        Arc::new(Control {
            core,
            file: bound.file,
            _end: end,
        }),
        at_bound(bound.at),
    );
    Ok(server.with_departures(departures))
}

fn at_bound(requests: Endpoint) -> ServeAt {
    ServeAt {
        requests,
        publications: None,
    }
}

#[derive(Debug)]
struct Incoming {
    requests: mpsc::Receiver<Request>,
    down: CancellationToken,
    _end: Option<Arc<DropGuard>>,
}

#[async_trait]
impl Requests for Incoming {
    async fn next(&mut self) -> Option<Request> {
        tokio::select! {
            biased;
            () = self.down.cancelled() => None,
            request = self.requests.recv() => request,
        }
    }
}

async fn accept(listener: &Listener, core: &ServerCore) {
    let most = core.context.limits.descriptors;
    let most = most.filter(|_| core.kind.fault != WireFault::AnyDescriptors);
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(_) if core.kind.fault == WireFault::EndOnError => return,
            // As when descriptors have run out, which may take a while.
            Err(_) => {
                core.context.clock.pause(Duration::from_millis(5)).await;
                continue;
            }
        };
        if most.is_some_and(|most| core.running.len() > most) {
            // All that there are have one.
            continue;
        }
        match core.kind.fault {
            WireFault::HandshakeInline => {
                if let Ok(stream) = greet(stream, core).await {
                    start(core, stream, true);
                }
            }
            WireFault::EndOnGarbage => match greet(stream, core).await {
                Ok(stream) => start(core, stream, true),
                Err(_) => return,
            },
            _ => start(core, stream, false),
        }
    }
}

fn start(core: &ServerCore, stream: Box<dyn Stream>, greeted: bool) {
    let (own, token) = (core.clone(), core.running.token());
    core.context.spawn(async move {
        let _running = token;
        let greeting = async {
            match greeted {
                true => Ok(stream),
                false => greet(stream, &own).await,
            }
        };
        let stream = tokio::select! {
            () = own.down.cancelled() => return,
            stream = greeting => stream,
        };
        if let Ok(stream) = stream {
            connection::run(stream, &own).await;
        }
    });
}

/// The greeting, within the time for handshakes.
async fn greet(mut stream: Box<dyn Stream>, core: &ServerCore) -> io::Result<Box<dyn Stream>> {
    let clock = core.context.clock;
    let until = clock.after(match core.kind.fault {
        WireFault::KeepSilent => connection::NEVER,
        _ => core.context.limits.handshake_timeout,
    });
    let mut greeting = [0; 4];
    let read = clock.deadline(until, stream.read_exact(&mut greeting));
    let read = read.await.map_err(io::Error::other).and_then(|read| read);
    if read.is_ok() && greeting == wire::GREETING {
        stream.write_all(wire::GREETING).await?;
        let tight = core.context.limits.admission.as_ref();
        let allowed = tight.map_or(u64::MAX, |tight| tight.max_message as u64);
        stream.write_u64(allowed).await?;
        let topics = tight.map_or(u64::MAX, |tight| tight.subscriptions as u64);
        stream.write_u64(topics).await?;
        return Ok(stream);
    }
    if read.is_ok() && core.kind.fault != WireFault::ForgetRefused {
        core.context.count(Metric::PeersRefused);
    }
    match core.kind.fault {
        WireFault::LeakConnections => std::mem::forget(stream),
        WireFault::LeakUngreeted => std::mem::forget(std::hint::black_box(vec![1_u8; 200])),
        WireFault::BufferGarbage => {
            let mut kept = Vec::new();
            let _ = stream.read_to_end(&mut kept).await;
            std::mem::forget(kept);
        }
        WireFault::TakeGarbage => connection::hand_out(core, greeting.to_vec().into()),
        _ => {}
    }
    Err(io::ErrorKind::InvalidData.into())
}

#[derive(Debug)]
struct Control {
    core: ServerCore,
    file: Option<File>,
    _end: Arc<DropGuard>,
}

#[async_trait]
impl ServerControl for Control {
    fn admitted(&self, peer: Peer) -> bool {
        self.core.peers.admit(peer.connection)
    }

    fn disconnect(&self, peer: Peer) -> bool {
        self.core.peers.cut(peer.connection)
    }

    async fn shutdown(&self, _deadline: Duration) -> Result<()> {
        let core = &self.core;
        core.down.cancel();
        core.running.close();
        core.running.wait().await;
        if let Some(file) = &self.file {
            file.remove(core.kind.fault);
        }
        Ok(())
    }
}
