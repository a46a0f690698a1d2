//! The two threads that own the connections: one writes, one reads.
//!
//! The writer takes one command and whatever else is queued, runs them in one transaction, and
//! answers them all after its commit. So under load one sync of the disk serves many commands, and a
//! lone command does not wait for others. Each command has its own savepoint: a failed one leaves
//! nothing behind, and does not affect the others.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::StoreError;

/// The largest number of commands that wait for a thread; further callers wait for a place.
const QUEUE: usize = 4_096;

/// The largest number of commands in one transaction.
const BATCH: usize = 1_000;

/// The largest size of the queued commands of a thread, in KiB: 128 MiB. A larger command waits
/// until it is alone.
const QUEUED_KIB: u32 = 128 * 1024;

/// An order to a thread.
pub(super) enum Order {
    /// Run this command.
    Call(Box<dyn Command>),
    /// Finish the queued commands, and end.
    Close,
}

/// A command for a connection, with a caller that waits for the result.
pub(super) trait Command: Send {
    /// Runs the command, and keeps its result.
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError>;
    /// Whether the caller still waits.
    fn is_awaited(&self) -> bool;
    /// Gives the caller the result, or the error that failed the whole transaction.
    fn answer(self: Box<Self>, failed: Option<&StoreError>);
}

struct Call<T, F> {
    act: Option<F>,
    outcome: Result<T, StoreError>,
    reply: oneshot::Sender<Result<T, StoreError>>,
    _room: Option<OwnedSemaphorePermit>,
}

impl<T, F> Command for Call<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError> {
        if let Some(act) = self.act.take() {
            self.outcome = act(connection);
        }
        match &self.outcome {
            Ok(_) => Ok(()),
            Err(error) => Err(error.clone()),
        }
    }

    fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    fn answer(self: Box<Self>, failed: Option<&StoreError>) {
        let outcome = match failed {
            Some(error) => Err(error.clone()),
            None => self.outcome,
        };
        // The caller no longer waits; the command was run all the same.
        let _ = self.reply.send(outcome);
    }
}

/// A thread that owns a connection.
pub(super) struct Worker {
    orders: Option<mpsc::Sender<Order>>,
    room: Arc<Semaphore>,
    thread: Mutex<Option<(JoinHandle<()>, oneshot::Receiver<()>)>>,
}

impl Worker {
    /// Starts the thread that writes.
    pub(super) fn writer(connection: Connection) -> io::Result<Self> {
        Self::start("saline-store", connection, write)
    }

    /// Starts the thread that reads.
    pub(super) fn reader(connection: Connection) -> io::Result<Self> {
        Self::start("saline-reader", connection, read)
    }

    fn start(
        name: &str,
        connection: Connection,
        work: fn(&Connection, mpsc::Receiver<Order>),
    ) -> io::Result<Self> {
        let (orders, queue) = mpsc::channel(QUEUE);
        let (done, ended) = oneshot::channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                work(&connection, queue);
                // Closing the writer's connection empties the write-ahead log.
                drop(connection);
                // An error means that the caller of `close` no longer waits.
                let _ = done.send(());
            })?;
        Ok(Self {
            orders: Some(orders),
            room: Arc::new(Semaphore::new(QUEUED_KIB as usize)),
            thread: Mutex::new(Some((thread, ended))),
        })
    }

    /// Runs `act` on the thread, and waits for its result. `bytes` is about the size of its data.
    ///
    /// # Cancel safety
    /// A queued command is carried out; one that waits for a place is not.
    pub(super) async fn call<T, F>(&self, bytes: usize, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let orders = self.orders.as_ref().ok_or(StoreError::Closed)?;
        let kib = u32::try_from(bytes / 1024)
            .unwrap_or(u32::MAX)
            .min(QUEUED_KIB);
        let room = match kib {
            0 => None,
            kib => Some(
                Arc::clone(&self.room)
                    .acquire_many_owned(kib)
                    .await
                    .map_err(|_| StoreError::Closed)?,
            ),
        };
        let (reply, answer) = oneshot::channel();
        let call = Call {
            act: Some(act),
            outcome: Err(StoreError::Closed),
            reply,
            _room: room,
        };
        orders
            .send(Order::Call(Box::new(call)))
            .await
            .map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Waits until the thread has finished the queued commands and ended.
    pub(super) async fn close(&self) {
        if let Some(orders) = &self.orders {
            // An error means that the thread has ended already.
            let _ = orders.send(Order::Close).await;
        }
        let thread = self.take_thread();
        if let Some((thread, ended)) = thread {
            // An error also means that the thread has ended.
            let _ = ended.await;
            join(thread);
        }
    }

    fn take_thread(&self) -> Option<(JoinHandle<()>, oneshot::Receiver<()>)> {
        self.thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = None;
        if let Some((thread, _)) = self.take_thread() {
            join(thread);
        }
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the job store panicked");
    }
}

/// Takes the next command, until there are no more.
fn next(queue: &mut mpsc::Receiver<Order>) -> Option<Box<dyn Command>> {
    loop {
        match queue.blocking_recv()? {
            Order::Call(command) => return Some(command),
            Order::Close => queue.close(),
        }
    }
}

fn read(connection: &Connection, mut queue: mpsc::Receiver<Order>) {
    while let Some(mut command) = next(&mut queue) {
        if command.is_awaited() {
            // The command keeps its outcome for the answer.
            let _ = command.run(connection);
            command.answer(None);
        }
    }
}

fn write(connection: &Connection, mut queue: mpsc::Receiver<Order>) {
    let mut failing = false;
    while let Some(first) = next(&mut queue) {
        let mut batch = vec![first];
        while batch.len() < BATCH {
            match queue.try_recv() {
                Ok(Order::Call(command)) => batch.push(command),
                Ok(Order::Close) => queue.close(),
                Err(_) => break,
            }
        }
        let outcome = commit(connection, &mut batch);
        // Minions repeat their requests, so a failure is logged once.
        match &outcome {
            Err(error) if !failing => tracing::error!(%error, "the job store fails"),
            Ok(()) if failing => tracing::info!("the job store works again"),
            _ => {}
        }
        failing = outcome.is_err();
        for command in batch {
            command.answer(outcome.as_ref().err());
        }
        if failing {
            empty_log(connection);
        }
    }
}

/// Empties the write-ahead log, to give space back to a full disk.
fn empty_log(connection: &Connection) {
    let emptied = connection
        .prepare_cached("PRAGMA wal_checkpoint(TRUNCATE)")
        .and_then(|mut checkpoint| checkpoint.query_row([], |_| Ok(())));
    if let Err(error) = emptied {
        tracing::debug!(%error, "the log of the job store cannot be emptied");
    }
}

/// Runs all commands in one transaction. An error means that nothing of any command was kept.
fn commit(connection: &Connection, batch: &mut [Box<dyn Command>]) -> Result<(), StoreError> {
    let say = |sql| -> Result<(), StoreError> {
        connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    };
    let all = || -> Result<(), StoreError> {
        say("BEGIN IMMEDIATE")?;
        for command in batch {
            say("SAVEPOINT one")?;
            if let Err(error) = command.run(connection) {
                if connection.is_autocommit() {
                    // A full or failing disk can end the whole transaction.
                    return Err(error);
                }
                say("ROLLBACK TO one")?;
            }
            say("RELEASE one")?;
        }
        say("COMMIT")
    };
    let outcome = all();
    if outcome.is_err() && !connection.is_autocommit() {
        // If the rollback fails, SQLite rolls back when the file is opened next.
        if let Err(error) = say("ROLLBACK") {
            tracing::error!(%error, "the job store cannot roll back");
        }
    }
    outcome
}
