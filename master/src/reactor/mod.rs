//! The reactor: reads kept events after its cursor, has the operator's files rendered for them, and carries out what these
//! order.
//!
//! | module | has |
//! |---|---|
//! | `orders` | carries out an order, for a principal of its own |
//! | `chains` | ends loops |
//!
//! The tags of its configuration are among those whose events are kept ([`DurableEvents`]), and it reads them as any reader
//! does. The cursor on the disk passes an event when all files are done with it, so a master that starts again goes on with
//! what was not done. What was ordered already is not ordered again: the ids of its requests are made of the event, the
//! file and the place of the block, and the job store knows those of the last ten minutes.

mod chains;
mod orders;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saline_messages::{Event, OriginKind};
use saline_protocol::transport::Context;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::authorize::origin_of_owner;
use crate::bounds::{Rate, TokenBuckets};
use crate::decisions::Decisions;
use crate::events::{Acknowledged, DurableEvents, EventCursor, EventReader, REACTOR};
use crate::jobs::{JobStore, StoreError};
use crate::orders::PublishOrder;
use crate::reactions::{Matched, Reactions, describe, source_of};
use crate::runners::Runners;
use chains::{Chain, Chains, CutReaction};
use orders::Cause;

/// The bytes of events that are read at once, about.
const PAGE: usize = 1024 * 1024;

/// The KiB of all events that are in memory.
const MOST_KIB: usize = 64 * 1024;

/// How many runners that reactions began are under way at a time, and how many wheels beside them.
const RUNS: usize = 4;

/// How many runs wait for their turn in memory. Beyond it the reactions that order more wait.
const MAX_WAITING_RUNS: usize = 1_000;

/// How often the reactor looks for events though none was told of, which has its cursor keep up with the stores.
const IDLE_LOOK_INTERVAL: Duration = Duration::from_secs(600);

/// The delay before events are read again that could not be read.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// How many lines of the log a file may cause by its mistakes, at once and in a second.
const COMPLAINTS: Rate = Rate {
    burst: 10.0,
    per_second: 0.1,
};

/// How many files have such a bound of their own.
const MOST_FILES: usize = 10_000;

/// The parts of the master that the reactor works with.
#[derive(Debug)]
pub(crate) struct Reactor {
    reactions: Reactions,
    durable: Arc<DurableEvents>,
    jobs: Arc<JobStore>,
    runners: Runners,
    publish: PublishOrder,
    decisions: Decisions,
    context: Context,
    chains: Chains,
    /// One permit for each run that a reaction may have under way.
    runs: Arc<Semaphore>,
    /// One permit for each run that may wait for one of those.
    waiting_runs: Arc<Semaphore>,
    /// One permit for each run of a wheel that reactions may have under way.
    wheels: Semaphore,
    complaints: TokenBuckets<String>,
    workers: usize,
    most_events: usize,
    /// The place after everything that was stored before this start of the master.
    started_at: Option<EventCursor>,
}

/// An event that a worker is to react to.
struct Work {
    event: Event,
    number: i64,
    source: String,
    held: Arc<HeldEvent>,
}

/// An event that is in memory. Runs that wait hold it too.
struct HeldEvent {
    page: Arc<Page>,
    progress: Arc<Progress>,
    /// Its place and its size in memory.
    _room: [OwnedSemaphorePermit; 2],
}

impl HeldEvent {
    /// Has the cursor wait for one thing more.
    fn wait_for_more(&self) {
        self.page.left.fetch_add(1, Ordering::AcqRel);
    }

    /// Has the cursor wait for one thing less.
    fn done(&self) {
        self.progress.done(&self.page);
    }
}

/// Some events that were read together.
struct Page {
    /// The cursor after them.
    next: EventCursor,
    /// How many of them workers are not done with; one more while they are handed out.
    left: AtomicUsize,
}

/// How far the workers are.
#[derive(Default)]
struct Progress {
    pages: Mutex<VecDeque<Arc<Page>>>,
    changed: Notify,
}

impl Progress {
    fn begin(&self, next: EventCursor) -> Arc<Page> {
        let page = Arc::new(Page {
            next,
            left: AtomicUsize::new(1),
        });
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.push_back(Arc::clone(&page));
        page
    }

    fn done(&self, page: &Page) {
        if page.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.changed.notify_one();
        }
    }

    /// Takes the pages out with which the workers are done, and returns the cursor after them.
    fn take_done(&self) -> Option<EventCursor> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = None;
        while let Some(page) = pages.front()
            && page.left.load(Ordering::Acquire) == 0
        {
            next = Some(page.next);
            pages.pop_front();
        }
        next
    }
}

/// The parts that a reactor is made of.
pub(crate) struct ReactorParts {
    pub(crate) reactions: Reactions,
    pub(crate) durable: Arc<DurableEvents>,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) runners: Runners,
    pub(crate) publish: PublishOrder,
    pub(crate) decisions: Decisions,
    pub(crate) context: Context,
    /// `reactor_worker_threads`.
    pub(crate) workers: usize,
    /// `reactor_worker_hwm`.
    pub(crate) most_events: usize,
}

impl Reactor {
    pub(crate) fn new(parts: ReactorParts) -> Self {
        let clock = parts.context.clock;
        let reader = EventReader::new(&parts.jobs, &parts.durable);
        Self {
            started_at: reader.map(|reader| reader.last()),
            reactions: parts.reactions,
            durable: parts.durable,
            jobs: parts.jobs,
            runners: parts.runners,
            publish: parts.publish,
            decisions: parts.decisions,
            context: parts.context,
            chains: Chains::new(clock),
            runs: Arc::new(Semaphore::new(RUNS)),
            waiting_runs: Arc::new(Semaphore::new(MAX_WAITING_RUNS)),
            wheels: Semaphore::new(RUNS),
            complaints: TokenBuckets::new(clock, COMPLAINTS, MOST_FILES),
            workers: parts.workers,
            most_events: parts.most_events,
        }
    }

    /// Reacts to events for as long as the master runs.
    pub(crate) async fn run(self) {
        let this = Arc::new(self);
        let progress = Arc::new(Progress::default());
        let mut lanes = Vec::new();
        for _ in 0..this.workers {
            let (sender, receiver) = mpsc::channel(this.most_events);
            let worker = Arc::clone(&this).work(receiver);
            this.context.spawn(worker);
            lanes.push(sender);
        }
        this.context
            .spawn(Arc::clone(&this).note_progress(Arc::clone(&progress)));
        let room = Room {
            events: Arc::new(Semaphore::new(this.most_events)),
            kib: Arc::new(Semaphore::new(MOST_KIB)),
        };
        let mut place = Place {
            cursor: None,
            first: this.started_at,
        };
        let mut look = this.context.clock.interval(IDLE_LOOK_INTERVAL);
        loop {
            match this.read_on(&mut place, &progress, &lanes, &room).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    tracing::error!("reactor: events cannot be read: {error}");
                    this.context.clock.pause(READ_AGAIN).await;
                    continue;
                }
            }
            tokio::select! {
                () = this.durable.reacted_stored().notified() => {}
                _ = look.tick() => {}
            }
        }
    }

    /// Reads some events and hands them to the workers. Returns whether there may be more.
    async fn read_on(
        &self,
        place: &mut Place,
        progress: &Arc<Progress>,
        lanes: &[mpsc::Sender<Work>],
        room: &Room,
    ) -> Result<bool, StoreError> {
        let Some(reader) = EventReader::new(&self.jobs, &self.durable) else {
            return Ok(false);
        };
        if self.reactions.list().is_empty() {
            // Whoever reacts to something later does not react to what was before.
            *place = Place::default();
            if reader.cursor(REACTOR.to_owned()).await? != EventCursor::default() {
                reader.forget(REACTOR.to_owned()).await?;
            }
            return Ok(false);
        }
        let after = match place.cursor {
            Some(cursor) => cursor,
            None => first_cursor(&reader, place.first).await?,
        };
        let page = reader.read(after, PAGE).await?;
        place.cursor = Some(page.next);
        if page.next == after {
            return Ok(page.more);
        }
        let pending = progress.begin(page.next);
        for read in page.events {
            let event = match read.event {
                Ok(event) => event,
                Err(lost) => {
                    self.reactions.figures().count_lost(lost);
                    tracing::warn!(
                        "reactor: {lost} kept events were lost before they were read, and some of them may have been to be \
                         reacted to: durable_events_size bounds them"
                    );
                    continue;
                }
            };
            if !self.reactions.reacts_to(&event.tag, read.number) {
                continue;
            }
            let Some(room) = room.take(&event).await else {
                // The semaphores are never closed.
                continue;
            };
            let source = source_of(&event);
            let lane = lane_of(&source, lanes.len());
            pending.left.fetch_add(1, Ordering::AcqRel);
            self.reactions.figures().begin_event();
            let work = Work {
                event,
                number: read.number,
                source,
                held: Arc::new(HeldEvent {
                    page: Arc::clone(&pending),
                    progress: Arc::clone(progress),
                    _room: room,
                }),
            };
            if lanes[lane].send(work).await.is_err() {
                // The master stops.
                return Ok(false);
            }
        }
        progress.done(&pending);
        Ok(page.more)
    }

    /// Notes on the disk how far the workers are.
    async fn note_progress(self: Arc<Self>, progress: Arc<Progress>) {
        loop {
            progress.changed.notified().await;
            let Some(next) = progress.take_done() else {
                continue;
            };
            let Some(reader) = EventReader::new(&self.jobs, &self.durable) else {
                continue;
            };
            if self.reactions.list().is_empty() {
                continue;
            }
            // What is not noted is read again after a restart, and not ordered again.
            match reader.acknowledge(REACTOR.to_owned(), next).await {
                Ok(Acknowledged::Noted) => {}
                Ok(refused) => tracing::error!("reactor: its place is not noted: {refused:?}"),
                Err(error) => tracing::error!("reactor: its place is not noted: {error}"),
            }
        }
    }

    /// Reacts to the events of some sources, one after the other.
    async fn work(self: Arc<Self>, mut events: mpsc::Receiver<Work>) {
        while let Some(work) = events.recv().await {
            let held = Arc::clone(&work.held);
            let this = Arc::clone(&self);
            let reacting = self.context.spawn(async move { this.react(work).await });
            if let Err(error) = reacting.await {
                tracing::error!("reactor: a reaction panicked: {error}");
            }
            self.reactions.figures().end_event();
            held.done();
        }
    }

    async fn react(self: &Arc<Self>, work: Work) {
        let Work {
            event,
            number,
            source,
            held,
        } = work;
        let chain = self.chain_of(&event).await;
        let event = Arc::new(event);
        let (reactions, seen) = (self.reactions.clone(), Arc::clone(&event));
        let matching = move || reactions.matching(&seen, Some(number));
        let matched = self.context.spawn_blocking(matching).await;
        // It panicked otherwise, which the runtime logs.
        for matched in matched.unwrap_or_default() {
            self.react_with(matched, (&event, number), &held, &source, &chain)
                .await;
        }
    }

    async fn react_with(
        self: &Arc<Self>,
        matched: Matched,
        (event, number): (&Arc<Event>, i64),
        held: &Arc<HeldEvent>,
        source: &str,
        chain: &Chain,
    ) {
        let file = matched.name().to_owned();
        let (tag, origin) = (&event.tag, &event.origin);
        let chain = match self.chains.begin(&file, source, chain) {
            Ok(chain) => chain,
            Err(cut) => {
                self.reactions.figures().count_cut();
                let line = || {
                    format!(
                        "reactor: {file} does not react to {tag} (event {number}, of {origin}): {cut}"
                    )
                };
                match cut {
                    // Nothing is wrong with a file that reacts to every return, also to those of its own jobs: lines about them
                    // take no room from those about mistakes.
                    CutReaction::Loop => {
                        if self.complaints.take(&format!("{file} (loops)")).is_ok() {
                            tracing::info!("{}", line());
                        }
                    }
                    CutReaction::Rate => self.complain(&file, line),
                }
                return;
            }
        };
        let (reactions, seen) = (self.reactions.clone(), Arc::clone(event));
        let rendering = move || reactions.render(matched, &seen);
        let blocks = match self.context.spawn_blocking(rendering).await {
            Ok(plan) => plan.blocks,
            Err(_) => Err(format!("{file} was not rendered")),
        };
        let blocks = match blocks {
            Ok(blocks) => blocks,
            Err(why) => {
                self.reactions.figures().count_order(false);
                self.complain(&file, || {
                    format!("reactor: no reaction to {tag} (event {number}, of {origin}): {why}")
                });
                return;
            }
        };
        for (place, block) in blocks.iter().enumerate() {
            let cause = Cause {
                tag,
                number,
                chain: &chain,
                held,
            };
            let done = self.carry_out(cause, &file, (place, block)).await;
            self.reactions.figures().count_order(done.is_ok());
            let name = &block.name;
            let order = describe(&block.act);
            match done {
                Ok(done) => tracing::info!(
                    "reactor: {file}, block {name:?}, because of {tag} (event {number}, of {origin}): {order}: {done}"
                ),
                Err(why) => self.complain(&file, || {
                    format!(
                        "reactor: {file}, block {name:?}, because of {tag} (event {number}, of {origin}): {order} failed: {why}"
                    )
                }),
            }
        }
    }

    /// Logs a mistake of a file, unless it made many already.
    fn complain(&self, file: &str, line: impl FnOnce() -> String) {
        if self.complaints.take(&file.to_owned()).is_ok() {
            tracing::error!("{}", line());
        }
    }

    /// Returns the files from whose orders an event came.
    async fn chain_of(&self, event: &Event) -> Chain {
        let Some(jid) = Chains::jid_of(event) else {
            return self.chains.of_origin(&event.origin);
        };
        if let Some(chain) = self.chains.known(&jid) {
            return chain;
        }
        // Of a job that a master before this one published the store knows who ordered it.
        let origin = match self.jobs.owner(&jid).await {
            Ok(Some(owner)) => origin_of_owner(&owner),
            _ => event.origin.clone(),
        };
        let noted = match origin.kind {
            // Nobody else's metadata count: an operator chooses them.
            OriginKind::Reaction => self.jobs.metadata(&jid).await.ok().flatten(),
            _ => None,
        };
        let chain = noted.and_then(|metadata| Chains::of_metadata(&metadata));
        let chain = chain.unwrap_or_else(|| self.chains.of_origin(&origin));
        self.chains.note(&jid, &chain);
        chain
    }
}

/// How far events were read.
#[derive(Debug, Default)]
struct Place {
    /// None before the first ones.
    cursor: Option<EventCursor>,
    /// Where to begin if no place is noted on the disk; none for after everything that there is then.
    first: Option<EventCursor>,
}

/// Returns the place that is noted on the disk. If none is, notes where to begin.
async fn first_cursor(
    reader: &EventReader,
    first: Option<EventCursor>,
) -> Result<EventCursor, StoreError> {
    let noted = reader.cursor(REACTOR.to_owned()).await?;
    if noted != EventCursor::default() {
        return Ok(noted);
    }
    let first = first.unwrap_or_else(|| reader.last());
    // Its number of the job store is the time, so that it is not the place before everything.
    let _ = reader.acknowledge(REACTOR.to_owned(), first).await?;
    Ok(first)
}

/// The room in memory for events that wait.
struct Room {
    events: Arc<Semaphore>,
    kib: Arc<Semaphore>,
}

impl Room {
    async fn take(&self, event: &Event) -> Option<[OwnedSemaphorePermit; 2]> {
        let kib = (event.encode().len() / 1024 + 1).min(MOST_KIB);
        let place = Arc::clone(&self.events).acquire_owned().await.ok()?;
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let size = Arc::clone(&self.kib).acquire_many_owned(kib).await.ok()?;
        Some([place, size])
    }
}

/// Returns the worker for the events of a source.
fn lane_of(source: &str, lanes: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    usize::try_from(hasher.finish() % lanes.max(1) as u64).unwrap_or_default()
}
