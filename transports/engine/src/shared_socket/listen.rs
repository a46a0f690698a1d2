//! The serving side of a shared socket.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use saline_protocol::transport::{Context, Source};
use tokio_util::sync::DropGuard;

use super::backlog::Backlog;
use super::connection::Connection;
use super::connection_key::ConnectionKey;
use super::datagram::{ConnectionId, Datagram, encode};
use super::driver::Driver;
use super::pipe::VirtualPipe;
use super::{DatagramSocket, random};
use crate::Lifetime;
use crate::pipe::{Incoming, Listener};

/// A socket that takes connections, with the task that reads it. Dropping it frees the address.
#[derive(Debug)]
pub struct VirtualListener {
    pub(super) driver: Arc<Driver>,
    tasks: Arc<Lifetime>,
    _cut: DropGuard,
}

impl VirtualListener {
    /// Serves `socket`, which is bound. Has to be called inside a Tokio runtime.
    ///
    /// # Errors
    /// When the system gives no randomness for cookies.
    pub fn new(socket: impl DatagramSocket, context: &Context) -> io::Result<Self> {
        let clock = context.clock;
        let driver = Driver::new(socket, clock, Some(Backlog::new(clock.now())?));
        let tasks = Lifetime::new(context.clone(), Duration::ZERO);
        tasks.spawn(Arc::clone(&driver).run());
        Ok(Self {
            driver,
            _cut: tasks.cut.clone().drop_guard(),
            tasks,
        })
    }
}

impl Listener for VirtualListener {
    type Incoming = VirtualIncoming;

    async fn accept(&mut self) -> io::Result<VirtualIncoming> {
        let Some(backlog) = &self.driver.backlog else {
            return Err(io::Error::other("the socket takes no connections"));
        };
        let key = backlog.next().await;
        Ok(VirtualIncoming::new(&self.driver, key))
    }

    async fn close(self, ended: impl Future<Output = ()> + Send) {
        let waiting = self.driver.backlog.as_ref().map(Backlog::close);
        for key in waiting.into_iter().flatten() {
            turn_away(&self.driver, key);
        }
        ended.await;
        self.tasks.cut.cancel();
        // An error says that something was cut, which it was.
        let _ = self.tasks.shutdown(Duration::ZERO).await;
    }
}

/// A client whose address is proven. Dropping it turns it away.
#[derive(Debug)]
pub struct VirtualIncoming {
    driver: Weak<Driver>,
    key: ConnectionKey,
    is_taken: bool,
}

impl VirtualIncoming {
    pub(super) fn new(driver: &Arc<Driver>, key: ConnectionKey) -> Self {
        Self {
            driver: Arc::downgrade(driver),
            key,
            is_taken: false,
        }
    }
}

/// Tells a client that it gets no connection.
fn turn_away(driver: &Driver, key: ConnectionKey) {
    let id = ConnectionId {
        client: key.client,
        server: 0,
    };
    driver.send(key.address, &encode(id, &Datagram::Cut));
}

impl Drop for VirtualIncoming {
    fn drop(&mut self) {
        let Some(driver) = self.driver.upgrade() else {
            return;
        };
        if !self.is_taken {
            turn_away(&driver, self.key);
        }
        if let Some(backlog) = &driver.backlog {
            backlog.release(self.key);
        }
    }
}

impl Incoming for VirtualIncoming {
    type Pipe = VirtualPipe;

    fn source(&self) -> Source {
        Source::of(self.key.address)
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.key.address)
    }

    async fn establish(mut self) -> io::Result<VirtualPipe> {
        let aborted = |why| io::Error::new(io::ErrorKind::ConnectionAborted, why);
        let driver = self.driver.upgrade();
        let driver = driver.ok_or_else(|| aborted("the socket is closed"))?;
        let connection = Connection::accepted(&driver, self.key, u64::from_be_bytes(random()?));
        self.is_taken = true;
        if !driver.add(&connection) {
            return Err(aborted("its question was repeated"));
        }
        connection.welcome(&driver);
        Ok(VirtualPipe::new(connection, None))
    }
}
