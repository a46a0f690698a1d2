//! When the writer of a connection is woken for what was queued.
//!
//! A writer sends a burst in batches and gives other tasks a turn in between: joining a whole burst would leave the
//! other end without work meanwhile.

/// The requests, or answers, that are written without waiting for more of a burst.
///
/// A write costs as much as dozens of small messages, so bursts are joined. But not whole: while one end
/// put a burst together, the other one would have nothing to do.
pub(crate) const BATCH: usize = 128;

/// Wakes a writer that waits for the first of a burst, and once more when a batch has come together
/// while it gives the others of the burst their turns.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterWake {
    /// The writer writes, and will look for more by itself.
    #[default]
    Busy,
    /// The writer waits.
    Waiting,
    /// The writer was woken, and so many messages have been queued since.
    Gathering(usize),
}

impl WriterWake {
    /// Takes note of what was queued. Returns whether the writer is to be woken.
    pub(crate) fn queued(&mut self, messages: usize) -> bool {
        let gathered = match *self {
            Self::Busy => return false,
            Self::Waiting => messages,
            Self::Gathering(before) => before + messages,
        };
        let was_waiting = *self == Self::Waiting;
        let is_batch = gathered >= BATCH;
        *self = match is_batch {
            true => Self::Busy,
            false => Self::Gathering(gathered),
        };
        was_waiting || is_batch
    }

    /// Returns whether the writer may wait for more of a burst.
    pub(crate) fn is_gathering(self) -> bool {
        matches!(self, Self::Gathering(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_woken_for_the_first_and_for_each_batch_that_it_gathers() {
        let mut wake = WriterWake::default();
        assert!(!wake.queued(BATCH), "it writes");
        wake = WriterWake::Waiting;
        assert!(wake.queued(1));
        assert!(wake.is_gathering());
        assert!(!wake.queued(BATCH - 2));
        assert!(wake.queued(1), "a batch");
        assert!(!wake.is_gathering());
        assert!(!wake.queued(BATCH), "it was told");
        wake = WriterWake::Waiting;
        assert!(wake.queued(BATCH), "the first is a batch");
        assert!(!wake.is_gathering());
    }
}
