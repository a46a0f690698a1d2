//! The replay window: the counters that were seen. After RFC 4303, appendix A2, and WireGuard.

/// How far a counter may be behind the highest one.
pub const WINDOW: u64 = 4096;

const WORDS: usize = (WINDOW / 64) as usize;

/// A sliding window of counters that is always on. Counter 0 counts as seen: the reply to the handshake was
/// sealed under it, and the reply to a request has the request's counter.
#[derive(Debug)]
pub struct ReplayWindow {
    /// One above the highest counter seen.
    next: u64,
    /// One bit for each counter, at its position modulo the window.
    seen: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        let mut window = Self {
            next: 1,
            seen: [0; WORDS],
        };
        window.set(0);
        window
    }
}

impl ReplayWindow {
    /// Notes `counter`. Returns whether it is new. Call this only after the record has opened, so
    /// that a peer without the key cannot move the window.
    pub fn accept(&mut self, counter: u64) -> bool {
        if counter == u64::MAX {
            return false;
        }
        if counter >= self.next {
            // Forget what the window slides over, a word at the most once.
            let skipped = (counter - self.next).min(WINDOW);
            for gone in counter - skipped..=counter {
                self.clear(gone);
            }
            self.next = counter + 1;
        } else if self.next - counter > WINDOW || self.is_set(counter) {
            return false;
        }
        self.set(counter);
        true
    }

    fn place(counter: u64) -> (usize, u64) {
        let bit = counter % WINDOW;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn is_set(&self, counter: u64) -> bool {
        let (word, mask) = Self::place(counter);
        self.seen[word] & mask != 0
    }

    fn set(&mut self, counter: u64) {
        let (word, mask) = Self::place(counter);
        self.seen[word] |= mask;
    }

    fn clear(&mut self, counter: u64) {
        let (word, mask) = Self::place(counter);
        self.seen[word] &= !mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn each_counter_counts_once_within_the_window() {
        let mut window = ReplayWindow::default();
        assert!(window.accept(1));
        assert!(!window.accept(1));
        assert!(window.accept(WINDOW + 1));
        assert!(!window.accept(1), "too old by one");
        assert!(window.accept(2), "the oldest that is still told apart");
        assert!(!window.accept(2));
        assert!(!window.accept(u64::MAX));
    }

    #[test]
    fn counter_0_answered_the_handshake() {
        let mut window = ReplayWindow::default();
        assert!(!window.accept(0));
        assert!(window.accept(WINDOW - 1));
        assert!(!window.accept(0), "it is in the window still");
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(counters in proptest::collection::vec(0u64..20_000, 1..400)) {
            let mut window = ReplayWindow::default();
            let mut seen = HashSet::from([0]);
            let mut highest = 0;
            for counter in counters {
                let in_window = counter > highest || highest - counter < WINDOW;
                let fresh = in_window && seen.insert(counter);
                prop_assert_eq!(window.accept(counter), fresh);
                if fresh {
                    highest = highest.max(counter);
                }
            }
        }
    }
}
