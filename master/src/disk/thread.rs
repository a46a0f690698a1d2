//! A thread of the store and its queue, which is bounded in number and in bytes.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::StoreError;

/// The largest number of queue that wait for a thread; further callers wait for a place.
const QUEUE: usize = 4_096;

/// The largest size of the queued data of a thread, in KiB: 128 MiB. A larger task waits until it is
/// alone.
const QUEUED_KIB: u32 = 128 * 1024;

/// An item of a thread's queue.
pub(crate) enum QueueItem<T> {
    /// A task to carry out.
    Task(T),
    /// Finish what is queued, and end.
    Close,
}

/// The queue as the thread sees it.
pub(crate) struct TaskQueue<T>(mpsc::Receiver<QueueItem<T>>);

impl<T> TaskQueue<T> {
    /// Takes the next task; none when there will be no more.
    pub(crate) fn next(&mut self) -> Option<T> {
        loop {
            match self.0.blocking_recv()? {
                QueueItem::Task(task) => return Some(task),
                QueueItem::Close => self.0.close(),
            }
        }
    }

    /// Takes the next task if one is queued.
    pub(crate) fn try_next(&mut self) -> Option<T> {
        loop {
            match self.0.try_recv() {
                Ok(QueueItem::Task(task)) => return Some(task),
                Ok(QueueItem::Close) => self.0.close(),
                Err(_) => return None,
            }
        }
    }
}

/// A share of the memory that queued queue may take; given back when it is dropped.
pub(crate) type QueuePermit = Option<OwnedSemaphorePermit>;

/// A thread of the store.
pub(crate) struct Thread<T> {
    queue: Option<mpsc::Sender<QueueItem<T>>>,
    room: Arc<Semaphore>,
    thread: Mutex<Option<(JoinHandle<()>, oneshot::Receiver<()>)>>,
}

impl<T: Send + 'static> Thread<T> {
    /// Starts a thread that does `work` until its queue is closed.
    pub(crate) fn start(
        name: &str,
        work: impl FnOnce(TaskQueue<T>) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, tasks) = mpsc::channel(QUEUE);
        let (done, ended) = oneshot::channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                work(TaskQueue(tasks));
                // An error means that the caller of `close` no longer waits.
                let _ = done.send(());
            })?;
        Ok(Self {
            queue: Some(queue),
            room: Arc::new(Semaphore::new(QUEUED_KIB as usize)),
            thread: Mutex::new(Some((thread, ended))),
        })
    }

    /// Waits until about `bytes` more may be queued.
    ///
    /// # Cancel safety
    /// Nothing was taken when the future is dropped.
    pub(crate) async fn room(&self, bytes: usize) -> Result<QueuePermit, StoreError> {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        match kib.min(QUEUED_KIB) {
            0 => Ok(None),
            kib => {
                let permit = Arc::clone(&self.room).acquire_many_owned(kib).await;
                permit.map(Some).map_err(|_| StoreError::Closed)
            }
        }
    }

    /// Returns the number of tasks that wait.
    pub(crate) fn queued(&self) -> usize {
        self.queue
            .as_ref()
            .map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    /// Queues a task.
    ///
    /// # Cancel safety
    /// A task that waits for a place is not carried out; a queued one is.
    pub(crate) async fn send(&self, task: T) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or(StoreError::Closed)?;
        let sent = queue.send(QueueItem::Task(task)).await;
        sent.map_err(|_| StoreError::Closed)
    }

    /// Returns a function that queues a task if there is a place, and returns whether there was.
    pub(crate) fn try_sender(&self) -> impl Fn(T) -> bool + Send + 'static {
        // The thread must end when its owner goes, though others may still hold this function.
        let queue = self.queue.as_ref().map(mpsc::Sender::downgrade);
        move |task| {
            let queue = queue.as_ref().and_then(mpsc::WeakSender::upgrade);
            queue.is_some_and(|queue| queue.try_send(QueueItem::Task(task)).is_ok())
        }
    }

    /// Waits until the thread has done what is queued, and has ended.
    pub(crate) async fn close(&self) {
        if let Some(queue) = &self.queue {
            // An error means that the thread has ended already.
            let _ = queue.send(QueueItem::Close).await;
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

impl<T> Drop for Thread<T> {
    fn drop(&mut self) {
        self.queue = None;
        let thread = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((thread, _)) = thread.take() {
            join(thread);
        }
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread that writes to the disk panicked");
    }
}
