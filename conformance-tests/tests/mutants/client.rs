//! What can be wrong with requests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{
    Client, Context, Endpoint, Error, ErrorKind, Instant, Result, Subscriber, TopicFilter,
};
use tokio::sync::{Notify, Semaphore};

use crate::fault::Fault;
use crate::server::Shared;
use crate::subscriber::{self, Lazy, Twins};

/// Long enough to count as never.
const NEVER: Duration = Duration::from_secs(3600);

/// A client with a fault.
#[derive(Debug)]
pub struct WrongClient {
    inner: Arc<dyn Client>,
    fault: Fault,
    context: Context,
    lock: tokio::sync::Mutex<()>,
    permits: Semaphore,
    late: Arc<Mutex<Option<Bytes>>>,
    /// The client that connected last, where that matters.
    last: Arc<Mutex<Option<Arc<dyn Client>>>>,
    lost: AtomicBool,
    losses: AtomicU64,
    subscribers: Arc<AtomicU64>,
    twins: Arc<Twins>,
    ended: AtomicBool,
    /// The deadlines of the requests that are under way.
    deadlines: Mutex<Vec<Instant>>,
    shared: Arc<Shared>,
    /// Tells that a request was lost with its link.
    broken: Notify,
}

impl WrongClient {
    /// `inner` with `fault`.
    pub fn new(
        inner: Arc<dyn Client>,
        fault: Fault,
        context: Context,
        last: Arc<Mutex<Option<Arc<dyn Client>>>>,
        shared: Arc<Shared>,
    ) -> Self {
        let permits = match fault {
            Fault::LeakPermit | Fault::LeakOnFailure => context.limits.requests_in_flight,
            _ => 0,
        };
        Self {
            inner,
            fault,
            context,
            lock: tokio::sync::Mutex::new(()),
            permits: Semaphore::new(permits),
            late: Arc::default(),
            last,
            lost: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            subscribers: Arc::default(),
            twins: Arc::default(),
            ended: AtomicBool::new(false),
            deadlines: Mutex::default(),
            shared,
            broken: Notify::new(),
        }
    }

    /// Notes `deadline`, and returns the latest or the earliest of those that are under way.
    fn among(&self, deadline: Instant) -> Instant {
        let mut all = self.deadlines.lock().unwrap();
        all.push(deadline);
        let among = match self.fault {
            Fault::QueueDeadlines => all.iter().max(),
            _ => all.iter().min(),
        };
        *among.unwrap()
    }

    /// Asks in a task that its caller's end does not end.
    async fn detached(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        let inner = Arc::clone(&self.inner);
        let task = async move { inner.request(payload, deadline).await };
        // The context's tracker would say that there is a task; that is another mutant's.
        let task = saline_protocol::transport::Context::default()
            .tracker
            .spawn(task);
        task.await.unwrap()
    }
}

#[async_trait]
impl Client for WrongClient {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        let (inner, clock) = (&self.inner, self.context.clock);
        match self.fault {
            Fault::LockStep => {
                let _lock = self.lock.lock().await;
                inner.request(payload, deadline).await
            }
            Fault::Overtake => {
                if payload.len() > 1000 {
                    clock.pause(Duration::from_millis(1)).await;
                }
                inner.request(payload, deadline).await
            }
            Fault::NeverTimeOut => inner.request(payload, deadline + NEVER).await,
            Fault::QueueDeadlines | Fault::OneDeadline => {
                let outcome = inner.request(payload, self.among(deadline)).await;
                let mut all = self.deadlines.lock().unwrap();
                let own = all.iter().position(|other| *other == deadline);
                all.remove(own.unwrap());
                outcome
            }
            Fault::TimeOutEarly => {
                let now = clock.now();
                inner.request(payload, now + (deadline - now) / 2).await
            }
            Fault::MisdeliverLate => {
                if let Some(late) = self.late.lock().unwrap().take() {
                    return Ok(late);
                }
                let (inner, late) = (Arc::clone(inner), Arc::clone(&self.late));
                let (done, outcome) = tokio::sync::oneshot::channel();
                self.context.tracker.spawn(async move {
                    let reply = inner.request(payload, deadline + NEVER).await;
                    if let Err(Ok(reply)) = done.send(reply) {
                        *late.lock().unwrap() = Some(reply);
                    }
                });
                match clock.deadline(deadline, outcome).await {
                    Ok(outcome) => outcome.unwrap(),
                    Err(_) => Err(Error::new(ErrorKind::TimedOut, "no answer")),
                }
            }
            Fault::SendTwice => {
                let twice = inner.request(payload.clone(), deadline);
                let (first, _) = tokio::join!(inner.request(payload, deadline), twice);
                first
            }
            Fault::Replay => loop {
                match inner.request(payload.clone(), deadline).await {
                    Err(error) if error.kind() == ErrorKind::ConnectionLost => {}
                    outcome => return outcome,
                }
            },
            Fault::TryOn => {
                let outcome = inner.request(payload.clone(), deadline).await;
                if outcome
                    .as_ref()
                    .is_err_and(|e| e.kind() == ErrorKind::Unreachable)
                {
                    let inner = Arc::clone(inner);
                    let until = clock.after(NEVER);
                    self.context
                        .spawn(async move { drop(inner.request(payload, until).await) });
                }
                outcome
            }
            Fault::CopyRequests => {
                let copy = std::hint::black_box(payload.to_vec());
                let outcome = inner.request(payload, deadline).await;
                drop(copy);
                outcome
            }
            Fault::IgnoreDrop => self.detached(payload, deadline).await,
            Fault::LeakPermit | Fault::LeakOnFailure => {
                let permit = clock.deadline(deadline, self.permits.acquire()).await;
                let Ok(Ok(permit)) = permit else {
                    return Err(Error::new(ErrorKind::Unreachable, "no permit"));
                };
                permit.forget();
                let outcome = inner.request(payload, deadline).await;
                if outcome.is_ok() || self.fault == Fault::LeakPermit {
                    self.permits.add_permits(1);
                }
                outcome
            }
            Fault::IgnoreEnd => match inner.request(payload, deadline).await {
                Err(error) if error.kind() == ErrorKind::Closed => {
                    clock.until(deadline).await;
                    Err(Error::new(ErrorKind::TimedOut, "no answer"))
                }
                outcome => outcome,
            },
            Fault::LargeIsDead if payload.len() > 10_000_000 => {
                Err(Error::new(ErrorKind::ConnectionLost, "taken for dead"))
            }
            Fault::LoseFirst => {
                if self.lost.swap(false, Ordering::Relaxed) {
                    return Err(Error::new(ErrorKind::ConnectionLost, "the first"));
                }
                let outcome = inner.request(payload, deadline).await;
                let lost = outcome
                    .as_ref()
                    .is_err_and(|e| e.kind() == ErrorKind::ConnectionLost);
                self.lost.store(lost, Ordering::Relaxed);
                outcome
            }
            Fault::LoseTenth => {
                if self.lost.swap(false, Ordering::Relaxed) {
                    return Err(Error::new(ErrorKind::ConnectionLost, "one in ten"));
                }
                let outcome = inner.request(payload, deadline).await;
                if outcome
                    .as_ref()
                    .is_err_and(|e| e.kind() == ErrorKind::ConnectionLost)
                {
                    let losses = self.losses.fetch_add(1, Ordering::Relaxed);
                    self.lost.store(losses % 10 == 9, Ordering::Relaxed);
                }
                outcome
            }
            Fault::LeakRequests => {
                std::mem::forget(std::hint::black_box(vec![1u8; 100]));
                inner.request(payload, deadline).await
            }
            Fault::LoseUnsent | Fault::LoseSmallUnsent => {
                let broken = self.broken.notified();
                let is_lost = self.fault == Fault::LoseUnsent || payload.len() < 1024;
                let lost = Err(Error::new(ErrorKind::ConnectionLost, "with the others"));
                tokio::select! {
                    biased;
                    outcome = inner.request(payload, deadline) => {
                        if outcome.as_ref().is_err_and(|e| e.kind() == ErrorKind::ConnectionLost) {
                            self.broken.notify_waiters();
                        }
                        outcome
                    }
                    () = broken, if is_lost => lost,
                }
            }
            Fault::LeakFailures => {
                let mut kept = Kept(Some(vec![1; 100]));
                let outcome = inner.request(payload, deadline).await;
                if outcome.is_ok() {
                    kept.0 = None;
                }
                outcome
            }
            Fault::MixServers => {
                let last = self.last.lock().unwrap().clone();
                last.unwrap_or_else(|| Arc::clone(inner))
                    .request(payload, deadline)
                    .await
            }
            _ => inner.request(payload, deadline).await,
        }
    }

    async fn subscribe(
        &self,
        at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        if self.fault == Fault::SubscribeLazily {
            let inner = Arc::clone(&self.inner);
            return Ok(Box::new(Lazy::new(inner, at.cloned(), topics, deadline)));
        }
        let most = self.context.limits.subscriptions_per_connection;
        if self.fault == Fault::TopicsEach && topics.len() > most {
            return Err(Error::new(ErrorKind::Config, "too many topics"));
        }
        let bytes: usize = topics.iter().map(|filter| filter.to_string().len()).sum();
        if self.fault == Fault::TopicBytes && bytes > 64 << 10 {
            return Err(Error::new(ErrorKind::Config, "too many bytes of topics"));
        }
        let asked = subscriber::spoil_filters(self.fault, &topics);
        let subscribed = self.inner.subscribe(at, asked, deadline).await?;
        let own = self.subscribers.fetch_add(1, Ordering::Relaxed) + 1;
        let turn = (own, Arc::clone(&self.subscribers));
        let twins = Arc::clone(&self.twins);
        Ok(subscriber::spoil(
            subscribed, self.fault, topics, turn, twins,
        ))
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
        match self.fault {
            Fault::WaitOut => {
                self.context.clock.pause(deadline).await;
                self.inner.shutdown(deadline).await
            }
            _ => self.inner.shutdown(deadline).await,
        }
    }
}

/// Bytes that nobody frees, whoever drops them.
struct Kept(Option<Vec<u8>>);

impl Drop for Kept {
    fn drop(&mut self) {
        std::mem::forget(std::hint::black_box(self.0.take()));
    }
}

impl Drop for WrongClient {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Relaxed) {
            self.shared.vanished.store(true, Ordering::Relaxed);
        }
    }
}

/// The client of a server that does not exist.
#[derive(Debug)]
pub struct Nobody;

#[async_trait]
impl Client for Nobody {
    async fn request(&self, _payload: Bytes, _deadline: Instant) -> Result<Bytes> {
        Err(Error::new(ErrorKind::Unreachable, "nobody"))
    }

    async fn subscribe(
        &self,
        _at: Option<&Endpoint>,
        _topics: Vec<TopicFilter>,
        _deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        Err(Error::new(ErrorKind::Unreachable, "nobody"))
    }

    async fn shutdown(&self, _deadline: Duration) -> Result<()> {
        Ok(())
    }
}
