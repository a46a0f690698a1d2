//! A thread with connections of its own, for all that must not delay the writer: one reads, another one
//! moves write-ahead logs into their files, copies, checks and deletes.

use std::io;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::StoreError;
use super::partitions::Connections;
use super::thread::{TaskQueue, Thread};

/// One task of the thread, which gets its connections.
pub(crate) type ConnectionTask = Box<dyn FnOnce(&mut Connections) + Send>;

/// A thread that runs tasks with its connections.
pub(crate) struct ConnectionThread(pub(crate) Thread<ConnectionTask>);

impl ConnectionThread {
    /// Starts the thread, which closes its connections when it ends.
    pub(crate) fn start(name: &str, mut connections: Connections) -> io::Result<Self> {
        let thread = Thread::start(name, move |mut queue: TaskQueue<ConnectionTask>| {
            while let Some(task) = queue.next() {
                task(&mut connections);
            }
        })?;
        Ok(Self(thread))
    }

    /// Runs `act` on the thread unless the caller is gone by then, and returns what it returned.
    ///
    /// # Cancel safety
    /// A call whose future was dropped is not run, or its result is dropped.
    pub(crate) async fn call<T, F>(&self, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connections) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let task = move |connections: &mut Connections| {
            if !reply.is_closed() {
                // The caller may have gone meanwhile.
                let _ = reply.send(act(connections));
            }
        };
        self.0.send(Box::new(task)).await?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs `act` at one moment of the partition that begins at `start`.
    ///
    /// # Cancel safety
    /// As for [`call`](Self::call).
    pub(crate) async fn moment<T, F>(&self, start: i64, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.call(move |connections| {
            let moment = connections.of(start)?.unchecked_transaction()?;
            act(&moment)
        })
        .await
    }
}
