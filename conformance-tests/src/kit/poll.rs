//! Futures that are polled together, or only so often.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use saline_protocol::transport::Clock;

/// Runs all at once on this task. The first polls come in the order of the futures.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let start = |future| (Box::pin(future), None);
    let mut running: Vec<_> = futures.into_iter().map(start).collect();
    poll_fn(|context| {
        let mut done = true;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(ready) => *output = Some(ready),
                Poll::Pending => done = false,
            }
        }
        if done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}

/// Polls `future` at most `times` times, each after it asked to be polled, and drops it then (or
/// when it has not asked again within `within`): a caller that goes away at one await point after
/// the other. What it came to, if it was quicker.
pub async fn poll_at_most<F: Future>(
    times: usize,
    within: Duration,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polled = 0;
    let limited = poll_fn(|context| {
        if polled == times {
            return Poll::Ready(None);
        }
        polled += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // The last poll was the last: do not wait for a wake that nobody will follow.
            Poll::Pending if polled == times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    Clock
        .deadline(Clock.after(within), limited)
        .await
        .ok()
        .flatten()
}
