//! A thread of the store and its queue, which is bounded in number and in bytes.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::StoreError;

/// The largest number of orders that wait for a thread; further callers wait for a place.
const QUEUE: usize = 4_096;

/// The largest size of the queued data of a thread, in KiB: 128 MiB. A larger order waits until it is
/// alone.
const QUEUED_KIB: u32 = 128 * 1024;

/// What a thread finds in its queue.
pub(super) enum Order<J> {
    /// Do this.
    Do(J),
    /// Finish what is queued, and end.
    Close,
}

/// The queue as the thread sees it.
pub(super) struct Orders<J>(mpsc::Receiver<Order<J>>);

impl<J> Orders<J> {
    /// Takes the next order; none when there will be no more.
    pub(super) fn next(&mut self) -> Option<J> {
        loop {
            match self.0.blocking_recv()? {
                Order::Do(job) => return Some(job),
                Order::Close => self.0.close(),
            }
        }
    }

    /// Takes the next order if one is queued.
    pub(super) fn try_next(&mut self) -> Option<J> {
        loop {
            match self.0.try_recv() {
                Ok(Order::Do(job)) => return Some(job),
                Ok(Order::Close) => self.0.close(),
                Err(_) => return None,
            }
        }
    }
}

/// A share of the memory that queued orders may take; given back when it is dropped.
pub(super) type Room = Option<OwnedSemaphorePermit>;

/// A thread of the store.
pub(super) struct Thread<J> {
    orders: Option<mpsc::Sender<Order<J>>>,
    room: Arc<Semaphore>,
    thread: Mutex<Option<(JoinHandle<()>, oneshot::Receiver<()>)>>,
}

impl<J: Send + 'static> Thread<J> {
    /// Starts a thread that does `work` until its queue is closed.
    pub(super) fn start(
        name: &str,
        work: impl FnOnce(Orders<J>) + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, queue) = mpsc::channel(QUEUE);
        let (done, ended) = oneshot::channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                work(Orders(queue));
                // An error means that the caller of `close` no longer waits.
                let _ = done.send(());
            })?;
        Ok(Self {
            orders: Some(orders),
            room: Arc::new(Semaphore::new(QUEUED_KIB as usize)),
            thread: Mutex::new(Some((thread, ended))),
        })
    }

    /// Waits until about `bytes` more may be queued.
    ///
    /// # Cancel safety
    /// Nothing was taken when the future is dropped.
    pub(super) async fn room(&self, bytes: usize) -> Result<Room, StoreError> {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX);
        match kib.min(QUEUED_KIB) {
            0 => Ok(None),
            kib => {
                let permit = Arc::clone(&self.room).acquire_many_owned(kib).await;
                permit.map(Some).map_err(|_| StoreError::Closed)
            }
        }
    }

    /// Queues an order.
    ///
    /// # Cancel safety
    /// An order that waits for a place is not carried out; a queued one is.
    pub(super) async fn send(&self, job: J) -> Result<(), StoreError> {
        let orders = self.orders.as_ref().ok_or(StoreError::Closed)?;
        let sent = orders.send(Order::Do(job)).await;
        sent.map_err(|_| StoreError::Closed)
    }

    /// Returns a function that queues an order if there is a place, and returns whether there was.
    pub(super) fn try_sender(&self) -> impl Fn(J) -> bool + Send + 'static {
        // The thread must end when its owner goes, though others may still hold this function.
        let orders = self.orders.as_ref().map(mpsc::Sender::downgrade);
        move |job| {
            let orders = orders.as_ref().and_then(mpsc::WeakSender::upgrade);
            orders.is_some_and(|orders| orders.try_send(Order::Do(job)).is_ok())
        }
    }

    /// Waits until the thread has done what is queued, and has ended.
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

impl<J> Drop for Thread<J> {
    fn drop(&mut self) {
        self.orders = None;
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
        tracing::error!("a thread of the job store panicked");
    }
}
