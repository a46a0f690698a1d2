//! The states of a job's minions: how they change, and the compact value in which the store keeps them.

use saline_messages::{MasterTime, MinionId, MinionJobState};

use crate::jobs::{MinionRecord, StoreError};

/// The state of each expected minion, by id.
pub(crate) type States = Vec<(MinionId, MinionJobState)>;

/// Whether an offer may change from one state to the other. It never goes back, and leaves a final
/// state only when it is heard late that the minion began or returned: the truth is stored, whatever was
/// said before.
pub fn may_become(from: MinionJobState, to: MinionJobState) -> bool {
    use MinionJobState::{
        Cancelled, Declined, Expired, LostTrack, MayHaveRun, NotConnected, Offered, Queued,
        Returned, ReturnedAndLost, Running, Unconfirmed, Waiting, Withdrawn,
    };
    match from {
        Waiting if matches!(to, NotConnected | Queued) => true,
        Queued | Waiting => matches!(
            to,
            Offered
                | Running
                | Returned
                | Declined
                | Expired
                | MayHaveRun
                | Cancelled
                | Withdrawn
                | ReturnedAndLost
        ),
        Offered | Unconfirmed => matches!(
            to,
            Running
                | Returned
                | Declined
                | Expired
                | MayHaveRun
                | Cancelled
                | Withdrawn
                | ReturnedAndLost
        ),
        Running => matches!(to, Returned | LostTrack | Withdrawn | ReturnedAndLost),
        Expired | LostTrack | MayHaveRun | Cancelled => {
            matches!(to, Running | Returned | ReturnedAndLost)
        }
        Returned | Declined | NotConnected | Withdrawn | ReturnedAndLost => false,
    }
}

/// Returns the state at `now` of an offer that the store has in `state`. What the clock and the minion's
/// expiry ack tell is not written.
pub(crate) fn at(
    now: MasterTime,
    expires: MasterTime,
    state: MinionJobState,
    record: Option<&MinionRecord>,
) -> MinionJobState {
    match state {
        MinionJobState::Queued | MinionJobState::Waiting if expires <= now => {
            MinionJobState::Expired
        }
        MinionJobState::Offered => match record.and_then(|record| record.verdict(expires)) {
            Some(verdict) => verdict,
            None if expires <= now => MinionJobState::Unconfirmed,
            None => MinionJobState::Offered,
        },
        state => state,
    }
}

/// Returns the compact value: for each minion the length of its id in one byte, the id, and the number
/// of the state in one byte. The minions must be in the order of their ids.
pub(crate) fn encode(states: &[(MinionId, MinionJobState)]) -> Vec<u8> {
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
pub(crate) fn decode(bytes: &[u8]) -> Result<States, StoreError> {
    Ok(decode_page(bytes, None, usize::MAX)?.0)
}

/// Finds the state of one minion in the compact value.
pub(crate) fn find(bytes: &[u8], minion: &MinionId) -> Result<Option<MinionJobState>, StoreError> {
    for entry in Entries(bytes) {
        let (id, number) = entry?;
        if id == minion.as_str().as_bytes() {
            return state(number).map(Some);
        }
    }
    Ok(None)
}

/// Reads the entries of the compact value after `after`, at most `most`. Returns whether more follow, too.
pub(crate) fn decode_page(
    bytes: &[u8],
    after: Option<&MinionId>,
    most: usize,
) -> Result<(States, bool), StoreError> {
    let after = after.map(|after| after.as_str().as_bytes());
    let mut page = States::new();
    for entry in Entries(bytes) {
        let (id, number) = entry?;
        if after.is_some_and(|after| id <= after) {
            continue;
        }
        if page.len() == most {
            return Ok((page, true));
        }
        let id = std::str::from_utf8(id).ok();
        let id = id.and_then(|id| MinionId::parse(id).ok());
        page.push((id.ok_or_else(|| damaged("a minion's id"))?, state(number)?));
    }
    if !page.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(damaged("minions in the order of their ids"));
    }
    Ok((page, false))
}

/// Gives every minion in the compact value to which its job was not handed over the state `end`. Returns whether there
/// was one. Entries that cannot be read stay as they are.
pub(crate) fn close_unoffered(bytes: &mut [u8], end: MinionJobState) -> bool {
    let unoffered = [MinionJobState::Queued as u8, MinionJobState::Waiting as u8];
    let (mut at, mut closed) = (0, false);
    while let Some(length) = bytes.get(at) {
        at += 1 + usize::from(*length);
        if let Some(state) = bytes.get_mut(at)
            && unoffered.contains(state)
        {
            *state = end as u8;
            closed = true;
        }
        at += 1;
    }
    closed
}

/// Returns the state with this number.
pub(crate) fn state(number: u8) -> Result<MinionJobState, StoreError> {
    MinionJobState::from_number(number.into()).ok_or_else(|| damaged("a state of an offer"))
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
    use MinionJobState::{Expired, MayHaveRun, Offered, Queued, Running, Unconfirmed, Waiting};
    use proptest::prelude::*;
    use saline_messages::StartId;

    const ALL: [MinionJobState; 14] = MinionJobState::ALL;

    #[test]
    fn what_was_not_handed_over_is_closed_and_nothing_else() {
        let minions = ["a", "b", "c", "d"].map(|id| MinionId::parse(id).unwrap());
        let written = |states: [MinionJobState; 4]| {
            encode(&minions.clone().into_iter().zip(states).collect::<Vec<_>>())
        };
        let mut bytes = written([Queued, Running, Waiting, Offered]);
        assert!(close_unoffered(&mut bytes, MayHaveRun));
        assert_eq!(bytes, written([MayHaveRun, Running, MayHaveRun, Offered]));
        assert!(!close_unoffered(&mut bytes, MayHaveRun));
    }

    #[test]
    fn the_table_of_states_is_the_one_in_the_docs() {
        let docs = include_str!("../../../../docs/states.md");
        for from in ALL {
            let ways = ALL.into_iter().filter(|to| may_become(from, *to));
            let ways: Vec<_> = ways.map(MinionJobState::name).collect();
            let ways = match ways[..] {
                [] => "-".to_owned(),
                _ => ways.join(", "),
            };
            let line = format!("| {} | {} | {ways} |", from as u8, from.name());
            assert!(docs.contains(&line), "docs/states.md lacks: {line}");
        }
    }

    #[test]
    fn what_nobody_began_has_expired_when_that_is_known() {
        for state in ALL {
            assert_eq!(at(9, 10, state, None), state);
        }
        assert_eq!(at(10, 10, Queued, None), Expired);
        assert_eq!(at(10, 10, MinionJobState::Waiting, None), Expired);
        assert_eq!(at(10, 10, Running, None), Running);
        assert_eq!(at(10, 10, Offered, None), Unconfirmed);
        let mut record = MinionRecord::new(StartId([1; 16]), 9);
        assert_eq!(at(10, 10, Offered, Some(&record)), Unconfirmed);
        record.settle(9, 10);
        assert_eq!(at(10, 10, Offered, Some(&record)), Expired);
        assert_eq!(at(10, 11, Offered, Some(&record)), Offered);
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_and_found(
            minions in proptest::collection::btree_map("[a-z][a-z0-9.]{0,40}", 0..14_usize, 0..40),
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
