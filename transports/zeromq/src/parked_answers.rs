//! Answers for clients that do not read: libzmq has as many messages for them as it takes.
//!
//! Over a connection of its own a server stops reading from such a client. All clients share the ROUTER socket, so here
//! the client is cut instead, when too much waits for it, or for all of them and most for it.

use std::collections::VecDeque;
use std::time::Duration;

use saline_engine::Keepalive;
use saline_protocol::transport::{Instant, Limits};

use crate::number_map::NumberMap;
use crate::socket::Sent;

/// Bytes of answers that may wait for one client.
const MAX_EACH: usize = 1 << 20;

/// Bytes of answers that may wait for all clients together.
const MAX_ALL: usize = 16 << 20;

/// What an answer counts as, beside its bytes.
const OVERHEAD: usize = 128;

/// How soon it is tried again to send what waits: libzmq does not tell which client has room.
const RETRY: Duration = Duration::from_millis(20);

/// The answers that wait, by connection, in the order in which they were given.
#[derive(Debug)]
pub(crate) struct ParkedAnswers {
    waiting: NumberMap<u32, Waiting>,
    /// Bytes of all.
    bytes: usize,
    /// When it is tried again to send them.
    retry: Instant,
    /// A client that takes nothing for so long is cut.
    dead_after: Duration,
}

/// What waits for one client.
#[derive(Debug)]
struct Waiting {
    answers: VecDeque<zmq::Message>,
    bytes: usize,
    /// When the client has to have taken something.
    until: Instant,
}

fn size(answer: &zmq::Message) -> usize {
    answer.len() + OVERHEAD
}

impl ParkedAnswers {
    /// Returns the state of a server for which nothing waits `now`.
    pub(crate) fn new(now: Instant, limits: &Limits) -> Self {
        Self {
            waiting: NumberMap::default(),
            bytes: 0,
            retry: now,
            dead_after: Keepalive::new(limits, limits.ping_interval).dead_after,
        }
    }

    /// Returns whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether something waits for a client: what follows goes behind it.
    pub(crate) fn holds(&self, connection: u32) -> bool {
        self.waiting.contains_key(&connection)
    }

    /// Returns when to [`retry`](Self::retry) next, if anything waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.is_empty()).then_some(self.retry)
    }

    /// Adds an answer. Returns the client that is to be cut because too much waits: nothing waits for it any more.
    pub(crate) fn park(
        &mut self,
        connection: u32,
        answer: zmq::Message,
        now: Instant,
    ) -> Option<u32> {
        if self.is_empty() {
            self.retry = now + RETRY;
        }
        let added = size(&answer);
        let until = now + self.dead_after;
        let own = self.waiting.entry(connection).or_insert(Waiting {
            answers: VecDeque::new(),
            bytes: 0,
            until,
        });
        own.answers.push_back(answer);
        own.bytes += added;
        self.bytes += added;
        let cut = match own.bytes > MAX_EACH {
            true => Some(connection),
            false if self.bytes > MAX_ALL => self.largest(),
            false => None,
        };
        cut.inspect(|cut| self.forget(*cut))
    }

    /// Returns the client for which most waits.
    fn largest(&self) -> Option<u32> {
        let all = self.waiting.iter();
        all.max_by_key(|(_, own)| own.bytes)
            .map(|(connection, _)| *connection)
    }

    fn forget(&mut self, connection: u32) {
        if let Some(gone) = self.waiting.remove(&connection) {
            self.bytes -= gone.bytes;
        }
    }

    /// Sends what waits, as far as `send` takes it. Returns the clients that are to be cut because they have taken nothing
    /// for too long: nothing waits for them any more.
    pub(crate) fn retry(
        &mut self,
        now: Instant,
        mut send: impl FnMut(u32, zmq::Message) -> Sent,
    ) -> Vec<u32> {
        let mut dead = Vec::new();
        self.waiting.retain(|connection, own| {
            while let Some(first) = own.answers.pop_front() {
                let first_size = size(&first);
                match send(*connection, first) {
                    Sent::Taken => own.until = now + self.dead_after,
                    Sent::Full(first) => {
                        own.answers.push_front(first);
                        break;
                    }
                    Sent::Gone => {
                        own.answers.clear();
                        self.bytes -= std::mem::take(&mut own.bytes);
                        return false;
                    }
                }
                own.bytes -= first_size;
                self.bytes -= first_size;
            }
            let is_dead = now >= own.until && !own.answers.is_empty();
            if is_dead {
                dead.push(*connection);
                self.bytes -= own.bytes;
            }
            !is_dead && !own.answers.is_empty()
        });
        self.retry = now + RETRY;
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;

    fn parked() -> (ParkedAnswers, Instant) {
        let now = Clock.now();
        (ParkedAnswers::new(now, &Limits::default()), now)
    }

    fn answer(bytes: usize) -> zmq::Message {
        vec![0; bytes].into()
    }

    #[test]
    fn a_client_for_which_too_much_waits_is_cut_and_the_others_wait_on() {
        let (mut parked, now) = parked();
        assert_eq!(parked.park(2, answer(10), now), None);
        let mut fitting = 0;
        while parked.park(1, answer(64 << 10), now).is_none() {
            fitting += 1;
        }
        assert_eq!(fitting, MAX_EACH / size(&answer(64 << 10)));
        assert!(!parked.holds(1) && parked.holds(2));
        assert_eq!(parked.bytes, size(&answer(10)));
        let small = (0..=MAX_EACH).find(|_| parked.park(1, answer(0), now).is_some());
        assert_eq!(small, Some(MAX_EACH / OVERHEAD), "small ones count too");
        assert_eq!(parked.park(1, answer(2 * MAX_EACH), now), Some(1));
    }

    #[test]
    fn who_has_most_is_cut_when_too_much_waits_for_all() {
        let (mut parked, now) = parked();
        let each = MAX_EACH / 2;
        let most = 7;
        assert_eq!(parked.park(most, answer(each + 1), now), None);
        let cut = (100..).find_map(|other| parked.park(other, answer(each), now));
        assert_eq!(cut, Some(most));
        assert!(!parked.holds(most) && parked.bytes <= MAX_ALL);
        assert_eq!(parked.waiting.len(), MAX_ALL / each - 1);
    }

    #[test]
    fn what_waits_is_sent_in_order_as_far_as_it_is_taken() {
        let (mut parked, now) = parked();
        assert_eq!(parked.due(), None);
        for n in 1..=5 {
            parked.park(1, answer(n), now);
        }
        parked.park(2, answer(9), now);
        assert_eq!(parked.due(), Some(now + RETRY));
        let mut taken = Vec::new();
        let dead = parked.retry(now, |connection, message| match connection {
            1 if taken.len() < 3 => {
                taken.push(message.len());
                Sent::Taken
            }
            1 => Sent::Full(message),
            _ => Sent::Gone,
        });
        assert_eq!((taken, dead), (vec![1, 2, 3], vec![]));
        assert!(parked.holds(1) && !parked.holds(2));
        assert_eq!(parked.bytes, size(&answer(4)) + size(&answer(5)));
        assert_eq!(parked.retry(now, |_, _| Sent::Taken), []);
        assert!(parked.is_empty() && parked.bytes == 0);
    }

    #[test]
    fn who_takes_nothing_for_too_long_is_cut() {
        let (mut parked, start) = parked();
        let dead_after = parked.dead_after;
        for _ in 0..3 {
            parked.park(1, answer(1), start);
        }
        parked.park(2, answer(1), start);
        let later = start + dead_after / 2;
        let mut takes_one = true;
        let dead = parked.retry(later, |connection, message| {
            match connection == 1 && std::mem::take(&mut takes_one) {
                true => Sent::Taken,
                false => Sent::Full(message),
            }
        });
        assert_eq!(dead, []);
        let full = |_: u32, message| Sent::Full(message);
        assert_eq!(parked.retry(start + dead_after, full), [2]);
        assert_eq!(parked.retry(later + dead_after, full), [1]);
        assert!(parked.is_empty() && parked.bytes == 0);
    }
}
