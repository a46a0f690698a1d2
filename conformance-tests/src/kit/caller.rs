//! A client under test.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{
    Client, Clock, Context, Counters, Delivery, Endpoint, Result, Subscriber, Topic, TopicFilter,
};

use super::TEST_TIMEOUT;
use crate::{Expecting, Failure, Outcome};

/// A client that is connected, with what it was given. Clones share it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The client.
    pub client: Arc<dyn Client>,
    /// What it was given.
    pub context: Context,
    /// What it counted.
    pub counters: Arc<Counters>,
    /// Where its server publishes, if that is apart.
    pub publications: Option<Endpoint>,
}

impl Caller {
    /// Asks, with [`TEST_TIMEOUT`].
    ///
    /// # Errors
    /// The backend's.
    pub async fn ask(&self, payload: impl Into<Bytes>) -> Result<Bytes> {
        self.ask_within(payload, TEST_TIMEOUT).await
    }

    /// Asks, with a deadline that long from now.
    ///
    /// # Errors
    /// The backend's.
    pub async fn ask_within(&self, payload: impl Into<Bytes>, limit: Duration) -> Result<Bytes> {
        self.client
            .request(payload.into(), Clock.after(limit))
            .await
    }

    /// Subscribes.
    ///
    /// # Errors
    /// When it is not confirmed.
    pub async fn subscribe(&self, filters: &[TopicFilter]) -> Outcome<Listener> {
        let subscriber = self.try_subscribe(filters, TEST_TIMEOUT).await;
        subscriber.expecting("subscribing at a server that is up")
    }

    /// Subscribes, if the backend lets it.
    ///
    /// # Errors
    /// The backend's.
    pub async fn try_subscribe(
        &self,
        filters: &[TopicFilter],
        limit: Duration,
    ) -> Result<Listener> {
        let at = self.publications.as_ref();
        let deadline = Clock.after(limit);
        let subscribed = self.client.subscribe(at, filters.to_vec(), deadline);
        subscribed.await.map(Listener)
    }

    /// Shuts down.
    ///
    /// # Errors
    /// When it does not end, or says that it had to cut something.
    pub async fn shut_down(&self) -> Outcome {
        let down = self.client.shutdown(TEST_TIMEOUT);
        Clock
            .deadline(Clock.after(TEST_TIMEOUT * 2), down)
            .await
            .expecting("shutting a client down")?
            .expecting("shutting a client down")
    }
}

/// A subscription that is read.
#[derive(Debug)]
pub struct Listener(pub Box<dyn Subscriber>);

impl Listener {
    /// What comes next, within [`TEST_TIMEOUT`]; `None` at the end.
    ///
    /// # Errors
    /// When nothing comes.
    pub async fn next(&mut self) -> Outcome<Option<Delivery>> {
        self.within(TEST_TIMEOUT, "waiting for a subscriber").await
    }

    /// What comes next, within `limit`; `None` at the end.
    ///
    /// # Errors
    /// When nothing comes.
    pub async fn within(&mut self, limit: Duration, what: &str) -> Outcome<Option<Delivery>> {
        let deadline = Clock.after(limit);
        Clock
            .deadline(deadline, self.0.next())
            .await
            .expecting(what)
    }

    /// A batch of at most `most` deliveries, within [`TEST_TIMEOUT`]. Returns how many were added.
    ///
    /// # Errors
    /// When none comes.
    pub async fn batch(&mut self, into: &mut Vec<Delivery>, most: usize) -> Outcome<usize> {
        let deadline = Clock.after(TEST_TIMEOUT);
        let taken = Clock
            .deadline(deadline, self.0.next_batch(into, most))
            .await
            .expecting("waiting for a batch of deliveries")?;
        match taken {
            0 => Err(Failure::new("the subscriber has ended")),
            taken => Ok(taken),
        }
    }

    /// The next delivery, which has to be a message.
    ///
    /// # Errors
    /// When it is not, or does not come.
    pub async fn message(&mut self) -> Outcome<(Topic, Bytes)> {
        match self
            .within(TEST_TIMEOUT, "waiting for a publication")
            .await?
        {
            Some(Delivery::Message { topic, payload }) => Ok((topic, payload)),
            other => Err(Failure::new(format!(
                "expected a publication, the subscriber yielded {other:?}"
            ))),
        }
    }

    /// The next delivery, which has to be `link`: `Connected` or `Disconnected`.
    ///
    /// # Errors
    /// When it is not, or does not come.
    pub async fn link(&mut self, link: &Delivery) -> Outcome {
        match self
            .within(TEST_TIMEOUT, &format!("waiting for {link:?}"))
            .await?
        {
            Some(got) if got == *link => Ok(()),
            other => Err(Failure::new(format!(
                "expected {link:?}, the subscriber yielded {other:?}"
            ))),
        }
    }
}
