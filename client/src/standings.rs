//! Where every minion stands with one job, as far as this client knows.

use std::collections::BTreeMap;

use saline_protocol::message::{MinionId, OfferState};

use crate::{Absence, Absent};

/// Every minion of a job. A minion is told of once as absent, and once as returned.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    minions: BTreeMap<MinionId, Standing>,
}

#[derive(Debug)]
struct Standing {
    state: OfferState,
    /// The master has not heard of its session for two heartbeats.
    silent: bool,
    /// Its return has been told.
    returned: bool,
    /// Its absence has been told.
    absent: bool,
    /// It gave no sign of life in time; it is told of as absent when nobody else is waited for.
    given_up: bool,
}

impl Standing {
    fn new(state: OfferState) -> Self {
        Self {
            state,
            silent: false,
            returned: false,
            absent: false,
            given_up: false,
        }
    }

    /// Whether something may still come of it.
    fn is_open(&self) -> bool {
        // A return that is stored comes with the next page, though its state is final.
        !self.returned && (!self.state.is_final() || self.state == OfferState::Returned)
    }

    fn absence(&self) -> Option<Absence> {
        // A return that the store names and never gives.
        Absence::of(self.state, self.silent).or(Some(Absence::NoResponse))
    }
}

impl Standings {
    /// As the master says now. Silence is only known where `silent` is given.
    pub(crate) fn update(
        &mut self,
        states: &[(MinionId, OfferState)],
        silent: Option<&[MinionId]>,
    ) {
        for (minion, state) in states {
            self.set(minion, *state);
        }
        if let Some(silent) = silent {
            for standing in self.minions.values_mut() {
                standing.silent = false;
            }
            for minion in silent {
                if let Some(standing) = self.minions.get_mut(minion) {
                    standing.silent = true;
                }
            }
        }
    }

    /// One minion's state. A final one stays, but for a return that comes after all.
    pub(crate) fn set(&mut self, minion: &MinionId, state: OfferState) {
        let standing = self
            .minions
            .entry(minion.clone())
            .or_insert_with(|| Standing::new(state));
        if state == OfferState::Returned || !standing.state.is_final() {
            standing.state = state;
        }
        if state == OfferState::Running {
            standing.silent = false;
        }
    }

    /// A return is here. Says whether it is the first of this minion.
    pub(crate) fn returned(&mut self, minion: &MinionId) -> bool {
        self.set(minion, OfferState::Returned);
        self.minions
            .get_mut(minion)
            .is_some_and(|standing| !std::mem::replace(&mut standing.returned, true))
    }

    /// Those of whom nothing can come and that were not told yet.
    pub(crate) fn take_absent(&mut self) -> Vec<Absent> {
        self.take(|standing| !standing.is_open() && !standing.returned)
    }

    /// Those that were given up and not told yet.
    pub(crate) fn take_given_up(&mut self) -> Vec<Absent> {
        self.take(|standing| standing.is_open())
    }

    fn take(&mut self, which: impl Fn(&Standing) -> bool) -> Vec<Absent> {
        let mut absent = Vec::new();
        for (minion, standing) in &mut self.minions {
            if !standing.absent
                && which(standing)
                && let Some(absence) = standing.absence()
            {
                standing.absent = true;
                absent.push(Absent {
                    name: minion.to_string(),
                    absence,
                });
            }
        }
        absent
    }

    /// The time for a sign of life is over: all that show none are given up. One that runs, and
    /// whose session lives, is waited for.
    pub(crate) fn judge(&mut self) {
        for standing in self.minions.values_mut() {
            standing.given_up =
                standing.is_open() && (standing.state != OfferState::Running || standing.silent);
        }
    }

    /// Whether somebody is still waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        self.minions
            .values()
            .any(|standing| standing.is_open() && !standing.given_up)
    }

    /// Whether a return is stored that has not come here.
    pub(crate) fn lacks_a_return(&self) -> bool {
        self.minions
            .values()
            .any(|standing| standing.state == OfferState::Returned && !standing.returned)
    }

    /// The minion before the first of which something may still come: pages of returns are asked
    /// for from there.
    pub(crate) fn settled_until(&self) -> Option<MinionId> {
        self.minions
            .iter()
            .take_while(|(_, standing)| !standing.is_open())
            .last()
            .map(|(minion, _)| minion.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OfferState::*;
    use proptest::prelude::*;

    fn id(text: &str) -> MinionId {
        MinionId::parse(text).unwrap()
    }

    fn standings(states: &[(&str, OfferState)]) -> Standings {
        let mut standings = Standings::default();
        let states: Vec<_> = states.iter().map(|(m, s)| (id(m), *s)).collect();
        standings.update(&states, None);
        standings
    }

    #[test]
    fn what_is_final_is_told_once_and_the_others_are_waited_for() {
        let mut s = standings(&[("a", NotConnected), ("b", Offered), ("c", Running)]);
        assert_eq!(s.take_absent().len(), 1);
        assert_eq!(s.take_absent(), []);
        assert!(s.is_waiting());
        assert!(s.returned(&id("b")));
        assert!(!s.returned(&id("b")));
        assert!(s.is_waiting());
        assert_eq!(s.settled_until(), Some(id("b")));
        s.set(&id("c"), Expired);
        assert!(!s.is_waiting());
        assert_eq!(s.take_absent().len(), 1);
    }

    #[test]
    fn who_shows_no_sign_of_life_is_given_up_and_told_when_nobody_is_waited_for() {
        let mut s = standings(&[("a", Offered), ("b", Running), ("c", Running)]);
        s.update(&[], Some(&[id("c")]));
        s.judge();
        assert!(s.is_waiting(), "b runs");
        assert!(s.returned(&id("b")));
        assert!(!s.is_waiting());
        let absent: Vec<_> = s.take_given_up().into_iter().map(|a| a.absence).collect();
        assert_eq!(absent, [Absence::NoResponse, Absence::Silent]);
        assert!(s.returned(&id("a")), "a late return is told all the same");
    }

    #[test]
    fn a_stored_return_that_is_not_here_yet_is_waited_for() {
        let mut s = standings(&[("a", Offered)]);
        s.set(&id("a"), Returned);
        assert!(s.is_waiting() && s.lacks_a_return());
        assert_eq!(s.settled_until(), None);
        s.returned(&id("a"));
        assert!(!s.is_waiting() && !s.lacks_a_return());
    }

    #[test]
    fn a_minion_that_nobody_expected_counts_when_it_shows() {
        let mut s = standings(&[("a", Declined)]);
        assert!(s.returned(&id("z")));
        assert!(!s.is_waiting());
    }

    proptest! {
        #[test]
        fn nobody_is_told_twice_and_nobody_is_forgotten(
            events in proptest::collection::vec((0u8..5, 0u8..7, any::<bool>()), 0..60),
        ) {
            let names = ["a", "b", "c", "d", "e"];
            let mut s = standings(&names.map(|name| (name, Offered)));
            let (mut returned, mut absent) = (Vec::new(), Vec::new());
            for (who, state, silent) in events {
                let who = id(names[usize::from(who)]);
                match OfferState::from_number(state.into()) {
                    Some(Returned) => if s.returned(&who) { returned.push(who.to_string()) },
                    Some(state) => s.update(&[(who.clone(), state)], silent.then_some(&[who])),
                    None => s.judge(),
                }
                absent.extend(s.take_absent().into_iter().map(|a| a.name));
            }
            s.judge();
            absent.extend(s.take_given_up().into_iter().map(|a| a.name));
            for list in [&returned, &absent] {
                let mut once = list.clone();
                once.sort();
                once.dedup();
                prop_assert_eq!(once.len(), list.len());
            }
            for name in names {
                let told = returned.iter().chain(&absent).any(|n| n == name);
                let running = s.is_waiting();
                prop_assert!(told || running, "{name}");
            }
        }
    }
}
