//! The sequence numbers of one publication.

/// The numbers of one publication: of every filter that takes it, by bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NumberSet {
    mask: u16,
    numbers: [u64; 9],
}

impl NumberSet {
    /// Returns the bits of the filters that have a number.
    pub(crate) fn mask(&self) -> u16 {
        self.mask
    }

    /// Sets the number of the filter with this bit.
    pub(crate) fn set(&mut self, bit: u8, number: u64) {
        if let Some(place) = self.numbers.get_mut(usize::from(bit)) {
            *place = number;
            self.mask |= 1 << bit;
        }
    }

    /// Returns the numbers of the publication that comes `count` later.
    pub(crate) fn plus(&self, count: u64) -> Self {
        let mut later = *self;
        for (bit, number) in later.numbers.iter_mut().enumerate() {
            if self.mask & (1 << bit) != 0 {
                *number += count;
            }
        }
        later
    }

    /// Returns the number of the filter with this bit, if there is one.
    pub(crate) fn get(&self, bit: u8) -> Option<u64> {
        let number = self.numbers.get(usize::from(bit))?;
        (self.mask & (1 << bit) != 0).then_some(*number)
    }
}
