//! The books about what was told, and what is stored.

use std::time::Duration;

use super::{Book, Ledger, seconds};
use crate::plan::JobAct;
use crate::states::State;

pub(super) fn nothing_is_missing(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "acknowledged",
        "a jid that was printed is stored for its job, and a return that was printed is stored",
    );
    for publication in &ledger.evidence.publications {
        let Some(jid) = &publication.jid else {
            continue;
        };
        book.checked += 1 + publication.returns.len();
        // What was acknowledged between a copy of the store and its return is lost with the disk.
        let ended = publication.ended.unwrap_or(Duration::MAX);
        let excused = ledger.lost_within(publication.began, ended);
        let Some(job) = ledger.evidence.jobs.get(jid) else {
            if !excused {
                let evidence = format!(
                    "`{}` printed the jid, published at {}, and the job is not stored",
                    publication.mode,
                    seconds(publication.began)
                );
                book.find(jid, "", evidence);
            }
            continue;
        };
        if job
            .token
            .is_some_and(|token| token != publication.job.token)
        {
            // Never excused: minions that know the first job refuse the second.
            let evidence = format!(
                "`{}` printed the jid at {}, and it is stored for another job",
                publication.mode,
                seconds(publication.began)
            );
            book.find(jid, "", evidence);
            continue;
        }
        for target in &publication.job.targets {
            let target = &format!("m{target}");
            let ended = publication.ended.unwrap_or_default();
            let unknown = ledger.key_was_deleted(target, publication.began, ended);
            if !job.states.contains_key(target) && !unknown {
                book.find(jid, target, "the job was for it, and does not name it");
            }
        }
        for printed in &publication.returns {
            let minion = &printed.minion;
            if !job.returns.contains_key(minion) && !excused {
                let evidence = match job.states.get(minion) {
                    Some(state) => format!("its return was printed; stored is: {state}"),
                    None => "its return was printed; the job does not name it".to_owned(),
                };
                book.find(jid, minion, evidence);
            }
        }
    }
    book
}

pub(super) fn stored_once(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "stored once",
        "every return is stored once, for a minion of its job",
    );
    for (jid, job) in &ledger.evidence.jobs {
        for (minion, rows) in &job.returns {
            book.checked += 1;
            if rows.len() != 1 {
                book.find(jid, minion, format!("{} rows of its return", rows.len()));
            }
            if !job.states.contains_key(minion) {
                book.find(
                    jid,
                    minion,
                    "a return of a minion that the job does not name",
                );
            }
        }
        for (minion, state) in &job.states {
            if *state == State::Returned && !job.returns.contains_key(minion) {
                book.find(
                    jid,
                    minion,
                    "it is stored as returned, and no return is stored",
                );
            }
        }
    }
    book
}

/// What an operator was told will not run does not run.
pub(super) fn what_was_told(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "told",
        "a minion of which `saline` or `jobs.cancel` said that it will not run the job does not run it",
    );
    for (token, publication) in &ledger.publications {
        for (minion, word) in &publication.absent {
            book.checked += 1;
            let state = State::from_word(word);
            let denied = state.is_some_and(State::denies_a_run);
            // What a clone does is not said of the minion.
            let run = ledger.runs_of(*token, minion).find(|run| !run.on_a_clone());
            if let Some(run) = run.filter(|_| denied) {
                let until = publication.ended.unwrap_or(Duration::MAX);
                let is_unseen = state == Some(State::Expired)
                    && ledger.put_back_between_heartbeats(minion, run.at, until);
                let told = publication.ended.map(seconds).unwrap_or_default();
                let evidence = format!(
                    "`saline` said [{word}] at {told}, and the ledger has a run of {} at {}",
                    run.instance,
                    seconds(run.at)
                );
                match is_unseen {
                    true => book.count(ledger.jid(*token), minion, evidence),
                    false => book.find(ledger.jid(*token), minion, evidence),
                }
            }
        }
        for act in publication
            .acts
            .iter()
            .filter(|act| act.act == JobAct::Cancel)
        {
            for (minion, answer) in &act.answers {
                book.checked += 1;
                // "offered; cancelled when the minion reports" leaves it open.
                let denied = State::from_word(answer).is_some_and(State::denies_a_run);
                let run = ledger.runs_of(*token, minion).find(|run| !run.on_a_clone());
                if let Some(run) = run.filter(|_| denied) {
                    let evidence = format!(
                        "`jobs.cancel` said {answer:?} at {}, and the ledger has a run of {} at {}",
                        seconds(act.to),
                        run.instance,
                        seconds(run.at)
                    );
                    book.find(ledger.jid(*token), minion, evidence);
                }
            }
        }
    }
    book
}

/// `saline-run jobs.lookup_jid` shows what the store's files have.
pub(super) fn seen_as_stored(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "seen as stored",
        "`saline-run jobs.lookup_jid` shows the returns that are stored",
    );
    for (jid, lookup) in &ledger.evidence.lookups {
        let Some(job) = ledger.evidence.jobs.get(jid) else {
            continue;
        };
        book.checked += 1;
        let lookup = match lookup {
            Ok(lookup) => lookup,
            Err(why) => {
                book.find(jid, "", format!("it cannot be looked up: {why}"));
                continue;
            }
        };
        for minion in job.states.keys() {
            let (stored, shown) = (
                job.returns.contains_key(minion),
                lookup.returned.contains(minion),
            );
            if stored != shown {
                let evidence = format!("return stored: {stored}, shown: {shown}");
                book.find(jid, minion, evidence);
            }
        }
    }
    book
}
