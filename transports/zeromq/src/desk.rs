//! The task that owns the ROUTER socket.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use saline_engine::Lifetime;
use saline_protocol::transport::{
    Context, Instant, Metric, Peer, Reply, ReplyRoute, ReplyToken, Request,
};

use crate::bind::BoundPath;
use crate::exchange::{OpenExchange, Outgoing};
use crate::frame::{Frame, REQUEST_HEADER};
use crate::monitor::Monitored;
use crate::native;
use crate::numbered::Numbered;
use crate::packet::{self, Packet};
use crate::server::note;
use crate::socket::{BATCH, MUCH, Sent};

/// The task that owns the socket for requests.
pub(crate) struct Desk {
    pub(crate) exchange: OpenExchange,
    pub(crate) watched: Monitored,
    /// Goes after the socket.
    pub(crate) path: Option<BoundPath>,
    pub(crate) context: Context,
    pub(crate) lifetime: Arc<Lifetime>,
    /// Connections that said hello. ROUTER does not tell who left; [`Desk::sweep`] finds out.
    pub(crate) connections: Numbered<u32, Option<SocketAddr>>,
    /// Requests that were handed up and whose answer libzmq does not have yet.
    pub(crate) unanswered: usize,
    /// Requests of the batch that is being received.
    pub(crate) arrivals: VecDeque<Request>,
    /// Answers for clients that do not read, and until when they wait.
    pub(crate) parked: VecDeque<(Instant, Outgoing)>,
    /// When the connections were last swept.
    pub(crate) swept: Option<Instant>,
}

impl Desk {
    pub(crate) async fn run(mut self) {
        let clock = self.context.clock;
        let pause = self.context.limits.ping_interval / 2;
        // An instant and not a timer: it is kept also while there is always something to do.
        let mut look = clock.after(pause);
        let mut answers = VecDeque::new();
        let mut ended = false;
        loop {
            if !ended && self.lifetime.stop.is_cancelled() {
                // The listener stays until the end: closing it would close every connection.
                ended = true;
                self.exchange.end();
            }
            let now = clock.now();
            if now >= look {
                look = now + pause;
                self.unpark();
                // While it is full, pings are not read: who is connected is told unasked.
                if self.is_full() {
                    self.sweep();
                }
            }
            let answered = self.answer(&mut answers);
            let received = self.receive(ended);
            while let Some(event) = self.watched.monitor.event() {
                note(&self.context, event.kind);
            }
            if ended && self.unanswered == 0 {
                break;
            }
            if received + answered >= MUCH {
                tokio::task::yield_now().await;
                continue;
            }
            if self.is_full() {
                // Nothing was received that would have made libzmq look at its signals.
                self.watched.socket.idle(false);
            }
            let deadline = self.lifetime.deadline();
            let Monitored { socket, monitor } = &mut self.watched;
            tokio::select! {
                () = self.lifetime.stop.cancelled(), if !ended => {}
                () = clock.until(deadline), if ended => {
                    self.lifetime.cut_short();
                    break;
                }
                () = socket.ready() => {}
                () = monitor.ready() => {}
                () = self.exchange.0.wake.notified() => {}
                () = clock.until(look) => {}
            }
        }
        let left = self.lifetime.left();
        let Self {
            watched,
            exchange,
            context,
            lifetime,
            path,
            ..
        } = self;
        drop(exchange);
        watched.close(left, &context).await;
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
    fn answer(&mut self, answers: &mut VecDeque<Outgoing>) -> usize {
        std::mem::swap(answers, &mut self.exchange.0.outbox().answers);
        let count = answers.len();
        while let Some(Outgoing { connection, packet }) = answers.pop_front() {
            // Those that follow for the same client go with it.
            let same = answers
                .iter()
                .take_while(|answer| answer.connection == connection)
                .map_while(|answer| answer.packet.small());
            let joined = packet.small().map_or(1, |first| {
                let payloads = std::iter::once(first).chain(same.clone());
                packet::together(payloads.map(|(_, payload)| payload))
            });
            let others = joined - 1;
            let Some(first) = packet.small().filter(|_| others > 0) else {
                match self.send(connection, packet.into_message()) {
                    Sent::Full(message) => self.park(connection, Packet::Whole(message)),
                    _ => self.answered(1),
                }
                continue;
            };
            let message = packet::join(std::iter::once(first).chain(same.take(others)));
            match self.send(connection, message) {
                Sent::Full(_) => {
                    self.park(connection, packet);
                    for answer in answers.drain(..others) {
                        self.park(connection, answer.packet);
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
    fn park(&mut self, connection: u32, packet: Packet) {
        let until = self
            .context
            .clock
            .after(self.context.limits.ping_interval * 2);
        self.parked
            .push_back((until, Outgoing { connection, packet }));
    }

    /// Tries again to send to clients that did not read, and gives up those that still do not.
    fn unpark(&mut self) {
        let now = self.context.clock.now();
        for _ in 0..self.parked.len() {
            let Some((until, Outgoing { connection, packet })) = self.parked.pop_front() else {
                break;
            };
            match self.send(connection, packet.into_message()) {
                Sent::Full(message) if now < until => {
                    let packet = Packet::Whole(message);
                    self.parked
                        .push_back((until, Outgoing { connection, packet }));
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
            .watched
            .socket
            .send(Some(&routing_id(connection)), message);
        if matches!(sent, Sent::Gone) {
            self.connections.remove(&connection);
        }
        sent
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
        while count < BATCH
            && (ended || !self.is_full())
            && let Some(from) = self.watched.socket.receive()
        {
            count += 1;
            if !from.get_more() {
                continue;
            }
            let connection = match from[..] {
                // What libzmq chose for the peer. One that chose for itself is not one of ours.
                [0, a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
                _ => None,
            };
            let Some(body) = self.watched.socket.receive() else {
                continue;
            };
            let Some(connection) = connection.filter(|_| !body.get_more()) else {
                self.watched.socket.skip_rest(body);
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
                    let address = native::peer_address(&mut body);
                    self.connections.insert(connection, address);
                    Frame::Welcome
                } else {
                    self.context.count(Metric::PeersRefused);
                    Frame::Full
                };
                self.send(connection, answer.encode(&[]));
            }
            Some(Frame::Ping) => {
                self.send(connection, Frame::Pong.encode(&[]));
            }
            Some(Frame::Request(id)) => {
                self.request(connection, id, native::into_bytes(body, REQUEST_HEADER));
            }
            Some(_) => self.context.count(Metric::PeersRefused),
            None => match packet::split(&body) {
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

    /// Puts a request with the others that are handed up next.
    fn request(&mut self, connection: u32, request: u64, payload: Bytes) {
        let max_message = self.context.limits.max_message;
        let Some(address) = self.connections.get(&connection).copied() else {
            self.context.count(Metric::PeersRefused);
            return;
        };
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
