//! The pillar that a minion holds: data of the master for this minion alone, often secret. It is in memory, in one place, and
//! functions read it there; it is on the disk only where `minion_pillar_cache` says so.
//!
//! [`MasterPillar`] asks the master one thing. What makes a pillar of the replies is a [`PillarExchange`], for functions, which wait on
//! their threads, and for the minion itself, which asks after each session has begun.

mod cache_file;
mod exchange;
mod schedule;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use saline_data::Value;
use saline_functions::{Failure, Mapping};
use saline_messages::{MAX_PILLAR_ERRORS, MinionPillar, PillarReply, PillarRequest, TransferId};
use saline_protocol::transport::Clock;
use tokio::sync::Notify;

use crate::job::JobControl;
use crate::pending_answer::PendingAnswer;
use crate::{Host, mine};
use cache_file::CacheFile;
pub use exchange::{Environments, ExchangeError, Exchanged, PillarExchange, ReceivedPillar};

/// The name of the entry that shows what went wrong, as in Salt.
pub(crate) const ERRORS: &str = "_errors";

/// How long a function waits for a pillar.
pub(crate) const COMPILE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long one answer may take. The master may compile for half a minute, and has the minion wait for its turn before.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);

/// How long a function waits before it looks again whether another one has got the first pillar.
const OTHERS_ASK: Duration = Duration::from_millis(100);

/// The end of the tags of events that say that a refresh which somebody wanted has ended.
const COMPLETE: &str = "minion_pillar_refresh_complete";

/// Asks the master about the pillar of this minion.
pub trait MasterPillar: fmt::Debug + Send + Sync {
    /// Sends a request, which may wait for its answer at most so long. Returns at once.
    fn send(&self, request: PillarRequest, within: Duration) -> PendingAnswer<PillarReply>;

    /// Returns the size of the next part of a pillar in bytes, which follows the speed of the link.
    fn part_size(&self) -> u32;
}

/// A pillar of this minion.
#[derive(Clone, PartialEq)]
pub struct Pillar {
    /// The entries, a mapping: those of the last pillar that had no errors.
    pub(crate) entries: Arc<Value>,
    /// What went wrong when it was compiled last, a line each.
    pub(crate) errors: Vec<String>,
    /// Identifies the pillar, when the master is asked whether it has changed.
    known: TransferId,
}

/// Holds the minion's pillar.
#[derive(Debug, Default)]
pub struct PillarStore {
    held: Mutex<Option<Arc<Pillar>>>,
    /// Gives the pillars that begin to arrive their numbers.
    arrivals: Arc<AtomicU64>,
    /// The number of the pillar that is held. Locked while another one takes its place.
    newest: Mutex<u64>,
    cache: Mutex<Option<CacheFile>>,
    /// Held by the function that asks for the first pillar.
    first: Mutex<()>,
    wanted: Notify,
    /// Whether somebody asked for the refresh that is wanted, and is told of its end.
    is_awaited: AtomicBool,
}

impl Pillar {
    /// Reads what the master sent. Where it sent no entries those of `before` stay.
    fn of(
        sent: MinionPillar,
        known: TransferId,
        before: Option<&Self>,
    ) -> Result<Self, ExchangeError> {
        let entries = match sent.entries {
            // What a decoder says may quote the pillar.
            Some(packed) => match packed.unpack().map_err(|_| ExchangeError::Unexpected)? {
                entries @ Value::Map(_) => Arc::new(entries),
                _ => return Err(ExchangeError::Unexpected),
            },
            None => before.map_or_else(
                || Arc::new(Value::Map(Vec::new())),
                |before| Arc::clone(&before.entries),
            ),
        };
        let mut errors = sent.errors;
        errors.truncate(MAX_PILLAR_ERRORS);
        Ok(Self {
            entries,
            errors,
            known,
        })
    }

    /// Returns what went wrong when it was compiled last, a line each. They may quote secrets, so no log gets them.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Returns the entries, and with them what went wrong.
    pub(crate) fn shown(&self) -> Mapping {
        let mut shown = match self.entries.as_ref() {
            Value::Map(entries) => entries.clone(),
            _ => Vec::new(),
        };
        if !self.errors.is_empty() {
            shown.retain(|(name, _)| name != ERRORS);
            let errors = self.errors.iter().map(String::as_str);
            shown.push((ERRORS.to_owned(), Value::texts(errors)));
        }
        shown
    }

    /// Returns the failure of a refresh after which the last pillar without errors stays, if there was one; none if there are no
    /// errors.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let errors = match self.errors.as_slice() {
            [] => return None,
            [only] => only.clone(),
            [first, others @ ..] => format!("{first}, and {} more errors", others.len()),
        };
        let kept = match self.entries.as_ref() {
            Value::Map(entries) if !entries.is_empty() => "keeps the last one without any",
            _ => "has none",
        };
        let why = format!("the pillar has errors, so the minion {kept}: {errors}");
        Some(Failure::Execution(why))
    }
}

impl fmt::Debug for Pillar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its values are secrets, and its errors may quote them.
        let entries = match self.entries.as_ref() {
            Value::Map(entries) => entries.len(),
            _ => 0,
        };
        let errors = self.errors.len();
        write!(f, "Pillar({entries} entries, {errors} errors)")
    }
}

impl PillarStore {
    /// Removes the file of an earlier start of the minion, which kept its pillar in it.
    pub fn forget_cache(path: PathBuf) {
        CacheFile(path).remove();
    }

    /// Has the minion ask for its pillar. Is it `awaited`, events tell when that is done.
    pub fn want(&self, awaited: bool) {
        if awaited {
            self.is_awaited.store(true, Ordering::Relaxed);
        }
        self.wanted.notify_one();
    }

    /// Waits until a refresh is wanted. Returns whether it is awaited. One task alone may wait.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn wanted(&self) -> bool {
        self.wanted.notified().await;
        self.is_awaited.swap(false, Ordering::Relaxed)
    }

    /// Returns how many errors the pillar had when it was compiled last.
    pub fn errors(&self) -> usize {
        self.held().map_or(0, |pillar| pillar.errors.len())
    }

    /// Returns the pillar, if the minion has got one.
    pub(crate) fn held(&self) -> Option<Arc<Pillar>> {
        self.lock().clone()
    }

    /// Begins to bring a pillar.
    fn exchange(&self, environments: Environments, known: Option<TransferId>) -> PillarExchange {
        PillarExchange::new(environments, known, Arc::clone(&self.arrivals))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Pillar>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> MutexGuard<'_, Option<CacheFile>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host {
    /// Holds the pillar of this file until the master has sent another one, and keeps the file like the pillar. To be called
    /// before anything is held.
    pub fn open_pillar_cache(&self, path: PathBuf) {
        let cache = CacheFile(path);
        if let Some(pillar) = cache.read() {
            self.use_pillar(&Arc::new(pillar));
        }
        *self.pillar.cache() = Some(cache);
    }

    /// Holds a pillar with entries, and does what they say.
    fn use_pillar(&self, pillar: &Arc<Pillar>) {
        let before = self.pillar.lock().replace(Arc::clone(pillar));
        let before = before.as_ref().map(|before| before.entries.as_ref());
        if mine::differ(before, &pillar.entries) {
            self.mine.want();
        }
        if let Some(scheduler) = &self.schedule {
            let mut jobs = schedule::jobs(&pillar.entries);
            let differs = scheduler.set_of_pillar(jobs.clone());
            if let (true, Some(modules)) = (differs, self.modules.get()) {
                jobs.retain(|(name, _)| scheduler.is_of_pillar(name));
                for line in modules.now().unknown_in_schedule(&jobs) {
                    tracing::warn!("pillar: {line}");
                }
            }
        }
    }

    /// Begins to bring the minion's own pillar.
    pub fn own_pillar_exchange(&self) -> PillarExchange {
        let held = self.pillar.held();
        let known = held.map(|pillar| pillar.known);
        self.pillar.exchange(Environments::default(), known)
    }

    /// Holds the minion's own pillar, which was received, and returns it. One that the master compiled before the one that is held is
    /// not held; then that one is returned. Blocks where it is kept in a file too.
    ///
    /// # Errors
    /// When it is no pillar. The one that is held stays.
    pub fn hold_pillar(&self, received: ReceivedPillar) -> Result<Arc<Pillar>, ExchangeError> {
        let ReceivedPillar {
            sent,
            bytes,
            known,
            number,
        } = received;
        // The number is set in one step, so a poisoned lock is still valid.
        let newest = self.pillar.newest.lock();
        let mut newest = newest.unwrap_or_else(PoisonError::into_inner);
        let before = self.pillar.held();
        if let (Some(before), true) = (&before, number < *newest) {
            return Ok(Arc::clone(before));
        }
        *newest = number;
        let has_entries = sent.entries.is_some();
        let pillar = Arc::new(Pillar::of(sent, known, before.as_deref())?);
        match has_entries {
            true => self.use_pillar(&pillar),
            // The jobs of the schedule stay those of the last one, and a start waits on for the first one that has entries.
            false => *self.pillar.lock() = Some(Arc::clone(&pillar)),
        }
        if let (Some(cache), true) = (&*self.pillar.cache(), pillar.errors.is_empty()) {
            cache.write(&bytes.0);
        }
        Ok(pillar)
    }

    /// Asks the master for the minion's pillar, and holds it. Blocks.
    ///
    /// # Errors
    /// When the master does not send it or gives no answer `within` this time, when the minion stops, and when the job is ended. The
    /// pillar that is held stays.
    pub(crate) fn refresh_pillar(
        &self,
        job: &JobControl,
        within: Duration,
    ) -> Result<Arc<Pillar>, Failure> {
        match self.exchange(job, self.own_pillar_exchange(), within)? {
            Exchanged::Whole(received) => self.hold_pillar(received).map_err(failed),
            // The master says so only of what it was told.
            Exchanged::Unchanged => {
                let held = self.pillar.held();
                held.ok_or_else(|| failed(ExchangeError::Unexpected))
            }
        }
    }

    /// Returns the pillar that the minion holds; asks the master if it has not got one yet.
    ///
    /// # Errors
    /// As [`refresh_pillar`](Self::refresh_pillar).
    pub(crate) fn held_pillar(&self, job: &JobControl) -> Result<Arc<Pillar>, Failure> {
        let end = Clock.after(COMPILE_TIMEOUT);
        loop {
            if let Some(pillar) = self.pillar.held() {
                return Ok(pillar);
            }
            // One of many jobs asks, and holds this until it has the pillar.
            let asking = self.pillar.first.try_lock();
            if !matches!(asking, Err(TryLockError::WouldBlock)) || Clock.now() >= end {
                return self.refresh_pillar(job, COMPILE_TIMEOUT);
            }
            self.wait(job, OTHERS_ASK)?;
        }
    }

    /// Has the master compile a pillar for these environments, and does not hold it. Blocks.
    ///
    /// # Errors
    /// As [`refresh_pillar`](Self::refresh_pillar).
    pub(crate) fn compile_pillar(
        &self,
        job: &JobControl,
        environments: Environments,
    ) -> Result<Arc<Pillar>, Failure> {
        let held = self.pillar.held();
        let held = held.filter(|_| environments == Environments::default());
        let known = held.as_ref().map(|pillar| pillar.known);
        let exchange = self.pillar.exchange(environments, known);
        match self.exchange(job, exchange, COMPILE_TIMEOUT)? {
            Exchanged::Whole(ReceivedPillar { sent, known, .. }) => {
                let pillar = Pillar::of(sent, known, held.as_deref());
                pillar.map(Arc::new).map_err(failed)
            }
            Exchanged::Unchanged => held.ok_or_else(|| failed(ExchangeError::Unexpected)),
        }
    }

    /// Carries out an exchange on the thread of a job. Each answer may take as long as `within` says.
    fn exchange(
        &self,
        job: &JobControl,
        mut exchange: PillarExchange,
        within: Duration,
    ) -> Result<Exchanged, Failure> {
        let master = self.master_pillar.get().ok_or_else(no_master)?;
        loop {
            let request = exchange.request(master.part_size());
            let end = Clock.after(within);
            let send = || {
                let left = end.saturating_duration_since(Clock.now());
                master.send(request.clone(), left.min(ANSWER_TIMEOUT))
            };
            let reply = self.answer_or_again(job, within, send(), send)?;
            if let Some(done) = exchange.take(reply).map_err(failed)? {
                return Ok(done);
            }
        }
    }

    /// Fires the events that say that a refresh has ended, on the minion's bus and on the master's. Is it `complete`, there is a
    /// pillar without errors.
    pub fn tell_pillar_refreshed(&self, complete: bool) {
        let data = || vec![("complete".to_owned(), Value::Bool(complete))];
        let mut fired = vec![self.events.fire(COMPLETE, data())];
        if self.has_bus {
            let tag = format!("salt/minion/{COMPLETE}");
            fired.push(self.local_events.fire(&tag, data()));
        }
        for error in fired.into_iter().filter_map(Result::err) {
            tracing::warn!("the end of a refresh of the pillar is not told: {error}");
        }
    }
}

fn failed(error: ExchangeError) -> Failure {
    Failure::Execution(error.to_string())
}

/// Returns the failure where no master takes part.
fn no_master() -> Failure {
    Failure::Execution(
        "the pillar comes from the master, and no master takes part in this call (--local)"
            .to_owned(),
    )
}
