//! Connections that wait to be accepted: their addresses are proven, and they are a key each.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Mutex;

use saline_protocol::transport::Instant;
use tokio::sync::Notify;

use super::connection_key::ConnectionKey;
use super::cookie::{COOKIE, Cookie, Cookies};
use super::datagram::{Datagram, VERSION};
use crate::lock;

/// Connections that may wait at once. Clients ask again.
const WAITING: usize = 1024;

/// What a serving socket knows of clients that ask.
#[derive(Debug)]
pub(super) struct Backlog {
    cookies: Cookies,
    inner: Mutex<Inner>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<ConnectionKey>,
    /// Those that wait, or were accepted and are not connections yet.
    pending: HashSet<ConnectionKey>,
    is_closed: bool,
}

impl Backlog {
    /// Returns a backlog in which no connection waits.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub(super) fn new(now: Instant) -> io::Result<Self> {
        Ok(Self {
            cookies: Cookies::new(now)?,
            inner: Mutex::default(),
            arrived: Notify::new(),
        })
    }

    /// Takes a client's question. Returns what to answer at once.
    pub(super) fn take(
        &self,
        key: ConnectionKey,
        (version, cookie): (u8, &Cookie),
        now: Instant,
    ) -> Option<Datagram<'static>> {
        let version_of_ours = VERSION;
        let retry = |cookie| Datagram::Retry {
            version: version_of_ours,
            cookie,
        };
        if version != VERSION {
            return Some(retry([0; COOKIE]));
        }
        if !self.cookies.proves(cookie, key.address, key.client, now) {
            return Some(retry(self.cookies.make(key.address, key.client, now)));
        }
        let mut inner = lock(&self.inner);
        if inner.is_closed {
            return Some(Datagram::Cut);
        }
        if inner.waiting.len() < WAITING && inner.pending.insert(key) {
            inner.waiting.push_back(key);
            self.arrived.notify_one();
        }
        None
    }

    /// Returns the next one, which [`release`](Self::release) lets go of.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&self) -> ConnectionKey {
        loop {
            if let Some(key) = lock(&self.inner).waiting.pop_front() {
                return key;
            }
            self.arrived.notified().await;
        }
    }

    /// One that was accepted is a connection now, or is none.
    pub(super) fn release(&self, key: ConnectionKey) {
        lock(&self.inner).pending.remove(&key);
    }

    /// Whether no connection waits, and none is on its way.
    pub(super) fn is_empty(&self) -> bool {
        let inner = lock(&self.inner);
        inner.waiting.is_empty() && inner.pending.is_empty()
    }

    /// Takes no more. Returns those that wait.
    pub(super) fn close(&self) -> VecDeque<ConnectionKey> {
        let mut inner = lock(&self.inner);
        inner.is_closed = true;
        std::mem::take(&mut inner.waiting)
    }
}
