//! The book about jobs that are carried out in batches.

use std::time::Duration;

use super::{Book, Ledger, minion_number, seconds};
use crate::evidence::LedgerRun;
use crate::plan::JobAct;
use crate::timeline::Who;

/// Checks that no more minions than the size of a batch run it at once. The master may take a disturbed minion for
/// gone and give its slot to another one, so such runs do not count. Neither do those of a job that an operator has
/// killed, whose runs end early.
pub(super) fn no_more_at_once(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "batches",
        "no more minions run a batch at once than it allows",
    );
    for (token, publication) in &ledger.publications {
        let Some(size) = publication.job.batch else {
            continue;
        };
        if publication.acts.iter().any(|act| act.act == JobAct::Kill) {
            continue;
        }
        let takes = publication.job.takes;
        let mut runs: Vec<&LedgerRun> = ledger.runs.get(token).cloned().unwrap_or_default();
        runs.sort_by_key(|run| run.at);
        for (index, run) in runs.iter().enumerate() {
            book.checked += 1;
            let before = &runs[..index];
            let at_once: Vec<&&LedgerRun> = before
                .iter()
                .filter(|other| other.at + takes > run.at)
                .chain(std::iter::once(run))
                .collect();
            let is_excused = ledger.lost_within(publication.began, run.at)
                || at_once
                    .iter()
                    .any(|run| was_disturbed(ledger, run, publication.began, run.at + takes));
            if at_once.len() > size as usize && !is_excused {
                let names: Vec<&str> = at_once.iter().map(|run| run.instance.as_str()).collect();
                let evidence = format!(
                    "at {} it ran on {}, and its size is {size}",
                    seconds(run.at),
                    names.join(", ")
                );
                book.find(ledger.jid(*token), run.minion(), evidence);
            }
        }
    }
    book
}

fn was_disturbed(ledger: &Ledger<'_>, run: &LedgerRun, from: Duration, to: Duration) -> bool {
    let Some(number) = minion_number(run.minion()) else {
        return false;
    };
    // What was done to it before may still keep it away.
    let from = from.saturating_sub(ledger.evidence.return_bound);
    let who = [Who::Minion(number)];
    !ledger.evidence.history.left_alone(&who, from, to) || ledger.was_double(run.minion(), from, to)
}
