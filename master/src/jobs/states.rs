//! The states of a job's minions: how they change, and the compact value in which the store keeps them.

use saline_protocol::message::{MasterTime, MinionId, OfferState};

use super::StoreError;

/// The state of each expected minion, by id.
pub(super) type States = Vec<(MinionId, OfferState)>;

/// Whether an offer may change from one state to the other. It never goes back, and leaves a final
/// state only for a late return, or when it is heard late that the minion began in time.
pub fn may_become(from: OfferState, to: OfferState) -> bool {
    use OfferState::{Declined, Expired, NotConnected, Offered, Queued, Returned, Running};
    match from {
        Queued => matches!(to, Offered | Running | Returned | Declined | Expired),
        Offered => matches!(to, Running | Returned | Declined | Expired),
        Running => to == Returned,
        Expired => matches!(to, Running | Returned),
        Returned | Declined | NotConnected => false,
    }
}

/// Returns the state at `now` of an offer that the store has in `state`: one that nobody began in time
/// has expired, and this is not written.
pub(super) fn at(now: MasterTime, expires: MasterTime, state: OfferState) -> OfferState {
    match state {
        OfferState::Offered | OfferState::Queued if expires <= now => OfferState::Expired,
        state => state,
    }
}

/// Returns the compact value: for each minion the length of its id in one byte, the id, and the number
/// of the state in one byte. The minions must be in the order of their ids.
pub(super) fn encode(states: &[(MinionId, OfferState)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(states.iter().map(|(id, _)| id.as_str().len() + 2).sum());
    for (minion, state) in states {
        // An id has at most 255 bytes.
        bytes.push(minion.as_str().len() as u8);
        bytes.extend_from_slice(minion.as_str().as_bytes());
        bytes.push(*state as u8);
    }
    bytes
}

/// Reads the compact value.
pub(super) fn decode(bytes: &[u8]) -> Result<States, StoreError> {
    let mut states = Vec::new();
    for entry in Entries(bytes) {
        let (id, number) = entry?;
        let id = std::str::from_utf8(id).ok();
        let id = id.and_then(|id| MinionId::parse(id).ok());
        let id = id.ok_or_else(|| damaged("a minion's id"))?;
        states.push((id, state(number)?));
    }
    if !states.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(damaged("minions in the order of their ids"));
    }
    Ok(states)
}

/// Finds the state of one minion in the compact value.
pub(super) fn find(bytes: &[u8], minion: &MinionId) -> Result<Option<OfferState>, StoreError> {
    for entry in Entries(bytes) {
        let (id, number) = entry?;
        if id == minion.as_str().as_bytes() {
            return state(number).map(Some);
        }
    }
    Ok(None)
}

fn state(number: u8) -> Result<OfferState, StoreError> {
    OfferState::from_number(number.into()).ok_or_else(|| damaged("a state of an offer"))
}

fn damaged(what: &'static str) -> StoreError {
    StoreError::corrupt(what, "other bytes")
}

/// The entries of a compact value.
struct Entries<'b>(&'b [u8]);

impl<'b> Iterator for Entries<'b> {
    type Item = Result<(&'b [u8], u8), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.0.split_first()?;
        let entry = rest.split_at_checked(usize::from(*length));
        let Some((id, [state, rest @ ..])) = entry else {
            self.0 = &[];
            return Some(Err(damaged("a whole entry of a minion")));
        };
        self.0 = rest;
        Some(Ok((id, *state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OfferState::{Declined, Expired, NotConnected, Offered, Queued, Returned, Running};
    use proptest::prelude::*;

    const ALL: [OfferState; 7] = OfferState::ALL;

    #[test]
    fn offers_only_go_forward() {
        for from in ALL {
            let ways: Vec<_> = ALL.into_iter().filter(|to| may_become(from, *to)).collect();
            let expected: &[OfferState] = match from {
                Queued => &[Offered, Running, Returned, Declined, Expired],
                Offered => &[Running, Returned, Declined, Expired],
                Running => &[Returned],
                Expired => &[Running, Returned],
                Returned | Declined | NotConnected => &[],
            };
            assert_eq!(ways, expected, "from {from:?}");
        }
    }

    #[test]
    fn what_nobody_began_has_expired_at_its_time() {
        for state in ALL {
            assert_eq!(at(9, 10, state), state);
        }
        assert_eq!(at(10, 10, Offered), Expired);
        assert_eq!(at(10, 10, Queued), Expired);
        assert_eq!(at(10, 10, Running), Running);
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_and_found(
            minions in proptest::collection::btree_map("[a-z][a-z0-9.]{0,40}", 0..7_usize, 0..40),
        ) {
            let states: States = minions
                .into_iter()
                .map(|(id, state)| (MinionId::parse(&id).unwrap(), ALL[state]))
                .collect();
            let bytes = encode(&states);
            prop_assert_eq!(&decode(&bytes).unwrap(), &states);
            for (id, state) in &states {
                prop_assert_eq!(find(&bytes, id).unwrap(), Some(*state));
            }
            let stranger = MinionId::parse("A").unwrap();
            prop_assert_eq!(find(&bytes, &stranger).unwrap(), None);
        }

        #[test]
        fn damaged_bytes_are_an_error_and_no_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let minion = MinionId::parse("a").unwrap();
            if let Ok(states) = decode(&bytes) {
                prop_assert_eq!(encode(&states), bytes);
            } else {
                let _ = find(&bytes, &minion);
            }
        }
    }
}
