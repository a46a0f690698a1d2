use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::time::Duration;

use saline_protocol::transport::ErrorKind;

use super::*;
use crate::state::BATCH;

const DEADLINE: Duration = Duration::from_secs(10);

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls once. Returns the outcome if there is one.
fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_with(future, Waker::noop())
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(waker)) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// Makes a request with a payload of so many bytes, and waits for its outcome from then on.
fn ask<U: Unsent>(
    requests: &ClientRequests<U>,
    size: usize,
) -> impl Future<Output = Result<Bytes>> + Unpin {
    let mut caller = Box::pin(requests.ask(vec![0; size].into(), Clock.after(DEADLINE)));
    assert!(poll(&mut caller).is_none());
    caller
}

/// Whether the writer was woken since it was last asked.
fn is_woken<U: Unsent>(requests: &ClientRequests<U>) -> bool {
    poll(&mut Box::pin(requests.woken())).is_some()
}

fn sizes(taken: &VecDeque<(u64, Bytes)>) -> Vec<usize> {
    taken.iter().map(|(_, payload)| payload.len()).collect()
}

#[tokio::test(start_paused = true)]
async fn requests_are_taken_in_order_and_go_back_in_order() {
    let requests = ClientRequests::<()>::default();
    let _callers = [1, 2, 3].map(|size| ask(&requests, size));
    let now = Clock.now();
    let mut taken = VecDeque::new();
    requests.take(2, now, &mut taken);
    assert_eq!(sizes(&taken), [1, 2]);
    requests.take(2, now, &mut taken);
    assert_eq!(sizes(&taken), [1, 2], "there is room for no more");
    requests.put_back(&mut taken);
    assert!(taken.is_empty());
    requests.take(9, now, &mut taken);
    assert_eq!(sizes(&taken), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_deadline_has_passed_is_not_taken_and_its_caller_wakes() {
    let requests = ClientRequests::<()>::default();
    let woken = Arc::new(Woken::default());
    let mut caller = Box::pin(requests.ask(Bytes::new(), Clock.after(DEADLINE)));
    assert!(poll_with(&mut caller, &Arc::clone(&woken).into()).is_none());
    let mut taken = VecDeque::new();
    requests.take(1, Clock.after(DEADLINE), &mut taken);
    assert!(taken.is_empty());
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    let outcome = poll(&mut caller).unwrap();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[tokio::test(start_paused = true)]
async fn the_task_is_woken_when_it_found_nothing_and_only_then() {
    let requests = ClientRequests::<()>::default();
    let mut taken = VecDeque::new();
    requests.take(1, Clock.now(), &mut taken);
    assert!(!is_woken(&requests));
    let _first = ask(&requests, 1);
    assert!(is_woken(&requests));
    requests.take(1, Clock.now(), &mut taken);
    let _second = ask(&requests, 2);
    assert!(!is_woken(&requests), "it looks again by itself");
}

#[tokio::test(start_paused = true)]
async fn only_a_request_that_was_taken_fails() {
    let requests = ClientRequests::<()>::default();
    let woken = Arc::new(Woken::default());
    let mut caller = Box::pin(requests.ask(Bytes::new(), Clock.after(DEADLINE)));
    assert!(poll_with(&mut caller, &Arc::clone(&woken).into()).is_none());
    let mut taken = VecDeque::new();
    requests.take(1, Clock.now(), &mut taken);
    let id = taken[0].0;
    requests.put_back(&mut taken);
    let refused = || Error::new(ErrorKind::Refused, "no");
    requests.fail(id, refused());
    assert!(poll_with(&mut caller, &Arc::clone(&woken).into()).is_none());
    requests.take(1, Clock.now(), &mut taken);
    requests.fail(id, refused());
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    let outcome = poll(&mut caller).unwrap();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Refused);
}

/// Puts requests together. Returns whether there is something to write, and how many bytes.
fn stage(requests: &Requests) -> (bool, usize) {
    let mut staged = requests.staged();
    let now = Clock.now();
    let is_any = requests.stage(&mut staged, usize::MAX, now, &mut Taken::default());
    (is_any, staged.buffer.len())
}

#[tokio::test(start_paused = true)]
async fn requests_are_put_together_up_to_the_boundary_of_a_write() {
    for (first, together) in [
        (BOUNDARY - REQUEST_HEADER, BOUNDARY),
        (
            BOUNDARY - REQUEST_HEADER - 1,
            BOUNDARY - 1 + REQUEST_HEADER + 5,
        ),
    ] {
        let requests = Requests::default();
        let _callers = [first, 5].map(|size| ask(&requests, size));
        assert_eq!(stage(&requests), (true, together));
    }
}

#[tokio::test(start_paused = true)]
async fn the_writer_is_woken_when_there_was_nothing_to_write_and_only_then() {
    let requests = Requests::default();
    assert_eq!(stage(&requests), (false, 0));
    let _first = ask(&requests, 0);
    assert!(is_woken(&requests));
    assert_eq!(stage(&requests), (true, REQUEST_HEADER));
    let _second = ask(&requests, 0);
    assert!(!is_woken(&requests), "it writes");
    assert_eq!(stage(&requests), (true, 2 * REQUEST_HEADER));
    // Nothing new, but what was put together is not written.
    assert_eq!(stage(&requests), (true, 2 * REQUEST_HEADER));
    let _third = ask(&requests, 0);
    assert!(!is_woken(&requests));
}

/// The writer gives those who queue more their turns for as long as this grows.
#[tokio::test(start_paused = true)]
async fn what_is_gathered_grows_until_a_batch_has_come_together() {
    let requests = Requests::default();
    assert_eq!(requests.gathered(), None);
    stage(&requests);
    let mut callers = vec![ask(&requests, 7)];
    let mut before = requests.gathered().unwrap();
    for _ in 2..BATCH {
        callers.push(ask(&requests, 7));
        let gathered = requests.gathered().unwrap();
        assert_eq!(gathered - before, REQUEST_HEADER + 7);
        before = gathered;
    }
    callers.push(ask(&requests, 7));
    assert_eq!(requests.gathered(), None);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_which_nothing_was_written_goes_with_its_caller() {
    let requests = Requests::default();
    let [gone, stays] = [1, 2].map(|size| ask(&requests, size));
    stage(&requests);
    drop(gone);
    assert_eq!(requests.staged().buffer.len(), 0);
    assert_eq!(stage(&requests), (true, REQUEST_HEADER + 2));
    drop(stays);
    assert_eq!(stage(&requests), (false, 0));
}
