//! How much goes into one message of a row of them, each after the answer to the one before.

use std::time::Duration;

use saline_messages::MAX_PART;

/// The sizes in bytes: the smallest, which is usually the first, because a heartbeat waits behind it on a link that nothing is
/// known of; and the largest, where the master takes it.
const SIZES: (usize, usize) = (8 * 1024, MAX_PART);

/// A message that took longer is followed by a smaller one: whatever waits behind it waits as long.
const SLOW: Duration = Duration::from_millis(500);

/// A message that took less is followed by one of twice its size.
const QUICK: Duration = Duration::from_millis(100);

/// A message that took less is followed by one of four times its size.
const VERY_QUICK: Duration = Duration::from_millis(20);

/// The size of the next message, which follows the speed of the link.
#[derive(Debug)]
pub(crate) struct MessageSize {
    bytes: usize,
    most: usize,
    /// The least that follows a message that was very quick.
    after_very_quick: usize,
}

impl MessageSize {
    /// Returns the size to begin with, which never grows above `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self::beginning_with(SIZES.0, most)
    }

    /// The same, for a first message of `bytes`: more on a link that has carried as much quickly, or less where the first answer
    /// matters more than what it brings.
    pub(crate) fn beginning_with(bytes: usize, most: usize) -> Self {
        let most = most.min(SIZES.1);
        Self {
            bytes: bytes.min(most),
            most,
            after_very_quick: 0,
        }
    }

    /// Has at least `bytes`, which the link has carried before, follow a message that was very quick.
    pub(crate) fn followed_by(self, bytes: usize) -> Self {
        Self {
            after_very_quick: bytes,
            ..self
        }
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes how long a message of this size and its answer took.
    pub(crate) fn answered_after(&mut self, took: Duration) {
        let bytes = match took {
            took if took > SLOW => self.bytes / 2,
            took if took < VERY_QUICK => (self.bytes * 4).max(self.after_very_quick),
            took if took < QUICK => self.bytes * 2,
            _ => self.bytes,
        };
        self.bytes = bytes.max(SIZES.0).min(self.most);
    }

    /// Notes that no answer came in time. Returns whether a smaller message may get one.
    pub(crate) fn timed_out(&mut self) -> bool {
        let before = self.bytes;
        self.bytes = SIZES.0.min(self.most);
        self.bytes < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_fit_the_link() {
        let after = |bytes, milliseconds| {
            let mut size = MessageSize {
                bytes,
                most: SIZES.1,
                after_very_quick: 0,
            };
            size.answered_after(Duration::from_millis(milliseconds));
            size.bytes()
        };
        assert_eq!(after(SIZES.0, 10), 4 * SIZES.0);
        assert_eq!(after(SIZES.0, 20), 2 * SIZES.0);
        assert_eq!(after(SIZES.1, 10), SIZES.1);
        assert_eq!(after(SIZES.1 / 2, 10), SIZES.1);
        assert_eq!(after(SIZES.0, 300), SIZES.0);
        assert_eq!(after(4 * SIZES.0, 501), 2 * SIZES.0);
        assert_eq!(after(SIZES.0, 60_000), SIZES.0);
    }

    #[test]
    fn a_first_message_may_be_smaller_than_those_that_follow() {
        for milliseconds in [10, 300, 60_000] {
            let mut size = MessageSize::beginning_with(100, SIZES.1);
            assert_eq!(size.bytes(), 100);
            size.answered_after(Duration::from_millis(milliseconds));
            assert_eq!(size.bytes(), SIZES.0);
        }
    }

    #[test]
    fn what_the_link_has_carried_before_follows_a_very_quick_message_alone() {
        for (milliseconds, expected) in [(10, 100_000), (20, SIZES.0), (60_000, SIZES.0)] {
            let mut size = MessageSize::beginning_with(100, SIZES.1).followed_by(100_000);
            size.answered_after(Duration::from_millis(milliseconds));
            assert_eq!(size.bytes(), expected, "{milliseconds}");
        }
    }

    #[test]
    fn no_message_is_larger_than_the_master_takes() {
        let mut size = MessageSize::new(1_000);
        size.answered_after(Duration::ZERO);
        assert_eq!(size.bytes(), 1_000);
        assert!(!size.timed_out());
        let mut size = MessageSize::new(20_000);
        size.answered_after(Duration::ZERO);
        assert_eq!(size.bytes(), 20_000);
        assert!(size.timed_out());
        assert_eq!(size.bytes(), SIZES.0);
    }
}
