//! The pool of threads for functions.

use std::sync::Arc;

use saline_protocol::transport::Context;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A pool that runs a limited number of functions at once; further ones wait.
///
/// The threads are the runtime's blocking ones. The runtime's own thread, which serves heartbeats
/// and the transport, never runs a function, unless everything runs [in place](Self::in_place).
#[derive(Debug, Clone)]
pub struct Pool {
    /// None when functions are run in place.
    context: Option<Context>,
    permits: Arc<Semaphore>,
    /// The permits of functions that do not wait for other jobs.
    reserved: Arc<Semaphore>,
}

/// How many functions that do not wait for other jobs run at once, beside the others.
const RESERVED: usize = 4;

/// A permit to use one thread of the pool.
#[derive(Debug)]
pub struct Permit(#[allow(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Pool {
    /// Creates a pool of `threads` threads.
    pub fn new(context: Context, threads: usize) -> Self {
        let threads = threads.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            context: Some(context),
            permits: Arc::new(Semaphore::new(threads)),
            reserved: Arc::new(Semaphore::new(RESERVED)),
        }
    }

    /// Creates a pool without threads: everything is run in place, and a panic of it is the caller's.
    /// Functions must return at once.
    pub fn in_place() -> Self {
        Self {
            context: None,
            permits: Arc::new(Semaphore::new(1)),
            reserved: Arc::new(Semaphore::new(1)),
        }
    }

    /// Waits for a free thread.
    ///
    /// # Cancel safety
    /// A dropped future leaves the queue.
    pub async fn acquire(&self) -> Permit {
        permit_of(&self.permits).await
    }

    /// Returns a permit to use a thread if one is free.
    pub fn try_acquire(&self) -> Option<Permit> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        permit.ok().map(Permit)
    }

    /// Waits for one of the few threads that are kept for functions about other jobs, so that these can
    /// be ended while they hold all other threads.
    ///
    /// # Cancel safety
    /// A dropped future leaves the queue.
    pub async fn acquire_reserved(&self) -> Permit {
        permit_of(&self.reserved).await
    }

    /// Runs `work` on a thread, under that permit. Returns none only when `work` panicked.
    ///
    /// # Cancel safety
    /// Work that has begun goes on when the future is dropped, and keeps its permit until it ends.
    pub async fn run<T, F>(&self, permit: Permit, work: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let Some(context) = &self.context else {
            // Functions do not panic out of their modules, so a panic here is the minion's own.
            return Some(work());
        };
        let running = context.spawn_blocking(move || {
            let result = work();
            drop(permit);
            result
        });
        running.await.ok()
    }

    /// Runs `work` that reads or writes a file, which no permit bounds. Returns none only when `work`
    /// panicked.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_io<T, F>(&self, work: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        match &self.context {
            Some(context) => context.spawn_blocking(work).await.ok(),
            None => Some(work()),
        }
    }
}

async fn permit_of(permits: &Arc<Semaphore>) -> Permit {
    let permit = Arc::clone(permits).acquire_owned().await;
    #[expect(
        clippy::expect_used,
        reason = "acquiring fails only when the semaphore is closed, which nothing does"
    )]
    Permit(permit.expect("the semaphore is open"))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[tokio::test]
    async fn a_hundred_run_side_by_side_and_the_runtime_stays_free() {
        let pool = Pool::new(Context::default(), 128);
        // The barrier opens only when all hundred threads and the test wait at it.
        let barrier = Arc::new(Barrier::new(101));
        let mut running = Vec::new();
        for _ in 0..100 {
            let (pool, barrier) = (pool.clone(), Arc::clone(&barrier));
            let permit = pool.acquire().await;
            let context = Context::default();
            running.push(context.spawn(async move {
                pool.run(permit, move || barrier.wait()).await.unwrap();
            }));
        }
        let context = Context::default();
        context
            .spawn_blocking(move || barrier.wait())
            .await
            .unwrap();
        for task in running {
            task.await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_others_wait() {
        let pool = Pool::new(Context::default(), 1);
        let first = pool.acquire().await;
        let mut second = std::pin::pin!(pool.acquire());
        assert!(futures_now(second.as_mut()).is_none());
        let _reserved = pool.acquire_reserved().await;
        drop(first);
        let _second = second.await;
    }

    #[tokio::test]
    async fn a_panic_gives_the_place_back() {
        let pool = Pool::new(Context::default(), 1);
        let permit = pool.acquire().await;
        assert!(pool.run(permit, || panic!("on purpose")).await.is_none());
        let _again = pool.acquire().await;
    }

    /// Polls a future once.
    fn futures_now<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}
