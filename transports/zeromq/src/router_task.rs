//! The task that owns the ROUTER socket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_engine::Lifetime;
use saline_engine::net::UnixSocketFile;
use saline_protocol::transport::{
    Context, Instant, Metric, Reply, ReplyRoute, ReplyToken, Request,
};

use crate::accepted::AcceptedConnections;
use crate::connection_table::ConnectionTable;
use crate::frame::{Frame, REQUEST_HEADER};
use crate::joined_requests;
use crate::liveness::LookTimer;
use crate::monitor::{MonitoredSocket, note};
use crate::native::{self, SocketId};
use crate::parked_answers::ParkedAnswers;
use crate::request_exchange::{OpenRequestExchange, OutgoingAnswer};
use crate::request_line::RequestLine;
use crate::socket::{BATCH, Sent, Socket, YIELD_AFTER};

/// The task that owns the socket for requests.
pub(crate) struct RouterTask {
    pub(crate) exchange: OpenRequestExchange,
    pub(crate) monitored: MonitoredSocket,
    /// The file of a local endpoint, removed after the socket is closed.
    pub(crate) path: Option<UnixSocketFile>,
    pub(crate) context: Context,
    pub(crate) lifetime: Arc<Lifetime>,
    pub(crate) connections: ConnectionTable,
    /// The connections by their descriptors, also those that have not said hello.
    pub(crate) accepted: AcceptedConnections,
    /// Whether the last [`receive`](Self::receive) found the socket empty.
    pub(crate) is_drained: bool,
    /// How many requests were received that are not answered.
    pub(crate) unanswered: usize,
    /// Requests that were received and not handed up.
    pub(crate) line: RequestLine,
    /// Answers for clients that do not read.
    pub(crate) parked: ParkedAnswers,
    /// The time of the last [`sweep`](Self::sweep).
    pub(crate) swept: Option<Instant>,
}

impl RouterTask {
    pub(crate) async fn run(mut self) {
        let clock = self.context.clock;
        let pause = self.context.limits.ping_interval / 2;
        // An instant and not a timer: it is kept also while there is always something to do.
        let mut next_sweep = clock.after(pause);
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
            if now >= next_sweep {
                next_sweep = now + pause;
                // While it is full, pings are not read: who is connected is told unasked.
                if self.is_full() {
                    self.sweep();
                }
            }
            if self.parked.due().is_some_and(|due| now >= due) {
                self.unpark(now);
            }
            let answered = self.answer(&mut answers);
            let mut received = self.receive(ended);
            let has_ended = self.take_events();
            // What waits to be read was sent in time, so it is received before the look. A task that
            // never finishes receiving looks late.
            let may_look = self.is_drained || self.is_full() || now >= looks.due() + pause;
            if may_look && let Some(late) = looks.begin(now) {
                self.look(now, late);
                received += self.receive(ended);
            }
            if ended && self.unanswered == 0 && self.parked.is_empty() {
                break;
            }
            if has_ended {
                // Its last requests are received before it is forgotten.
                continue;
            }
            if self.is_drained {
                self.connections.forget_leaving();
            }
            if received + answered >= YIELD_AFTER {
                tokio::task::yield_now().await;
                continue;
            }
            if self.is_full() {
                // Nothing was received that would have made libzmq look at its signals.
                self.monitored.socket.idle(false);
            }
            let deadline = self.lifetime.deadline();
            let next = next_sweep.min(looks.due());
            let next = self.parked.due().map_or(next, |due| next.min(due));
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
                () = clock.until(next) => {}
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

    /// Returns how many requests more may be handed up.
    fn permits(&self) -> usize {
        let handed_up = self.unanswered.saturating_sub(self.line.len());
        let limit = self.context.limits.requests_unanswered;
        limit.saturating_sub(handed_up)
    }

    /// Returns whether nothing more is received: no request may be handed up, and as many wait as may.
    fn is_full(&self) -> bool {
        self.permits() == 0 && self.line.is_full(self.connections.partial_bytes())
    }

    /// Sends the queued answers. Returns how many.
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
            let message = match frame.small().filter(|_| others > 0) {
                Some(first) => {
                    joined_requests::join(std::iter::once(first).chain(same.take(others)))
                }
                None => frame.into_message(),
            };
            answers.drain(..others);
            // Also one that its client does not take: whoever does not read must not keep others from asking.
            self.unanswered = self.unanswered.saturating_sub(joined);
            self.deliver(connection, message);
        }
        count
    }

    /// Sends an answer, or keeps it for a client that does not read. One that was cut gets nothing.
    fn deliver(&mut self, connection: u32, answer: zmq::Message) {
        let answer = match self.parked.holds(connection) {
            true => answer,
            false => match self.send(connection, answer) {
                Sent::Full(answer) => answer,
                Sent::Taken | Sent::Gone => return,
            },
        };
        if self.connections.contains(connection) {
            let now = self.context.clock.now();
            let cut = self.parked.park(connection, answer, now);
            self.cut_deaf(cut);
        }
    }

    /// Tries again to send to clients that did not read, and cuts those that still do not.
    fn unpark(&mut self, now: Instant) {
        let (socket, connections) = (&mut self.monitored.socket, &mut self.connections);
        let dead = self.parked.retry(now, |connection, answer| {
            send(socket, connections, connection, answer)
        });
        self.cut_deaf(dead);
    }

    /// Cuts clients that do not read their answers.
    fn cut_deaf(&mut self, connections: impl IntoIterator<Item = u32>) {
        for connection in connections {
            tracing::debug!(connection, "cut a peer that does not read its answers");
            self.connections.cut(connection);
            self.context.count(Metric::PeersRefused);
        }
    }

    fn send(&mut self, connection: u32, message: zmq::Message) -> Sent {
        let (socket, connections) = (&mut self.monitored.socket, &mut self.connections);
        send(socket, connections, connection, message)
    }

    /// Reads the events of the monitor. Returns whether a connection has ended.
    fn take_events(&mut self) -> bool {
        let mut has_ended = false;
        while let Some(event) = self.monitored.monitor.event() {
            match event.kind {
                zmq_sys::ZMQ_EVENT_ACCEPTED => self.accepted.came(event.value),
                zmq_sys::ZMQ_EVENT_ACCEPT_FAILED => self.accepted.cut_for_descriptor(),
                _ => {}
            }
            if event.kind == zmq_sys::ZMQ_EVENT_DISCONNECTED {
                self.accepted.left(event.value);
                // While it is full, nothing is received until requests are answered, which may take long.
                has_ended |= self.connections.ended(event.value, self.is_full());
            } else {
                note(&self.context, event.kind);
            }
        }
        has_ended
    }

    /// Asks the admitted peers that are silent for a sign of life, and cuts those that give none.
    /// This look comes `late` after its time.
    fn look(&mut self, now: Instant, late: Duration) {
        let is_read = !self.is_full();
        let limits = &self.context.limits;
        let silent = self.connections.look(now, late, limits, is_read);
        for _ in 0..self.connections.refuse_late_parts(now) {
            self.context.count(Metric::PeersRefused);
        }
        for descriptor in self.connections.take_newly_admitted() {
            self.accepted.admit(descriptor);
        }
        for connection in silent {
            self.send(connection, Frame::Ping.encode(&[]));
        }
    }

    /// Sends a pong to every connection, and forgets those that have gone.
    fn sweep(&mut self) {
        for connection in self.connections.numbers() {
            self.send(connection, Frame::Pong.encode(&[]));
        }
        self.swept = Some(self.context.clock.now());
    }

    /// Receives a batch of messages and hands up the requests, none when `ended`. Returns how many,
    /// those that were joined counted one by one.
    fn receive(&mut self, ended: bool) -> usize {
        let mut count = 0;
        let before = self.line.len();
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
        count += self.line.len() - before;
        if ended {
            // Their clients are told that there will be no reply.
            self.line.clear();
        }
        self.hand_up();
        count
    }

    /// Handles a message of one frame or of several joined ones.
    fn take(&mut self, connection: u32, mut body: zmq::Message) {
        match Frame::decode(&body) {
            Some(Frame::Hello) => {
                let known = self.connections.contains(connection);
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
                self.connections.heard(connection);
                self.send(connection, Frame::Pong.encode(&[]));
            }
            Some(Frame::Pong) => drop(self.connections.heard(connection)),
            Some(Frame::Request(id)) => {
                self.request(connection, id, native::into_bytes(body, REQUEST_HEADER));
            }
            Some(Frame::Part(id)) => {
                let (part, now) = (&body[REQUEST_HEADER..], self.context.clock.now());
                if !self.connections.take_part(connection, id, part, now) {
                    self.context.count(Metric::PeersRefused);
                }
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

    /// Adds a connection that says hello.
    fn welcome(&mut self, connection: u32, hello: &mut zmq::Message) {
        // The monitor has told the end of every connection that had this descriptor before. When that
        // is read first, the next end of a connection with this descriptor is the end of this one.
        self.monitored.monitor.look();
        self.take_events();
        let peer = native::peer(u64::from(connection), hello);
        let socket = native::source(hello).and_then(SocketId::of);
        // If the descriptor belonged to a later connection already, libzmq has been told that this one
        // ended. It looks at that now, so that the answer to the hello fails and the wrong socket is
        // forgotten.
        self.monitored.socket.idle(false);
        self.connections.add(connection, peer, socket);
    }

    /// Adds a request to those that are handed up next.
    fn request(&mut self, connection: u32, request: u64, payload: Bytes) {
        let max_message = self.context.limits.max_message;
        let Some(peer) = self.connections.heard(connection) else {
            self.context.count(Metric::PeersRefused);
            return;
        };
        let whole = self.connections.whole_request(connection, request, payload);
        let Some(payload) = whole.filter(|whole| whole.len() <= max_message) else {
            self.context.count(Metric::PeersRefused);
            self.send(connection, Frame::NoReply(request).encode(&[]));
            return;
        };
        self.unanswered += 1;
        let connection = u64::from(connection);
        let route = Arc::clone(&self.exchange.0) as Arc<dyn ReplyRoute>;
        let token = ReplyToken {
            connection,
            request,
        };
        let reply = Reply::new(route, token, max_message);
        self.line.push(Request::new(peer, payload, reply));
    }

    /// Returns whether one more connection may be held. When not, those that have gone are looked for.
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

    /// Hands up the first requests in line, as many as may be. The rest waits for answers.
    fn hand_up(&mut self) {
        let mut permits = self.permits();
        if permits == 0 || self.line.len() == 0 {
            return;
        }
        let mut inbox = self.exchange.0.inbox();
        if inbox.abandoned || inbox.ended {
            drop(inbox);
            // Nobody will answer them; dropping them says so.
            self.line.clear();
            return;
        }
        let mut of_those_gone = Vec::new();
        while permits > 0
            && let Some(request) = self.line.pop()
        {
            let connection = u32::try_from(request.peer.connection);
            if connection.is_ok_and(|connection| self.connections.contains(connection)) {
                permits -= 1;
                inbox.requests.push_back(request);
            } else {
                of_those_gone.push(request);
            }
        }
        drop(inbox);
        self.exchange.0.arrived.notify_one();
        // Nobody waits for their answers. Dropping them queues those all the same, by which they are counted as answered.
        drop(of_those_gone);
    }
}

/// Sends to a client, and forgets its connection if that has gone.
fn send(
    socket: &mut Socket,
    connections: &mut ConnectionTable,
    connection: u32,
    message: zmq::Message,
) -> Sent {
    let sent = socket.send(Some(&routing_id(connection)), message);
    if matches!(sent, Sent::Gone) {
        connections.forget(connection);
    }
    sent
}

/// Returns the routing id that libzmq gives a peer that did not choose one for itself.
fn routing_id(connection: u32) -> [u8; 5] {
    let [a, b, c, d] = connection.to_be_bytes();
    [0, a, b, c, d]
}
