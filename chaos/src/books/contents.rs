//! The book about what returns hold.

use std::time::Duration;

use super::{Book, Ledger, minion_number, seconds};
use crate::contents::Content;
use crate::evidence::LedgerRun;
use crate::plan::{FAILS_WITH, JobAct, Output};
use crate::publisher::Publication;
use crate::store::StoredReturn;

/// The text that a minion returns for a job that it could not write to its spool.
const NOT_SPOOLED: &str = "could not write to its spool";

/// What a return says of a job that its minion had no time to begin.
const NOT_BEGUN: &str = "never started, since the minion was ended first";

/// Checks that every return, stored or printed, is what its run printed, to the last byte. A return that says that the run was
/// interrupted needs a loss of power of the minion's machine: a run outlives every other end of its minion.
pub(super) fn are_what_ran(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "contents",
        "a return is exactly what its run printed over kill -9, SIGTERM and restart of the minion, unless something ended the run \
         or the machine",
    );
    for (token, (jid, job)) in &ledger.jobs {
        let Some(publication) = ledger.publications.get(token) else {
            continue;
        };
        for (minion, rows) in &job.returns {
            for stored in rows {
                book.checked += 1;
                if let Some(evidence) = against(ledger, publication, minion, &stored.content)
                    .or_else(|| against_retcode(publication, minion, stored))
                {
                    book.find(jid, minion, format!("stored: {evidence}"));
                }
            }
        }
    }
    for publication in &ledger.evidence.publications {
        for printed in &publication.returns {
            book.checked += 1;
            let minion = &printed.minion;
            let ended = publication.ended.unwrap_or_default();
            // The real return may have come later.
            let is_excused = printed.content == Content::Interrupted
                && ledger.was_double(minion, publication.began, ended);
            let evidence = against(ledger, publication, minion, &printed.content);
            if let Some(evidence) = evidence.filter(|_| !is_excused) {
                let jid = ledger.jid(publication.job.token);
                book.find(jid, minion, format!("printed: {evidence}"));
            }
        }
    }
    book
}

/// Returns what is wrong with a return.
fn against(
    ledger: &Ledger<'_>,
    publication: &Publication,
    minion: &str,
    content: &Content,
) -> Option<String> {
    let job = &publication.job;
    let runs: Vec<&LedgerRun> = ledger.runs_of(job.token, minion).collect();
    let killed = job.act.is_some_and(|(act, _)| act == JobAct::Kill);
    let until = ledger.handed_over_until(publication, minion);
    match content {
        Content::Whole(output) => against_output(publication, minion, output, &runs),
        Content::Interrupted => {
            let of_minion: Vec<_> = runs.iter().filter(|run| !run.on_a_clone()).collect();
            let is_excused = |run: &LedgerRun| {
                let delivered = ledger.return_delivered_by(run);
                ledger.was_cut_short(run)
                    || ledger.was_not_synced(run)
                    || ledger.forgot_within(minion, run.at, delivered)
                    || ledger.rolled_back_within(minion, run.at, delivered)
            };
            let excused = match of_minion.as_slice() {
                // The minion's process ended after it had noted the job, and before it had a process.
                [] => {
                    ledger.was_down(minion, publication.began, until)
                        || ledger.was_double(minion, publication.began, until)
                }
                // A clone that had the minion's notes says so, and a store that was put back may not have the return of the run.
                runs => {
                    let is_restored = ledger.lost_within(publication.began, Duration::MAX)
                        && ledger.was_double(minion, publication.began, until);
                    killed || is_restored || runs.iter().any(|run| is_excused(run))
                }
            };
            let ran: Vec<String> = of_minion.iter().map(|run| of_run(run)).collect();
            (!excused).then(|| {
                format!(
                    "it is said to be interrupted, and the machine did not lose its power then; {}",
                    ran.join(", ")
                )
            })
        }
        Content::Other(text) => {
            let full = text.contains(NOT_SPOOLED)
                && ledger.disk_was_full(minion, publication.began, until);
            // The minion's process ended after it had noted the job, and before its process had begun it.
            let not_begun = text.contains(NOT_BEGUN)
                && runs.is_empty()
                && ledger.was_down(minion, publication.began, until);
            (!killed && !full && !not_begun).then(|| format!("not what the job prints: {text}"))
        }
    }
}

fn against_output(
    publication: &Publication,
    minion: &str,
    output: &Output,
    runs: &[&LedgerRun],
) -> Option<String> {
    let job = &publication.job;
    if output.token != job.token {
        return Some(format!("the output of another job, {}", output.token));
    }
    if output.prints != job.prints {
        return Some(format!(
            "{} bytes of its output, not {}",
            output.prints, job.prints
        ));
    }
    // A run whose process was killed after the output has no line of its end in the ledger.
    let ran = runs.iter().any(|run| run.instance == output.instance);
    (!ran).then(|| {
        format!(
            "the output of {}, which is not {minion} or did not run it",
            output.instance
        )
    })
}

fn against_retcode(
    publication: &Publication,
    minion: &str,
    stored: &StoredReturn,
) -> Option<String> {
    let Content::Whole(output) = &stored.content else {
        return None;
    };
    let fails = publication.job.fails_on;
    let fails = fails.is_some() && fails == minion_number(&output.instance);
    let expected = if fails { FAILS_WITH } else { 0 };
    (stored.retcode != expected).then(|| {
        format!(
            "{minion} has the retcode {}, not {expected}",
            stored.retcode
        )
    })
}

fn of_run(run: &LedgerRun) -> String {
    match run.ended {
        Some(ended) => format!("it ran from {} to {}", seconds(run.at), seconds(ended)),
        None => format!("it ran from {} and did not end", seconds(run.at)),
    }
}
