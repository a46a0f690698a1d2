//! Somebody on the path of a client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use bytes::Bytes;
use saline_messages::{HEADER_LEN, Header, Kind};
use saline_protocol::transport::{Client, Endpoint, Instant, Result, Subscriber, TopicFilter};

/// A client on whose link somebody listens, and may answer with what was answered before.
#[derive(Debug)]
pub struct OnPath {
    pub client: Arc<dyn Client>,
    pub captured: Mutex<Vec<Bytes>>,
    replies: Mutex<Vec<Bytes>>,
    /// The next request is answered with the last reply.
    pub repeats: Mutex<bool>,
    /// What is changed on the way, once.
    pub change: Mutex<Option<Change>>,
}

/// A change of one byte in the next message or reply of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub kind: Kind,
    /// The place of the byte in the message.
    pub at: Place,
    /// What the byte is combined with by exclusive or.
    pub mask: u8,
    /// The public Noise key of the master, by which the MAC of a `Resume` is made again.
    pub master_noise: [u8; 32],
}

/// A place in a message.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// So many bytes behind the header.
    Body(usize),
    /// So many bytes before the end.
    End(usize),
}

impl Change {
    fn apply(&self, message: &Bytes) -> Bytes {
        let mut changed = message.to_vec();
        let index = match self.at {
            Place::Body(at) => HEADER_LEN + at,
            Place::End(before) => changed.len() - before,
        };
        changed[index] ^= self.mask;
        if self.kind == Kind::Resume {
            // Who knows the master can make the MAC: it keeps strangers out, and proves nothing else.
            let secret = [b"saline/1 resume", &self.master_noise[..]].concat();
            let key = hmac::Key::new(hmac::HMAC_SHA256, digest(&SHA256, &secret).as_ref());
            let (head, rest) = changed.split_at_mut(HEADER_LEN + 32);
            head[HEADER_LEN..].copy_from_slice(hmac::sign(&key, rest).as_ref());
        }
        changed.into()
    }
}

impl OnPath {
    pub fn new(client: Arc<dyn Client>) -> Arc<Self> {
        Arc::new(Self {
            client,
            captured: Mutex::default(),
            replies: Mutex::default(),
            repeats: Mutex::default(),
            change: Mutex::default(),
        })
    }

    /// Returns the message as it goes on.
    fn pass(&self, message: Bytes) -> Bytes {
        let kind = Header::decode(&message).map(|(header, _)| header.kind);
        let mut change = self.change.lock().unwrap();
        match change.take_if(|change| Ok(change.kind) == kind) {
            Some(change) => change.apply(&message),
            None => message,
        }
    }
}

#[async_trait]
impl Client for OnPath {
    async fn request(&self, payload: Bytes, deadline: Instant) -> Result<Bytes> {
        if std::mem::take(&mut *self.repeats.lock().unwrap()) {
            return Ok(self.replies.lock().unwrap().last().unwrap().clone());
        }
        self.captured.lock().unwrap().push(payload.clone());
        let reply = self.client.request(self.pass(payload), deadline).await?;
        let reply = self.pass(reply);
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
