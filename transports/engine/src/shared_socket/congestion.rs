//! How many segments may be under way at once, and how long an acknowledgement takes: the rules of NewReno (RFC 9002, 5 and 7)
//! in whole segments.

use std::time::Duration;

use super::{LONGEST_WAIT, MOST_SEGMENTS};

/// The window at first, in segments.
const FIRST: u64 = 10;

/// The least window.
const LEAST: u64 = 2;

/// How long to wait before anything is known of the way.
const UNKNOWN: Duration = Duration::from_millis(250);

/// The least wait: peers on a busy machine take their time as well.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// The congestion window, in segments.
#[derive(Debug)]
pub(super) struct Window {
    size: u64,
    /// Below it the window grows by one with every segment that has arrived, above it with every window of them.
    threshold: u64,
    /// Segments that have arrived since it grew last.
    arrived: u64,
    /// The packet before which losses are those that the window was reduced for.
    reduced_at: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            size: FIRST,
            threshold: MOST_SEGMENTS,
            arrived: 0,
            reduced_at: 0,
        }
    }
}

impl Window {
    /// Returns the window.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// A segment has arrived, while the window was full or not.
    pub(super) fn arrived(&mut self, was_full: bool) {
        if !was_full {
            // Nothing is known of a window that is not used.
            return;
        }
        self.arrived += 1;
        if self.size < self.threshold || self.arrived >= self.size {
            self.arrived = 0;
            self.size = (self.size + 1).min(MOST_SEGMENTS);
        }
    }

    /// A packet was lost, when `next` is the one to be sent next. The losses of one window reduce it once.
    pub(super) fn lost(&mut self, packet: u64, next: u64) {
        if packet >= self.reduced_at {
            self.reduced_at = next;
            self.size = (self.size / 2).max(LEAST);
            self.threshold = self.size;
            self.arrived = 0;
        }
    }

    /// Nothing has arrived for so long that everything counts as lost.
    pub(super) fn timed_out(&mut self, next: u64) {
        self.threshold = (self.size / 2).max(LEAST);
        self.size = LEAST;
        self.reduced_at = next;
        self.arrived = 0;
    }
}

/// The time that acknowledgements take.
#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
}

impl RoundTrip {
    /// One took so long.
    pub(super) fn measured(&mut self, time: Duration) {
        match &mut self.smoothed {
            None => {
                self.smoothed = Some(time);
                self.variation = time / 2;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(time)) / 4;
                *smoothed = (*smoothed * 7 + time) / 8;
            }
        }
    }

    /// Returns how long to wait for one, after so many waits in vain.
    pub(super) fn wait(&self, in_vain: u32) -> Duration {
        let once = match self.smoothed {
            Some(smoothed) => (smoothed + self.variation * 4).max(SHORTEST_WAIT),
            None => UNKNOWN,
        };
        once.saturating_mul(1 << in_vain.min(10)).min(LONGEST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_used_grows_and_one_that_is_not_does_not() {
        let mut window = Window::default();
        (0..100).for_each(|_| window.arrived(false));
        assert_eq!(window.size(), FIRST);
        (0..10).for_each(|_| window.arrived(true));
        assert_eq!(window.size(), 20);
        (0..1000).for_each(|_| window.arrived(true));
        assert_eq!(window.size(), MOST_SEGMENTS);
    }

    #[test]
    fn losses_of_one_window_halve_it_once_and_then_it_grows_slowly() {
        let mut window = Window::default();
        (0..10).for_each(|_| window.arrived(true));
        [30, 31, 49]
            .into_iter()
            .for_each(|packet| window.lost(packet, 50));
        assert_eq!(window.size(), 10);
        (0..10).for_each(|_| window.arrived(true));
        assert_eq!(window.size(), 11);
        window.lost(50, 60);
        assert_eq!(window.size(), 5);
        window.timed_out(70);
        assert_eq!(window.size(), LEAST);
        window.lost(69, 71);
        assert_eq!(window.size(), LEAST);
    }

    #[test]
    fn waits_follow_what_was_measured_and_double_in_vain() {
        let mut way = RoundTrip::default();
        assert_eq!(way.wait(0), UNKNOWN);
        assert_eq!(way.wait(1), 2 * UNKNOWN);
        assert_eq!(way.wait(30), LONGEST_WAIT);
        let time = Duration::from_millis(80);
        (0..50).for_each(|_| way.measured(time));
        let wait = way.wait(0);
        assert!(
            wait >= time && wait < time + Duration::from_millis(5),
            "{wait:?}"
        );
        (0..50).for_each(|_| way.measured(Duration::from_micros(100)));
        assert_eq!(way.wait(0), SHORTEST_WAIT);
    }
}
