//! A model of the requests between connections and the handler: who holds the permits, who waits for
//! one, and where each request has gone.
//!
//! What holds, whatever the schedule: no more requests are unanswered than there are permits, no
//! permit is lost, nobody waits while one is free and no turn is coming, and each request is handed
//! out once, in its connection's order, or comes back to be dropped.

use proptest::prelude::*;

use super::*;
use crate::state::testing::schedules;

const CONNECTIONS: usize = 5;

#[derive(Debug, Clone)]
enum Step {
    /// A connection reads requests and needs permits for them, if it is not waiting already.
    Reserve {
        connection: usize,
        wanted: usize,
    },
    /// One that was named takes its turn.
    Turn {
        connection: usize,
        wanted: usize,
    },
    /// It hands requests over, for permits that it holds, and gives back those that are left.
    Push {
        connection: usize,
        requests: usize,
        bytes: usize,
    },
    /// The handler takes what there is.
    Take,
    /// So many requests of those that were taken are answered.
    Answer(usize),
    /// The connection goes, and another one comes in its place.
    Leave(usize),
    End,
    Abandon,
}

fn step() -> impl Strategy<Value = Step> {
    let connection = || 0..CONNECTIONS;
    let bytes = prop_oneof![6 => Just(1), 1 => Just(WAITING - 1), 1 => Just(WAITING)];
    prop_oneof![
        8 => (connection(), 1usize..4).prop_map(|(connection, wanted)| Step::Reserve { connection, wanted }),
        6 => (connection(), 1usize..4).prop_map(|(connection, wanted)| Step::Turn { connection, wanted }),
        6 => (connection(), 0usize..4, bytes)
            .prop_map(|(connection, requests, bytes)| Step::Push { connection, requests, bytes }),
        4 => Just(Step::Take),
        4 => (0usize..3).prop_map(Step::Answer),
        2 => connection().prop_map(Step::Leave),
        1 => prop::sample::select(vec![Step::Take, Step::Take, Step::Take, Step::End, Step::Abandon]),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Waits {
    No,
    InLine,
    /// It was named, and takes its turn sooner or later.
    Named,
}

#[derive(Debug, Clone)]
struct Connection {
    /// No connection has the number of an earlier one.
    number: u64,
    holds: usize,
    waits: Waits,
    /// Requests that it has handed over.
    pushed: u64,
}

/// A request: its connection, and how many that one had pushed before.
type Numbered = (u64, u64);

struct Run {
    inbox: Inbox<Numbered>,
    permits: usize,
    connections: Vec<Connection>,
    /// Those of them that wait and were not named, in the order in which they will be.
    line: VecDeque<u64>,
    last: u64,
    /// Those that wait to be taken, and their bytes since the last take.
    waiting: Vec<Numbered>,
    bytes: usize,
    /// Requests that were taken and not answered.
    unanswered: usize,
    handler_waits: bool,
    has_ended: bool,
    is_abandoned: bool,
}

impl Run {
    fn new(permits: usize) -> Self {
        let connection = |number| Connection {
            number,
            holds: 0,
            waits: Waits::No,
            pushed: 0,
        };
        let last = CONNECTIONS as u64;
        Self {
            inbox: Inbox::new(permits),
            permits: permits.max(1),
            connections: (1..=last).map(connection).collect(),
            line: VecDeque::new(),
            last,
            waiting: Vec::new(),
            bytes: 0,
            unanswered: 0,
            handler_waits: false,
            has_ended: false,
            is_abandoned: false,
        }
    }

    /// Permits that nobody holds, neither for requests to come nor for those that are not answered.
    fn free(&self) -> usize {
        let held: usize = self.connections.iter().map(|one| one.holds).sum();
        let used = held + self.waiting.len() + self.unanswered;
        self.permits.checked_sub(used).expect("too many permits")
    }

    /// A connection is told that it may reserve. Only one that waits is.
    fn resume(&mut self, named: Option<u64>) {
        if let Some(named) = named {
            assert_eq!(self.line.pop_front(), Some(named), "out of its turn");
            assert!(self.free() > 0, "its turn brings it nothing");
            let found = self.connections.iter_mut().find(|one| one.number == named);
            let found = found.expect("one that has gone was named");
            assert_eq!(found.waits, Waits::InLine);
            found.waits = Waits::Named;
        }
    }

    fn release(&mut self, permits: usize) {
        let named = self.inbox.release(permits);
        self.resume(named);
    }

    fn reserve(&mut self, n: usize, wanted: usize, in_turn: bool) {
        let free = self.free();
        let number = self.connections[n].number;
        let granted = self.inbox.reserve(number, wanted, in_turn);
        // Nobody overtakes those that wait in line.
        let may = in_turn || self.line.is_empty();
        assert_eq!(granted, if may { wanted.min(free) } else { 0 });
        self.connections[n].holds += granted;
        self.connections[n].waits = match granted {
            0 => Waits::InLine,
            _ => Waits::No,
        };
        match granted {
            0 if in_turn => self.line.push_front(number),
            0 => self.line.push_back(number),
            _ => {}
        }
        if granted > 0 {
            // Whoever was served passes the turn on, as the server does.
            let next = self.inbox.next_in_line();
            self.resume(next);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Reserve { connection, wanted } => {
                if self.connections[connection].waits == Waits::No {
                    self.reserve(connection, wanted, false);
                }
            }
            Step::Turn { connection, wanted } => {
                if self.connections[connection].waits == Waits::Named {
                    self.reserve(connection, wanted, true);
                }
            }
            Step::Push {
                connection,
                requests,
                bytes,
            } => self.push(connection, requests, bytes),
            Step::Take => self.take(),
            Step::Answer(most) => {
                let answered = most.min(self.unanswered);
                self.unanswered -= answered;
                self.release(answered);
            }
            Step::Leave(n) => {
                self.last += 1;
                let new = Connection {
                    number: self.last,
                    holds: 0,
                    waits: Waits::No,
                    pushed: 0,
                };
                let gone = std::mem::replace(&mut self.connections[n], new);
                self.line.retain(|other| *other != gone.number);
                let next = self.inbox.leave(gone.number);
                self.resume(next);
                self.release(gone.holds);
            }
            Step::End => {
                let dropped = self.inbox.end();
                self.has_ended = true;
                self.drop_waiting(dropped);
            }
            Step::Abandon => {
                let dropped = self.inbox.abandon();
                self.is_abandoned = true;
                self.drop_waiting(dropped);
            }
        }
        assert_eq!(self.inbox.is_full(), self.bytes > WAITING);
        let waits = |how| self.connections.iter().any(|one| one.waits == how);
        if self.free() > 0 && waits(Waits::InLine) {
            assert!(waits(Waits::Named), "a permit is free and nobody is told");
        }
    }

    fn push(&mut self, n: usize, requests: usize, bytes: usize) {
        let connection = &mut self.connections[n];
        let count = requests.min(connection.holds);
        let rest = std::mem::take(&mut connection.holds) - count;
        let numbers = connection.pushed..connection.pushed + count as u64;
        connection.pushed = numbers.end;
        let mut pushed: Vec<Numbered> = numbers.map(|at| (connection.number, at)).collect();
        if !pushed.is_empty() {
            match self.inbox.push(&mut pushed, bytes) {
                PushResult::Refused => {
                    assert!(self.has_ended || self.is_abandoned);
                    // Dropping them answers them.
                    assert_eq!(pushed.len(), count);
                    self.release(count);
                }
                result => {
                    assert!(!self.has_ended && !self.is_abandoned && pushed.is_empty());
                    assert_eq!(result == PushResult::Wake, self.handler_waits);
                    self.handler_waits = false;
                    let first = self.connections[n].pushed - count as u64;
                    let number = self.connections[n].number;
                    self.waiting
                        .extend((0..count as u64).map(|at| (number, first + at)));
                    self.bytes += bytes;
                }
            }
        }
        self.release(rest);
    }

    fn take(&mut self) {
        let mut taken = VecDeque::new();
        let was_full = self.inbox.take_all(&mut taken);
        if self.has_ended {
            assert_eq!((was_full, taken.len()), (None, 0));
            return;
        }
        assert_eq!(was_full, Some(self.bytes > WAITING));
        assert_eq!(taken, std::mem::take(&mut self.waiting));
        self.handler_waits = taken.is_empty();
        self.bytes = 0;
        self.unanswered += taken.len();
    }

    /// Those that nobody will take come back, and dropping them answers them.
    fn drop_waiting(&mut self, dropped: VecDeque<Numbered>) {
        assert_eq!(dropped, std::mem::take(&mut self.waiting));
        self.bytes = 0;
        for _ in dropped {
            self.release(1);
        }
    }

    /// Once everything is answered, everybody who waits has a turn, one after the other.
    fn finish(mut self) {
        self.step(&Step::Take);
        let taken = self.unanswered;
        self.step(&Step::Answer(taken));
        for n in 0..CONNECTIONS {
            self.step(&Step::Push {
                connection: n,
                requests: 0,
                bytes: 0,
            });
        }
        while let Some(n) = self
            .connections
            .iter()
            .position(|one| one.waits == Waits::Named)
        {
            self.step(&Step::Turn {
                connection: n,
                wanted: self.permits,
            });
            self.step(&Step::Push {
                connection: n,
                requests: 0,
                bytes: 0,
            });
        }
        assert!(self.connections.iter().all(|one| one.waits == Waits::No));
        assert_eq!(self.free(), self.permits);
        assert_eq!(
            self.inbox.reserve(99, self.permits + 1, false),
            self.permits
        );
    }
}

proptest! {
    #![proptest_config(schedules(16))]

    #[test]
    fn permits_go_round_and_requests_go_through(
        permits in 0usize..5,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut run = Run::new(permits);
        for step in &steps {
            run.step(step);
        }
        run.finish();
    }
}
