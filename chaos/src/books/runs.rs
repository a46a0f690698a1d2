//! The books about runs and states.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Book, Ledger, attached, minion_number, seconds};
use crate::states::State;

/// How long a minion that is back may take to ask for what it missed and to begin it.
const CATCH_UP: Duration = Duration::from_secs(3);

pub(super) fn at_most_once(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new("at most once", "no job runs twice on one instance");
    for (token, runs) in &ledger.runs {
        let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
        for run in runs {
            times.entry(&run.instance).or_default().push(run.at);
        }
        for (instance, times) in times {
            book.checked += 1;
            if times.len() > 1 {
                let all: Vec<String> = times.iter().copied().map(seconds).collect();
                let evidence = format!("the ledger has {} runs: at {}", all.len(), all.join(", "));
                let mut pairs = times.windows(2);
                let are_between_heartbeats = pairs
                    .all(|pair| ledger.put_back_between_heartbeats(instance, pair[0], pair[1]));
                match times.is_sorted() && are_between_heartbeats {
                    true => book.count(ledger.jid(*token), instance, evidence),
                    false => book.find(ledger.jid(*token), instance, evidence),
                }
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
        "a run ends as returned, and every other state has a cause",
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
            let delivered = ledger.return_delivered_by(run);
            let excused = match state {
                State::Returned => true,
                // Said elsewhere, with what is open in it.
                state if state.is_open() => true,
                // The copy that was put back is from before the master knew of the run, or from before its return, which the
                // minion has settled since.
                State::MayHaveRun if ledger.lost_within(run.at, delivered) => true,
                State::MayHaveRun | State::LostTrack => {
                    ledger.forgot_within(minion, run.at, delivered)
                        || ledger.was_double(minion, run.at, delivered)
                }
                State::ReturnedAndLost => ledger.lost_within(run.at, delivered),
                // What was handed over before may begin after it.
                State::Withdrawn => {
                    let publication = ledger.publications.get(token);
                    let began = publication.map_or(run.at, |published| published.began);
                    ledger.key_was_deleted(minion, began, delivered)
                }
                _ => false,
            };
            if !excused {
                let evidence = format!("it ran at {}, and its state is {state}", seconds(run.at));
                match state == State::Expired
                    && ledger.put_back_between_heartbeats(minion, run.at, delivered)
                {
                    true => book.count(jid, minion, evidence),
                    false => book.find(jid, minion, evidence),
                }
            }
        }
    }
    for (token, (jid, job)) in &ledger.jobs {
        let Some(publication) = ledger.publications.get(token) else {
            continue;
        };
        for (minion, state) in &job.states {
            let ran = ledger.runs_of(*token, minion).next().is_some();
            // Open and expired states need no cause but time.
            if ran || state.is_open() || matches!(state, State::Returned | State::Expired) {
                continue;
            }
            if job.returns.contains_key(minion) {
                continue;
            }
            book.checked += 1;
            let until = ledger.handed_over_until(publication, minion);
            let word = state.to_string();
            if let Some(why) = attached::against_word(ledger, publication, minion, &word, until) {
                let evidence = format!(
                    "published at {}, and its state is {state}: {why}",
                    seconds(publication.began)
                );
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
            let looked_up = match ledger.evidence.lookups.get(jid) {
                Some(Err(why)) => format!("; it cannot be looked up: {why}"),
                _ => String::new(),
            };
            let ran = match ran {
                Some(run) => format!("it ran at {}", seconds(run.at)),
                None => "it did not run".to_owned(),
            };
            let evidence = format!("still {state} after everything has settled; {ran}{looked_up}");
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
        if publication.job.batch.is_some() {
            // The turn of a minion may come later, and one that is away then is left out.
            continue;
        }
        let expires = publication.began.min(ended) + publication.job.offered_for();
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
                    let until = ledger.handed_over_until(publication, minion);
                    !(ledger.lost_within(publication.began, until)
                        || ledger.forgot_within(minion, publication.began, until)
                        || ledger.was_double(minion, publication.began, until))
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
