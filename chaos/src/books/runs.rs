//! The books about runs and states.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Book, Ledger, minion_number, seconds};
use crate::plan::JOB_TTL;
use crate::states::State;

/// How long a minion that is back may take to ask for what it missed and to begin it.
const CATCH_UP: Duration = Duration::from_secs(3);

pub(super) fn at_most_once(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new("at most once", "no job runs twice on one instance");
    for (token, runs) in &ledger.runs {
        let mut times: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for run in runs {
            times
                .entry(&run.instance)
                .or_default()
                .push(seconds(run.at));
        }
        for (instance, times) in times {
            book.checked += 1;
            if times.len() > 1 {
                let evidence = format!(
                    "the ledger has {} runs: at {}",
                    times.len(),
                    times.join(", ")
                );
                book.find(ledger.jid(*token), instance, evidence);
            }
        }
    }
    for line in &ledger.evidence.damaged_lines {
        book.find("", "", format!("a line of a ledger cannot be read: {line}"));
    }
    book
}

/// Every run ends as returned, unless something excuses another state.
pub(super) fn states_are_true(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "true states",
        "a run never ends as expired, not connected or declined, and a return is not lost on its way",
    );
    for (token, (jid, job)) in &ledger.jobs {
        let runs = ledger.runs.get(token).into_iter().flatten();
        for run in runs.filter(|run| !run.on_a_clone()) {
            book.checked += 1;
            let minion = run.minion();
            let Some(state) = ledger.final_state(jid, job, minion) else {
                book.find(jid, minion, "it ran, and the job does not name this minion");
                continue;
            };
            let excused = match state {
                State::Returned => true,
                // Said elsewhere, with what is open in it.
                state if state.is_open() => true,
                // The copy that was put back is from before the run.
                State::MayHaveRun if ledger.lost_within(run.at, run.at) => true,
                State::MayHaveRun | State::LostTrack => {
                    ledger.lost_power_after(minion, run.at) || ledger.was_cloned(minion)
                }
                State::ReturnedAndLost => ledger.restored_after(run.at),
                State::Unconfirmed => false,
                _ => false,
            };
            if !excused {
                let evidence = format!("it ran at {}, and its state is {state}", seconds(run.at));
                book.find(jid, minion, evidence);
            }
        }
    }
    book
}

pub(super) fn nothing_without_end(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "an end",
        "nothing stays offered or running without end, and every `saline` ends",
    );
    for (jid, job) in &ledger.evidence.jobs {
        if let Some(damage) = &job.damage {
            book.find(jid, "", format!("cannot be read: {damage}"));
        }
        for minion in job.states.keys() {
            book.checked += 1;
            let state = ledger.final_state(jid, job, minion);
            let Some(state) = state.filter(|state| state.is_open()) else {
                continue;
            };
            let ran = job
                .token
                .and_then(|token| ledger.runs_of(token, minion).next());
            let ran = match ran {
                Some(run) => format!("it ran at {}", seconds(run.at)),
                None => "it did not run".to_owned(),
            };
            let evidence = format!("still {state} after everything has settled; {ran}");
            book.find(jid, minion, evidence);
        }
    }
    for publication in &ledger.evidence.publications {
        book.checked += 1;
        if publication.ended.is_none() {
            let jid = publication.jid.clone().unwrap_or_default();
            let evidence = format!(
                "`{}`, begun at {}, did not end; it had printed {} returns",
                publication.mode,
                seconds(publication.began),
                publication.returns.len()
            );
            book.find(jid, "", evidence);
        }
    }
    book
}

/// A minion that is there, and left alone for long enough before a job expires, runs it.
pub(super) fn in_time(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "in time",
        "a minion that was offered a job, and is there in time, runs it",
    );
    for (token, publication) in &ledger.publications {
        let (Some((jid, job)), Some(ended)) = (ledger.jobs.get(token), publication.ended) else {
            continue;
        };
        if publication.batch.is_some() {
            // The turn of a minion may come later, and one that is away then is left out.
            continue;
        }
        let expires = publication.began.min(ended) + JOB_TTL;
        for minion in job.states.keys() {
            let Some(number) = minion_number(minion) else {
                continue;
            };
            book.checked += 1;
            let Some(state) = ledger.final_state(jid, job, minion) else {
                continue;
            };
            let missed = match state {
                State::Expired | State::Offered | State::Unconfirmed => true,
                State::MayHaveRun => {
                    !(ledger.restored_after(publication.began)
                        || ledger.lost_power_after(minion, publication.began)
                        || ledger.was_cloned(minion))
                }
                _ => false,
            };
            if !missed || ledger.runs_of(*token, minion).next().is_some() {
                continue;
            }
            let history = &ledger.evidence.history;
            let back = history.back_at(number, expires, ledger.evidence.return_bound);
            if let Some(back) = back.filter(|back| *back + CATCH_UP <= expires) {
                let evidence = format!(
                    "published at {}, expired at {}, back at {} at the latest, and not run: {state}",
                    seconds(publication.began),
                    seconds(expires),
                    seconds(back)
                );
                book.find(jid, minion, evidence);
            }
        }
    }
    book
}
