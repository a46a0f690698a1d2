//! Whether a peer is alive, judged by what libzmq hands over and by what its connection has moved.

use std::os::fd::RawFd;
use std::time::Duration;

use saline_engine::{IdleTimer, Keepalive, PingTimer};
use saline_protocol::transport::{Instant, Limits};

use crate::native;

/// Looks for signs of life in one ping interval.
const LOOKS: u32 = 5;

/// Acknowledged bytes that are more than a few pings need.
const PROGRESS: u64 = 1024;

/// When an owner of a socket looks for signs of life.
#[derive(Debug)]
pub(crate) struct LookTimer {
    every: Duration,
    due: Instant,
}

impl LookTimer {
    /// Returns the timer of looks that begin after `now`.
    pub(crate) fn new(now: Instant, limits: &Limits) -> Self {
        let every = limits.ping_interval / LOOKS;
        Self {
            every,
            due: now + every,
        }
    }

    /// Returns when the next look is due.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Returns how late a look that begins `now` is, and sets the time of the next; `None` when none
    /// is due.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<Duration> {
        let late = now.checked_duration_since(self.due)?;
        self.due = now + self.every;
        Some(late)
    }
}

/// What a look at one peer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The peer gave a sign of life, or has time to give one.
    Alive,
    /// The peer has been silent for so long that it should be asked.
    Ask,
    /// The peer has been silent for too long.
    Dead,
}

/// The signs of life of one peer.
#[derive(Debug)]
pub(crate) struct PeerLiveness {
    idle: IdleTimer,
    dead_after: Duration,
    ask: PingTimer,
    /// Whether a message has come in since the last look.
    heard: bool,
    progress: TcpProgress,
}

impl PeerLiveness {
    /// Returns the liveness of a peer that was heard `now`. It is asked for a sign of life after a
    /// silence of `ask_after`.
    pub(crate) fn new(now: Instant, limits: &Limits, ask_after: Duration) -> Self {
        // What happened since the last look counts as of the look, so the silence may have begun one
        // look earlier; with it, it ends within two pings.
        let dead_after =
            Keepalive::new(limits, limits.ping_interval).dead_after - limits.ping_interval / LOOKS;
        Self {
            idle: IdleTimer::new(now, dead_after),
            dead_after,
            ask: PingTimer::new(now, ask_after),
            heard: false,
            progress: TcpProgress::default(),
        }
    }

    /// Gives the peer `more` time to say its first word.
    #[must_use]
    pub(crate) fn with_first_word_after(mut self, now: Instant, more: Duration) -> Self {
        self.idle = IdleTimer::new(now, self.dead_after + more);
        self
    }

    /// Takes note that a message has come in.
    pub(crate) fn heard(&mut self) {
        self.heard = true;
    }

    /// Judges the peer by the signs of life since the last look: messages, and parts of messages that
    /// moved over its TCP connection `descriptor`. This look comes `late` after its time.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        late: Duration,
        descriptor: Option<RawFd>,
    ) -> Verdict {
        let has_moved = descriptor.is_some_and(|descriptor| self.progress.has_moved(descriptor));
        let heard = std::mem::take(&mut self.heard);
        if heard || has_moved {
            self.idle = IdleTimer::new(now, self.dead_after);
        } else if self.idle.is_dead_at_look(now, late) {
            return Verdict::Dead;
        }
        // A peer that is only in the midst of a large message is asked all the same: it may hear nothing of this
        // side meanwhile, since its own pings wait behind the message.
        if heard {
            self.ask.spoke(now);
        }
        if now >= self.ask.deadline() {
            self.ask.spoke(now);
            return Verdict::Ask;
        }
        Verdict::Alive
    }
}

/// What had moved over a TCP connection at the last look.
#[derive(Debug, Clone, Copy, Default)]
struct TcpProgress {
    acknowledged: u64,
    received: u64,
}

impl TcpProgress {
    /// Returns whether there is a sign of life since the last one: bytes that were received. Or much
    /// was acknowledged, since a large message over a slow connection holds up what is behind it. What a ping
    /// needs is not much: the system of a peer that hangs acknowledges that too. False when
    /// `descriptor` is not a TCP connection.
    fn has_moved(&mut self, descriptor: RawFd) -> bool {
        let Some((acknowledged, received)) = native::tcp_progress(descriptor) else {
            return false;
        };
        let has_moved = received > self.received || acknowledged > self.acknowledged + PROGRESS;
        if has_moved {
            *self = Self {
                acknowledged,
                received,
            };
        }
        has_moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;

    const PING: Duration = Duration::from_secs(10);

    fn limits() -> Limits {
        let mut limits = Limits::default();
        limits.ping_interval = PING;
        limits
    }

    /// Looks on time, from the sign of life at `start`, until the peer is dead; returns what the looks
    /// said and when the peer was dead.
    fn death(peer: &mut PeerLiveness, start: Instant) -> (Vec<Verdict>, Duration) {
        let mut looks = LookTimer::new(start, &limits());
        let mut verdicts = Vec::new();
        loop {
            let now = looks.due();
            let late = looks.begin(now).unwrap();
            verdicts.push(peer.look(now, late, None));
            if verdicts.last() == Some(&Verdict::Dead) {
                return (verdicts, now - start);
            }
        }
    }

    #[test]
    fn a_silent_peer_is_asked_and_dead_within_two_pings() {
        let start = Clock.now();
        let mut peer = PeerLiveness::new(start, &limits(), PING * 3 / 4);
        peer.heard();
        // The sign of life counts as of the first look.
        let (verdicts, after) = death(&mut peer, start);
        assert!(verdicts.contains(&Verdict::Ask));
        assert!(after > PING * 3 / 2 && after <= PING * 2, "{after:?}");
    }

    #[test]
    fn looks_that_come_late_take_no_time_from_the_peer() {
        let start = Clock.now();
        let mut peer = PeerLiveness::new(start, &limits(), PING);
        let mut looks = LookTimer::new(start, &limits());
        let now = start + PING * 100;
        let late = looks.begin(now).unwrap();
        assert_ne!(peer.look(now, late, None), Verdict::Dead);
        assert_eq!(looks.begin(now), None);
        let (_, after) = death(&mut peer, now);
        assert!(after > PING, "{after:?}");
    }

    #[test]
    fn a_first_word_has_the_time_of_the_handshake() {
        let start = Clock.now();
        let peer = PeerLiveness::new(start, &limits(), PING);
        let mut peer = peer.with_first_word_after(start, PING * 3);
        let (_, after) = death(&mut peer, start);
        assert!(after > PING * 4, "{after:?}");
    }
}
