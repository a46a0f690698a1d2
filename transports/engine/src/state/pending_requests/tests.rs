//! A model of one client's requests, from the caller to the bytes that a connection accepts.
//!
//! What holds, whatever the schedule: each request gets one outcome, once. One of which no byte was
//! accepted goes out on the next connection in its order, or ends as `Unreachable`; one that was sent
//! is never sent again. What is held back waits, whatever passes it.

mod steps;

use std::task::{Context, Waker};
use std::time::Duration;

use proptest::prelude::*;
use saline_protocol::transport::{Clock, Limits};

use self::steps::{Step, step};
use super::*;
use crate::state::StagedRequests;
use crate::state::Unsent;
use crate::state::testing::{Accepts, schedules};
use crate::wire::frame::{REQUEST_HEADER, header};
use crate::wire::{Bounds, Frame, FrameKind, FrameReader, Greeting};

/// The largest payload that the server takes.
const LARGEST: usize = 9000;

/// How far a request is, as the model has it.
#[derive(Debug, Clone, PartialEq)]
enum Progress {
    /// No byte of it was accepted.
    Unsent,
    Sent,
    Ended(Outcome),
    /// Its outcome was fetched, or nobody waits for one.
    Over,
}

#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Reply(Bytes),
    Error(ErrorKind),
}

struct Asked {
    id: u64,
    payload: Bytes,
    deadline: Instant,
    progress: Progress,
}

/// The machines beside the model.
struct Run {
    pending: PendingRequests<usize>,
    staged: StagedRequests,
    pipe: Accepts,
    now: Instant,
    /// What waits for the second part of expiring.
    expiring: Vec<u64>,
    /// When whoever watches deadlines looks next, as far as it was told.
    watched: Option<Instant>,
    /// What is larger waits for admission.
    hold_above: usize,

    /// In the order of submission, in which they are sent.
    requests: Vec<Asked>,
    /// What was put together and is not written as a whole: the request, if it is one, and the bytes.
    buffer: Vec<(Option<usize>, usize)>,
    /// Bytes accepted of the first of them.
    begun: usize,
    /// What this connection carries as a whole, or has begun to.
    wire: Vec<Option<usize>>,
    is_closed: bool,
    /// Woken since the last step.
    woken: Vec<usize>,
}

impl Run {
    fn new() -> Self {
        Self {
            pending: PendingRequests::default(),
            staged: StagedRequests::default(),
            pipe: Accepts::default(),
            now: Clock.now(),
            expiring: Vec::new(),
            watched: None,
            hold_above: usize::MAX,
            requests: Vec::new(),
            buffer: Vec::new(),
            begun: 0,
            wire: Vec::new(),
            is_closed: false,
            woken: Vec::new(),
        }
    }

    fn waits(&self, n: usize) -> bool {
        let progress = &self.requests[n].progress;
        matches!(progress, Progress::Unsent | Progress::Sent)
    }

    /// Ends a request in the model, which its caller has to hear.
    fn end(&mut self, n: usize, outcome: Outcome) {
        assert!(self.waits(n));
        self.requests[n].progress = Progress::Ended(outcome);
        self.woken.push(n);
    }

    fn end_all(&mut self, which: impl Fn(&Asked) -> bool, why: ErrorKind) {
        for n in 0..self.requests.len() {
            if self.waits(n) && which(&self.requests[n]) {
                self.end(n, Outcome::Error(why));
            }
        }
    }

    /// Forgets what stands in the buffer and was not begun.
    fn take_back(&mut self) {
        self.staged.take_back(&mut self.pending);
        // Something that is no request stands before all of them.
        let begun = usize::from(self.begun > 0);
        let keep = |(n, item): (usize, &(Option<usize>, usize))| n < begun || item.0.is_none();
        let kept = self
            .buffer
            .iter()
            .enumerate()
            .take_while(|item| keep(*item));
        let kept = kept.count();
        self.buffer.truncate(kept);
    }

    fn step(&mut self, step: Step) {
        let mut settled = Vec::new();
        match step {
            Step::Submit { size, deadline } => self.submit(size, deadline),
            Step::Stage { most, ping } => self.stage(most, ping, &mut settled),
            Step::Write(most) => self.write(most),
            Step::Settle { request, reply } => self.settle(request, reply, &mut settled),
            Step::Fetch(n) => self.fetch(n),
            Step::CallerGoes(n) if n < self.requests.len() => {
                let id = self.requests[n].id;
                if self.pending.is_taken(id) && self.staged.holds_any(&[id]) {
                    self.take_back();
                }
                self.pending.abandon(id);
                self.requests[n].progress = Progress::Over;
            }
            Step::CallerGoes(_) => {}
            Step::TimePasses(seconds) => self.time_passes(seconds, &mut settled),
            Step::ExpireSent => self.expire_sent(&mut settled),
            Step::ConnectionLost => self.connection_lost(&mut settled),
            Step::HoldAbove(most) => {
                self.pending.hold_above(most);
                self.hold_above = most;
            }
            Step::Close => {
                self.pending.close(&mut settled);
                self.is_closed = true;
                self.end_all(|_| true, ErrorKind::Closed);
            }
        }
        settled.sort_unstable();
        self.woken.sort_unstable();
        assert_eq!(settled, std::mem::take(&mut self.woken), "who was woken");
        let open = (0..self.requests.len()).filter(|n| self.waits(*n));
        let open = open.filter(|n| !self.expiring.contains(&self.requests[*n].id));
        if let Some(earliest) = open.map(|n| self.requests[n].deadline).min() {
            assert!(self.watched.is_some_and(|watched| watched <= earliest));
        }
    }

    /// A server answers what it was sent, also twice and also too late; or it invents a number.
    fn settle(&mut self, n: usize, reply: bool, settled: &mut Vec<usize>) {
        let payload = reply.then(|| Bytes::from(vec![n as u8; 3]));
        let Some(asked) = self.requests.get(n) else {
            return self.pending.settle(n as u64, payload, settled);
        };
        if self.in_buffer().contains(&asked.id) && asked.progress == Progress::Unsent {
            return;
        }
        self.pending.settle(asked.id, payload.clone(), settled);
        if asked.progress == Progress::Sent {
            let none = Outcome::Error(ErrorKind::NoReply);
            self.end(n, payload.map_or(none, Outcome::Reply));
        }
    }

    fn submit(&mut self, size: usize, deadline: i64) {
        let n = self.requests.len();
        let payload = Bytes::from(vec![n as u8; size]);
        let after = Duration::from_secs(deadline.unsigned_abs());
        let deadline = match deadline < 0 {
            true => self.now - after,
            false => self.now + after,
        };
        let submitted = self.pending.submit(payload.clone(), deadline, n);
        let QueuedRequest { id, is_earliest } = match submitted {
            Ok(queued) => queued,
            Err(error) => {
                assert!(self.is_closed);
                return assert_eq!(error.kind(), ErrorKind::Closed);
            }
        };
        assert!(!self.is_closed);
        assert!(self.requests.iter().all(|other| other.id != id));
        if is_earliest {
            self.watched = self.pending.next_deadline();
        }
        let progress = Progress::Unsent;
        self.requests.push(Asked {
            id,
            payload,
            deadline,
            progress,
        });
    }

    fn stage(&mut self, most: usize, ping: bool, settled: &mut Vec<usize>) {
        // As the writer does, which writes what it has begun first.
        if !self.staged.buffer.is_empty() {
            return;
        }
        if ping {
            self.staged
                .buffer
                .frame(FrameKind::Ping, &[], &Bytes::new());
            self.buffer.push((None, header(FrameKind::Ping, 0).len()));
        }
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((id, payload)) = self.pending.take(LARGEST, self.now, settled)
        {
            taken.push(id);
            self.staged.push(id, payload);
        }
        let mut expected = Vec::new();
        for n in 0..self.requests.len() {
            if expected.len() == most {
                break;
            }
            if self.requests[n].progress != Progress::Unsent {
                continue;
            }
            let size = self.requests[n].payload.len();
            if size > LARGEST {
                self.end(n, Outcome::Error(ErrorKind::TooLarge));
            } else if size <= self.hold_above && self.requests[n].deadline <= self.now {
                self.end(n, Outcome::Error(ErrorKind::Unreachable));
            } else if size <= self.hold_above {
                expected.push(self.requests[n].id);
                self.buffer.push((Some(n), REQUEST_HEADER + size));
            }
        }
        assert_eq!(taken, expected, "what is sent next");
    }

    fn write(&mut self, most: usize) {
        let waiting: usize = self.buffer.iter().map(|(_, size)| size).sum();
        assert_eq!(self.staged.buffer.len(), waiting - self.begun);
        let before = self.pipe.bytes.len();
        self.pipe.most = most;
        let mut cx = Context::from_waker(Waker::noop());
        let written = self.staged.buffer.poll_write(&mut cx, &mut self.pipe);
        self.staged.note_written();
        let mut accepted = self.pipe.bytes.len() - before;
        assert_eq!(written.is_pending(), accepted == 0 && waiting > 0);
        while accepted > 0 {
            let (request, size) = self.buffer[0];
            if self.begun == 0 {
                self.wire.push(request);
                // Without an outcome: one that has any was taken back, or the client ends.
                if let Some(n) = request
                    && !self.is_closed
                {
                    assert_eq!(self.requests[n].progress, Progress::Unsent);
                    self.requests[n].progress = Progress::Sent;
                }
            }
            let now = accepted.min(size - self.begun);
            accepted -= now;
            self.begun += now;
            if self.begun == size {
                self.begun = 0;
                self.buffer.remove(0);
            }
        }
    }

    fn fetch(&mut self, n: usize) {
        let Some(asked) = self.requests.get_mut(n) else {
            return;
        };
        let found = self.pending.fetch(asked.id, |caller| *caller = Some(n));
        let found = found.map(|outcome| match outcome {
            Ok(reply) => Outcome::Reply(reply),
            Err(error) => Outcome::Error(error.kind()),
        });
        let expected = match &asked.progress {
            Progress::Unsent | Progress::Sent => None,
            Progress::Ended(outcome) => Some(outcome.clone()),
            Progress::Over => Some(Outcome::Error(ErrorKind::Closed)),
        };
        assert_eq!(found, expected);
        if expected.is_some() {
            asked.progress = Progress::Over;
        }
    }

    fn time_passes(&mut self, seconds: u64, settled: &mut Vec<usize>) {
        if !self.expiring.is_empty() {
            self.expire_sent(settled);
        }
        self.now += Duration::from_secs(seconds);
        if self.watched.is_none_or(|watched| watched > self.now) {
            return;
        }
        self.expiring = self.pending.expire(self.now, settled);
        self.watched = self.pending.next_deadline();
        let (now, staged) = (self.now, self.in_buffer());
        let is_due = |asked: &Asked| asked.deadline <= now;
        let is_queued =
            |asked: &Asked| asked.progress == Progress::Unsent && !staged.contains(&asked.id);
        self.end_all(
            |asked| is_due(asked) && is_queued(asked),
            ErrorKind::Unreachable,
        );
        let taken = (0..self.requests.len()).filter(|n| self.waits(*n));
        let taken = taken
            .map(|n| &self.requests[n])
            .filter(|asked| is_due(asked));
        let taken: Vec<u64> = taken.map(|asked| asked.id).collect();
        self.expiring.sort_unstable();
        assert_eq!(self.expiring, taken, "what expires and was taken");
    }

    fn in_buffer(&self) -> Vec<u64> {
        let requests = self.buffer.iter().filter_map(|(request, _)| *request);
        requests.map(|n| self.requests[n].id).collect()
    }

    fn expire_sent(&mut self, settled: &mut Vec<usize>) {
        let expiring = std::mem::take(&mut self.expiring);
        if self.staged.holds_any(&expiring) {
            self.take_back();
        }
        self.pending.expire_taken(expiring.clone(), settled);
        let expires = |asked: &Asked| expiring.contains(&asked.id);
        let sent = |asked: &Asked| asked.progress == Progress::Sent;
        self.end_all(|asked| expires(asked) && sent(asked), ErrorKind::TimedOut);
        self.end_all(expires, ErrorKind::Unreachable);
    }

    fn connection_lost(&mut self, settled: &mut Vec<usize>) {
        self.check_wire();
        self.staged.take_back(&mut self.pending);
        self.staged.buffer.rest();
        self.pending.fail_sent(settled);
        let sent = |asked: &Asked| asked.progress == Progress::Sent;
        self.end_all(sent, ErrorKind::ConnectionLost);
        self.buffer.clear();
        self.wire.clear();
        self.pipe.bytes.clear();
        self.begun = 0;
    }

    /// Checks that a server reads exactly what the model says that this connection carries.
    fn check_wire(&self) {
        let limits = Limits::default();
        let mut reader = FrameReader::new(Bounds::server(&limits));
        reader.push(&Greeting::new(&limits).encode());
        reader.push(&self.pipe.bytes);
        assert!(matches!(reader.next(), Ok(Some(Frame::Greeting(_)))));
        let whole = self.wire.len() - usize::from(self.begun > 0);
        for request in &self.wire[..whole] {
            // A large frame is read from what arrives behind its header.
            let frame = reader.next().unwrap().expect("a whole frame");
            match (frame, request) {
                (Frame::Ping, None) => {}
                (Frame::Request { id, payload }, Some(n)) => {
                    assert_eq!(
                        (id, &payload),
                        (self.requests[*n].id, &self.requests[*n].payload)
                    );
                }
                (frame, _) => panic!("{frame:?} instead of {request:?}"),
            }
        }
        assert_eq!(reader.next(), Ok(None));
    }

    /// Ends the client: everybody has heard, and nothing is left.
    fn finish(mut self) {
        self.step(Step::ExpireSent);
        self.step(Step::ConnectionLost);
        self.step(Step::TimePasses(1000));
        for n in 0..self.requests.len() {
            self.fetch(n);
            assert_eq!(self.requests[n].progress, Progress::Over);
        }
        assert_eq!(self.pending.take(LARGEST, self.now, &mut Vec::new()), None);
        assert_eq!(self.pending.table.in_use(), 0);
    }
}

proptest! {
    #![proptest_config(schedules(16))]

    #[test]
    fn requests_end_once_and_are_sent_once(steps in prop::collection::vec(step(), 1..60)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
        }
        run.finish();
    }
}

/// Whoever watches deadlines is woken for an earlier one alone, not for each of a burst.
#[test]
fn a_deadline_that_is_watched_already_wakes_nobody() {
    let mut pending = PendingRequests::default();
    let deadline = Clock.now() + Duration::from_secs(9);
    let mut submit = |deadline| pending.submit(Bytes::new(), deadline, ()).unwrap();
    assert!(submit(deadline).is_earliest);
    assert!(!submit(deadline).is_earliest);
    assert!(submit(deadline - Duration::from_secs(1)).is_earliest);
}

#[test]
fn a_request_that_was_taken_ends_with_the_error_that_it_met() {
    let (mut pending, now, mut settled) = (PendingRequests::default(), Clock.now(), Vec::new());
    let deadline = now + Duration::from_secs(9);
    let ids = ["taken", "queued"].map(|payload| {
        let queued = pending.submit(payload.into(), deadline, payload);
        queued.unwrap().id
    });
    assert!(pending.take(LARGEST, now, &mut settled).is_some());
    assert_eq!(ids.map(|id| pending.is_taken(id)), [true, false]);
    for id in ids {
        pending.fail(id, Error::new(ErrorKind::TooLarge, "refused"), &mut settled);
    }
    assert_eq!(settled, ["taken"]);
    let outcomes = ids.map(|id| {
        pending
            .fetch(id, |_| {})
            .map(|outcome| outcome.unwrap_err().kind())
    });
    assert_eq!(outcomes, [Some(ErrorKind::TooLarge), None]);
}
