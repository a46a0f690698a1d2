//! The books about the services of the master: deliveries, reactions, pillars and the mine.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Book, Ledger};

/// Whatever the master stored is in the database outside, and nothing else is.
pub(super) fn everything_is_delivered(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "delivered",
        "every stored return is delivered to the database outside, and nothing else is",
    );
    let delivered = &ledger.evidence.delivered;
    for (jid, job) in &ledger.evidence.jobs {
        for (minion, rows) in &job.returns {
            book.checked += 1;
            let stored = rows.last().map(|row| row.retcode);
            let outside = delivered.get(&(jid.clone(), minion.clone())).copied();
            let is_older = outside.is_some() && ledger.lost_within(Duration::ZERO, Duration::MAX);
            // A store that was put back may have an earlier return of a minion than was delivered since its copy.
            if outside != stored && !is_older {
                let evidence = match outside {
                    None => "its return is stored, and was not delivered".to_owned(),
                    Some(retcode) => format!(
                        "its exit code is {} as stored, and {retcode} as delivered",
                        stored.unwrap_or_default()
                    ),
                };
                book.find(jid, minion, evidence);
            }
        }
    }
    // A store that was put back does not have what was delivered since its copy.
    if !ledger.lost_within(Duration::ZERO, Duration::MAX) {
        for (jid, minion) in delivered.keys() {
            let job = ledger.evidence.jobs.get(jid);
            if !job.is_some_and(|job| job.returns.contains_key(minion)) {
                book.find(jid, minion, "its return was delivered, and is not stored");
            }
        }
    }
    book
}

/// Each event has each block of a file carried out once, and the starts of minions had a file carried out.
pub(super) fn reacted_once(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new("reactions", "the reactor acts on an event once");
    let mut seen: BTreeMap<&[u8], &str> = BTreeMap::new();
    for (jid, job) in &ledger.evidence.jobs {
        let Some(reaction) = job.reaction.as_deref() else {
            continue;
        };
        book.checked += 1;
        if let Some(first) = seen.insert(reaction, jid) {
            let evidence = format!("the event that this job is about had {first} published before");
            // A store that was put back knows neither the job nor that the event was worked on.
            match ledger.lost_within(Duration::ZERO, Duration::MAX) {
                true => book.count(jid, "", evidence),
                false => book.find(jid, "", evidence),
            }
        }
    }
    if book.checked == 0 && ledger.evidence.minions > 0 && !ledger.evidence.jobs.is_empty() {
        book.find("", "", "no start of any minion had a reaction");
    }
    book
}

/// In the end every minion that answers has its own pillar.
pub(super) fn pillars_are_their_own(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new("pillars", "a minion has its own pillar, and nobody else's");
    for (minion, pillar) in &ledger.evidence.pillars {
        book.checked += 1;
        if pillar.as_ref() != Some(minion) {
            let evidence = match pillar {
                Some(other) => format!("it has the pillar of {other}"),
                None => "it has no pillar".to_owned(),
            };
            book.find("", minion, evidence);
        }
    }
    book
}

/// In the end the mine has the last value of every minion.
pub(super) fn mine_has_the_last(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new("mine", "the mine has the last value that a minion sent");
    for (minion, last) in &ledger.evidence.made {
        book.checked += 1;
        match ledger.evidence.mine.get(minion) {
            Some(value) if last.contains(value) => {}
            Some(value) => book.find(
                "",
                minion,
                format!("the mine has {value}, which is not its last value"),
            ),
            // Its values go with its key, and the minion sends them again when it starts or its interval is over.
            None if ledger.key_was_deleted(minion, Duration::ZERO, Duration::MAX) => {
                book.count(
                    "",
                    minion,
                    "the mine has no value of it since its key was deleted",
                );
            }
            None => book.find("", minion, "the mine has no value of it"),
        }
    }
    book
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{JID, balanced, names_of_broken, served};
    use crate::timeline::Loss;

    #[test]
    fn a_return_that_was_not_delivered_or_is_outside_alone_is_found() {
        let mut evidence = served(&balanced());
        let of_m1 = (JID.to_owned(), "m1".to_owned());
        evidence.delivered.insert(of_m1.clone(), 3);
        assert_eq!(names_of_broken(&evidence), ["delivered"]);
        evidence.delivered.remove(&of_m1);
        assert_eq!(names_of_broken(&evidence), ["delivered"]);
        let (from, to) = Default::default();
        evidence.history.losses.push(Loss::Restored { from, to });
        assert_eq!(names_of_broken(&evidence), ["delivered"], "it is missing");
        evidence.delivered.insert(of_m1, 3);
        assert!(
            names_of_broken(&evidence).is_empty(),
            "an older one is stored"
        );
        let mut evidence = served(&balanced());
        let of_m2 = (JID.to_owned(), "m2".to_owned());
        evidence.delivered.insert(of_m2, 0);
        assert_eq!(names_of_broken(&evidence), ["delivered"]);
        let (from, to) = Default::default();
        evidence.history.losses.push(Loss::Restored { from, to });
        assert!(names_of_broken(&evidence).is_empty());
    }

    #[test]
    fn a_reaction_that_comes_twice_or_not_at_all_is_found() {
        let mut evidence = served(&balanced());
        let again = evidence.jobs.values().find(|job| job.reaction.is_some());
        let again = again.unwrap().clone();
        evidence.jobs.insert("20261121091409931547".into(), again);
        assert_eq!(names_of_broken(&evidence), ["reactions"]);
        evidence.jobs.retain(|_, job| job.reaction.is_none());
        assert_eq!(names_of_broken(&evidence), ["reactions"]);
    }

    #[test]
    fn a_value_of_the_mine_that_is_not_the_last_one_is_found() {
        let mut evidence = served(&balanced());
        let last = ["second", "of a clone"].map(str::to_owned);
        evidence.made.insert("m1".to_owned(), last.into());
        for (value, broken) in [
            (Some("second"), vec![]),
            (Some("of a clone"), vec![]),
            (Some("first"), vec!["mine"]),
            (None, vec!["mine"]),
        ] {
            let value = value.map(|value| ("m1".to_owned(), value.to_owned()));
            evidence.mine = value.into_iter().collect();
            assert_eq!(names_of_broken(&evidence), broken);
        }
        let at = Duration::from_secs(1);
        evidence
            .history
            .losses
            .push(Loss::KeyDeleted { minion: 1, at });
        assert!(names_of_broken(&evidence).is_empty());
    }

    #[test]
    fn a_minion_with_the_pillar_of_another_or_none_is_found() {
        let mut evidence = served(&balanced());
        for (pillar, broken) in [
            (Some("m1"), vec![]),
            (Some("m2"), vec!["pillars"]),
            (None, vec!["pillars"]),
        ] {
            let pillar = pillar.map(str::to_owned);
            evidence.pillars.insert("m1".to_owned(), pillar);
            assert_eq!(names_of_broken(&evidence), broken);
        }
    }
}
