//! The states of a minion in a job: their numbers in the store, and their names for operators.

use std::fmt;

/// A state of a minion in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Offered,
    NotConnected,
    Queued,
    Running,
    Returned,
    Declined,
    Expired,
    LostTrack,
    MayHaveRun,
    Cancelled,
    Withdrawn,
    ReturnedAndLost,
    Unconfirmed,
    Waiting,
    /// A number that is not in the table.
    Unknown(u8),
}

/// Every state with its number and its name.
const TABLE: [(u8, State, &str); 14] = [
    (0, State::Offered, "offered"),
    (1, State::NotConnected, "not connected"),
    (2, State::Queued, "queued"),
    (3, State::Running, "running"),
    (4, State::Returned, "returned"),
    (5, State::Declined, "declined"),
    (6, State::Expired, "expired"),
    (7, State::LostTrack, "lost track"),
    (8, State::MayHaveRun, "may have run"),
    (9, State::Cancelled, "cancelled"),
    (10, State::Withdrawn, "withdrawn"),
    (11, State::ReturnedAndLost, "returned and lost"),
    (12, State::Unconfirmed, "unconfirmed"),
    (13, State::Waiting, "waiting"),
];

impl State {
    /// Returns the state with a number of the store.
    pub(crate) fn from_number(number: u8) -> Self {
        let known = TABLE.iter().find(|(known, ..)| *known == number);
        known.map_or(Self::Unknown(number), |(_, state, _)| *state)
    }

    /// Returns the state that an operator was told. "No response" is none: it is a running minion that is
    /// gone.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let word = word.to_lowercase();
        // The longest first: "returned and lost" begins as "returned" does.
        let mut found: Vec<_> = TABLE
            .iter()
            .filter(|(.., name)| word.starts_with(name))
            .collect();
        found.sort_by_key(|(.., name)| name.len());
        found.last().map(|(_, state, _)| *state)
    }

    /// Whether it says that the job will not run, or did not. "Withdrawn" says that no return is taken.
    pub(crate) fn denies_a_run(self) -> bool {
        matches!(
            self,
            Self::NotConnected | Self::Declined | Self::Expired | Self::Cancelled
        )
    }

    /// Whether something is still to come.
    pub(crate) fn is_open(self) -> bool {
        matches!(
            self,
            Self::Offered | Self::Queued | Self::Running | Self::Waiting
        )
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TABLE.iter().find(|(_, state, _)| state == self) {
            Some((.., name)) => f.write_str(name),
            None => match self {
                Self::Unknown(number) => write!(f, "state {number}"),
                other => write!(f, "{other:?}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_operators_are_read() {
        assert_eq!(State::from_word("Not connected"), Some(State::NotConnected));
        assert_eq!(
            State::from_word("Returned and lost"),
            Some(State::ReturnedAndLost)
        );
        assert_eq!(
            State::from_word("Unconfirmed since 09:14"),
            Some(State::Unconfirmed)
        );
        assert_eq!(State::from_word("No response"), None);
        assert_eq!(State::from_number(12).to_string(), "unconfirmed");
    }
}
