//! The task that owns the ROUTER socket.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_engine::Lifetime;
use saline_protocol::transport::{
    Context, Instant, Metric, Peer, Reply, ReplyRoute, ReplyToken, Request,
};

use crate::bind::BoundPath;
use crate::frame::{Frame, REQUEST_HEADER};
use crate::joined_requests::{self, AnswerFrame};
use crate::liveness::{LookTimer, PeerLiveness, Verdict};
use crate::monitor::MonitoredSocket;
use crate::native::{self, SocketId};
use crate::number_map::NumberMap;
use crate::request_exchange::{OpenRequestExchange, OutgoingAnswer};
use crate::server::note;
use crate::socket::{BATCH, MUCH, Sent};

/// The task that owns the socket for requests.
pub(crate) struct RouterTask {
    pub(crate) exchange: OpenRequestExchange,
    pub(crate) monitored: MonitoredSocket,
    /// Goes after the socket.
    pub(crate) path: Option<BoundPath>,
    pub(crate) context: Context,
    pub(crate) lifetime: Arc<Lifetime>,
    /// Connections that said hello.
    pub(crate) connections: NumberMap<u32, Connected>,
    /// Their numbers by the descriptors of their sockets.
    pub(crate) by_descriptor: NumberMap<RawFd, u32>,
    /// Connections that may have gone, and until when each is asked for.
    pub(crate) leaving: Vec<(u32, Instant)>,
    /// Whether everything that had come in was received.
    pub(crate) is_drained: bool,
    /// Requests that were handed up and whose answer libzmq does not have yet.
    pub(crate) unanswered: usize,
    /// Requests of the batch that is being received.
    pub(crate) arrivals: VecDeque<Request>,
    /// Answers for clients that do not read, and until when they wait.
    pub(crate) parked: VecDeque<(Instant, OutgoingAnswer)>,
    /// When the connections were last swept.
    pub(crate) swept: Option<Instant>,
}

/// A connection that said hello.
pub(crate) struct Connected {
    address: Option<SocketAddr>,
    socket: Option<SocketId>,
    /// Of an admitted peer: the silence of others is left to TCP's keep-alive.
    liveness: Option<PeerLiveness>,
}

impl Connected {
    fn heard(&mut self) {
        if let Some(liveness) = &mut self.liveness {
            liveness.heard();
        }
    }
}

impl RouterTask {
    pub(crate) async fn run(mut self) {
        let clock = self.context.clock;
        let pause = self.context.limits.ping_interval / 2;
        // An instant and not a timer: it is kept also while there is always something to do.
        let mut retry = clock.after(pause);
        let mut looks = LookTimer::new(clock.now(), &self.context.limits);
        let mut answers = VecDeque::new();
        let mut ended = false;
        loop {
            if !ended && self.lifetime.stop.is_cancelled() {
                // The listener stays until the end: closing it would close every connection.
                ended = true;
                self.exchange.end();
            }
            let now = clock.now();
            if now >= retry {
                retry = now + pause;
                self.unpark();
                // While it is full, pings are not read: who is connected is told unasked.
                if self.is_full() {
                    self.sweep();
                }
            }
            let answered = self.answer(&mut answers);
            let mut received = self.receive(ended);
            let is_leaving = self.take_events(now);
            // What waits to be read was said in time; who is never done reading looks late.
            let may_look = self.is_drained || self.is_full() || now >= looks.due() + pause;
            if may_look && let Some(late) = looks.begin(now) {
                self.look(now, late);
                received += self.receive(ended);
            }
            if ended && self.unanswered == 0 {
                break;
            }
            if is_leaving {
                // What it said before it left is received first.
                continue;
            }
            if self.is_drained && !self.leaving.is_empty() {
                self.probe_leaving(now);
                received += self.receive(ended);
            }
            if received + answered >= MUCH {
                tokio::task::yield_now().await;
                continue;
            }
            if self.is_full() {
                // Nothing was received that would have made libzmq look at its signals.
                self.monitored.socket.idle(false);
            }
            let deadline = self.lifetime.deadline();
            let MonitoredSocket { socket, monitor } = &mut self.monitored;
            tokio::select! {
                () = self.lifetime.stop.cancelled(), if !ended => {}
                () = clock.until(deadline), if ended => {
                    self.lifetime.cut_short();
                    break;
                }
                () = socket.ready() => {}
                () = monitor.ready() => {}
                () = self.exchange.0.wake.notified() => {}
                () = clock.until(retry.min(looks.due())) => {}
            }
        }
        let left = self.lifetime.left();
        let Self {
            monitored,
            exchange,
            context,
            lifetime,
            path,
            ..
        } = self;
        drop(exchange);
        monitored.close(left, &context).await;
        drop(path);
        if context.clock.now() > lifetime.deadline() {
            lifetime.cut_short();
        }
    }

    /// Whether as many requests are unanswered as may be.
    fn is_full(&self) -> bool {
        self.unanswered >= self.context.limits.requests_unanswered
    }

    /// Sends the answers that there are; returns how many.
    fn answer(&mut self, answers: &mut VecDeque<OutgoingAnswer>) -> usize {
        std::mem::swap(answers, &mut self.exchange.0.outbox().answers);
        let count = answers.len();
        while let Some(OutgoingAnswer { connection, frame }) = answers.pop_front() {
            // Those that follow for the same client go with it.
            let same = answers
                .iter()
                .take_while(|answer| answer.connection == connection)
                .map_while(|answer| answer.frame.small());
            let joined = frame.small().map_or(1, |first| {
                let payloads = std::iter::once(first).chain(same.clone());
                joined_requests::together(payloads.map(|(_, payload)| payload))
            });
            let others = joined - 1;
            let Some(first) = frame.small().filter(|_| others > 0) else {
                match self.send(connection, frame.into_message()) {
                    Sent::Full(message) => self.park(connection, AnswerFrame::Whole(message)),
                    _ => self.answered(1),
                }
                continue;
            };
            let message = joined_requests::join(std::iter::once(first).chain(same.take(others)));
            match self.send(connection, message) {
                Sent::Full(_) => {
                    self.park(connection, frame);
                    for answer in answers.drain(..others) {
                        self.park(connection, answer.frame);
                    }
                }
                _ => {
                    answers.drain(..others);
                    self.answered(joined);
                }
            }
        }
        count
    }

    /// So many answers are with libzmq, or will never be.
    fn answered(&mut self, count: usize) {
        self.unanswered = self.unanswered.saturating_sub(count);
    }

    /// Keeps an answer for a client that does not read.
    fn park(&mut self, connection: u32, frame: AnswerFrame) {
        let until = self
            .context
            .clock
            .after(self.context.limits.ping_interval * 2);
        self.parked
            .push_back((until, OutgoingAnswer { connection, frame }));
    }

    /// Tries again to send to clients that did not read, and gives up those that still do not.
    fn unpark(&mut self) {
        let now = self.context.clock.now();
        for _ in 0..self.parked.len() {
            let Some((until, OutgoingAnswer { connection, frame })) = self.parked.pop_front()
            else {
                break;
            };
            match self.send(connection, frame.into_message()) {
                Sent::Full(message) if now < until => {
                    let frame = AnswerFrame::Whole(message);
                    self.parked
                        .push_back((until, OutgoingAnswer { connection, frame }));
                }
                sent => {
                    if matches!(sent, Sent::Full(_)) {
                        self.context.count(Metric::PeersRefused);
                    }
                    self.answered(1);
                }
            }
        }
    }

    fn send(&mut self, connection: u32, message: zmq::Message) -> Sent {
        let sent = self
            .monitored
            .socket
            .send(Some(&routing_id(connection)), message);
        if matches!(sent, Sent::Gone) {
            self.forget(connection);
        }
        sent
    }

    /// Forgets a connection that has gone, and tells so.
    fn forget(&mut self, connection: u32) {
        let Some(gone) = self.connections.remove(&connection) else {
            return;
        };
        if let Some(SocketId { descriptor, .. }) = gone.socket
            && self.by_descriptor.get(&descriptor) == Some(&connection)
        {
            self.by_descriptor.remove(&descriptor);
        }
        self.exchange.0.peers.remove(connection);
    }

    /// Reads what the monitor says; returns whether a connection may have gone.
    fn take_events(&mut self, now: Instant) -> bool {
        let mut is_leaving = false;
        while let Some(event) = self.monitored.monitor.event() {
            if event.kind != zmq_sys::ZMQ_EVENT_DISCONNECTED {
                note(&self.context, event.kind);
            } else if let Some(connection) = self.by_descriptor.get(&event.value) {
                self.leaving
                    .push((*connection, now + self.context.limits.ping_interval / 2));
                is_leaving = true;
            }
        }
        is_leaving
    }

    /// Finds out which of those that may have gone have: the descriptor in an event may be another
    /// connection's by now, but libzmq knows exactly to whom it cannot send.
    fn probe_leaving(&mut self, now: Instant) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain(|(connection, until)| {
            // The end of a connection reaches the socket a moment after the monitor.
            self.connections.contains_key(connection)
                && !matches!(self.send(*connection, Frame::Pong.encode(&[])), Sent::Gone)
                && now < *until
        });
        self.leaving = leaving;
    }

    /// Asks the admitted peers that are silent for a sign of life, and cuts those that give none.
    /// This look comes `late` after its time.
    fn look(&mut self, now: Instant, late: Duration) {
        let limits = &self.context.limits;
        for connection in self.exchange.0.peers.newly_admitted() {
            if let Some(peer) = self.connections.get_mut(&connection) {
                // A client that hears nothing asks earlier, so that two ends with the same ping
                // interval say no more than one.
                let liveness = PeerLiveness::new(now, limits, limits.ping_interval);
                peer.liveness = Some(liveness);
            }
        }
        let is_full = self.is_full();
        let (mut silent, mut dead) = (Vec::new(), Vec::new());
        for (connection, peer) in &mut self.connections {
            let Some(liveness) = &mut peer.liveness else {
                continue;
            };
            if is_full {
                // Nothing is read, so silence says nothing.
                liveness.heard();
            }
            let descriptor = peer.socket.map(|socket| socket.descriptor);
            match liveness.look(now, late, descriptor) {
                Verdict::Alive => {}
                Verdict::Ask => silent.push(*connection),
                // Of a local connection nobody knows whether parts of a large message have come in, and
                // its system tells at once when it ends.
                Verdict::Dead if peer.address.is_none() => {}
                Verdict::Dead => dead.push(*connection),
            }
        }
        for connection in silent {
            self.send(connection, Frame::Ping.encode(&[]));
        }
        for connection in dead {
            if self.exchange.0.peers.cut(connection) {
                tracing::debug!(connection, "cut a peer that gives no sign of life");
            }
        }
    }

    /// Sends a sign of life to every connection, and forgets those that have gone.
    fn sweep(&mut self) {
        let connections: Vec<u32> = self.connections.keys().copied().collect();
        for connection in connections {
            self.send(connection, Frame::Pong.encode(&[]));
        }
        self.swept = Some(self.context.clock.now());
    }

    /// Takes a batch of what came in; returns how much, each of what was joined. Hands nothing up when
    /// `ended`.
    fn receive(&mut self, ended: bool) -> usize {
        let mut count = 0;
        self.is_drained = false;
        while count < BATCH && (ended || !self.is_full()) {
            let Some(from) = self.monitored.socket.receive() else {
                self.is_drained = true;
                break;
            };
            count += 1;
            if !from.get_more() {
                continue;
            }
            let connection = match from[..] {
                // What libzmq chose for the peer. One that chose for itself is not one of ours.
                [0, a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
                _ => None,
            };
            let Some(body) = self.monitored.socket.receive() else {
                continue;
            };
            let Some(connection) = connection.filter(|_| !body.get_more()) else {
                self.monitored.socket.skip_rest(body);
                self.context.count(Metric::PeersRefused);
                continue;
            };
            self.take(connection, body);
        }
        count += self.arrivals.len();
        if ended {
            // Their clients are told that there will be no reply.
            self.arrivals.clear();
        }
        if !self.arrivals.is_empty() {
            self.hand_up();
        }
        count
    }

    /// Does what a message of one or more frames asks.
    fn take(&mut self, connection: u32, mut body: zmq::Message) {
        match Frame::decode(&body) {
            Some(Frame::Hello) => {
                let known = self.connections.contains_key(&connection);
                let answer = if !self.lifetime.stop.is_cancelled() && (known || self.has_room()) {
                    if !known {
                        self.welcome(connection, &mut body);
                    }
                    Frame::Welcome
                } else {
                    self.context.count(Metric::PeersRefused);
                    Frame::Full
                };
                self.send(connection, answer.encode(&[]));
            }
            Some(Frame::Ping) => {
                self.heard(connection);
                self.send(connection, Frame::Pong.encode(&[]));
            }
            Some(Frame::Pong) => self.heard(connection),
            Some(Frame::Request(id)) => {
                self.request(connection, id, native::into_bytes(body, REQUEST_HEADER));
            }
            Some(_) => self.context.count(Metric::PeersRefused),
            None => match joined_requests::split(&body) {
                Some(frames) => {
                    let whole = native::into_bytes(body, 0);
                    for frame in frames {
                        let bytes = whole.slice(frame);
                        if let Some(Frame::Request(id)) = Frame::decode(&bytes) {
                            self.request(connection, id, bytes.slice(REQUEST_HEADER..));
                        } else {
                            self.context.count(Metric::PeersRefused);
                        }
                    }
                }
                None => self.context.count(Metric::PeersRefused),
            },
        }
    }

    fn heard(&mut self, connection: u32) {
        if let Some(peer) = self.connections.get_mut(&connection) {
            peer.heard();
        }
    }

    /// Takes note of a connection that says hello.
    fn welcome(&mut self, connection: u32, hello: &mut zmq::Message) {
        let address = native::peer_address(hello);
        let socket = native::source(hello).and_then(SocketId::of);
        // If the connection had ended and its descriptor been used again before the socket was looked
        // at, libzmq knows that it ended: it is told so now, and the answer finds nobody.
        self.monitored.socket.idle(false);
        let peer = Connected {
            address,
            socket,
            liveness: None,
        };
        self.connections.insert(connection, peer);
        self.exchange.0.peers.add(connection, address, socket);
        if let Some(SocketId { descriptor, .. }) = socket
            && let Some(gone) = self.by_descriptor.insert(descriptor, connection)
        {
            let until = self.context.limits.ping_interval / 2;
            self.leaving.push((gone, self.context.clock.after(until)));
        }
    }

    /// Puts a request with the others that are handed up next.
    fn request(&mut self, connection: u32, request: u64, payload: Bytes) {
        let max_message = self.context.limits.max_message;
        let Some(peer) = self.connections.get_mut(&connection) else {
            self.context.count(Metric::PeersRefused);
            return;
        };
        peer.heard();
        let address = peer.address;
        if payload.len() > max_message {
            self.context.count(Metric::PeersRefused);
            self.send(connection, Frame::NoReply(request).encode(&[]));
            return;
        }
        self.unanswered += 1;
        let connection = u64::from(connection);
        let route = Arc::clone(&self.exchange.0) as Arc<dyn ReplyRoute>;
        let token = ReplyToken {
            connection,
            request,
        };
        self.arrivals.push_back(Request::new(
            Peer::new(connection, address),
            payload,
            Reply::new(route, token, max_message),
        ));
    }

    /// Whether one more connection may be held; those that have gone are looked for when not.
    fn has_room(&mut self) -> bool {
        let most = self.context.limits.connections;
        if self.connections.len() < most {
            return true;
        }
        let now = self.context.clock.now();
        let pause = self.context.limits.ping_interval / 2;
        if self.swept.is_none_or(|swept| now - swept >= pause) {
            self.sweep();
        }
        self.connections.len() < most
    }

    fn hand_up(&mut self) {
        let mut inbox = self.exchange.0.inbox();
        if inbox.abandoned || inbox.ended {
            drop(inbox);
            // Nobody will answer them; dropping them says so.
            self.arrivals.clear();
            return;
        }
        // One message may hold more than may be handed up; the rest waits for answers.
        let limit = self.context.limits.requests_unanswered;
        let handed_up = self.unanswered.saturating_sub(self.arrivals.len());
        let count = limit.saturating_sub(handed_up).min(self.arrivals.len());
        inbox.requests.extend(self.arrivals.drain(..count));
        drop(inbox);
        self.exchange.0.arrived.notify_one();
    }
}

/// What libzmq calls a peer that did not choose a name for itself.
fn routing_id(connection: u32) -> [u8; 5] {
    let [a, b, c, d] = connection.to_be_bytes();
    [0, a, b, c, d]
}
