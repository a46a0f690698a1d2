//! The books: what must hold after everything, and what does not.

mod acknowledged;
mod attached;
mod batches;
mod contents;
mod excuses;
mod files;
mod presence;
mod resources;
mod runs;
mod services;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::evidence::{Evidence, LedgerRun};
use crate::plan::Token;
use crate::publisher::Publication;
use crate::states::State;
use crate::store::StoredJob;

/// A promise, and where it was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Book {
    pub(crate) name: &'static str,
    pub(crate) promise: &'static str,
    /// How many cases were checked.
    pub(crate) checked: usize,
    pub(crate) findings: Vec<Finding>,
    /// Breaches of the promise that the documentation names as possible.
    pub(crate) counted: Vec<Finding>,
}

/// A case in which a promise was not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) jid: String,
    pub(crate) minion: String,
    pub(crate) evidence: String,
}

impl Book {
    fn new(name: &'static str, promise: &'static str) -> Self {
        Self {
            name,
            promise,
            checked: 0,
            findings: Vec::new(),
            counted: Vec::new(),
        }
    }

    fn find(&mut self, jid: impl ToString, minion: impl ToString, evidence: impl ToString) {
        self.findings.push(Finding {
            jid: jid.to_string(),
            minion: minion.to_string(),
            evidence: evidence.to_string(),
        });
    }

    fn count(&mut self, jid: impl ToString, minion: impl ToString, evidence: impl ToString) {
        self.counted.push(Finding {
            jid: jid.to_string(),
            minion: minion.to_string(),
            evidence: evidence.to_string(),
        });
    }

    /// Whether the promise was kept.
    pub(crate) fn balances(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Checks every book.
pub(crate) fn check(evidence: &Evidence) -> Vec<Book> {
    let ledger = Ledger::new(evidence);
    vec![
        runs::at_most_once(&ledger),
        acknowledged::nothing_is_missing(&ledger),
        acknowledged::stored_once(&ledger),
        contents::are_what_ran(&ledger),
        runs::states_are_true(&ledger),
        runs::nothing_without_end(&ledger),
        runs::in_time(&ledger),
        batches::no_more_at_once(&ledger),
        acknowledged::what_was_told(&ledger),
        attached::everyone_is_named(&ledger),
        attached::ends_with_the_last_answer(&ledger),
        acknowledged::seen_as_stored(&ledger),
        services::everything_is_delivered(&ledger),
        services::reacted_once(&ledger),
        services::pillars_are_their_own(&ledger),
        services::mine_has_the_last(&ledger),
        files::are_whole(&ledger),
        presence::is_true(evidence),
        resources::are_flat(evidence),
        resources::daemons_stay(evidence),
    ]
}

/// The evidence, joined by token.
pub(crate) struct Ledger<'e> {
    pub(crate) evidence: &'e Evidence,
    /// The job of each token: its jid, and what is stored.
    jobs: BTreeMap<Token, (&'e str, &'e StoredJob)>,
    publications: BTreeMap<Token, &'e Publication>,
    runs: BTreeMap<Token, Vec<&'e LedgerRun>>,
}

impl<'e> Ledger<'e> {
    pub(crate) fn new(evidence: &'e Evidence) -> Self {
        let jobs = evidence.jobs.iter();
        let jobs = jobs.filter_map(|(jid, job)| Some((job.token?, (jid.as_str(), job))));
        let publications = evidence.publications.iter();
        let publications = publications.map(|published| (published.job.token, published));
        let mut runs: BTreeMap<Token, Vec<&LedgerRun>> = BTreeMap::new();
        for run in &evidence.runs {
            runs.entry(run.token).or_default().push(run);
        }
        Self {
            evidence,
            jobs: jobs.collect(),
            publications: publications.collect(),
            runs,
        }
    }

    /// Returns the jid of a token: as it is stored, as it was printed, or the token itself.
    fn jid(&self, token: Token) -> String {
        let stored = self.jobs.get(&token).map(|(jid, _)| (*jid).to_owned());
        let printed = || self.publications.get(&token).and_then(|p| p.jid.clone());
        stored.or_else(printed).unwrap_or_else(|| token.to_string())
    }

    /// Returns the runs of a token by the machines of a minion.
    fn runs_of<'s>(&'s self, token: Token, minion: &'s str) -> impl Iterator<Item = &'e LedgerRun> {
        let runs = self.runs.get(&token).into_iter().flatten().copied();
        runs.filter(move |run| run.minion() == minion)
    }

    /// Returns the state of a minion in a job, as an operator is to take it in the end.
    pub(crate) fn final_state(&self, jid: &str, job: &StoredJob, minion: &str) -> Option<State> {
        if job.returns.contains_key(minion) {
            return Some(State::Returned);
        }
        let stored = *job.states.get(minion)?;
        if !matches!(stored, State::Offered | State::Queued | State::Waiting) {
            return Some(stored);
        }
        // An offer ends by the clock or by an expiry ack of its minion, which the state in the row may not say.
        // By now every job is older than it may wait. One that nobody could look up is open.
        let Some(Ok(lookup)) = self.evidence.lookups.get(jid) else {
            return Some(stored);
        };
        let told = lookup.absent.get(minion);
        told.and_then(|word| State::from_word(word))
            .or(Some(stored))
    }

    /// Returns the minions that a job is for.
    fn expected(&self, publication: &Publication) -> Vec<String> {
        let name = |number: usize| format!("m{number}");
        match publication.job.targets.as_slice() {
            [] => (1..=self.evidence.minions).map(name).collect(),
            targets => targets.iter().copied().map(name).collect(),
        }
    }
}

/// Returns the number of a minion.
fn minion_number(minion: &str) -> Option<usize> {
    minion.strip_prefix('m')?.parse().ok()
}

fn seconds(at: Duration) -> String {
    format!("{:.3} s", at.as_secs_f64())
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_contents;
