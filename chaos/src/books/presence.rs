//! The book about presence.

use std::time::Duration;

use super::{Book, seconds};
use crate::evidence::Evidence;
use crate::timeline::{Loss, Who};

/// What a busy machine may add to two heartbeats before a minion that is gone is not called present.
const SPARE: Duration = Duration::from_millis(1500);

/// The first pause of a minion whose place another one with its key has taken. The next pauses are twice as long each.
const REPLACED_PAUSE: Duration = Duration::from_secs(5);

/// The longest of these pauses.
const LONGEST_REPLACED_PAUSE: Duration = Duration::from_secs(60);

pub(super) fn is_true(evidence: &Evidence) -> Book {
    let mut book = Book::new(
        "presence",
        "a minion that is there is called present, and one that is gone is not after two heartbeats",
    );
    let history = &evidence.history;
    let up = evidence.return_bound;
    let down = evidence.heartbeat * 2 + SPARE;
    for sample in &evidence.presence {
        let (since_up, since_down) = (
            sample.asked.saturating_sub(up),
            sample.asked.saturating_sub(down),
        );
        let at = seconds(sample.answered);
        let Some(present) = &sample.present else {
            book.checked += 1;
            if history.left_alone(&[Who::Master], since_up, sample.answered) {
                book.find("", "", format!("no answer of the master at {at}"));
            }
            continue;
        };
        for number in 1..=evidence.minions {
            let (who, name) = (Who::Minion(number), format!("m{number}"));
            let shown = present.contains(&name);
            book.checked += 1;
            let after_clones = back_after_clones(evidence, number, sample.answered);
            let back = history.back_at(number, sample.answered, up);
            let back = back.map(|back| back.max(after_clones));
            if let Some(back) = back.filter(|back| !shown && *back <= sample.asked) {
                let evidence = format!(
                    "not called present at {at}, and due since {}",
                    seconds(back)
                );
                book.find("", &name, evidence);
            }
            let gone = history.was_away(who, since_down, sample.answered)
                && !history.brought_late(who, since_down, sample.answered)
                && history.left_alone(&[Who::Master], since_down, sample.answered);
            // A copy of its machine is present under its id.
            let is_cloned = history.losses.iter().any(|loss| {
                matches!(loss, Loss::Cloned { minion, from, to }
                    if *minion == number && *from <= sample.answered && *to >= since_down)
            });
            if shown && gone && !is_cloned {
                let evidence = format!("called present at {at}, and away for {down:?}");
                book.find("", &name, evidence);
            }
        }
    }
    book
}

/// Returns when a minion must be back after the clones of it that had ended at `at`. It may have begun a pause just before a clone
/// ended, and the pauses before that one were together no longer than the clone was there.
fn back_after_clones(evidence: &Evidence, number: usize, at: Duration) -> Duration {
    let of_clone = |loss: &Loss| match loss {
        Loss::Cloned { minion, from, to } if *minion == number && *to <= at => {
            let pause = (REPLACED_PAUSE + to.saturating_sub(*from)) * 2;
            Some(*to + pause.min(LONGEST_REPLACED_PAUSE) + evidence.return_bound)
        }
        _ => None,
    };
    let ends = evidence.history.losses.iter().filter_map(of_clone);
    ends.max().unwrap_or_default()
}
