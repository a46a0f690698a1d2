//! What can be wrong with serving.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{
    Answer, Clock, Context, Error, Limits, Peer, Publisher, Reply, ReplyRoute, ReplyToken, Request,
    Requests, Result, ServeAt, Server, ServerControl, Source, Topic, Transport,
};

use crate::fault::Fault;

/// What all servers of one transport share.
#[derive(Debug, Default)]
pub struct Shared {
    /// A client was dropped without a shutdown.
    pub vanished: AtomicBool,
    routes: Mutex<Vec<Arc<Route>>>,
}

/// `server` with `fault`. What a server that was shut down goes on holding is put into `kept`.
pub fn spoil(
    server: Server,
    fault: Fault,
    limits: &Limits,
    transport: Arc<dyn Transport>,
    kept: Arc<Mutex<Vec<Server>>>,
    shared: Arc<Shared>,
) -> Server {
    let bound = server.bound.clone();
    let route = Arc::new(Route {
        fault,
        held: Mutex::default(),
        waiting: Mutex::default(),
        count: AtomicU64::new(0),
        down: AtomicBool::new(false),
        unread: AtomicBool::new(false),
        shared: Arc::clone(&shared),
    });
    if fault == Fault::StaleToNext {
        shared.routes.lock().unwrap().push(Arc::clone(&route));
    }
    let mut wrong = Server::new(
        Box::new(WrongRequests {
            inner: server.requests,
            fault,
            max_message: limits.max_message,
            route: Arc::clone(&route),
        }),
        Arc::new(WrongPublisher {
            inner: server.publisher,
            fault,
            route: Arc::clone(&route),
            queue_bytes: limits.subscriber_queue_bytes,
            count: AtomicU64::new(0),
            waiting: tokio::sync::Mutex::new(None),
            all: Mutex::default(),
        }),
        Arc::new(WrongControl {
            inner: server.control,
            fault,
            bound: server.bound,
            transport,
            kept,
            route,
            begun: AtomicBool::new(false),
        }),
        bound,
    );
    wrong.departures = server.departures;
    wrong
}

#[derive(Debug)]
struct WrongRequests {
    inner: Box<dyn Requests>,
    fault: Fault,
    max_message: usize,
    route: Arc<Route>,
}

#[async_trait]
impl Requests for WrongRequests {
    async fn next(&mut self) -> Option<Request> {
        let Some(request) = self.inner.next().await else {
            if self.fault == Fault::NeverEnd {
                std::future::pending::<()>().await;
            }
            return None;
        };
        let vanished = &self.route.shared.vanished;
        if self.fault == Fault::VanishStops && vanished.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.fault == Fault::LoseRequest {
            tokio::task::yield_now().await;
        }
        Some(self.route(request))
    }

    async fn next_batch(&mut self, into: &mut Vec<Request>, most: usize) -> usize {
        if self.fault != Fault::PassOver {
            let request = self.next().await;
            let taken = usize::from(request.is_some());
            into.extend(request);
            return taken;
        }
        let mut batch = Vec::new();
        if self.inner.next_batch(&mut batch, most).await > 0 {
            // Whatever the transport below takes at once, one more is there soon.
            batch.clear();
            batch.extend(self.inner.next().await);
        }
        let taken = batch.len();
        for request in batch {
            into.push(self.route(request));
        }
        taken
    }
}

impl WrongRequests {
    fn route(&self, request: Request) -> Request {
        let token = ReplyToken {
            connection: request.peer.connection,
            request: self.route.count.fetch_add(1, Ordering::Relaxed),
        };
        self.route.held.lock().unwrap().insert(token, request.reply);
        let route = Arc::clone(&self.route) as Arc<dyn ReplyRoute>;
        let reply = Reply::new(route, token, self.max_message);
        let mut peer = request.peer;
        if self.fault == Fault::SourceOfConnection {
            peer.source = Source::User(peer.connection as u32);
        }
        Request::new(peer, request.payload, reply)
    }
}

impl Drop for WrongRequests {
    fn drop(&mut self) {
        self.route.unread.store(true, Ordering::Relaxed);
    }
}

/// Stands between a handler's reply and the real one.
#[derive(Debug)]
struct Route {
    fault: Fault,
    held: Mutex<HashMap<ReplyToken, Reply>>,
    waiting: Mutex<Option<(Reply, Bytes)>>,
    count: AtomicU64,
    /// The server was shut down.
    down: AtomicBool,
    /// Nobody reads its requests.
    unread: AtomicBool,
    shared: Arc<Shared>,
}

impl ReplyRoute for Route {
    fn answer(&self, token: ReplyToken, answer: Answer) {
        let Some(mut reply) = self.held.lock().unwrap().remove(&token) else {
            return;
        };
        if self.fault == Fault::StaleToNext && self.down.load(Ordering::Relaxed) {
            let routes = self.shared.routes.lock().unwrap();
            let up = routes
                .iter()
                .find(|route| !route.down.load(Ordering::Relaxed));
            let victim = up.and_then(|route| {
                let mut held = route.held.lock().unwrap();
                let token = held.keys().next().copied()?;
                held.remove(&token)
            });
            reply = victim.unwrap_or(reply);
        }
        match (answer, self.fault) {
            (Answer::NoReply, Fault::SwallowNoReply) => std::mem::forget(reply),
            (Answer::NoReply, _) => drop(reply),
            (Answer::Reply(_), Fault::DropReplies) if token.request % 100 == 99 => {
                std::mem::forget(reply);
            }
            (Answer::Reply(payload), Fault::SwapReplies) => {
                let mut waiting = self.waiting.lock().unwrap();
                match waiting.take() {
                    Some((other, earlier)) => {
                        let _ = other.send(payload);
                        let _ = reply.send(earlier);
                    }
                    None => *waiting = Some((reply, payload)),
                }
            }
            (Answer::Reply(payload), _) => drop(reply.send(payload)),
        }
    }
}

#[derive(Debug)]
struct WrongPublisher {
    inner: Arc<dyn Publisher>,
    fault: Fault,
    route: Arc<Route>,
    queue_bytes: usize,
    count: AtomicU64,
    waiting: tokio::sync::Mutex<Option<(Topic, Bytes)>>,
    all: Mutex<Vec<Bytes>>,
}

#[async_trait]
impl Publisher for WrongPublisher {
    async fn publish(&self, topic: &Topic, payload: Bytes) -> Result<()> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::KeepAll => self.all.lock().unwrap().push(payload.clone()),
            Fault::DoublePublications => self.inner.publish(topic, payload.clone()).await?,
            Fault::LosePublications if count % 40 == 39 => return Ok(()),
            Fault::ShortTopics if topic.as_str().len() > 255 => return Ok(()),
            Fault::DropLarge if payload.len() > self.queue_bytes => return Ok(()),
            Fault::KeepHistory if self.inner.subscriptions(topic) == 0 => {
                *self.waiting.lock().await = Some((topic.clone(), payload));
                return Ok(());
            }
            Fault::KeepHistory => {
                if let Some((topic, payload)) = self.waiting.lock().await.take() {
                    self.inner.publish(&topic, payload).await?;
                }
            }
            Fault::SwapPublications if count % 4 == 2 => {
                *self.waiting.lock().await = Some((topic.clone(), payload));
                return Ok(());
            }
            Fault::SwapPublications if count % 4 == 3 => {
                self.inner.publish(topic, payload).await?;
                return match self.waiting.lock().await.take() {
                    Some((topic, payload)) => self.inner.publish(&topic, payload).await,
                    None => Ok(()),
                };
            }
            Fault::UnreadKills if self.route.unread.load(Ordering::Relaxed) => {
                return Err(Error::closed());
            }
            // As a full socket of somebody who does not read would.
            Fault::WaitForSlow if count == 1000 && self.inner.subscriptions(topic) > 1 => {
                Clock.pause(Duration::from_secs(60)).await;
            }
            _ => {}
        }
        self.inner.publish(topic, payload).await
    }

    fn subscriptions(&self, topic: &Topic) -> usize {
        let count = self.inner.subscriptions(topic);
        match self.fault {
            Fault::CountConnections => count.min(2),
            _ => count,
        }
    }
}

#[derive(Debug)]
struct WrongControl {
    inner: Arc<dyn ServerControl>,
    fault: Fault,
    bound: ServeAt,
    transport: Arc<dyn Transport>,
    kept: Arc<Mutex<Vec<Server>>>,
    route: Arc<Route>,
    begun: AtomicBool,
}

#[async_trait]
impl ServerControl for WrongControl {
    fn admitted(&self, peer: Peer) -> bool {
        self.inner.admitted(peer)
    }

    fn disconnect(&self, peer: Peer) -> bool {
        self.inner.disconnect(peer)
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.route.down.store(true, Ordering::Relaxed);
        match self.fault {
            Fault::KeepName => {
                let outcome = self.inner.shutdown(deadline).await;
                let again = self
                    .transport
                    .serve(self.bound.clone(), Context::default())
                    .await;
                self.kept.lock().unwrap().extend(again);
                outcome
            }
            Fault::CutShort => {
                self.route.held.lock().unwrap().clear();
                self.inner.shutdown(Duration::ZERO).await
            }
            Fault::WaitOut => {
                Clock.pause(deadline).await;
                self.inner.shutdown(deadline).await
            }
            Fault::SecondFails if self.begun.swap(true, Ordering::Relaxed) => Err(Error::closed()),
            Fault::SecondShutdown if self.begun.swap(true, Ordering::Relaxed) => Ok(()),
            Fault::ShutdownInCaller => {
                if !self.begun.swap(true, Ordering::Relaxed) {
                    Clock.pause(Duration::from_millis(5)).await;
                    return self.inner.shutdown(deadline).await;
                }
                Ok(())
            }
            _ => self.inner.shutdown(deadline).await,
        }
    }
}
