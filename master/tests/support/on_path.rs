//! Somebody on the path of a client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{Client, Endpoint, Instant, Result, Subscriber, TopicFilter};

/// A client on whose link somebody listens, and may answer with what was answered before.
#[derive(Debug)]
pub struct OnPath {
    pub client: Arc<dyn Client>,
    pub captured: Mutex<Vec<Bytes>>,
    replies: Mutex<Vec<Bytes>>,
    /// The next request is answered with the last reply.
    pub repeats: Mutex<bool>,
}

impl OnPath {
    pub fn new(client: Arc<dyn Client>) -> Arc<Self> {
        Arc::new(Self {
            client,
            captured: Mutex::default(),
            replies: Mutex::default(),
            repeats: Mutex::default(),
        })
    }
}

#[async_trait]
impl Client for OnPath {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        if std::mem::take(&mut *self.repeats.lock().unwrap()) {
            return Ok(self.replies.lock().unwrap().last().unwrap().clone());
        }
        self.captured.lock().unwrap().push(payload.clone());
        let reply = self.client.request(payload, deadline).await?;
        self.replies.lock().unwrap().push(reply.clone());
        Ok(reply)
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
