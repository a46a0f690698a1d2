//! The connecting side of a shared socket.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::Context;

use super::connection::Connection;
use super::connection_key::ConnectionKey;
use super::driver::Driver;
use super::pipe::VirtualPipe;
use super::{DatagramSocket, LONGEST_WAIT, random};
use crate::Attempts;

/// How long a client waits for an answer before it asks again, at first.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Opens virtual connections, each over a socket of its own: what the [`Dialer`](crate::Dialer) of a backend keeps.
#[derive(Debug)]
pub struct VirtualDialer {
    context: Context,
    attempts: Attempts,
}

impl VirtualDialer {
    /// Returns a dialer whose tasks belong to `context`.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            attempts: Attempts::default(),
        }
    }

    /// Opens a connection to `server` over `socket`. The connection before it has to be gone, and its task ends now.
    ///
    /// # Errors
    /// `ConnectionRefused` when nobody listens there, or takes no more connections; `InvalidData` when the server speaks another
    /// version of the datagrams.
    ///
    /// # Cancel safety
    /// Nothing stays connected when the future is dropped; [`close`](Self::close) waits for the task that was left.
    pub async fn connect(
        &self,
        socket: impl DatagramSocket,
        server: SocketAddr,
    ) -> io::Result<VirtualPipe> {
        self.close().await;
        let clock = self.context.clock;
        let key = ConnectionKey {
            address: server,
            client: u64::from_be_bytes(random()?),
        };
        let driver = Driver::new(socket, clock, None);
        let tasks = self.attempts.begin(&self.context);
        let connection = Connection::dialled(&driver, key);
        driver.add(&connection);
        let cut = tasks.cut.clone().drop_guard();
        let pipe = VirtualPipe::new(Arc::clone(&connection), Some(cut));
        driver.writable().await;
        tasks.spawn(driver.run());
        let mut wait = FIRST_WAIT;
        let opened = loop {
            connection.ask();
            let opened = poll_fn(|cx| connection.poll_open(cx));
            match clock.deadline(clock.after(wait), opened).await {
                Ok(opened) => break opened,
                Err(_) => wait = (wait * 2).min(LONGEST_WAIT),
            }
        };
        match opened {
            Ok(()) => Ok(pipe),
            Err(error) => {
                // Nothing of the attempt is left.
                drop(pipe);
                self.close().await;
                Err(error)
            }
        }
    }

    /// Ends the tasks of all connections that it has opened, and waits for them: for [`Dialer::close`](crate::Dialer::close).
    ///
    /// # Cancel safety
    /// After a dropped call, the next one waits for the tasks that have not ended.
    pub async fn close(&self) {
        self.attempts.close().await;
    }
}
