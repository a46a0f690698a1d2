//! One connection of a server.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Clock, Delivery, Lost, Metric, Peer, Reply, ReplyToken, Request};
use tokio::io::{AsyncWrite, ReadHalf};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::admission::Entry;
use super::hub::Outbox;
use super::queue::Receiver;
use super::server::House;
use super::socket::Stream;
use super::wire::{self, Frame, Silence, Source};
use crate::wire_fault::WireFault;

/// Long enough to count as never.
pub const NEVER: Duration = Duration::from_secs(3600);

/// Takes leave of everything when the connection ends, however it does.
struct Leave<'a> {
    house: &'a House,
    number: u64,
    of_itself: bool,
    _end: DropGuard,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.house.hub.leave(self.number);
        self.house.answers.leave(self.number);
        self.house.context.count(Metric::Disconnected);
        self.house.peers.leave(self.number, self.of_itself);
    }
}

pub async fn run(stream: Box<dyn Stream>, house: &House) {
    let number = house.last.fetch_add(1, Ordering::Relaxed);
    let end = house.down.child_token();
    let admitted = Arc::new(AtomicBool::new(false));
    let (outbox, told) = (Arc::new(Outbox::default()), Arc::new(Notify::new()));
    house.answers.enter(number, &outbox);
    house.context.count(Metric::Connected);
    house.peers.enter(number, &end, &admitted, &told);
    let mut leave = Leave {
        house,
        number,
        of_itself: false,
        _end: end.clone().drop_guard(),
    };
    let room = match house.kind.fault {
        WireFault::BufferForSlow => 1_000_000,
        _ => 16,
    };
    let (out, queued) = mpsc::channel::<Frame>(room);
    let (from, to) = tokio::io::split(stream);
    let reader = Reader {
        house,
        number,
        out,
        subscriptions: HashMap::new(),
        permits: Arc::new(Semaphore::new(house.context.limits.requests_in_flight)),
        end: &end,
        admitted: &admitted,
    };
    let ended = tokio::select! {
        biased;
        () = end.cancelled() => Ok(()),
        () = too_late(house, &admitted) => Err(io::ErrorKind::InvalidData.into()),
        done = reader.read(from) => done,
        done = write(to, &outbox, queued, &told, house) => done,
    };
    if let Err(error) = ended {
        let refused = error.kind() == io::ErrorKind::InvalidData;
        if refused && house.kind.fault != WireFault::ForgetRefused {
            house.context.count(Metric::PeersRefused);
        }
        leave.of_itself = error.kind() == io::ErrorKind::UnexpectedEof;
    }
}

/// Comes when the time is over in which it should have been admitted.
async fn too_late(house: &House, admitted: &AtomicBool) {
    if let Some(tight) = &house.context.limits.admission
        && house.kind.fault != WireFault::NeverTooLate
    {
        Clock.pause(tight.time).await;
        if !admitted.load(Ordering::Relaxed) || house.kind.fault == WireFault::CutAdmitted {
            return;
        }
    }
    std::future::pending().await
}

async fn write(
    mut to: impl AsyncWrite + Unpin,
    outbox: &Outbox,
    mut queued: mpsc::Receiver<Frame>,
    told: &Notify,
    house: &House,
) -> io::Result<()> {
    let ping = house.context.limits.ping_interval / 2;
    loop {
        tokio::select! {
            biased;
            () = told.notified() => {
                wire::write(&mut to, &Frame::new(wire::ADMITTED, 0, "")).await?;
            }
            (answer, permits) = outbox.next() => {
                wire::write(&mut to, &answer).await?;
                drop(permits);
            }
            Some(frame) = queued.recv() => wire::write(&mut to, &frame).await?,
            () = Clock.pause(ping) => wire::write(&mut to, &Frame::new(wire::PING, 0, "")).await?,
        }
    }
}

struct Reader<'a> {
    house: &'a House,
    number: u64,
    out: mpsc::Sender<Frame>,
    subscriptions: HashMap<u64, DropGuard>,
    /// Those of this connection: one that does not read its answers is not read either.
    permits: Arc<Semaphore>,
    end: &'a CancellationToken,
    admitted: &'a Arc<AtomicBool>,
}

impl Reader<'_> {
    async fn read(mut self, from: ReadHalf<Box<dyn Stream>>) -> io::Result<()> {
        let (house, limits) = (self.house, &self.house.context.limits);
        let mut from = Source {
            stream: from,
            most: limits.max_message,
            silence: Silence::new(match house.kind.fault {
                WireFault::BufferForSlow | WireFault::NoPings => NEVER,
                _ => limits.ping_interval * 2,
            }),
            fault: house.kind.fault,
            rest: Some(Arc::clone(&house.rest)),
            entry: Some(Entry {
                admitted: Arc::clone(self.admitted),
                limits: limits.admission.clone(),
                partial: Arc::clone(&house.partial),
                fault: house.kind.fault,
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
                self.house.hub.withdraw(key);
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }

    async fn request(&self, frame: Frame) {
        let (house, request) = (self.house, frame.number);
        // They are never closed.
        let own = Arc::clone(&self.permits).acquire_owned().await.unwrap();
        let permit = Arc::clone(&house.permits).acquire_owned().await.unwrap();
        let connection = self.number;
        let token = ReplyToken {
            connection,
            request,
        };
        let peer = Peer::new(connection, None);
        let permits = [permit, own];
        house.answers.waiting.lock().unwrap().insert(token, permits);
        let route = Arc::clone(&house.answers);
        let reply = Reply::new(route, token, house.context.limits.max_message);
        // Requests of connections that are gone may still stand there, and their permits are free.
        let request = Request::new(peer, frame.body, reply);
        let _ = house.inbox.send(request).await;
    }

    async fn subscribe(&mut self, frame: Frame) -> io::Result<()> {
        let (house, number) = (self.house, frame.number);
        let filters = frame.as_filters().ok_or(io::ErrorKind::InvalidData)?;
        let most = house.context.limits.subscriptions_per_connection;
        let fault = house.kind.fault;
        if house.hub.filters(self.number) + filters.len() > most {
            let denied = Frame::new(wire::DENIED, number, "");
            match fault {
                WireFault::QueueDenials => {
                    let out = self.out.clone();
                    house
                        .context
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
            Arc::clone(&house.hub),
            self.out.clone(),
            (self.number, number),
        );
        if fault == WireFault::ConfirmEarly {
            let _ = out.send(Frame::new(wire::SUBSCRIBED, number, "")).await;
            // Long enough for a publication of whoever believes that, also on a busy machine.
            house.context.clock.pause(EARLY).await;
        }
        let receiver = hub.subscribe(key, filters, self.admitted);
        house.context.spawn(async move {
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
pub fn hand_out(house: &House, payload: Bytes) {
    let token = ReplyToken {
        connection: u64::MAX,
        request: 0,
    };
    let route = Arc::clone(&house.answers);
    let reply = Reply::new(route, token, payload.len());
    let peer = Peer::new(token.connection, None);
    let _ = house.inbox.try_send(Request::new(peer, payload, reply));
}

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
