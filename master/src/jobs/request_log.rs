//! The log of the requests that were carried out, so that a request that is repeated acts once. It is in
//! memory, and on the disk with what the requests did: a job has the id of its request, other requests have
//! a row of their own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, params};
use saline_messages::{MasterTime, RequestId};

use super::{JobStore, StoreError, lock};
use crate::disk::columns;
use crate::disk::writer::StoreFile;

/// How long a request is remembered, in milliseconds.
pub const REQUESTS_KEPT: MasterTime = 10 * 60 * 1000;

/// The largest number of requests that are remembered. Beyond it the oldest are forgotten, which is more than a minute's
/// requests at the highest rate; a client repeats a request for half a minute.
const MAX_REQUESTS: usize = 500_000;

/// The largest size of all replies in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Whether a request was carried out now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CarriedOut<T> {
    /// The request was carried out now.
    Now,
    /// The request was carried out before; this was its reply.
    Before(T),
}

/// What a request did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LogEntry {
    /// The request published the job with this jid, in microseconds since 1970.
    Job(i64),
    /// The request is being carried out.
    Begun,
    /// The request had this reply. An empty one says that a request was begun of which it is not known whether it was carried out:
    /// the master ended meanwhile, or gave it up.
    Reply(Arc<[u8]>),
}

/// Whether a request that is noted before it is carried out is to be carried out now.
#[derive(Debug)]
#[must_use]
pub enum RequestBegin {
    /// It is, and is noted.
    Now(BegunRequest),
    /// It is being carried out.
    UnderWay,
    /// It was begun before, and had this reply; an empty one where it is not known whether it was carried out.
    Before(Vec<u8>),
}

/// A request that was noted before it is carried out. One that is dropped counts as one of which nothing is known.
#[derive(Debug)]
pub struct BegunRequest {
    request: RequestId,
    jobs: Arc<JobStore>,
    has_ended: bool,
}

impl BegunRequest {
    /// Stores the reply to the request.
    ///
    /// # Errors
    /// When SQLite fails: then the reply is known until the master ends.
    pub async fn end(mut self, reply: Vec<u8>) -> Result<(), StoreError> {
        self.has_ended = true;
        let now = self.jobs.now();
        lock(&self.jobs.request_log).end(self.request, reply.clone().into());
        let request = self.request;
        let act = move |connection: &Connection| insert(connection, request, &reply, now);
        let writer = &self.jobs.writer;
        writer.call(StoreFile::Newest, 0, act, |_| {}).await
    }
}

impl Drop for BegunRequest {
    fn drop(&mut self) {
        if !self.has_ended {
            lock(&self.jobs.request_log).end(self.request, Arc::default());
        }
    }
}

/// The last requests, and what they did.
#[derive(Debug, Default)]
pub(super) struct RequestLog {
    entries: HashMap<RequestId, (MasterTime, LogEntry)>,
    order: VecDeque<(MasterTime, RequestId)>,
    bytes: usize,
}

impl RequestLog {
    /// Returns what the request did, if it was carried out.
    pub(super) fn find(&self, request: RequestId) -> Option<&LogEntry> {
        self.entries.get(&request).map(|(_, entry)| entry)
    }

    /// Notes what a request does, unless it was carried out: then returns what it did.
    pub(super) fn begin(
        &mut self,
        request: RequestId,
        entry: LogEntry,
        now: MasterTime,
    ) -> Option<LogEntry> {
        self.forget(now);
        if let Some(before) = self.find(request) {
            return Some(before.clone());
        }
        self.bytes += size(&entry);
        self.entries.insert(request, (now, entry));
        self.order.push_back((now, request));
        None
    }

    /// Returns the same requests as if they had been carried out now: the master's time was set back.
    pub(super) fn redated(&self, now: MasterTime) -> Self {
        let mut redated = Self::default();
        for (_, request) in &self.order {
            if let Some(entry) = self.find(*request) {
                let _ = redated.begin(*request, entry.clone(), now);
            }
        }
        redated
    }

    /// Notes the reply to a request that was begun.
    fn end(&mut self, request: RequestId, reply: Arc<[u8]>) {
        if let Some((_, entry @ LogEntry::Begun)) = self.entries.get_mut(&request) {
            self.bytes += reply.len();
            *entry = LogEntry::Reply(reply);
        }
    }

    /// Takes back that a request did this: it was not committed.
    pub(super) fn undo(&mut self, request: RequestId, entry: &LogEntry) {
        if self.find(request) == Some(entry) {
            self.entries.remove(&request);
            self.bytes -= size(entry);
        }
    }

    fn forget(&mut self, now: MasterTime) {
        let oldest = now.saturating_sub(REQUESTS_KEPT);
        while self.entries.len() >= MAX_REQUESTS || self.bytes > MAX_BYTES || {
            let first = self.order.front();
            first.is_some_and(|(at, _)| *at <= oldest)
        } {
            let Some((at, request)) = self.order.pop_front() else {
                return;
            };
            // One that was taken back and carried out later stands further behind too.
            if self
                .entries
                .get(&request)
                .is_some_and(|(noted, _)| *noted == at)
                && let Some((_, gone)) = self.entries.remove(&request)
            {
                self.bytes -= size(&gone);
            }
        }
    }
}

fn size(entry: &LogEntry) -> usize {
    match entry {
        LogEntry::Job(_) | LogEntry::Begun => 0,
        LogEntry::Reply(reply) => reply.len(),
    }
}

impl JobStore {
    /// Stores the reply to a request that is not a job.
    ///
    /// # Errors
    /// When SQLite fails; nothing was stored.
    ///
    /// # Cancel safety
    /// A dropped call may have stored the reply or not.
    pub async fn log_request(
        &self,
        request: RequestId,
        reply: Vec<u8>,
    ) -> Result<CarriedOut<Vec<u8>>, StoreError> {
        let now = self.now();
        let entry = LogEntry::Reply(reply.into());
        let (request_log, undone) = (Arc::clone(&self.request_log), Arc::clone(&self.request_log));
        let noted = entry.clone();
        let began = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&began);
        let act = move |connection: &Connection| {
            let before = lock(&request_log).begin(request, noted.clone(), now);
            match (before, &noted) {
                (Some(LogEntry::Reply(before)), _) => Ok(CarriedOut::Before(before.to_vec())),
                (Some(LogEntry::Job(_) | LogEntry::Begun), _) => Ok(CarriedOut::Before(Vec::new())),
                (None, LogEntry::Reply(reply)) => {
                    begun.store(true, Ordering::Relaxed);
                    insert(connection, request, reply, now)?;
                    Ok(CarriedOut::Now)
                }
                (None, LogEntry::Job(_) | LogEntry::Begun) => Ok(CarriedOut::Now),
            }
        };
        let settled = move |result: &Result<CarriedOut<Vec<u8>>, StoreError>| {
            // Not what an earlier request has recorded.
            if result.is_err() && began.load(Ordering::Relaxed) {
                lock(&undone).undo(request, &entry);
            }
        };
        self.writer.call(StoreFile::Newest, 0, act, settled).await
    }

    /// Notes a request that is not a job before it is carried out, so that it is known when it is repeated after a crash.
    ///
    /// # Errors
    /// When SQLite fails; nothing was noted.
    ///
    /// # Cancel safety
    /// A dropped call may have noted the request, as one of which it is not known whether it was carried out.
    pub async fn begin_request(
        self: &Arc<Self>,
        request: RequestId,
    ) -> Result<RequestBegin, StoreError> {
        let now = self.now();
        let (request_log, undone) = (Arc::clone(&self.request_log), Arc::clone(&self.request_log));
        let began = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&began);
        let act = move |connection: &Connection| {
            let before = lock(&request_log).begin(request, LogEntry::Begun, now);
            if before.is_none() {
                begun.store(true, Ordering::Relaxed);
                insert(connection, request, &[], now)?;
            }
            Ok(before)
        };
        let settled = move |result: &Result<Option<LogEntry>, StoreError>| {
            // Not what an earlier request has noted.
            if result.is_err() && began.load(Ordering::Relaxed) {
                lock(&undone).undo(request, &LogEntry::Begun);
            }
        };
        let before = self.writer.call(StoreFile::Newest, 0, act, settled);
        Ok(match before.await? {
            None => RequestBegin::Now(BegunRequest {
                request,
                jobs: Arc::clone(self),
                has_ended: false,
            }),
            Some(LogEntry::Begun) => RequestBegin::UnderWay,
            Some(LogEntry::Reply(reply)) => RequestBegin::Before(reply.to_vec()),
            Some(LogEntry::Job(_)) => RequestBegin::Before(Vec::new()),
        })
    }

    /// Returns the reply to a request of the last ten minutes that was carried out and did not publish a
    /// job.
    pub fn logged_reply(&self, request: RequestId) -> Option<Vec<u8>> {
        match lock(&self.request_log).find(request)? {
            LogEntry::Reply(reply) => Some(reply.to_vec()),
            LogEntry::Job(_) | LogEntry::Begun => None,
        }
    }
}

fn insert(
    connection: &Connection,
    request: RequestId,
    reply: &[u8],
    now: MasterTime,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO request_log (request_id, reply, created) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![request.0, reply, columns::from_time(now)])?;
    Ok(())
}

/// Reads the requests of the last ten minutes from a partition, the oldest first.
pub(super) fn read(
    connection: &Connection,
    now: MasterTime,
) -> Result<Vec<(MasterTime, RequestId, LogEntry)>, StoreError> {
    let oldest = columns::from_time(now.saturating_sub(REQUESTS_KEPT));
    let mut all = Vec::new();
    let mut jobs = connection
        .prepare("SELECT created, request_id, jid FROM jobs WHERE jid > ?1 AND created > ?2")?;
    // A job's jid is about the time at which it was created.
    let from = oldest.saturating_sub(60_000).saturating_mul(1_000);
    let mut found = jobs.query(params![from, oldest])?;
    while let Some(row) = found.next()? {
        let job = LogEntry::Job(row.get(2)?);
        all.push((columns::time(row, 0)?, RequestId(row.get(1)?), job));
    }
    let mut replies = connection
        .prepare("SELECT created, request_id, reply FROM request_log WHERE created > ?1")?;
    let mut found = replies.query([oldest])?;
    while let Some(row) = found.next()? {
        let reply = LogEntry::Reply(columns::blob(row, 2)?.into());
        all.push((columns::time(row, 0)?, RequestId(row.get(1)?), reply));
    }
    all.sort_by_key(|(created, request, _)| (*created, *request));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u128) -> RequestId {
        RequestId(number.to_be_bytes())
    }

    #[test]
    fn a_request_acts_once_until_it_is_forgotten() {
        let mut request_log = RequestLog::default();
        assert_eq!(request_log.begin(request(1), LogEntry::Job(7), 1_000), None);
        let again = request_log.begin(request(1), LogEntry::Job(8), 1_001);
        assert_eq!(again, Some(LogEntry::Job(7)));
        let later = 1_000 + REQUESTS_KEPT;
        assert_eq!(request_log.begin(request(1), LogEntry::Job(9), later), None);
        assert_eq!(request_log.find(request(1)), Some(&LogEntry::Job(9)));
    }

    #[test]
    fn what_was_not_committed_is_taken_back_and_nothing_else() {
        let mut request_log = RequestLog::default();
        assert_eq!(request_log.begin(request(1), LogEntry::Job(7), 1_000), None);
        request_log.undo(request(1), &LogEntry::Job(8));
        assert!(request_log.find(request(1)).is_some());
        request_log.undo(request(1), &LogEntry::Job(7));
        assert_eq!(request_log.begin(request(1), LogEntry::Job(8), 1_001), None);
    }

    #[test]
    fn replies_are_bounded_in_bytes() {
        let mut request_log = RequestLog::default();
        for number in 0..20 {
            let reply = LogEntry::Reply(vec![0; MAX_BYTES / 8].into());
            assert_eq!(request_log.begin(request(number), reply, 1_000), None);
            assert!(request_log.bytes <= MAX_BYTES + MAX_BYTES / 8);
        }
        assert_eq!(request_log.find(request(0)), None);
        assert!(request_log.find(request(19)).is_some());
    }
}
