//! A transport's limits are told in the clear: whoever forges small ones holds a return back, and does not replace it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::scripted_master::{Fixture, job};
use async_trait::async_trait;
use bytes::Bytes;
use saline_data::Value;
use saline_inproc::InProc;
use saline_protocol::transport::{
    Capabilities, Client, Context, Endpoint, Error, ErrorKind, Instant, Result, ServeAt, Server,
    Subscriber, TopicFilter, Transport,
};

/// The largest request that the forged greeting allows, in bytes.
const FORGED: usize = 64 * 1024;

/// A greeting that somebody on the path changed.
#[derive(Debug, Default)]
struct Greeting {
    is_forged: AtomicBool,
    /// The requests that were not sent because of it.
    refused: AtomicUsize,
}

/// The in-memory transport, whose clients believe the greeting.
#[derive(Debug)]
struct Forged {
    transport: InProc,
    greeting: Arc<Greeting>,
}

#[async_trait]
impl Transport for Forged {
    fn scheme(&self) -> &'static str {
        self.transport.scheme()
    }

    fn capabilities(&self) -> Capabilities {
        self.transport.capabilities()
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        self.transport.serve(at, context).await
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        Ok(Arc::new(Believes {
            client: self.transport.connect(endpoint, context).await?,
            greeting: Arc::clone(&self.greeting),
        }))
    }
}

#[derive(Debug)]
struct Believes {
    client: Arc<dyn Client>,
    greeting: Arc<Greeting>,
}

#[async_trait]
impl Client for Believes {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        if payload.len() > FORGED && self.greeting.is_forged.load(Ordering::SeqCst) {
            self.greeting.refused.fetch_add(1, Ordering::SeqCst);
            return Err(Error::new(ErrorKind::TooLarge, "above the server's limit"));
        }
        self.client.request(payload, deadline).await
    }

    async fn subscribe(
        &self,
        at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        self.client.subscribe(at, topics, deadline).await
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.client.shutdown(deadline).await
    }
}

#[tokio::test]
async fn a_return_above_a_forged_limit_is_sent_when_the_limit_is_true_again() {
    let greeting = Arc::new(Greeting::default());
    greeting.is_forged.store(true, Ordering::SeqCst);
    let transport = Forged {
        transport: InProc::new(),
        greeting: Arc::clone(&greeting),
    };
    let fixture = Fixture::over(transport).await;
    let minion = fixture.start(fixture.config()).await;
    let echo = async |number, bytes| {
        let text = Value::from("x".repeat(bytes));
        let echo = job(number, "test.echo", std::slice::from_ref(&text));
        fixture.master.to_all(fixture.master.sign(echo), true).await;
        text
    };
    // These show that the link is quick, and then the third is small enough to travel in one request.
    echo(1, 30_000).await;
    fixture.master.wait_for_returns(1).await;
    echo(2, 60_000).await;
    fixture.master.wait_for_returns(2).await;
    let text = echo(3, FORGED + 1024).await;
    // It is tried again, so a second refusal follows whatever was decided on the first.
    let refused = |_: &_| greeting.refused.load(Ordering::SeqCst) > 1;
    fixture.master.wait("refusals", refused).await;
    greeting.is_forged.store(false, Ordering::SeqCst);
    let returns = fixture.master.wait_for_returns(3).await;
    assert!(returns[2].success);
    assert_eq!(returns[2].payload.unpack().unwrap(), text);
    minion.stop().await;
}
