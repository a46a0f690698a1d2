//! How many requests of a client are under way, and who waits until they are fewer.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::transport::{Error, Result};

/// Bounds the requests of one client that are under way. Those above the bound wait in the order in which
/// they came.
///
/// Where nobody waits, a request costs one atomic operation at its beginning and one at its end; Tokio's
/// semaphore, which serves those that wait, takes a lock for each permit that is given back.
#[derive(Debug)]
pub(super) struct InFlight {
    most: usize,
    /// Requests under way and requests that wait.
    count: AtomicUsize,
    /// Permits that were handed on to requests that wait.
    handed_on: Semaphore,
}

impl InFlight {
    /// Returns a bound of `most` requests.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            count: AtomicUsize::new(0),
            handed_on: Semaphore::new(0),
        }
    }

    /// Begins a request, or lets it wait for one that ends.
    pub(super) fn begin(&self) -> std::result::Result<Permit<'_>, Waiting<'_>> {
        match self.count.fetch_add(1, Ordering::AcqRel) < self.most {
            true => Ok(Permit(self)),
            false => Err(Waiting(Some(self))),
        }
    }

    /// Ends the waiting of all that wait, and of those that will.
    pub(super) fn close(&self) {
        self.handed_on.close();
    }
}

/// One request that is under way.
#[derive(Debug)]
pub(super) struct Permit<'a>(&'a InFlight);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // Whoever raised the count above the most waits for this.
        if self.0.count.fetch_sub(1, Ordering::AcqRel) > self.0.most {
            self.0.handed_on.add_permits(1);
        }
    }
}

/// A request that waits. Dropping it takes it out of the line.
#[derive(Debug)]
pub(super) struct Waiting<'a>(Option<&'a InFlight>);

impl<'a> Waiting<'a> {
    /// Waits until the request may begin.
    ///
    /// # Errors
    /// `Closed` when the client was shut down.
    ///
    /// # Cancel safety
    /// The request leaves the line when the future is dropped.
    pub(super) async fn permit(mut self) -> Result<Permit<'a>> {
        let Some(in_flight) = self.0 else {
            return Err(Error::closed());
        };
        match in_flight.handed_on.acquire().await {
            Ok(permit) => {
                permit.forget();
                self.0 = None;
                Ok(Permit(in_flight))
            }
            Err(_) => Err(Error::closed()),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(in_flight) = self.0 else {
            return;
        };
        if let Ok(permit) = in_flight.handed_on.try_acquire() {
            // It was handed on when nobody else waited: it goes back as if the request had ended.
            permit.forget();
            drop(Permit(in_flight));
            return;
        }
        let leave = |count: usize| (count > in_flight.most).then(|| count - 1);
        // When that fails, a permit is being handed on for this request right now. It stays for the next
        // request that would wait, and so does the count of this one.
        let _ = in_flight
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, leave);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use tokio::task::JoinSet;

    use super::*;

    /// Polls once.
    fn look<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> Option<T> {
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn begin(in_flight: &InFlight) -> Permit<'_> {
        in_flight.begin().expect("there is a permit")
    }

    #[test]
    fn requests_above_the_most_begin_in_their_order_as_others_end() {
        let in_flight = InFlight::new(2);
        let (first, second) = (begin(&in_flight), begin(&in_flight));
        let wait = || Box::pin(in_flight.begin().expect_err("none is left").permit());
        let (mut third, mut fourth) = (wait(), wait());
        assert!(look(&mut third).is_none());
        assert!(look(&mut fourth).is_none());
        drop(first);
        assert!(look(&mut fourth).is_none(), "not its turn");
        let third = look(&mut third).expect("its turn").unwrap();
        drop((second, third));
        let fourth = look(&mut fourth).expect("its turn").unwrap();
        let _fifth = begin(&in_flight);
        assert!(in_flight.begin().is_err());
        drop(fourth);
    }

    #[test]
    fn a_request_that_leaves_the_line_takes_no_permit_along() {
        let in_flight = InFlight::new(1);
        let first = begin(&in_flight);
        let wait = || Box::pin(in_flight.begin().expect_err("none is left").permit());
        let (mut second, mut third) = (wait(), wait());
        assert!(look(&mut second).is_none());
        assert!(look(&mut third).is_none());
        // Before a permit is handed on to it, and after.
        drop(second);
        drop(first);
        drop(third);
        let again = begin(&in_flight);
        let mut waiting = wait();
        assert!(look(&mut waiting).is_none());
        drop(again);
        assert!(look(&mut waiting).expect("its turn").is_ok());
    }

    #[test]
    fn nobody_waits_for_a_client_that_was_shut_down() {
        let in_flight = InFlight::new(1);
        let _first = begin(&in_flight);
        let mut second = Box::pin(in_flight.begin().expect_err("none is left").permit());
        assert!(look(&mut second).is_none());
        in_flight.close();
        assert!(look(&mut second).expect("it ended").is_err());
        let mut third = Box::pin(in_flight.begin().expect_err("none is left").permit());
        assert!(look(&mut third).expect("it ended").is_err());
    }

    /// Requests of several threads, of which some leave the line whenever it comes: never are there more
    /// than the most, and in the end all may begin again.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn permits_are_neither_lost_nor_doubled() {
        const MAX_IN_FLIGHT: usize = 3;
        let in_flight = Arc::new(InFlight::new(MAX_IN_FLIGHT));
        let under_way = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..16 {
            let (in_flight, under_way) = (Arc::clone(&in_flight), Arc::clone(&under_way));
            callers.spawn(async move {
                for round in 0..5_000 {
                    let permit = match in_flight.begin() {
                        Ok(permit) => permit,
                        Err(waiting) => {
                            let mut permit = Box::pin(waiting.permit());
                            if (round + caller) % 3 == 0 {
                                // It looks once, and leaves.
                                let looked = look(&mut permit);
                                tokio::task::yield_now().await;
                                drop((looked, permit));
                                continue;
                            }
                            permit.await.unwrap()
                        }
                    };
                    let before = under_way.fetch_add(1, Ordering::SeqCst);
                    assert!(before < MAX_IN_FLIGHT, "{before} were under way");
                    if round % 2 == 0 {
                        tokio::task::yield_now().await;
                    }
                    under_way.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
        // Permits that were handed on for those that left are there for those that come.
        let begin = || match in_flight.begin() {
            Ok(permit) => Some(permit),
            Err(waiting) => look(&mut Box::pin(waiting.permit())).map(|permit| permit.unwrap()),
        };
        let begun: Vec<_> = (0..2 * MAX_IN_FLIGHT).map(|_| begin()).collect();
        assert_eq!(begun.iter().flatten().count(), MAX_IN_FLIGHT);
    }
}
