//! The mine: values that minions leave here for other minions, on the disk. Whose values a request changes, and who asks for those
//! of others, is the minion of the session.
//!
//! A minion tells the digests of what it has and sends only what is missing here ([`MineRequest::Offer`]), so the master's file is the
//! truth and minions remember nothing. Answers come in pages, each of which is a request of its own with the place after which it
//! begins, so nothing is kept between them. Reading and writing have a few threads for blocking work, each with a connection of
//! its own, and one minion has one request at a time.

mod figures;
mod rules;
mod store;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use saline_data::Packed;
use saline_messages::{
    FoundEntry, MineEntry, MinePage, MineRefusal, MineReply, MineRequest, MinionId,
};
use saline_protocol::transport::Context;
use saline_targeting::{Target, TooManySteps};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bounds::{ConcurrencyLimit, TokenBuckets, report_limiter};
use crate::disk::{StoreError, damaged};
use crate::orders::{ResolveError, TargetResolver};
use crate::settings::LiveSettings;
use figures::MineFigures;
use rules::Asker;
use store::{MineStore, READERS, Row};

/// How long a minion is asked to wait for its turn.
const BUSY: Duration = Duration::from_millis(500);

/// How long a request waits for a turn before the minion is asked to come again.
const WAIT: Duration = Duration::from_secs(8);

/// The most requests of all minions that wait at once: a quarter of what a transport hands out unanswered, so that the mine never
/// keeps heartbeats and returns from being read.
const MOST_AT_ONCE: usize = 4096;

/// The most bytes of a page, but for a single larger entry.
const MAX_PAGE_BYTES: usize = 256 * 1024;

/// What an entry takes in a page beside its value and the id of its minion.
const ENTRY_OVERHEAD: usize = 16;

/// Up to how many minions are looked up one by one. Of more, all entries of a name are read in their order.
const MAX_LOOKUPS: usize = 500;

/// The file of the mine, opened.
#[derive(Debug)]
pub(crate) struct MineFile(MineStore);

impl MineFile {
    /// Opens the file, which is created (0600) as needed. A damaged one is set aside and started over: minions leave most of it again.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// When it cannot be opened, or is not such a file.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let error = match MineStore::open(path) {
            Err(error) if damaged::is_damage(&error) => error,
            opened => return opened.map(Self),
        };
        let aside = damaged::set_aside(path).map_err(|error| StoreError::io(path, error))?;
        tracing::error!(
            "the mine is started over, since its file cannot be read ({error}): minions leave the values of their mine_functions \
             again, and not what mine.send left; the old file is {}",
            aside.display()
        );
        MineStore::open(path).map(Self)
    }
}

/// Keeps what minions leave for others, and gives it out. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Mine(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    store: Arc<MineStore>,
    settings: LiveSettings,
    targets: TargetResolver,
    context: Context,
    /// One request of each minion.
    concurrency: Arc<ConcurrencyLimit>,
    /// One permit for each request that may wait.
    places: Semaphore,
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
    /// Limits what minions cause in the log.
    limiter: TokenBuckets<MinionId>,
    figures: MineFigures,
}

/// The answer to a request of a minion or of a caller.
#[derive(Debug)]
pub(crate) enum MineAnswer {
    Reply(MineReply),
    /// It was not carried out, and is to be repeated after this time.
    Busy(Duration),
    /// It is malformed.
    Malformed,
}

/// The reason why the mine did not do something.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MineError {
    /// There is no turn for it now.
    #[error("too many ask for the mine: try again")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Target(#[from] ResolveError),
    /// The code that works on it panicked, which the runtime logs.
    #[error("the request about the mine failed, and the master's log says why")]
    Failed,
}

/// What a minion asks for.
struct Asked {
    target: Target,
    functions: Vec<String>,
    after: Option<(u32, MinionId)>,
    most: usize,
}

impl Mine {
    /// Creates the mine over its file.
    pub(crate) fn new(
        file: MineFile,
        settings: LiveSettings,
        targets: TargetResolver,
        context: &Context,
    ) -> Self {
        Self(Arc::new(Parts {
            store: Arc::new(file.0),
            settings,
            targets,
            concurrency: ConcurrencyLimit::new(1),
            places: Semaphore::new(MOST_AT_ONCE),
            reading: Arc::new(Semaphore::new(READERS)),
            writing: Arc::new(Semaphore::new(1)),
            limiter: report_limiter(context.clock),
            figures: MineFigures::default(),
            context: context.clone(),
        }))
    }

    /// Carries out a request of the minion `id`, or of a caller beside it.
    ///
    /// # Cancel safety
    /// What was begun is finished.
    pub(crate) async fn answer(&self, id: &MinionId, request: MineRequest) -> MineAnswer {
        let parts = &self.0;
        if !request.is_within_bounds() {
            return MineAnswer::Malformed;
        }
        let (Ok(_place), Some(_permit)) = (parts.places.try_acquire(), parts.concurrency.begin(id))
        else {
            return MineAnswer::Busy(BUSY);
        };
        let done = match request {
            MineRequest::Offer {
                entries,
                forget_others,
            } => self.offer(id, entries, forget_others).await,
            MineRequest::Store(entries) => self.store(id, entries).await,
            MineRequest::Delete(name) => {
                let owner = id.clone();
                let deleted = self.write(move |store| store.delete(&owner, &name)).await;
                deleted.map(|()| MineReply::Done)
            }
            MineRequest::Flush => self.flush(id).await.map(|()| MineReply::Done),
            MineRequest::Get {
                target,
                functions,
                after,
                bytes,
            } => {
                let most = usize::try_from(bytes).unwrap_or(MAX_PAGE_BYTES);
                let asked = Asked {
                    target,
                    functions,
                    after,
                    most: most.clamp(1, MAX_PAGE_BYTES),
                };
                self.get(id, asked).await
            }
        };
        let reply = match done {
            Ok(reply) => reply,
            Err(MineError::Busy) => return MineAnswer::Busy(BUSY),
            Err(MineError::Target(ResolveError::Target(why))) => {
                MineReply::Refused(MineRefusal::Target(why))
            }
            // Which minion it was, the one that asks need not know.
            Err(MineError::Target(ResolveError::GivenUp(_))) => {
                let why = format!("the target was given up: {TooManySteps}");
                MineReply::Refused(MineRefusal::Target(why))
            }
            Err(error) => {
                if parts.limiter.allows(id) {
                    tracing::error!("a request of minion {id} about the mine failed: {error}");
                }
                MineReply::Refused(MineRefusal::Failed)
            }
        };
        if matches!(reply, MineReply::Refused(_)) {
            parts.figures.count_refused();
        }
        MineAnswer::Reply(reply)
    }

    async fn offer(
        &self,
        id: &MinionId,
        offered: Vec<(String, [u8; 32])>,
        forget_others: bool,
    ) -> Result<MineReply, MineError> {
        let owner = id.clone();
        let act = move |store: &MineStore| store.apply_offer(&owner, &offered, forget_others);
        // It may write too, and reads little.
        let _writing = self.turn(&self.0.writing).await?;
        let lacking = self.read(act).await?;
        Ok(MineReply::Wanted(lacking))
    }

    async fn store(&self, id: &MinionId, entries: Vec<MineEntry>) -> Result<MineReply, MineError> {
        let settings = self.0.settings.now();
        for entry in &entries {
            let Some(target) = entry.allowed.clone() else {
                continue;
            };
            let compiled =
                rules::compile_allowed(target, &settings.nodegroups, &settings.root_facts);
            if let Err(why) = compiled {
                let name = entry.name.clone();
                // What is here under the name may be for more minions than its owner wants now.
                let (owner, gone) = (id.clone(), name.clone());
                self.write(move |store| store.delete(&owner, &gone)).await?;
                return Ok(MineReply::Refused(MineRefusal::Allowed { name, why }));
            }
        }
        let (owner, count) = (id.clone(), entries.len());
        let fits = self
            .write(move |store| store.store(&owner, &entries))
            .await?;
        if !fits {
            if self.0.limiter.allows(id) {
                tracing::warn!("minion {id} leaves more in the mine than one minion may");
            }
            return Ok(MineReply::Refused(MineRefusal::NoRoom));
        }
        self.0.figures.count_stored(count);
        Ok(MineReply::Done)
    }

    /// Forgets what a minion has left.
    async fn flush(&self, id: &MinionId) -> Result<(), MineError> {
        let owner = id.clone();
        self.write(move |store| store.flush(&owner)).await
    }

    async fn get(&self, id: &MinionId, asked: Asked) -> Result<MineReply, MineError> {
        // First of all: a minion whose key went meanwhile learns nothing, also not what the rules say.
        let trusted = self.0.targets.facts.trusted(id).await;
        let Some(facts) = trusted.map_err(ResolveError::from)? else {
            return Ok(MineReply::Refused(MineRefusal::NoKey));
        };
        let settings = self.0.settings.now();
        let rules = settings.mine_get.as_deref();
        let permitted = rules::permitted(rules, id, &asked.functions);
        if permitted.is_empty() && !asked.functions.is_empty() {
            return Ok(MineReply::Refused(MineRefusal::NotAllowed));
        }
        let (nodegroups, root) = (settings.nodegroups, settings.root_facts);
        let target = match rules::with_exact_pillar(asked.target.clone(), &nodegroups, &root) {
            Ok(target) => target,
            Err(why) => return Ok(MineReply::Refused(MineRefusal::Target(why))),
        };
        let mut asker = Asker::new(facts, nodegroups, root);
        let minions = self.0.targets.resolve(target, false).await?.minions;
        let minions = minions.into_ids();
        let (asked, minions) = (Arc::new(asked), Arc::new(minions));
        loop {
            let parts = Arc::clone(&self.0);
            let (asked, minions) = (Arc::clone(&asked), Arc::clone(&minions));
            let permitted = permitted.clone();
            let read = move |store: &MineStore| {
                let began = parts.context.clock.now();
                let page = page(store, &asked, &permitted, &minions, &mut asker)?;
                let took = parts.context.clock.now() - began;
                parts.figures.count_read(took, page.entries.len());
                Ok((page, asker))
            };
            let page;
            (page, asker) = self.read(read).await?;
            let mut is_whole = true;
            while let Some((encoded, target)) = asker.take_undecided() {
                is_whole = false;
                let target = Arc::new(target);
                let pillars = &self.0.targets.pillars;
                let verdicts = pillars.match_target(vec![id.clone()], &target).await;
                // A pattern that takes too many steps allows nothing, and there is none.
                let verdict = verdicts.into_iter().next().flatten().and_then(Result::ok);
                asker.decide(encoded, &target, verdict);
            }
            if is_whole {
                return Ok(MineReply::Found(page));
            }
        }
    }

    /// Returns the entries with these names of these minions, sorted by id, whatever `allow_tgt` says: an operator asks. None when
    /// they have more than `most` bytes.
    ///
    /// # Errors
    /// See [`MineError`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub(crate) async fn entries(
        &self,
        minions: Vec<MinionId>,
        functions: Vec<String>,
        most: usize,
    ) -> Result<Option<Vec<FoundEntry>>, MineError> {
        self.read(move |store| {
            let (mut found, mut bytes) = (Vec::new(), 0);
            for (number, function) in (0..).zip(&functions) {
                find(store, function, None, &minions, |minion, row| {
                    bytes += row.value.len();
                    found.push(entry(number, minion, row));
                    bytes <= most
                })?;
            }
            Ok((bytes <= most).then_some(found))
        })
        .await
    }

    /// Returns all entries of a minion, with their names.
    ///
    /// # Errors
    /// See [`MineError`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub(crate) async fn of(&self, id: &MinionId) -> Result<Vec<(String, Packed)>, MineError> {
        let id = id.clone();
        self.read(move |store| store.of(&id)).await
    }

    /// Forgets the entries of a minion, those with this name or all.
    ///
    /// # Errors
    /// See [`MineError`]. They may be there still.
    ///
    /// # Cancel safety
    /// What was begun is finished.
    pub(crate) async fn forget(&self, id: &MinionId, name: Option<&str>) -> Result<(), MineError> {
        match name {
            Some(name) => {
                let (owner, name) = (id.clone(), name.to_owned());
                self.write(move |store| store.delete(&owner, &name)).await
            }
            None => self.flush(id).await,
        }
    }

    /// Forgets the entries of a minion whose key is accepted no more. The log tells if that fails.
    ///
    /// # Cancel safety
    /// What was begun is finished.
    pub(crate) async fn forget_removed(&self, id: &MinionId) {
        if let Err(error) = self.forget(id, None).await {
            tracing::error!("what minion {id} left in the mine is not removed: {error}");
        }
    }

    /// Forgets the entries of all minions that are not to be kept. The log tells if that fails.
    ///
    /// # Cancel safety
    /// A part of them may be forgotten.
    pub(crate) async fn retain(&self, is_kept: impl Fn(&MinionId) -> bool) {
        match self.read(MineStore::minions).await {
            Ok(minions) => {
                let minions = minions.iter().filter_map(|id| MinionId::parse(id).ok());
                for id in minions.filter(|id| !is_kept(id)) {
                    self.forget_removed(&id).await;
                }
            }
            Err(error) => tracing::error!("the mine cannot be read: {error}"),
        }
    }

    /// Returns what was counted.
    pub(crate) fn figures(&self) -> &MineFigures {
        &self.0.figures
    }

    /// Returns how many entries there are, and their bytes.
    pub(crate) fn size(&self) -> (u64, u64) {
        self.0.store.size()
    }

    async fn read<T: Send + 'static>(
        &self,
        act: impl FnOnce(&MineStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, MineError> {
        let turn = self.turn(&self.0.reading).await?;
        self.work(turn, act).await
    }

    async fn write<T: Send + 'static>(
        &self,
        act: impl FnOnce(&MineStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, MineError> {
        let turn = self.turn(&self.0.writing).await?;
        self.work(turn, act).await
    }

    /// Runs `act` in a thread for blocking work, to its end.
    async fn work<T: Send + 'static>(
        &self,
        turn: OwnedSemaphorePermit,
        act: impl FnOnce(&MineStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, MineError> {
        let store = Arc::clone(&self.0.store);
        let working = self.0.context.spawn_blocking(move || {
            let done = act(&store);
            drop(turn);
            done
        });
        Ok(working.await.map_err(|_| MineError::Failed)??)
    }

    /// Waits for a turn, for a while.
    async fn turn(&self, turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, MineError> {
        let clock = self.0.context.clock;
        let turn = clock.deadline(clock.after(WAIT), Arc::clone(turns).acquire_owned());
        // The semaphore is never closed.
        turn.await.ok().and_then(Result::ok).ok_or(MineError::Busy)
    }
}

/// Reads a page of the entries that a minion may get.
fn page(
    store: &MineStore,
    asked: &Asked,
    permitted: &[u32],
    minions: &[MinionId],
    asker: &mut Asker,
) -> Result<MinePage, StoreError> {
    let (mut entries, mut bytes, mut more) = (Vec::new(), 0, false);
    for (number, function) in (0..).zip(&asked.functions) {
        let after = match &asked.after {
            Some((last, _)) if number < *last => continue,
            Some((last, after)) if number == *last => Some(after),
            _ => None,
        };
        if !permitted.contains(&number) {
            continue;
        }
        find(store, function, after, minions, |minion, row| {
            if !asker.may_get(row) {
                return true;
            }
            let size = ENTRY_OVERHEAD + row.minion.len() + row.value.len();
            more = !entries.is_empty() && bytes + size > asked.most;
            if !more {
                bytes += size;
                entries.push(entry(number, minion, row));
            }
            !more
        })?;
        if more {
            break;
        }
    }
    Ok(MinePage { entries, more })
}

/// Calls `visit` with the entries of this name of these minions, sorted by id, from behind `after`, until it returns false.
fn find(
    store: &MineStore,
    function: &str,
    after: Option<&MinionId>,
    minions: &[MinionId],
    mut visit: impl FnMut(&MinionId, &Row<'_>) -> bool,
) -> Result<(), StoreError> {
    let minions = match after {
        Some(after) => &minions[minions.partition_point(|id| id <= after)..],
        None => minions,
    };
    if minions.len() <= MAX_LOOKUPS {
        for minion in minions {
            if store.one(function, minion, |row| visit(minion, row))? == Some(false) {
                break;
            }
        }
        return Ok(());
    }
    let mut minions = minions.iter().peekable();
    store.each(function, after, |row| {
        while minions.next_if(|id| id.as_str() < row.minion).is_some() {}
        match minions.peek() {
            Some(minion) if minion.as_str() == row.minion => visit(minion, row),
            Some(_) => true,
            None => false,
        }
    })
}

fn entry(function: u32, minion: &MinionId, row: &Row<'_>) -> FoundEntry {
    FoundEntry {
        function,
        minion: minion.clone(),
        value: Packed::from_bytes(row.value.to_vec()),
    }
}
