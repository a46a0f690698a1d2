//! The connecting side of requests: a DEALER socket that is made again for every connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_engine::net::DialFailures;
use saline_engine::{ClientRequests, Lifetime};
use saline_protocol::transport::{
    Client, Context, Endpoint, Error, ErrorKind, Instant, Metric, Result, Subscriber, TopicFilter,
};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::GRACE;
use crate::connection::{Connection, ReconnectPolicy, addresses};
use crate::frame::{Frame, REQUEST_HEADER};
use crate::joined_requests;
use crate::liveness::Verdict;
use crate::native;
use crate::request_parts::next_part;
use crate::socket::{BATCH, Sent, SharedContext, Socket, YIELD_AFTER};
use crate::subscriber;

/// Requests that libzmq holds for a server that does not read. One alone would be lock-step; those
/// behind them wait in the queue of this crate, which a caller that has gone can leave.
const SEND_QUEUE: i32 = 64;

/// The requests of one client. Its task hands each request that it takes to libzmq, which counts as
/// sent, or puts it back in the same turn.
type Requests = ClientRequests<()>;

/// A client of one server.
#[derive(Debug)]
pub(crate) struct ZmqClient {
    requests: Arc<Requests>,
    /// The place at which the last connection reached the server.
    place: watch::Receiver<String>,
    shared: Arc<SharedContext>,
    context: Context,
    lifetime: Arc<Lifetime>,
    /// Topics that may still be subscribed to.
    topics: Arc<Semaphore>,
    _alive: DropGuard,
}

/// Connects to `endpoint`, and starts the task that reconnects.
pub(crate) async fn connect(
    shared: Arc<SharedContext>,
    endpoint: &Endpoint,
    context: Context,
) -> Result<Arc<dyn Client>> {
    let mut task = ClientTask {
        requests: Arc::default(),
        shared: Arc::clone(&shared),
        endpoint: endpoint.clone(),
        reconnect: ReconnectPolicy::new(&context),
        place: watch::Sender::default(),
        context: context.clone(),
        stop: CancellationToken::new(),
    };
    let connection = tokio::select! {
        () = context.cancel.cancelled() => return Err(Error::closed()),
        connection = task.dial() => connection?,
    };
    let (requests, place) = (Arc::clone(&task.requests), task.place.subscribe());
    let lifetime = Lifetime::new(context.clone(), GRACE);
    task.stop = lifetime.stop.clone();
    lifetime.spawn(task.run(connection));
    let (pending, stop) = (Arc::clone(&requests), lifetime.stop.clone());
    lifetime.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = pending.watch_deadlines(context.clock) => {}
        }
    });
    Ok(Arc::new(ZmqClient {
        topics: Arc::new(Semaphore::new(context.limits.subscriptions_per_connection)),
        requests,
        place,
        shared,
        context,
        _alive: lifetime.cut.clone().drop_guard(),
        lifetime,
    }))
}

#[async_trait]
impl Client for ZmqClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        self.requests.ask(payload, deadline).await
    }

    async fn subscribe(
        &self,
        at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        let Some(at) = at else {
            return Err(Error::new(
                ErrorKind::Config,
                "ZeroMQ publishes on an endpoint of its own, which must be given",
            ));
        };
        if self.lifetime.stop.is_cancelled() {
            return Err(Error::closed());
        }
        let count = u32::try_from(topics.len()).unwrap_or(u32::MAX);
        let held = Arc::clone(&self.topics).try_acquire_many_owned(count);
        let Ok(held) = held else {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "{count} topics more than this client holds are above its limit of {}",
                    self.context.limits.subscriptions_per_connection
                ),
            ));
        };
        let subscribing = subscriber::subscribe(
            &self.shared,
            at,
            topics,
            held,
            deadline,
            &self.context,
            &self.lifetime,
        );
        tokio::select! {
            () = self.lifetime.stop.cancelled() => Err(Error::closed()),
            () = self.context.cancel.cancelled() => Err(Error::closed()),
            subscriber = subscribing => subscriber,
        }
    }

    fn server_address(&self) -> Option<String> {
        Some(self.place.borrow().clone())
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.requests.close();
        self.lifetime.shutdown(deadline).await
    }
}

impl Drop for ZmqClient {
    fn drop(&mut self) {
        self.requests.close();
    }
}

/// The task that owns the DEALER socket and replaces it when the connection breaks.
struct ClientTask {
    requests: Arc<Requests>,
    shared: Arc<SharedContext>,
    endpoint: Endpoint,
    context: Context,
    reconnect: ReconnectPolicy,
    /// The place at which the last connection reached the server.
    place: watch::Sender<String>,
    stop: CancellationToken,
}

impl Drop for ClientTask {
    fn drop(&mut self) {
        // However the task ends, no caller waits for ever.
        self.requests.close();
    }
}

impl ClientTask {
    async fn run(mut self, mut connection: Connection) {
        let stop = self.stop.clone();
        loop {
            self.serve(&mut connection).await;
            self.context.count(Metric::Disconnected);
            if stop.is_cancelled() {
                break connection.close().await;
            }
            self.requests.disconnected();
            tracing::debug!(endpoint = %self.endpoint, "the connection for requests broke");
            // libzmq is done with the old socket before there is a new one.
            drop(connection);
            connection = tokio::select! {
                () = stop.cancelled() => break,
                connection = self.redial() => connection,
            };
            tracing::debug!(endpoint = %self.endpoint, "the connection for requests stands again");
        }
    }

    async fn redial(&mut self) -> Connection {
        loop {
            self.reconnect.pause().await;
            match self.dial().await {
                Ok(connection) => return connection,
                Err(error) => {
                    tracing::debug!(endpoint = %self.endpoint, %error, "could not connect");
                }
            }
        }
    }

    /// Tries every address once.
    async fn dial(&mut self) -> Result<Connection> {
        let clock = self.context.clock;
        let until = clock.after(self.context.limits.connect_timeout);
        let late = || Error::new(ErrorKind::Unreachable, "no answer in time");
        let mut failures = DialFailures::default();
        let found = clock.deadline(until, addresses(&self.endpoint)).await;
        let Ok(found) = found else {
            return Err(failures.into_error(&self.endpoint));
        };
        let found = found?;
        for (index, address) in found.iter().enumerate() {
            let deadline = self.reconnect.attempt_deadline(until, found.len() - index);
            let tune = |socket: &mut Socket| {
                socket.options().set_sndhwm(SEND_QUEUE)?;
                Ok(())
            };
            let opened = Connection::open(
                &self.shared,
                &self.context,
                address,
                zmq::DEALER,
                deadline,
                tune,
            );
            let greeted = async { greet(opened.await?).await };
            match clock.deadline(deadline, greeted).await {
                Ok(Ok(connection)) => {
                    self.reconnect.connected();
                    self.place.send_replace(address.place.to_string());
                    return Ok(connection);
                }
                Ok(Err(error)) => failures.add(&address.place, error),
                Err(_) => failures.add(&address.place, late()),
            }
        }
        failures.add_unresolved(&self.endpoint, found.iter().map(|address| &address.place));
        Err(failures.into_error(&self.endpoint))
    }

    /// Carries requests and replies until the connection breaks or the client is shut down.
    async fn serve(&mut self, connection: &mut Connection) {
        let mut outcomes = Vec::new();
        let mut sending = Sending::default();
        loop {
            let received = self.receive(connection, &mut outcomes);
            // Before anything is sent: what goes into a broken connection counts as sent.
            if connection.is_broken() {
                // What came in before the end still counts.
                while self.receive(connection, &mut outcomes) > 0 {}
                return;
            }
            let (sent, full) = self.send(connection, &mut sending);
            if received + sent >= YIELD_AFTER {
                tokio::task::yield_now().await;
            }
            // What was sent may have taken the signal of what came in since.
            if received >= YIELD_AFTER || sent > 0 {
                tokio::task::consume_budget().await;
                continue;
            }
            if full && !connection.monitored.socket.idle(true) {
                continue;
            }
            let look_due = connection.look_due();
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = connection.ready() => {}
                () = self.requests.woken(), if !full => {}
                () = self.context.clock.until(look_due) => {
                    self.receive(connection, &mut outcomes);
                    match connection.look() {
                        Verdict::Alive => {}
                        Verdict::Ask => {
                            connection.monitored.socket.send(None, Frame::Ping.encode(&[]));
                        }
                        Verdict::Dead => {
                            tracing::debug!(endpoint = %self.endpoint, "the server is silent");
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Receives a batch of messages. Returns how many, those that were joined counted one by one.
    fn receive(
        &self,
        connection: &mut Connection,
        outcomes: &mut Vec<(u64, Option<Bytes>)>,
    ) -> usize {
        let mut count = 0;
        while count < BATCH
            && let Some(message) = connection.monitored.socket.receive()
        {
            count += 1;
            if message.get_more() {
                connection.monitored.socket.skip_rest(message);
                self.context.count(Metric::PeersRefused);
                continue;
            }
            match Frame::decode(&message) {
                Some(Frame::Reply(id)) => {
                    let payload = native::into_bytes(message, REQUEST_HEADER);
                    self.reply(id, payload, outcomes);
                }
                Some(Frame::Ping) => {
                    connection
                        .monitored
                        .socket
                        .send(None, Frame::Pong.encode(&[]));
                }
                Some(frame) => self.note(frame, &Bytes::new(), outcomes),
                None => match joined_requests::split(&message) {
                    Some(frames) => {
                        let whole = native::into_bytes(message, 0);
                        for frame in frames {
                            let bytes = whole.slice(frame);
                            match Frame::decode(&bytes) {
                                Some(frame) => self.note(frame, &bytes, outcomes),
                                None => self.context.count(Metric::PeersRefused),
                            }
                        }
                    }
                    None => self.context.count(Metric::PeersRefused),
                },
            }
        }
        if count > 0 {
            connection.heard();
        }
        count += outcomes.len();
        self.requests.settle(outcomes);
        count
    }

    /// Adds a reply to `outcomes`, or fails its request when it is above the limit of this end: libzmq
    /// bounds frames, which are longer by their headers.
    fn reply(&self, id: u64, payload: Bytes, outcomes: &mut Vec<(u64, Option<Bytes>)>) {
        let most = self.context.limits.max_message;
        match payload.len() <= most {
            true => outcomes.push((id, Some(payload))),
            false => {
                let error = Error::too_large("a reply", payload.len(), most);
                self.requests.fail(id, error);
            }
        }
    }

    /// Handles one frame; `bytes` is the whole frame where it may have a payload.
    fn note(&self, frame: Frame, bytes: &Bytes, outcomes: &mut Vec<(u64, Option<Bytes>)>) {
        match frame {
            Frame::Reply(id) => self.reply(id, bytes.slice(REQUEST_HEADER..), outcomes),
            Frame::NoReply(id) => outcomes.push((id, None)),
            Frame::Pong | Frame::Welcome => {}
            _ => self.context.count(Metric::PeersRefused),
        }
    }

    /// Sends a batch of queued requests. Returns how many, and whether more wait for room.
    fn send(&self, connection: &mut Connection, sending: &mut Sending) -> (usize, bool) {
        let Sending { unsent, begun } = sending;
        self.requests.take(BATCH, self.context.clock.now(), unsent);
        let mut count = 0;
        while let Some((id, payload)) = unsent.front() {
            let joined = joined_requests::together(unsent.iter().map(|(_, payload)| payload));
            let from = begun.filter(|(of, _)| of == id).map_or(0, |(_, from)| from);
            let (message, end) = if joined > 1 {
                let frames = unsent.iter().take(joined);
                let frames = frames.map(|(id, payload)| (Frame::Request(*id), payload));
                (joined_requests::join(frames), payload.len())
            } else {
                next_part(*id, payload, from)
            };
            if let Sent::Full(_) = connection.monitored.socket.send(None, message) {
                // Some of them may have been given up when there is room. A request of which the last part was not
                // sent does not run.
                self.requests.put_back(unsent);
                return (count, true);
            }
            *begun = (end < payload.len()).then_some((*id, end));
            if begun.is_some() {
                continue;
            }
            unsent.drain(..joined);
            count += joined;
        }
        (count, false)
    }
}

/// What a client's task keeps between two attempts to send.
#[derive(Debug, Default)]
struct Sending {
    /// Requests that were taken; empty between two attempts, kept for its memory.
    unsent: VecDeque<(u64, Bytes)>,
    /// The request of which parts were sent and others were not, and where the next one begins.
    begun: Option<(u64, usize)>,
}

/// Says hello, and waits until a server of this transport answers.
async fn greet(mut connection: Connection) -> Result<Connection> {
    let unreachable = |why| Error::new(ErrorKind::Unreachable, why);
    connection
        .monitored
        .socket
        .send(None, Frame::Hello.encode(&[]));
    loop {
        while let Some(message) = connection.monitored.socket.receive() {
            let frame = Frame::decode(&message);
            connection.monitored.socket.skip_rest(message);
            match frame {
                Some(Frame::Welcome) => {
                    connection.heard();
                    return Ok(connection);
                }
                Some(Frame::Full) => {
                    return Err(unreachable(
                        "the server holds as many connections as it may",
                    ));
                }
                _ => {}
            }
        }
        if connection.is_broken() {
            return Err(unreachable(
                "the connection broke before the server answered",
            ));
        }
        connection.ready().await;
    }
}
