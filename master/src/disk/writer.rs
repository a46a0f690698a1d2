//! The thread that writes: it takes one command and whatever else is queued, runs the commands of each
//! partition in one transaction, and answers them after its commit. So under load one sync of the disk
//! serves many commands, and a lone command does not wait for others.
//!
//! A command that fails leaves what its statements did before. So a command with several statements is
//! one that may be repeated.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use saline_daemon::DurationHistogram;
use saline_protocol::transport::Clock;
use tokio::sync::oneshot;

use super::StoreError;
use super::connection_thread::ConnectionTask;
use super::file;
use super::partitions::Connections;
use super::thread::{QueuePermit, TaskQueue, Thread};

/// The largest number of commands in one transaction.
const BATCH: usize = 1_000;

/// The number of pages in a write-ahead log from which another thread empties it.
const CHECKPOINT_PAGES: usize = 4_000;

/// The number of pages at which the writer empties the log itself: under a load without a pause the
/// other thread never reaches its end.
const MAX_CHECKPOINT_PAGES: usize = 65_536;

/// The number of commits between two looks at the size of the newest partition.
const COMMITS_TO_LOOK: u32 = 64;

/// The file that a command writes to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StoreFile {
    /// The partition that begins here.
    Partition(i64),
    /// The partition in which a new job with this jid belongs.
    NewJob(i64),
    /// The newest partition.
    Newest,
}

/// When a new partition begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionLimits {
    /// The time after which it begins.
    pub(crate) time: Duration,
    /// The size in bytes of the one before, from which it begins.
    pub(crate) bytes: u64,
}

/// A task of the writer's thread.
pub(crate) enum Task {
    /// Run this command.
    Command(Box<dyn Command>),
    /// Run this outside of a transaction: commands that are queued behind it run after it.
    Alone(ConnectionTask),
}

/// A command for a connection, with a caller that waits for the result.
pub(crate) trait Command: Send {
    /// Returns the file that the command writes to.
    fn place(&self) -> StoreFile;
    /// About the size of its data.
    fn bytes(&self) -> usize;
    /// Runs the command and keeps its result. Returns whether it failed.
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError>;
    /// Gives the caller the result, or the error that failed the whole transaction.
    fn settle(self: Box<Self>, failed: Option<&StoreError>);
}

struct Call<T, A, S> {
    place: StoreFile,
    bytes: usize,
    act: Option<A>,
    settled: S,
    outcome: Result<T, StoreError>,
    reply: oneshot::Sender<Result<T, StoreError>>,
    /// Given back with the call.
    room: QueuePermit,
}

impl<T, A, S> Command for Call<T, A, S>
where
    T: Send,
    A: FnOnce(&Connection) -> Result<T, StoreError> + Send,
    S: FnOnce(&Result<T, StoreError>) + Send,
{
    fn place(&self) -> StoreFile {
        self.place
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn run(&mut self, connection: &Connection) -> Result<(), StoreError> {
        if let Some(act) = self.act.take() {
            self.outcome = act(connection);
        }
        match &self.outcome {
            Ok(_) => Ok(()),
            Err(error) => Err(error.clone()),
        }
    }

    fn settle(self: Box<Self>, failed: Option<&StoreError>) {
        let outcome = match failed {
            Some(error) => Err(error.clone()),
            None => self.outcome,
        };
        (self.settled)(&outcome);
        drop(self.room);
        // The caller may have gone; the command was run all the same.
        let _ = self.reply.send(outcome);
    }
}

/// The transactions of a thread that writes, since it started.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// How long each took, those that failed among them.
    pub(crate) durations: DurationHistogram,
    /// How many failed.
    failed: AtomicU64,
}

impl Commits {
    /// Returns how many failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// The thread that writes.
pub(crate) struct Writer {
    thread: Thread<Task>,
    commits: Arc<Commits>,
}

impl Writer {
    /// Starts the thread, which closes its connections when it ends. `highest` is the highest jid so far.
    /// `upkeep` has another thread move a log into its file.
    pub(crate) fn start(
        mut connections: Connections,
        highest: i64,
        span: PartitionLimits,
        upkeep: impl Fn(ConnectionTask) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let log = Arc::new(AtomicUsize::new(0));
        connections.tell_log_to(Arc::clone(&log));
        let commits = Arc::<Commits>::default();
        let writing = Writing {
            counted: Arc::clone(&commits),
            connections,
            span,
            log,
            is_checkpointing: Arc::default(),
            upkeep: Box::new(upkeep),
            failing: false,
            commits: 0,
            is_full: false,
            highest,
        };
        let thread = Thread::start("saline-writer", move |queue| writing.work(queue))?;
        Ok(Self { thread, commits })
    }

    /// Returns what the thread has counted of its transactions.
    pub(crate) fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Returns the number of commands that wait.
    pub(crate) fn queued(&self) -> usize {
        self.thread.queued()
    }

    /// Runs `act` in a transaction with other commands, and `settled` with its result after the commit
    /// or the failure, whether or not the caller still waits. `bytes` is about the size of the data.
    ///
    /// # Cancel safety
    /// A queued command is carried out; one that waits for a place is not.
    pub(crate) fn call<T, A, S>(
        &self,
        place: StoreFile,
        bytes: usize,
        act: A,
        settled: S,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + '_
    where
        T: Send + 'static,
        A: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        S: FnOnce(&Result<T, StoreError>) + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        // Boxed before anything is waited for, so that the caller's future is small.
        let mut call = Box::new(Call {
            place,
            bytes,
            act: Some(act),
            settled,
            outcome: Err(StoreError::Closed),
            reply,
            room: None,
        });
        async move {
            call.room = self.thread.room(bytes).await?;
            self.thread.send(Task::Command(call)).await?;
            answer.await.map_err(|_| StoreError::Closed)?
        }
    }

    /// Runs `act` outside of a transaction, before the commands that are queued behind it.
    ///
    /// # Cancel safety
    /// The writer runs `act` once it is queued, also when the future is dropped.
    pub(crate) async fn alone<T, A>(&self, act: A) -> Result<T, StoreError>
    where
        T: Send + 'static,
        A: FnOnce(&mut Connections) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let task = move |connections: &mut Connections| {
            // The caller may have gone.
            let _ = reply.send(act(connections));
        };
        self.thread.send(Task::Alone(Box::new(task))).await?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Waits until the thread has done what is queued, and has ended.
    pub(crate) async fn close(&self) {
        self.thread.close().await;
    }
}

/// The state of the thread.
struct Writing {
    connections: Connections,
    counted: Arc<Commits>,
    span: PartitionLimits,
    /// The number of pages in the log of the last commit.
    log: Arc<AtomicUsize>,
    /// Whether the other thread was asked to empty a log.
    is_checkpointing: Arc<AtomicBool>,
    upkeep: Box<dyn Fn(ConnectionTask) -> bool + Send>,
    /// Whether the last transaction failed.
    failing: bool,
    commits: u32,
    /// Whether the newest partition has reached its size.
    is_full: bool,
    /// The highest jid of a job so far.
    highest: i64,
}

impl Writing {
    fn work(mut self, mut queue: TaskQueue<Task>) {
        while let Some(first) = queue.next() {
            let mut batches: BTreeMap<i64, Vec<Box<dyn Command>>> = BTreeMap::new();
            let mut next = Some(first);
            let mut taken = 0;
            while let Some(task) = next {
                match task {
                    Task::Alone(act) => act(&mut self.connections),
                    Task::Command(command) => match self.start_of(command.place()) {
                        Ok(start) => batches.entry(start).or_default().push(command),
                        Err(error) => {
                            self.tell(Err(&error));
                            command.settle(Some(&error));
                        }
                    },
                }
                taken += 1;
                next = if taken < BATCH {
                    queue.try_next()
                } else {
                    None
                };
            }
            for (start, mut batch) in batches {
                let outcome = self.commit(start, &mut batch);
                self.tell(outcome.as_ref().map(|_| ()));
                for command in batch {
                    command.settle(outcome.as_ref().err());
                }
                self.keep_log_short(start, outcome.is_err());
            }
        }
    }

    /// Returns the partition of a place; creates one when it is time.
    fn start_of(&mut self, place: StoreFile) -> Result<i64, StoreError> {
        let newest = self.connections.partitions().newest();
        let (job, newest) = match (place, newest) {
            (StoreFile::Partition(start), _) => return Ok(start),
            (StoreFile::Newest, Some(newest)) => return Ok(newest),
            // The store creates its first partition when it is opened.
            (StoreFile::Newest, None) => return Err(StoreError::Removed),
            (StoreFile::NewJob(job), newest) => (job, newest),
        };
        let highest = self.highest.max(job);
        let start = self.start_of_job(job, newest)?;
        self.highest = highest;
        Ok(start)
    }

    fn start_of_job(&mut self, job: i64, newest: Option<i64>) -> Result<i64, StoreError> {
        if let Some(newest) = newest {
            if let Some(holding) = self.connections.partitions().holding(job)
                && holding != newest
            {
                return Ok(holding);
            }
            let time = i64::try_from(self.span.time.as_micros()).unwrap_or(i64::MAX);
            if job.saturating_sub(newest) < time && !self.is_full {
                return Ok(newest);
            }
            // Jids may come out of their order: a partition must not begin below a job of the one before.
            if job <= newest.max(self.highest) {
                return Ok(newest);
            }
        }
        self.connections.create(job)?;
        self.is_full = false;
        Ok(job)
    }

    /// Runs all commands in one transaction. An error means that nothing of any command was kept.
    fn commit(&mut self, start: i64, batch: &mut [Box<dyn Command>]) -> Result<(), StoreError> {
        let connection = self.connections.of(start)?;
        let say = |sql| -> Result<(), StoreError> {
            connection.prepare_cached(sql)?.execute([])?;
            Ok(())
        };
        let all = |batch: &mut [Box<dyn Command>]| -> Result<(), StoreError> {
            say("BEGIN IMMEDIATE")?;
            for command in batch {
                if let Err(error) = command.run(connection)
                    && connection.is_autocommit()
                {
                    // A full or failing disk can end the whole transaction.
                    return Err(error);
                }
            }
            say("COMMIT")
        };
        let bytes: usize = batch.iter().map(|command| command.bytes()).sum();
        let began = Clock.now();
        let outcome = all(batch);
        self.counted.durations.add(Clock.now() - began);
        if outcome.is_err() {
            self.counted.failed.fetch_add(1, Ordering::Relaxed);
        }
        if bytes >= file::LARGE {
            file::shrink_cache(connection);
        }
        if outcome.is_err() && !connection.is_autocommit() {
            // If the rollback fails, SQLite rolls back when the file is opened next.
            if let Err(error) = say("ROLLBACK") {
                tracing::error!(%error, "{} cannot roll back", self.connections.partitions().name());
            }
        }
        self.commits = self.commits.wrapping_add(1);
        if self.commits.is_multiple_of(COMMITS_TO_LOOK) {
            let partitions = self.connections.partitions();
            let newest = partitions.newest().map(|newest| partitions.size(newest));
            self.is_full = newest.is_some_and(|bytes| bytes >= self.span.bytes);
        }
        outcome
    }

    /// Logs a failure and its end once: minions repeat their requests.
    fn tell(&mut self, outcome: Result<(), &StoreError>) {
        let name = self.connections.partitions().name();
        match outcome {
            // The partition was pruned meanwhile: no failure.
            Err(StoreError::Removed) => return,
            Err(error) if !self.failing => tracing::error!(%error, "{name} fails"),
            Ok(()) if self.failing => tracing::info!("{name} works again"),
            _ => {}
        }
        self.failing = outcome.is_err();
    }

    /// Has the log of a partition moved into its file when it is long, or when the disk may be full.
    fn keep_log_short(&mut self, start: i64, failed: bool) {
        let pages = self.log.load(Ordering::Relaxed);
        let too_long =
            pages >= MAX_CHECKPOINT_PAGES && self.commits.is_multiple_of(COMMITS_TO_LOOK);
        if failed || too_long {
            // Without waiting for a reader, such as a backup: the log may grow until it has ended.
            self.set_busy_timeout(start, Duration::ZERO);
            checkpoint(&mut self.connections, start, "TRUNCATE");
            self.set_busy_timeout(start, file::BUSY);
        } else if pages >= CHECKPOINT_PAGES && !self.is_checkpointing.swap(true, Ordering::AcqRel) {
            let done = Arc::clone(&self.is_checkpointing);
            let taken = (self.upkeep)(Box::new(move |connections| {
                checkpoint(connections, start, "PASSIVE");
                done.store(false, Ordering::Release);
            }));
            if !taken {
                self.is_checkpointing.store(false, Ordering::Release);
            }
        }
    }
}

impl Writing {
    /// Sets how long the connection waits for the locks of others.
    fn set_busy_timeout(&mut self, start: i64, time: Duration) {
        let connection = self.connections.of(start);
        let set = connection.and_then(|connection| Ok(connection.busy_timeout(time)?));
        if let Err(error) = set {
            tracing::debug!(%error, "cannot set SQLite's busy timeout");
        }
    }
}

/// Moves the write-ahead log of a partition into its file.
fn checkpoint(connections: &mut Connections, start: i64, how: &str) {
    let emptied = connections.of(start).and_then(|connection| {
        let sql = format!("PRAGMA wal_checkpoint({how})");
        let mut checkpoint = connection.prepare_cached(&sql)?;
        Ok(checkpoint.query_row([], |_| Ok(()))?)
    });
    match emptied {
        Ok(()) | Err(StoreError::Removed) => {}
        Err(error) => tracing::debug!(%error, "the log of the job store cannot be emptied"),
    }
}
