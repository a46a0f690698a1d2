//! One connection of a server.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Clock, Delivery, Lost, Metric, Reply, ReplyToken, Request};
use tokio::io::{AsyncWrite, ReadHalf};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::admission::{Entry, peer};
use super::hub::Outbox;
use super::queue::Receiver;
use super::server::ServerCore;
use super::socket::Stream;
use super::wire::{self, Frame, IdleTimer, Source};
use crate::wire_fault::WireFault;

/// Long enough to count as never.
pub const NEVER: Duration = Duration::from_secs(3600);

/// Takes leave of everything when the connection ends, however it does.
struct Leave<'a> {
    core: &'a ServerCore,
    number: u64,
    of_itself: bool,
    _end: DropGuard,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.core.hub.leave(self.number);
        self.core.answers.leave(self.number);
        self.core.context.count(Metric::Disconnected);
        self.core.peers.leave(self.number, self.of_itself);
        if self.core.kind.fault == WireFault::LeakGreeted {
            std::mem::forget(std::hint::black_box(vec![1_u8; 200]));
        }
    }
}

pub async fn run(stream: Box<dyn Stream>, core: &ServerCore) {
    let number = core.last.fetch_add(1, Ordering::Relaxed);
    let end = core.down.child_token();
    let admitted = Arc::new(AtomicBool::new(false));
    let (outbox, told) = (Arc::new(Outbox::default()), Arc::new(Notify::new()));
    core.answers.enter(number, &outbox);
    core.context.count(Metric::Connected);
    core.peers.enter(number, &end, &admitted, &told);
    let mut leave = Leave {
        core,
        number,
        of_itself: false,
        _end: end.clone().drop_guard(),
    };
    let room = match core.kind.fault {
        WireFault::BufferForSlow => 1_000_000,
        _ => 16,
    };
    let (out, queued) = mpsc::channel::<Frame>(room);
    let (from, to) = tokio::io::split(stream);
    let is_in_line = AtomicBool::new(false);
    let reader = Reader {
        core,
        number,
        out,
        outbox: &outbox,
        subscriptions: HashMap::new(),
        permits: Arc::new(Semaphore::new(core.context.limits.requests_in_flight)),
        is_in_line: &is_in_line,
        end: &end,
        admitted: &admitted,
    };
    let ended = tokio::select! {
        biased;
        () = end.cancelled() => Ok(()),
        () = too_late(core, &admitted) => Err(io::ErrorKind::InvalidData.into()),
        done = reader.read(from) => done,
        done = write(to, &outbox, queued, (&told, &is_in_line), core) => done,
    };
    if let Err(error) = ended {
        let refused = error.kind() == io::ErrorKind::InvalidData;
        if refused && core.kind.fault != WireFault::ForgetRefused {
            core.context.count(Metric::PeersRefused);
        }
        leave.of_itself = error.kind() == io::ErrorKind::UnexpectedEof;
    }
}

/// Comes when the time is over in which it should have been admitted.
async fn too_late(core: &ServerCore, admitted: &AtomicBool) {
    if let Some(tight) = &core.context.limits.admission
        && core.kind.fault != WireFault::NeverTooLate
    {
        Clock.pause(tight.time).await;
        if !admitted.load(Ordering::Relaxed) || core.kind.fault == WireFault::CutAdmitted {
            return;
        }
    }
    std::future::pending().await
}

async fn write(
    mut to: impl AsyncWrite + Unpin,
    outbox: &Outbox,
    mut queued: mpsc::Receiver<Frame>,
    (told, is_in_line): (&Notify, &AtomicBool),
    core: &ServerCore,
) -> io::Result<()> {
    let ping = core.context.limits.ping_interval / 2;
    let mut untold = false;
    loop {
        tokio::select! {
            biased;
            () = told.notified() => {
                if core.kind.fault == WireFault::AdmitWithPing {
                    untold = true;
                    continue;
                }
                wire::write(&mut to, &Frame::new(wire::ADMITTED, 0, "")).await?;
            }
            (answer, permits) = outbox.next() => {
                let written = wire::write(&mut to, &answer);
                let until = Clock.after(match core.kind.fault {
                    WireFault::HurriedWriter => core.context.limits.ping_interval * 2,
                    _ => NEVER,
                });
                Clock.deadline(until, written).await.map_err(io::Error::other)??;
                drop(permits);
            }
            Some(frame) = queued.recv() => wire::write(&mut to, &frame).await?,
            // It is these pings that notice the end of a peer that is not read.
            () = Clock.pause(ping) => {
                let is_blind = core.kind.fault == WireFault::BlindInLine;
                if is_blind && is_in_line.load(Ordering::Relaxed) {
                    continue;
                }
                if std::mem::take(&mut untold) {
                    wire::write(&mut to, &Frame::new(wire::ADMITTED, 0, "")).await?;
                }
                wire::write(&mut to, &Frame::new(wire::PING, 0, "")).await?;
            }
        }
    }
}

struct Reader<'a> {
    core: &'a ServerCore,
    number: u64,
    out: mpsc::Sender<Frame>,
    outbox: &'a Outbox,
    subscriptions: HashMap<u64, DropGuard>,
    /// Those of this connection: one that does not read its answers is not read either.
    permits: Arc<Semaphore>,
    /// A request of it waits for a permit of the server.
    is_in_line: &'a AtomicBool,
    end: &'a CancellationToken,
    admitted: &'a Arc<AtomicBool>,
}

impl Reader<'_> {
    async fn read(mut self, from: ReadHalf<Box<dyn Stream>>) -> io::Result<()> {
        let (core, limits) = (self.core, &self.core.context.limits);
        let mut from = Source {
            stream: from,
            most: limits.max_message,
            idle: IdleTimer::new(match core.kind.fault {
                WireFault::BufferForSlow | WireFault::NoPings => NEVER,
                _ => limits.ping_interval * 2,
            }),
            fault: core.kind.fault,
            rest: Some(Arc::clone(&core.rest)),
            entry: Some(Entry {
                admitted: Arc::clone(self.admitted),
                limits: limits.admission.clone(),
                partial: Arc::clone(&core.partial),
                fault: core.kind.fault,
            }),
        };
        loop {
            self.take(from.frame().await?).await?;
        }
    }

    async fn take(&mut self, frame: Frame) -> io::Result<()> {
        let key = (self.number, frame.number);
        match frame.kind {
            wire::PING => {}
            wire::REQUEST => self.request(frame).await,
            wire::SUBSCRIBE => self.subscribe(frame).await?,
            wire::UNSUBSCRIBE => {
                self.subscriptions.remove(&frame.number);
                self.core.hub.withdraw(key);
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }

    async fn request(&self, frame: Frame) {
        let (core, request) = (self.core, frame.number);
        if let Some(tight) = &core.context.limits.admission
            && core.kind.fault == WireFault::StopOverdrawn
            && !self.admitted.load(Ordering::Relaxed)
            && self.outbox.bytes() > tight.queue_bytes
        {
            Clock.pause(core.context.limits.ping_interval).await;
        }
        // They are never closed.
        let own = Arc::clone(&self.permits).acquire_owned().await.unwrap();
        self.is_in_line.store(true, Ordering::Relaxed);
        let permit = self.permit().await;
        self.is_in_line.store(false, Ordering::Relaxed);
        let connection = self.number;
        let token = ReplyToken {
            connection,
            request,
        };
        let peer = peer(connection, core.kind.fault);
        let permits = [permit, own];
        core.answers.waiting.lock().unwrap().insert(token, permits);
        let route = Arc::clone(&core.answers);
        let reply = Reply::new(route, token, core.context.limits.max_message);
        // Requests of connections that are gone may still stand there, and their permits are free.
        let request = Request::new(peer, frame.body, reply);
        let _ = core.inbox.send(request).await;
    }

    /// Waits for a permit of the server.
    async fn permit(&self) -> OwnedSemaphorePermit {
        let waiting = Arc::clone(&self.core.permits).acquire_owned();
        if self.core.kind.fault != WireFault::KeepPlaces {
            return waiting.await.unwrap();
        }
        let (granted, permit) = oneshot::channel();
        self.core.context.spawn(async move {
            if let Err(permit) = granted.send(waiting.await.unwrap()) {
                permit.forget();
            }
        });
        permit.await.unwrap()
    }

    async fn subscribe(&mut self, frame: Frame) -> io::Result<()> {
        let (core, number) = (self.core, frame.number);
        let filters = frame.as_filters().ok_or(io::ErrorKind::InvalidData)?;
        let mut most = core.context.limits.subscriptions_per_connection;
        if let Some(tight) = &core.context.limits.admission
            && !self.admitted.load(Ordering::Relaxed)
        {
            most = most.min(tight.subscriptions);
        }
        let fault = core.kind.fault;
        if core.hub.filters(self.number) + filters.len() > most {
            let denied = Frame::new(wire::DENIED, number, "");
            match fault {
                WireFault::QueueDenials => {
                    // With so much in each that it shows how few of them a busy machine has time for.
                    let denied = Frame::new(wire::DENIED, number, vec![0; DENIAL]);
                    let out = self.out.clone();
                    core.context
                        .spawn(async move { drop(out.send(denied).await) });
                }
                WireFault::DialForEver => return Err(io::ErrorKind::InvalidData.into()),
                _ => drop(self.out.send(denied).await),
            }
            return Ok(());
        }
        let own = self.end.child_token();
        let guard = own.clone().drop_guard();
        self.subscriptions.insert(number, guard);
        let (hub, out, key) = (
            Arc::clone(&core.hub),
            self.out.clone(),
            (self.number, number),
        );
        if fault == WireFault::ConfirmEarly {
            let _ = out.send(Frame::new(wire::SUBSCRIBED, number, "")).await;
            // Long enough for a publication of whoever believes that, also on a busy machine.
            core.context.clock.pause(EARLY).await;
        }
        let receiver = hub.subscribe(key, filters, self.admitted);
        core.context.spawn(async move {
            tokio::select! {
                biased;
                () = own.cancelled() => {}
                () = forward(receiver, out, number, fault) => {}
            }
        });
        Ok(())
    }
}

/// Hands out what is no request, where that is the fault.
pub fn hand_out(core: &ServerCore, payload: Bytes) {
    let token = ReplyToken {
        connection: u64::MAX,
        request: 0,
    };
    let route = Arc::clone(&core.answers);
    let reply = Reply::new(route, token, payload.len());
    let peer = peer(token.connection, core.kind.fault);
    let _ = core.inbox.try_send(Request::new(peer, payload, reply));
}

/// Bytes of a denial, where all of them are queued.
const DENIAL: usize = 2048;

/// How much too early a subscription is confirmed.
const EARLY: Duration = Duration::from_millis(5);

async fn forward(mut receiver: Receiver, out: mpsc::Sender<Frame>, number: u64, fault: WireFault) {
    if fault != WireFault::ConfirmEarly {
        let _ = out.send(Frame::new(wire::SUBSCRIBED, number, "")).await;
    }
    while let Some(delivery) = receiver.next().await {
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
