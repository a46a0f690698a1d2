//! Which returns of a job are left out of an answer that they are too large for.

use std::collections::BTreeSet;

use saline_data::Packed;
use saline_messages::StoredReturn;

use super::run::Run;

/// The sizes of the returns that are shown, by which the largest ones are left out.
#[derive(Debug, Default)]
pub(super) struct ShownReturns {
    /// The size in bytes and the place of each.
    sizes: BTreeSet<(usize, usize)>,
    /// What they come to in bytes.
    bytes: usize,
}

impl ShownReturns {
    /// Adds a return, which stands at this place.
    pub(super) fn add(&mut self, stored: &StoredReturn, place: usize) {
        let size = stored.payload.as_bytes().len();
        self.bytes += size;
        self.sizes.insert((size, place));
    }

    /// Replaces the largest ones by their sizes until the others come to at most so many bytes.
    pub(super) fn replace(&mut self, run: &Run, all: &mut [StoredReturn], most: usize) {
        for place in self.leave_out(most) {
            let StoredReturn {
                minion, payload, ..
            } = &mut all[place];
            let size = payload.as_bytes().len();
            run.note(format!(
                "{minion}: the return of {size} bytes is left out: all of them are too large for one answer; publish the \
                 job again for this minion"
            ));
            *payload = Packed::pack(&format!("({size} bytes, left out)").into());
        }
    }

    /// Removes the largest ones until the others come to at most so many bytes. Returns their places.
    fn leave_out(&mut self, most: usize) -> Vec<usize> {
        let mut places = Vec::new();
        while self.bytes > most
            && let Some((size, place)) = self.sizes.pop_last()
        {
            self.bytes -= size;
            places.push(place);
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use saline_messages::MinionId;

    use super::*;

    #[test]
    fn the_largest_returns_are_left_out_until_the_others_fit() {
        let mut shown = ShownReturns::default();
        for (place, size) in [3, 900, 5, 700, 900].into_iter().enumerate() {
            let stored = StoredReturn {
                receipt: 1,
                minion: MinionId::parse("m1").unwrap(),
                retcode: 0,
                success: true,
                payload: Packed::from_bytes(vec![0; size]),
            };
            shown.add(&stored, place);
        }
        assert_eq!(shown.leave_out(2_508), [0; 0]);
        assert_eq!(shown.leave_out(1_000), [4, 1]);
        assert_eq!(shown.leave_out(8), [3]);
        assert_eq!(shown.leave_out(8), [0; 0]);
    }
}
