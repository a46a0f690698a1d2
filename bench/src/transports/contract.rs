//! Both halves through the contract, as the registry hands the transport out: with limits and metrics.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{
    Client, Clock, Context, Delivery, Endpoint, HostPort, Lost, Publisher, Request, ServeAt,
    ServerControl, Subscriber, Topic, TopicFilter, Transport,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Result;
use crate::transports::flow_limit::{FlowLimit, SubscriberCount};
use crate::transports::side::{ClientSide, ServerSide};

/// Far beyond what anything here takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Clients that connect at once.
const CONNECTING: usize = 32;

/// The number of messages that a task takes before it yields.
const AT_ONCE: usize = 64;

/// Returns the topic of the publications.
fn topic() -> Result<Topic> {
    Ok("job/all".parse()?)
}

/// A server that echoes requests.
#[derive(Debug)]
pub(crate) struct Serving {
    at: Vec<String>,
    topic: Topic,
    publisher: Arc<dyn Publisher>,
    control: Arc<dyn ServerControl>,
    echo: JoinSet<()>,
}

impl Serving {
    /// Serves on ports that the system chooses.
    pub(crate) async fn start(transport: Arc<dyn Transport>) -> Result<Self> {
        let anywhere = || Endpoint::network(transport.scheme(), HostPort::new("127.0.0.1", 0));
        let apart = transport.capabilities().publications_apart;
        let at = ServeAt {
            requests: anywhere(),
            publications: apart.then(anywhere),
        };
        let server = transport.serve(at, Context::default()).await?;
        let bound = [Some(server.bound.requests), server.bound.publications];
        let ports = bound.iter().flatten().filter_map(Endpoint::port);
        let mut requests = server.requests;
        let mut echo = JoinSet::new();
        echo.spawn(async move {
            let mut batch = Vec::new();
            while requests.next_batch(&mut batch, AT_ONCE).await > 0 {
                for Request { payload, reply, .. } in batch.drain(..) {
                    // What was asked fits, so the answer does.
                    let _ = reply.send(payload);
                }
            }
        });
        Ok(Self {
            at: ports.map(|port| port.to_string()).collect(),
            topic: topic()?,
            publisher: server.publisher,
            control: server.control,
            echo,
        })
    }
}

#[async_trait]
impl ServerSide for Serving {
    fn at(&self) -> Vec<String> {
        self.at.clone()
    }

    async fn subscribed(&mut self, subscribers: usize) -> Result<()> {
        // Each subscription was confirmed before the client process said so.
        match self.publisher.subscriptions(&self.topic) {
            count if count == subscribers => Ok(()),
            count => Err(format!("{count} subscriptions instead of {subscribers}").into()),
        }
    }

    async fn publish(&mut self, payload: &Bytes, times: u64) -> Result<()> {
        for _ in 0..times {
            self.publisher.publish(&self.topic, payload.clone()).await?;
        }
        Ok(())
    }

    async fn stop(mut self: Box<Self>) -> Result<()> {
        // Clients that went without a word may cost the deadline; that is not what is measured.
        let _ = self.control.shutdown(Duration::from_secs(2)).await;
        self.echo.shutdown().await;
        Ok(())
    }
}

/// The clients.
#[derive(Debug)]
pub(crate) struct Clients {
    transport: Arc<dyn Transport>,
    requests: Endpoint,
    publications: Option<Endpoint>,
    connected: Vec<Arc<dyn Client>>,
    readers: JoinSet<()>,
}

impl Clients {
    /// None is connected yet.
    pub(crate) fn new(transport: Arc<dyn Transport>, at: &[String]) -> Result<Self> {
        let mut ports = at.iter().map(|port| port.parse());
        let endpoint =
            |port| Endpoint::network(transport.scheme(), HostPort::new("127.0.0.1", port));
        let requests = endpoint(ports.next().ok_or("no port")??);
        let publications = ports.next().transpose()?.map(endpoint);
        Ok(Self {
            transport,
            requests,
            publications,
            connected: Vec::new(),
            readers: JoinSet::new(),
        })
    }
}

#[async_trait]
impl ClientSide for Clients {
    async fn ask(&mut self, outstanding: usize, bytes: usize, run: Duration) -> Result<u64> {
        if self.connected.is_empty() {
            let context = Context::default();
            let client = self.transport.connect(&self.requests, context).await?;
            self.connected.push(client);
        }
        let payload = Bytes::from(vec![7; bytes]);
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers: JoinSet<Result<u64>> = JoinSet::new();
        // Far beyond what a run takes: one for all of its requests.
        let deadline = Clock.after(run + TIMEOUT);
        for client in iter::repeat_n(&self.connected[0], outstanding) {
            let (client, payload) = (Arc::clone(client), payload.clone());
            let stop = Arc::clone(&stop);
            callers.spawn(async move {
                let mut answered = 0;
                while !stop.load(Ordering::Relaxed) {
                    let reply = client.request(payload.clone(), deadline).await?;
                    if reply.len() != payload.len() {
                        return Err("an echo of another length".into());
                    }
                    answered += 1;
                }
                Ok(answered)
            });
        }
        Clock.pause(run).await;
        stop.store(true, Ordering::Relaxed);
        let mut answered = 0;
        while let Some(caller) = callers.join_next().await {
            answered += caller??;
        }
        Ok(answered)
    }

    async fn subscribe(
        &mut self,
        subscribers: usize,
        bytes: usize,
        limit: &Arc<FlowLimit>,
    ) -> Result<()> {
        let turns = Arc::new(Semaphore::new(CONNECTING));
        let mut connecting: JoinSet<Result<(Arc<dyn Client>, Box<dyn Subscriber>)>> =
            JoinSet::new();
        for _ in 0..subscribers {
            let (transport, turns) = (Arc::clone(&self.transport), Arc::clone(&turns));
            let (requests, publications) = (self.requests.clone(), self.publications.clone());
            connecting.spawn(async move {
                let _turn = turns.acquire().await?;
                let client = transport.connect(&requests, Context::default()).await?;
                let (topics, deadline) = (vec![TopicFilter::Exact(topic()?)], Clock.after(TIMEOUT));
                let at = publications.as_ref();
                let subscriber = client.subscribe(at, topics, deadline).await?;
                Ok((client, subscriber))
            });
        }
        while let Some(connected) = connecting.join_next().await {
            let (client, subscriber) = connected??;
            self.connected.push(client);
            self.readers
                .spawn(read(subscriber, bytes, limit.subscriber()));
        }
        Ok(())
    }
}

/// Counts until the client ends. What has another length counts as lost.
async fn read(mut subscriber: Box<dyn Subscriber>, bytes: usize, mut count: SubscriberCount) {
    let mut batch = Vec::new();
    while subscriber.next_batch(&mut batch, AT_ONCE).await > 0 {
        for delivery in batch.drain(..) {
            match delivery {
                Delivery::Message { payload, .. } if payload.len() == bytes => count.had(1),
                Delivery::Message { .. } | Delivery::Lagged(Lost::Unknown) => count.lost(1),
                Delivery::Lagged(Lost::Messages(lost)) => count.lost(lost),
                _ => {}
            }
        }
    }
}
