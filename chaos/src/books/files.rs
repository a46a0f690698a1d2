//! The book about the files that minions fetched.

use std::time::Duration;

use super::{Book, Ledger};
use crate::known_file::FileState;

/// Checks that every file that a return calls fetched is there, whole and no older than its order, and that nothing but a whole
/// file stands under the name of one.
pub(super) fn are_whole(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "files",
        "a file that a return calls fetched is with the minion, and no other bytes ever stand under its name",
    );
    let evidence = ledger.evidence;
    for (jid, job) in &evidence.jobs {
        let Some(order) = job.order else {
            continue;
        };
        for (minion, rows) in &job.returns {
            if rows.iter().all(|row| row.retcode != 0) {
                continue;
            }
            book.checked += 1;
            match evidence.fetched.get(&(minion.clone(), order)) {
                None => book.find(jid, minion, "the file was fetched, and is not there"),
                Some(FileState::Whole(version)) if *version < order => {
                    let text =
                        format!("the file is that of order {version}, before its own {order}");
                    book.find(jid, minion, text);
                }
                // The loop over all fetched files finds a damaged one.
                Some(_) => {}
            }
        }
    }
    if book.checked == 0 && !evidence.file_orders.is_empty() {
        book.find("", "", "no file was fetched at all");
    }
    for ((minion, order), state) in &evidence.fetched {
        if let FileState::Damaged(why) = state {
            book.find("", minion, format!("the file of order {order} has {why}"));
        }
    }
    for (instance, name, state) in &evidence.cached {
        book.checked += 1;
        let FileState::Damaged(why) = state else {
            continue;
        };
        let minion = instance.split('-').next().unwrap_or_default();
        let text = format!("in the cache {name} has {why}");
        // The cache is not synced, and its files are compared with their hashes when they are used.
        match ledger.lost_power_within(minion, Duration::ZERO, Duration::MAX) {
            true => book.count("", instance, text),
            false => book.find("", instance, text),
        }
    }
    book
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{JID, balanced, names_of_broken, served};
    use super::*;
    use crate::evidence::Evidence;
    use crate::plan::{FileAct, FileOrder};
    use crate::timeline::Loss;

    /// A minion fetched the file of an order.
    fn fetched() -> Evidence {
        let mut evidence = served(&balanced());
        evidence.file_orders.push(FileOrder {
            at: Duration::ZERO,
            number: 5,
            minion: 1,
            act: FileAct::Get,
            size: 1000,
        });
        evidence.jobs.get_mut(JID).unwrap().order = Some(5);
        let of_m1 = ("m1".to_owned(), 5);
        evidence.fetched.insert(of_m1, FileState::Whole(6));
        evidence
    }

    #[test]
    fn a_file_that_is_missing_old_or_damaged_is_found() {
        assert!(names_of_broken(&fetched()).is_empty());
        for state in [
            None,
            Some(FileState::Whole(4)),
            Some(FileState::Damaged("12 bytes".to_owned())),
        ] {
            let mut evidence = fetched();
            let state = state.map(|state| (("m1".to_owned(), 5), state));
            evidence.fetched = state.into_iter().collect();
            assert_eq!(names_of_broken(&evidence), ["files"]);
        }
        let mut evidence = fetched();
        evidence.jobs.get_mut(JID).unwrap().order = None;
        assert_eq!(names_of_broken(&evidence), ["files"], "none was fetched");
    }

    #[test]
    fn a_file_that_failed_may_be_missing_and_never_half() {
        let mut evidence = fetched();
        let half = FileState::Damaged("12 bytes".to_owned());
        evidence.fetched.insert(("m2".to_owned(), 6), half);
        assert_eq!(names_of_broken(&evidence), ["files"]);
    }

    #[test]
    fn a_damaged_file_of_the_cache_needs_a_loss_of_power() {
        let mut evidence = fetched();
        let half = FileState::Damaged("12 bytes".to_owned());
        evidence
            .cached
            .push(("m1-clone-7".to_owned(), "data1".to_owned(), half));
        assert_eq!(names_of_broken(&evidence), ["files"]);
        evidence.history.losses.push(Loss::Power {
            minion: 1,
            at: Duration::from_secs(1),
            synced: true,
        });
        assert!(names_of_broken(&evidence).is_empty());
    }
}
