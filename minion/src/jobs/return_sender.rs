//! Sends spooled returns until the master has given its verdict on them: those of published jobs, and those of the minion's own
//! schedule, for which the master makes jobs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_data::{Packed, Value};
use saline_messages::{
    Arguments, Class, Jid, MAX_RETURNS, MinionReply, MinionRequest, RefusedVerb, Return,
    ReturnVerdict, ScheduledRun, encode,
};
use saline_protocol::transport::{Context, ErrorKind, jitter};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::batch_size::BatchSize;
use super::pool::Pool;
use super::return_parts::send_in_parts;
use crate::link::current_session::CurrentSession;
use crate::link::master_time::MasterTimeEstimate;
use crate::link::message_size::MessageSize;
use crate::link::minion_session::{AskError, MinionSession};
use crate::spool::Spool;
use saline_modules::Host;
use saline_modules::oversize_output;

/// The largest number of requests with returns that wait for their verdicts at once.
const PARALLEL: usize = 8;

/// The largest number of large returns that travel in parts at once. Others wait in the spool.
const LARGE_PARALLEL: usize = 2;

/// The size in bytes of the first part of a large return. It tells the master that the job has begun, and `saline` waits no
/// longer than `-t` for that, so it is small enough for the slowest links.
const FIRST_PART: usize = 1024;

/// An upper bound of the bytes of a return beside its payload.
const OVERHEAD: usize = 512;

/// How long a verdict may take: returns travel for a while, and the master commits them.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(60);

/// A payload below this size is never too large for a master, so it is not replaced once more.
const SURELY_SMALL: usize = 4096;

/// The delay before a return that could not be read from the spool is tried again.
const UNREADABLE_DELAY: Duration = Duration::from_secs(60);

/// How long the returns may take to be acknowledged when the minion stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay before a return is sent again whose parts the master did not take.
const STANDSTILL_DELAY: Duration = Duration::from_secs(10);

/// The delay before a return is sent again whose verdict cannot be read: another master may be able to
/// give one.
const UNREADABLE_VERDICT_DELAY: Duration = Duration::from_secs(60);

/// The delay before a return without a verdict is sent again.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Sends spooled returns to the master.
#[derive(Debug)]
pub struct ReturnSender {
    spool: Arc<Spool>,
    host: Arc<Host>,
    clock: Arc<MasterTimeEstimate>,
    session: CurrentSession,
    pool: Pool,
    batch: BatchSize,
    large: Arc<Semaphore>,
    /// The jobs whose large returns wait until another one has arrived.
    postponed: Mutex<VecDeque<Jid>>,
    /// Notified when a return leaves the spool.
    acknowledged: Notify,
    context: Context,
}

impl ReturnSender {
    /// Creates a sender; its tasks belong to `context`.
    pub fn new(
        spool: Arc<Spool>,
        host: Arc<Host>,
        clock: Arc<MasterTimeEstimate>,
        session: CurrentSession,
        pool: Pool,
        context: Context,
    ) -> Self {
        Self {
            spool,
            host,
            clock,
            session,
            pool,
            batch: BatchSize::default(),
            large: Arc::new(Semaphore::new(LARGE_PARALLEL)),
            postponed: Mutex::default(),
            acknowledged: Notify::new(),
            context,
        }
    }

    /// Sends what the spool holds of published jobs, for as long as the minion exists.
    pub async fn run(self: Arc<Self>) {
        let permits = Arc::new(Semaphore::new(PARALLEL));
        let mut sessions = self.session.subscribe();
        loop {
            let session = match sessions.wait_for(Option::is_some).await {
                Ok(session) => session.clone(),
                // Every other part of the minion has ended.
                Err(_) => return,
            };
            let Some(session) = session else { continue };
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            let Some(jid) = self.spool.take_unsent() else {
                drop(permit);
                tokio::select! {
                    () = self.spool.returned() => {}
                    _ = sessions.changed() => {}
                }
                continue;
            };
            // Whatever else is in the record.
            let surely_large = (self.batch.bytes() + OVERHEAD) as u64;
            if self.spool.record_length(&jid) > surely_large && self.large.available_permits() == 0
            {
                // Before it is read.
                drop(permit);
                self.postpone(jid);
                continue;
            }
            // Here, so that what waits is gathered into one request and not divided among several.
            let returns = self.gather(&session, jid).await;
            if returns.is_empty() {
                continue;
            }
            let this = Arc::clone(&self);
            if self.is_large(&returns) {
                // Others pass it.
                drop(permit);
                let Some(turn) = self.take_turn(&returns) else {
                    continue;
                };
                self.context.spawn(async move {
                    this.send_returns(&session, returns, None).await;
                    drop(turn);
                    this.take_up_postponed();
                });
            } else {
                self.context.spawn(async move {
                    this.send_returns(&session, returns, None).await;
                    drop(permit);
                });
            }
        }
    }

    /// Sends what the spool holds of the schedule, for as long as the minion exists: one return after the other, so that they never
    /// take the way of a return that an operator waits for.
    pub async fn run_scheduled(self: Arc<Self>) {
        let mut sessions = self.session.subscribe();
        loop {
            let session = match sessions.wait_for(Option::is_some).await {
                Ok(session) => session.clone(),
                // Every other part of the minion has ended.
                Err(_) => return,
            };
            let Some(session) = session else { continue };
            let Some((jid, mut run)) = self.spool.take_unsent_scheduled() else {
                self.spool.scheduled_returned().await;
                continue;
            };
            shorten(&mut run, self.host.max_payload() / 2);
            // None was dropped meanwhile, or cannot be read now.
            let Some(returned) = self.read_return(&jid).await else {
                continue;
            };
            let limit = self.host.max_payload();
            let size = size_of(&returned);
            if size > limit {
                let why = format!("a return of {size} bytes is above the limit of {limit} bytes");
                self.replace(&session, returned, &why).await;
                continue;
            }
            self.send_returns(&session, vec![returned], Some(&run))
                .await;
        }
    }

    /// Returns a permit to send a large return, or postpones it.
    fn take_turn(&self, returns: &[Return]) -> Option<OwnedSemaphorePermit> {
        if let Ok(turn) = Arc::clone(&self.large).try_acquire_owned() {
            return Some(turn);
        }
        for returned in returns {
            self.postpone(returned.jid.clone());
        }
        None
    }

    fn postpone(&self, jid: Jid) {
        self.postponed().push_back(jid);
        if self.large.available_permits() > 0 {
            // It became free before this one was on the list.
            self.take_up_postponed();
        }
    }

    /// Has one of the postponed returns sent: there is a permit for it.
    fn take_up_postponed(&self) {
        let next = self.postponed().pop_front();
        if let Some(jid) = next {
            self.spool.put_back(&jid);
        }
    }

    fn postponed(&self) -> MutexGuard<'_, VecDeque<Jid>> {
        self.postponed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a few seconds until every return is acknowledged, or `session` ends.
    pub async fn flush(&self, session: &MinionSession) {
        let clock = self.context.clock;
        let sent = async {
            while self.spool.unacknowledged() > 0 {
                self.acknowledged.notified().await;
            }
        };
        tokio::select! {
            _ = clock.deadline(clock.after(FLUSH_TIMEOUT), sent) => {}
            _ = session.ended() => {}
        }
    }

    /// Sends these returns, or the one of a `scheduled` run, until there is a verdict on each, or puts them back.
    async fn send_returns(
        &self,
        session: &MinionSession,
        returns: Vec<Return>,
        scheduled: Option<&ScheduledRun>,
    ) {
        let (returns, wait) = match self.ask(session, returns, scheduled).await {
            Answer::Done => return,
            Answer::Unreadable(returns, _) if returns.len() > 1 => {
                return self.send_singly(session, returns).await;
            }
            Answer::Unreadable(returns, why) => {
                return self.replace_all(session, returns, &why).await;
            }
            Answer::RetryAfter(returns, wait) => (returns, wait),
        };
        self.put_back_after(returns, wait).await;
    }

    /// Sends each of these returns alone, because one of them cannot be read.
    async fn send_singly(&self, session: &MinionSession, returns: Vec<Return>) {
        let mut returns = returns.into_iter();
        while let Some(returned) = returns.next() {
            match self.ask(session, vec![returned], None).await {
                Answer::Done => {}
                Answer::Unreadable(returns, why) => self.replace_all(session, returns, &why).await,
                Answer::RetryAfter(mut later, wait) => {
                    // The others do not wait for a master that has no time now.
                    later.extend(returns);
                    return self.put_back_after(later, wait).await;
                }
            }
        }
    }

    async fn put_back_after(&self, returns: Vec<Return>, wait: Duration) {
        self.context.clock.pause(wait).await;
        self.put_back(&returns);
    }

    /// Reads the return of `first`, and those of further jobs as long as they fit into one request. One
    /// that no request can carry is replaced.
    async fn gather(&self, session: &MinionSession, first: Jid) -> Vec<Return> {
        let limit = self.host.max_payload();
        let (mut returns, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(jid) = next.take() {
            let Some(returned) = self.read_return(&jid).await else {
                break;
            };
            let size = size_of(&returned);
            if size > limit {
                let why = format!("a return of {size} bytes is above the limit of {limit} bytes");
                self.replace(session, returned, &why).await;
                break;
            }
            let room = limit.min(self.batch.bytes());
            if !returns.is_empty() && bytes + size + OVERHEAD > room {
                self.put_back(&[returned]);
                break;
            }
            bytes += size + OVERHEAD;
            returns.push(returned);
            if returns.len() < MAX_RETURNS && bytes < room {
                next = self.spool.take_unsent();
            }
        }
        returns
    }

    /// Asks the master to store these returns, or the one of a `scheduled` run. Forgets those on which it gives a verdict.
    async fn ask(
        &self,
        session: &MinionSession,
        returns: Vec<Return>,
        scheduled: Option<&ScheduledRun>,
    ) -> Answer {
        let (answer, returns) = match &returns[..] {
            [only] if scheduled.is_some() || self.is_large(&returns) => {
                let most = self.host.max_payload() - scheduled.map_or(0, size_of_run);
                let size = match self.is_large(&returns) {
                    true => MessageSize::beginning_with(FIRST_PART, most)
                        .followed_by(self.batch.bytes()),
                    false => MessageSize::beginning_with(size_of(only), most),
                };
                let (clock, bytes) = (self.context.clock, size_of(only));
                let sent = clock.now();
                let answer = send_in_parts(session, only, scheduled, size).await;
                self.batch
                    .parts_ended_after(clock.now() - sent, bytes, answer.is_ok());
                (answer, returns)
            }
            _ => {
                let bytes = returns.iter().map(size_of).sum();
                let (clock, request) = (self.context.clock, MinionRequest::Returns(returns));
                let sent = clock.now();
                let answer = session.ask(Class::Return, &request, VERDICT_TIMEOUT).await;
                let took = clock.now() - sent;
                self.batch.ended_after(took, bytes, answer.is_ok());
                let MinionRequest::Returns(returns) = request else {
                    return Answer::Done;
                };
                (answer, returns)
            }
        };
        match answer {
            Ok(MinionReply::Verdicts(verdicts)) if verdicts.len() == returns.len() => {
                let (mut stored, mut refused) = (Vec::new(), Vec::new());
                for (returned, verdict) in returns.into_iter().zip(verdicts) {
                    let jid = returned.jid;
                    match verdict {
                        ReturnVerdict::Stored | ReturnVerdict::Duplicate => {
                            tracing::info!("job {jid}: acknowledged");
                            stored.push(jid);
                        }
                        ReturnVerdict::UnknownJob
                        | ReturnVerdict::NotOffered
                        | ReturnVerdict::Disputed => {
                            tracing::warn!(
                                "job {jid}: the master refused its return: {verdict}; it stays in the \
                                 spool, and saltutil.refused_returns shows it"
                            );
                            refused.push(jid);
                        }
                    }
                }
                self.set_aside(refused).await;
                self.forget(stored, session.number).await;
                Answer::Done
            }
            Ok(MinionReply::Verdicts(verdicts)) => {
                let (given, asked) = (verdicts.len(), returns.len());
                tracing::warn!(
                    "the master answered {given} of {asked} returns; they are sent again"
                );
                Answer::RetryAfter(returns, RETRY_DELAY + jitter(RETRY_DELAY))
            }
            Ok(MinionReply::Received(_)) => {
                tracing::warn!(
                    "the master does not acknowledge the parts of a large return; it is sent again in a while"
                );
                Answer::RetryAfter(returns, STANDSTILL_DELAY)
            }
            Ok(_) => {
                tracing::warn!(
                    "the master's reply to a return cannot be understood; the return is sent again in a while"
                );
                Answer::RetryAfter(returns, UNREADABLE_VERDICT_DELAY)
            }
            Err(AskError::Unreadable(error)) => {
                tracing::warn!("the master's verdict on a return cannot be read: {error}");
                Answer::RetryAfter(returns, UNREADABLE_VERDICT_DELAY)
            }
            Err(AskError::Refused(RefusedVerb::Malformed)) => {
                Answer::Unreadable(returns, "the master could not read the return".to_owned())
            }
            // The transport's limit is said in the clear: it decides about a return only if the limit that the
            // master told in the session agrees.
            Err(AskError::Transport(error))
                if error.kind() == ErrorKind::TooLarge && self.exceeds_limit(&returns) =>
            {
                Answer::Unreadable(returns, error.to_string())
            }
            Err(AskError::Ended) => Answer::RetryAfter(returns, Duration::ZERO),
            Err(AskError::Busy(after)) => Answer::RetryAfter(returns, after + jitter(after)),
            Err(error) => {
                tracing::debug!("{} returns were not acknowledged: {error}", returns.len());
                Answer::RetryAfter(returns, RETRY_DELAY + jitter(RETRY_DELAY))
            }
        }
    }

    /// Whether this is one return that travels in parts.
    fn is_large(&self, returns: &[Return]) -> bool {
        matches!(returns, [only] if size_of(only) > self.batch.bytes())
    }

    /// Whether one of these returns is larger than what the master takes, as it said in the session.
    fn exceeds_limit(&self, returns: &[Return]) -> bool {
        let limit = self.host.max_payload();
        returns
            .iter()
            .any(|returned| encode(returned).len() > limit)
    }

    fn put_back(&self, returns: &[Return]) {
        for returned in returns {
            self.spool.put_back(&returned.jid);
        }
    }

    async fn replace_all(&self, session: &MinionSession, returns: Vec<Return>, why: &str) {
        for returned in returns {
            self.replace(session, returned, why).await;
        }
    }

    /// Replaces a return that cannot be sent with a small one that says why.
    async fn replace(&self, session: &MinionSession, returned: Return, why: &str) {
        let jid = returned.jid.clone();
        if returned.payload.as_bytes().len() < SURELY_SMALL {
            // This is a replacement already.
            tracing::error!("job {jid}: {why}");
            return self.set_aside(vec![jid]).await;
        }
        let (host, payload) = (Arc::clone(&self.host), returned.payload.clone());
        let kept = move || oversize_output::keep(&host.cache_dir, payload.as_bytes());
        let kept = match self.pool.run_io(kept).await {
            Some(Ok(path)) => format!("it is stored, as MessagePack, in {}", path.display()),
            // Without a copy it is not replaced: a disk that has room again takes one.
            Some(Err(error)) => {
                tracing::error!("job {jid}: {why}; it could not be stored in a file: {error}");
                let returns = vec![returned];
                return self.put_back_after(returns, UNREADABLE_DELAY).await;
            }
            None => return,
        };
        let why = format!("{why}; {kept}");
        tracing::error!("job {jid}: {why} (session {})", session.session.id());
        let instead = Return {
            retcode: 1,
            success: false,
            payload: Packed::pack(&Value::from(format!("ERROR: {why}"))),
            ..returned
        };
        let spool = Arc::clone(&self.spool);
        // An error means that the runtime is going down; the spool still holds the original.
        let _ = self.pool.run_io(move || spool.finish(instead)).await;
    }

    async fn read_return(&self, jid: &Jid) -> Option<Return> {
        if let Some(returned) = self.spool.in_memory(jid) {
            return Some(returned);
        }
        let (spool, copy) = (Arc::clone(&self.spool), jid.clone());
        match self.pool.run_io(move || spool.read(&copy)).await? {
            Ok(returned) => returned,
            Err(error) => {
                tracing::error!("job {jid}: its return cannot be read from the spool: {error}");
                let (spool, jid, clock) =
                    (Arc::clone(&self.spool), jid.clone(), self.context.clock);
                // Apart, so that it does not hold up the others.
                self.context.spawn(async move {
                    clock.pause(UNREADABLE_DELAY).await;
                    spool.put_back(&jid);
                });
                None
            }
        }
    }

    /// Forgets returns that the master has stored, in the session with this number.
    async fn forget(&self, jids: Vec<Jid>, session: u64) {
        if jids.is_empty() {
            return;
        }
        let (spool, now) = (Arc::clone(&self.spool), self.clock.reached());
        // An error means that the runtime is going down; the master answers `Duplicate` next time.
        let done = move || spool.done(&jids, now, session);
        let _ = self.pool.run_io(done).await;
        self.acknowledged.notify_one();
    }

    async fn set_aside(&self, jids: Vec<Jid>) {
        if jids.is_empty() {
            return;
        }
        let spool = Arc::clone(&self.spool);
        // An error means that the runtime is going down; the next start sends them again.
        let aside = move || jids.iter().for_each(|jid| spool.set_aside(jid));
        let _ = self.pool.run_io(aside).await;
        self.acknowledged.notify_one();
    }
}

/// The result of a request with returns.
enum Answer {
    /// The master gave its verdicts, and the returns are forgotten.
    Done,
    /// One of them cannot be sent to this master, for this reason.
    Unreadable(Vec<Return>, String),
    /// The returns are to be sent again after this time.
    RetryAfter(Vec<Return>, Duration),
}

/// Returns the length of a return's payload in bytes.
fn size_of(returned: &Return) -> usize {
    returned.payload.as_bytes().len()
}

/// Returns what a scheduled run adds to each request, in bytes, but for names, which are bounded.
fn size_of_run(run: &ScheduledRun) -> usize {
    let metadata = run.metadata.as_ref();
    run.arg.as_packed().as_bytes().len() + metadata.map_or(0, |metadata| metadata.as_bytes().len())
}

/// Leaves the arguments and the metadata of a run out if they are larger than `most`: no request would have room for them.
fn shorten(run: &mut ScheduledRun, most: usize) {
    let size = size_of_run(run);
    if size > most {
        tracing::warn!(
            "scheduled job {}: its arguments and its metadata have {size} bytes, which the master does not take with the return",
            run.schedule
        );
        (run.arg, run.metadata) = (Arguments::default().pack(), None);
    }
}
