//! The connecting side: one link, kept up by a task.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{
    Client, Context, Delivery, Endpoint, Error, ErrorKind, Instant, Lost, Metric, Result,
    Subscriber, TopicFilter, no_reply,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::queue::{self, Receiver, Sender};
use super::socket::{self, Kind, Stream};
use super::wire::{self, Frame, IdleTimer};
use crate::wire_fault::WireFault;

type Waiting = HashMap<u64, oneshot::Sender<Result<Bytes>>>;

#[derive(Debug)]
struct Subscription {
    filters: Vec<TopicFilter>,
    queue: Sender,
    confirmed: Option<oneshot::Sender<bool>>,
    /// Whether its subscriber was told that the link is down.
    down: bool,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    waiting: Waiting,
    /// Those that are withdrawn with the next ping.
    withdrawn: Vec<u64>,
    subscriptions: HashMap<u64, Subscription>,
    /// Topics that may still be asked for on the link before it is admitted.
    topics: usize,
    /// Those subscriptions that wait for that.
    late: Vec<u64>,
}

impl State {
    /// Returns the frame that asks for a subscription, unless it has to wait for the link's admission.
    fn ask_for(&mut self, number: u64, is_early: bool) -> Option<Frame> {
        let filters = &self.subscriptions.get(&number)?.filters;
        match self.topics.checked_sub(filters.len()) {
            Some(left) => self.topics = left,
            None if is_early => {}
            None => {
                self.late.push(number);
                return None;
            }
        }
        Some(Frame::subscribe(number, filters))
    }
}

/// A link that is up.
#[derive(Debug, Clone)]
struct Connection {
    out: mpsc::Sender<Frame>,
    /// The largest payload of a request that may be sent now.
    allowed: usize,
}

#[derive(Debug)]
struct ClientCore {
    endpoint: Endpoint,
    context: Context,
    kind: Kind,
    state: Mutex<State>,
    link: watch::Sender<Option<Connection>>,
    end: CancellationToken,
}

#[derive(Debug)]
struct ToyClient {
    core: Arc<ClientCore>,
    _end: DropGuard,
}

pub async fn connect(endpoint: &Endpoint, context: Context, kind: Kind) -> Result<Arc<dyn Client>> {
    let core = Arc::new(ClientCore {
        endpoint: endpoint.clone(),
        end: context.cancel.child_token(),
        context,
        kind,
        state: Mutex::default(),
        link: watch::channel(None).0,
    });
    let until = core
        .context
        .clock
        .after(core.context.limits.connect_timeout);
    let stream = core.context.clock.deadline(until, core.open()).await;
    let stream = stream.map_err(io::Error::other).and_then(|opened| opened);
    let stream = stream
        .map_err(|error| Error::new(ErrorKind::Unreachable, format!("cannot connect: {error}")))?;
    let own = Arc::clone(&core);
    core.context.spawn(async move {
        let end = own.end.clone();
        tokio::select! {
            () = end.cancelled() => {}
            () = own.keep_up(stream) => {}
        }
        let mut state = own.state.lock().unwrap();
        for (_, waiting) in state.waiting.drain() {
            let _ = waiting.send(Err(Error::closed()));
        }
        state.subscriptions.clear();
    });
    Ok(Arc::new(ToyClient {
        _end: core.end.clone().drop_guard(),
        core,
    }))
}

impl ClientCore {
    /// Returns a stream, and the largest payload and the number of topics before admission.
    async fn open(&self) -> io::Result<(Box<dyn Stream>, [usize; 2])> {
        let mut stream = socket::dial(&self.endpoint, self.kind, &self.context).await?;
        stream.write_all(wire::GREETING).await?;
        let mut greeting = [0; 4];
        stream.read_exact(&mut greeting).await?;
        let allowed = [stream.read_u64().await?, stream.read_u64().await?];
        let allowed = allowed.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        Ok((stream, allowed))
    }

    async fn keep_up(&self, mut stream: (Box<dyn Stream>, [usize; 2])) {
        loop {
            let _ = self.carry(stream).await;
            self.lose();
            if self.kind.fault == WireFault::NeverReturn {
                std::future::pending::<()>().await;
            }
            let mut backoff = self.context.backoff.clone();
            stream = loop {
                let clock = self.context.clock;
                let until = clock.after(self.context.limits.handshake_timeout);
                if let Ok(Ok(stream)) = clock.deadline(until, self.open()).await {
                    break stream;
                }
                match self.kind.fault {
                    WireFault::NoBackoff => tokio::task::yield_now().await,
                    _ => clock.pause(backoff.next_delay()).await,
                }
            };
        }
    }

    fn lose(&self) {
        self.link.send_replace(None);
        self.context.count(Metric::Disconnected);
        let mut state = self.state.lock().unwrap();
        for (_, waiting) in state.waiting.drain() {
            let lost = Error::new(ErrorKind::ConnectionLost, "the link broke");
            let _ = waiting.send(Err(lost));
        }
        for subscription in state.subscriptions.values_mut() {
            if subscription.confirmed.is_none() && !subscription.down {
                subscription.down = true;
                subscription.queue.push(Delivery::Disconnected, true);
            }
        }
    }

    async fn carry(
        &self,
        (stream, [allowed, topics]): (Box<dyn Stream>, [usize; 2]),
    ) -> io::Result<()> {
        let (clock, limits) = (self.context.clock, &self.context.limits);
        let (from, mut to) = tokio::io::split(stream);
        let (out, mut queued) = mpsc::channel::<Frame>(16);
        self.context.count(Metric::Connected);
        // The lock is held over both: a subscription that comes before is asked for here, one that
        // comes after finds the link. Asked for twice, it would lose what the first one had queued.
        let again: Vec<_> = {
            let mut state = self.state.lock().unwrap();
            self.link.send_replace(Some(Connection { out, allowed }));
            (state.topics, state.late) = (topics, Vec::new());
            let mut all: Vec<_> = state.subscriptions.keys().copied().collect();
            all.sort_unstable();
            let is_early = self.kind.fault == WireFault::SubscribeEarly;
            let asked = all.into_iter();
            asked
                .filter_map(|number| state.ask_for(number, is_early))
                .collect()
        };
        let writing = async {
            for frame in again {
                wire::write(&mut to, &frame).await?;
            }
            loop {
                let tick = clock.after(limits.ping_interval / 2);
                let frame = match clock.deadline(tick, queued.recv()).await {
                    Ok(Some(frame)) => frame,
                    Ok(None) => std::future::pending().await,
                    Err(_) => {
                        let withdrawn = std::mem::take(&mut self.state.lock().unwrap().withdrawn);
                        for number in withdrawn {
                            let frame = Frame::new(wire::UNSUBSCRIBE, number, "");
                            wire::write(&mut to, &frame).await?;
                        }
                        Frame::new(wire::PING, 0, "")
                    }
                };
                wire::write(&mut to, &frame).await?;
            }
        };
        let patience = match self.kind.fault {
            WireFault::NoPings => Duration::from_secs(3600),
            WireFault::Hurried => limits.ping_interval / 10,
            _ => limits.ping_interval * 2,
        };
        let mut from = wire::Source {
            stream: from,
            most: limits.max_message,
            idle: IdleTimer::new(patience),
            fault: self.kind.fault,
            rest: None,
            entry: None,
        };
        let reading = async {
            loop {
                self.take(from.frame().await?);
            }
        };
        tokio::select! {
            done = writing => done,
            done = reading => done,
        }
    }

    fn take(&self, frame: Frame) {
        if frame.kind == wire::ADMITTED {
            self.link.send_modify(|link| {
                if let Some(link) = link {
                    link.allowed = usize::MAX;
                }
            });
        }
        let mut state = self.state.lock().unwrap();
        if frame.kind == wire::ADMITTED {
            state.topics = usize::MAX;
            for number in std::mem::take(&mut state.late) {
                let asked = state.ask_for(number, false);
                if let (Some(up), Some(frame)) = (&*self.link.borrow(), asked) {
                    // There is room: they are few, and this is the first that is said for a while.
                    let _ = up.out.try_send(frame);
                }
            }
        }
        match frame.kind {
            wire::REPLY | wire::NO_REPLY => {
                if let Some(waiting) = state.waiting.remove(&frame.number) {
                    let _ = waiting.send(match frame.kind {
                        wire::REPLY => Ok(frame.body),
                        _ => Err(no_reply()),
                    });
                }
            }
            // Its subscriber ends, and so does who waits for the confirmation.
            wire::DENIED if self.kind.fault != WireFault::RefusedStays => {
                if let Some(own) = state.subscriptions.remove(&frame.number)
                    && let Some(confirmed) = own.confirmed
                {
                    let _ = confirmed.send(false);
                }
            }
            wire::SUBSCRIBED | wire::PUBLICATION | wire::LAGGED => {
                let Some(own) = state.subscriptions.get_mut(&frame.number) else {
                    return;
                };
                let delivery = match (frame.kind, frame.as_publication()) {
                    (wire::PUBLICATION, Some((topic, payload))) => {
                        Delivery::Message { topic, payload }
                    }
                    (wire::LAGGED, _) => {
                        let count = frame.body.first_chunk().copied().unwrap_or_default();
                        Delivery::Lagged(Lost::Messages(u64::from_be_bytes(count)))
                    }
                    _ => {
                        if let Some(confirmed) = own.confirmed.take() {
                            let _ = confirmed.send(true);
                            return;
                        }
                        own.down = false;
                        Delivery::Connected
                    }
                };
                own.queue.push(delivery, true);
            }
            _ => {}
        }
    }

    /// Hands `frame` to the link, which is waited for.
    async fn send(&self, frame: Frame) {
        let mut link = self.link.subscribe();
        if let Ok(up) = link.wait_for(Option::is_some).await.map(|up| up.clone())
            && let Some(up) = up
        {
            let _ = up.out.send(frame).await;
        }
    }
}

/// Forgets its request when it is dropped.
struct Forget<'a>(&'a ClientCore, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().waiting.remove(&self.1);
    }
}

#[async_trait]
impl Client for ToyClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        let core = &self.core;
        if core.end.is_cancelled() {
            return Err(Error::closed());
        }
        // A timer that is behind would let the reply come first.
        if deadline <= core.context.clock.now() {
            return Err(Error::new(ErrorKind::Unreachable, "too late"));
        }
        let mut link = core.link.subscribe();
        let waits = core.kind.fault != WireFault::SendEarly;
        let takes = |link: &Option<Connection>| {
            let takes = |link: &Connection| link.allowed >= payload.len() || !waits;
            link.as_ref().is_some_and(takes)
        };
        let up = core.context.clock.deadline(deadline, link.wait_for(takes));
        if !matches!(up.await, Ok(Ok(_))) {
            return Err(Error::new(ErrorKind::Unreachable, "no link"));
        }
        let (done, outcome) = oneshot::channel();
        let number = {
            let mut state = core.state.lock().unwrap();
            state.last += 1;
            let number = match core.kind.fault {
                WireFault::ShortNumbers => state.last % (1 << 16),
                _ => state.last,
            };
            state.waiting.insert(number, done);
            number
        };
        let _forget = Forget(core, number);
        let exchange = async {
            core.send(Frame::new(wire::REQUEST, number, payload)).await;
            outcome.await.unwrap_or_else(|_| Err(Error::closed()))
        };
        let outcome = core.context.clock.deadline(deadline, exchange).await;
        outcome.unwrap_or_else(|_| Err(Error::new(ErrorKind::TimedOut, "no reply")))
    }

    async fn subscribe(
        &self,
        _at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        let core = Arc::clone(&self.core);
        let (queue, receiver) = queue::queue(&core.context.limits);
        let (confirmed, confirmation) = oneshot::channel();
        let (number, frame, link) = {
            let mut state = core.state.lock().unwrap();
            let held = state.subscriptions.values().map(|own| own.filters.len());
            let most = core.context.limits.subscriptions_per_connection;
            if held.sum::<usize>() + topics.len() > most {
                return Err(Error::new(ErrorKind::Config, "too many topics"));
            }
            state.last += 1;
            let number = state.last;
            let own = Subscription {
                filters: topics,
                queue,
                confirmed: Some(confirmed),
                down: false,
            };
            state.subscriptions.insert(number, own);
            let frame = state.ask_for(number, false);
            (number, frame, core.link.borrow().clone())
        };
        let asking = async {
            // Without a link, the next one asks for it; before admission, it may have to wait.
            if let (Some(up), Some(frame)) = (link, frame) {
                let _ = up.out.send(frame).await;
            }
            confirmation.await
        };
        let outcome = core.context.clock.deadline(deadline, asking).await;
        let subscriber = ToySubscriber {
            core: Arc::clone(&core),
            number,
            receiver,
        };
        match outcome {
            Ok(Ok(true)) => Ok(Box::new(subscriber)),
            Ok(Ok(false)) => Err(Error::new(ErrorKind::Config, "the server refuses it")),
            _ => Err(Error::new(ErrorKind::Unreachable, "not confirmed")),
        }
    }

    async fn shutdown(&self, _deadline: Duration) -> Result<()> {
        self.core.end.cancel();
        self.core.context.tracker.close();
        self.core.context.tracker.wait().await;
        Ok(())
    }
}

#[derive(Debug)]
struct ToySubscriber {
    core: Arc<ClientCore>,
    number: u64,
    receiver: Receiver,
}

#[async_trait]
impl Subscriber for ToySubscriber {
    async fn next(&mut self) -> Option<Delivery> {
        self.receiver.next().await
    }
}

impl Drop for ToySubscriber {
    fn drop(&mut self) {
        let mut state = self.core.state.lock().unwrap();
        state.subscriptions.remove(&self.number);
        if self.core.kind.fault == WireFault::WithdrawWithPing {
            state.withdrawn.push(self.number);
            return;
        }
        if let Some(up) = &*self.core.link.borrow() {
            let _ = up
                .out
                .try_send(Frame::new(wire::UNSUBSCRIBE, self.number, ""));
        }
    }
}
