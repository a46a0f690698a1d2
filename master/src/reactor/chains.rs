//! What came of what: keeps a file of the reactor from reacting to its own doing.
//!
//! An event has a chain: the files of the reactor from whose orders it came, one after the other. A job and a run have the
//! chain of the event to which they were a reaction, and the file that ordered them; their events have that chain too. An
//! event that a reaction fired itself names the file as its origin. A file is not rendered for an event in whose chain it is.
//! The metadata of a job have its chain, so that the next start of the master knows it too.
//!
//! What a minion fires while it carries out a job has no chain, since a minion could say anything. There a bound on the
//! rate of each file and each source keeps a loop from growing.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use saline_data::{Packed, Value};
use saline_messages::{Event, EventOrigin, EventTag, Jid, OriginKind};
use saline_protocol::transport::Clock;

use crate::bounds::{Rate, TokenBuckets};

/// How often a file is rendered for the events of one source: at once, and then in a second.
const RATE: Rate = Rate {
    burst: 100.0,
    per_second: 10.0,
};

/// The most files and sources that are told apart.
const MOST_SOURCES: usize = 100_000;

/// The most jobs and runs whose chains are remembered.
const MOST_CHAINS: usize = 100_000;

/// The entry in the metadata of a job that tells to what it is a reaction, and in it the one with the chain.
pub(super) const METADATA: &str = "reaction";
pub(super) const FILES: &str = "files";

/// The files from whose orders something came, the first one first.
pub(super) type Chain = Arc<[String]>;

/// Knows from whose orders jobs and runs came, and cuts reactions that would go round in a loop.
#[derive(Debug)]
pub(super) struct Chains {
    known: Mutex<KnownChains>,
    rates: TokenBuckets<(String, String)>,
}

#[derive(Debug, Default)]
struct KnownChains {
    of_jid: HashMap<Jid, Chain>,
    order: VecDeque<Jid>,
    /// The chain of what each file ordered last.
    of_file: HashMap<String, Chain>,
}

/// Why a file is not rendered for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CutReaction {
    /// The event came of what the file ordered.
    Loop,
    /// It is rendered too often for the events of this source.
    Rate,
}

impl std::fmt::Display for CutReaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Loop => f.write_str("the event came of what this file ordered itself, and a file never reacts to its own doing"),
            Self::Rate => write!(
                f,
                "it did more than {} reactions at once and {} a second to events of this source",
                RATE.burst, RATE.per_second
            ),
        }
    }
}

impl Chains {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            known: Mutex::default(),
            rates: TokenBuckets::new(clock, RATE, MOST_SOURCES),
        }
    }

    /// Returns the jid of the job or the run that an event is of.
    pub(super) fn jid_of(event: &Event) -> Option<Jid> {
        match EventTag::parse(&event.tag)? {
            EventTag::Job(jid, _) | EventTag::Batch(jid, _) | EventTag::Run(_, jid, _) => Some(jid),
            _ => None,
        }
    }

    /// Returns the chain of a job or a run; none if it is not known.
    pub(super) fn known(&self, jid: &Jid) -> Option<Chain> {
        self.lock().of_jid.get(jid).cloned()
    }

    /// Returns the chain that the metadata of a job name which a reaction ordered; none if they have none.
    pub(super) fn of_metadata(metadata: &Packed) -> Option<Chain> {
        let metadata = metadata.unpack().ok()?;
        let files = metadata.get(METADATA)?.get(FILES)?;
        let Value::List(files) = files else {
            return None;
        };
        let files = files.iter().map(|file| file.as_str().map(str::to_owned));
        files.collect()
    }

    /// Returns the chain of what this party does by itself.
    pub(super) fn of_origin(&self, origin: &EventOrigin) -> Chain {
        match origin.kind {
            OriginKind::Reaction => self.of_file(&origin.id),
            _ => Chain::default(),
        }
    }

    /// Returns the chain of what a file ordered last.
    fn of_file(&self, file: &str) -> Chain {
        let known = self.lock().of_file.get(file).cloned();
        known.unwrap_or_else(|| Arc::new([file.to_owned()]))
    }

    /// Notes the chain of a job or a run.
    pub(super) fn note(&self, jid: &Jid, chain: &Chain) {
        let mut chains = self.lock();
        if chains
            .of_jid
            .insert(jid.clone(), Arc::clone(chain))
            .is_some()
        {
            return;
        }
        chains.order.push_back(jid.clone());
        if chains.order.len() > MOST_CHAINS
            && let Some(oldest) = chains.order.pop_front()
        {
            chains.of_jid.remove(&oldest);
        }
    }

    /// Begins a reaction of a file to an event with this chain: returns the chain of what it orders, or why it orders
    /// nothing.
    pub(super) fn begin(
        &self,
        file: &str,
        source: &str,
        chain: &Chain,
    ) -> Result<Chain, CutReaction> {
        if chain.iter().any(|earlier| earlier == file) {
            return Err(CutReaction::Loop);
        }
        let key = (file.to_owned(), source.to_owned());
        self.rates.take(&key).map_err(|_| CutReaction::Rate)?;
        let chain: Chain = chain.iter().cloned().chain([file.to_owned()]).collect();
        self.lock()
            .of_file
            .insert(file.to_owned(), Arc::clone(&chain));
        Ok(chain)
    }

    fn lock(&self) -> MutexGuard<'_, KnownChains> {
        // A panic can leave a chain that is forgotten too late, and nothing worse.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_does_not_react_to_what_came_of_it_also_through_others() {
        let chains = Chains::new(Clock);
        let none = Chain::default();
        let first = chains.begin("/a.sls", "minion m", &none).unwrap();
        let jid = Jid::parse("20261121091409931549").unwrap();
        chains.note(&jid, &first);
        let of_job = chains.known(&jid).unwrap();
        assert_eq!(
            chains.begin("/a.sls", "minion m", &of_job),
            Err(CutReaction::Loop)
        );
        let second = chains.begin("/b.sls", "minion m", &of_job).unwrap();
        assert_eq!(*second, ["/a.sls".to_owned(), "/b.sls".to_owned()]);
        assert_eq!(
            chains.begin("/a.sls", "minion m", &second),
            Err(CutReaction::Loop)
        );
        // What it fired itself has it as its origin.
        assert_eq!(chains.of_origin(&EventOrigin::reaction("/b.sls")), second);
        assert!(chains.begin("/a.sls", "minion m", &none).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_nobody_can_follow_is_slow_and_harms_no_other_source() {
        let chains = Chains::new(Clock);
        let none = Chain::default();
        let begun = (0..1_000).filter(|_| chains.begin("/a.sls", "minion m", &none).is_ok());
        assert_eq!(begun.count(), 100);
        assert_eq!(
            chains.begin("/a.sls", "minion m", &none),
            Err(CutReaction::Rate)
        );
        assert!(chains.begin("/a.sls", "minion n", &none).is_ok());
        assert!(chains.begin("/b.sls", "minion m", &none).is_ok());
        Clock.pause(std::time::Duration::from_secs(1)).await;
        let begun = (0..1_000).filter(|_| chains.begin("/a.sls", "minion m", &none).is_ok());
        assert_eq!(begun.count(), 10);
    }
}
