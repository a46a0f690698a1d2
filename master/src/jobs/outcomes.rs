//! The outcomes of requests with an effect, so that a request that is repeated acts once. They are in
//! memory, and on the disk with what they did: a job has the id of its request, other requests have
//! a row of their own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, params};
use saline_messages::{MasterTime, RequestId};

use super::writer::Place;
use super::{JobStore, StoreError, lock, rows};

/// How long the outcome of a request is kept, in milliseconds.
pub const OUTCOME_KEPT: MasterTime = 10 * 60 * 1000;

/// The largest number of outcomes. Beyond it the oldest are forgotten, which is more than a minute's
/// requests at the highest rate; a client repeats a request for half a minute.
const MAX_OUTCOMES: usize = 500_000;

/// The largest size of all replies in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The result of a request with an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Committed<T> {
    /// The request was carried out now.
    Now,
    /// The request was carried out before; this was its reply.
    Before(T),
}

/// The effect of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// The request published the job with this jid, in microseconds since 1970.
    Job(i64),
    /// The request had this reply.
    Reply(Arc<[u8]>),
}

/// The outcomes of the last requests.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    effects: HashMap<RequestId, (MasterTime, Effect)>,
    order: VecDeque<(MasterTime, RequestId)>,
    bytes: usize,
}

impl Outcomes {
    /// Returns what the request did, if it was carried out.
    pub(super) fn find(&self, request: RequestId) -> Option<&Effect> {
        self.effects.get(&request).map(|(_, effect)| effect)
    }

    /// Notes what a request does, unless it was carried out: then returns what it did.
    pub(super) fn begin(
        &mut self,
        request: RequestId,
        effect: Effect,
        now: MasterTime,
    ) -> Option<Effect> {
        self.forget(now);
        if let Some(before) = self.find(request) {
            return Some(before.clone());
        }
        self.bytes += size(&effect);
        self.effects.insert(request, (now, effect));
        self.order.push_back((now, request));
        None
    }

    /// Takes back that a request did this: it was not committed.
    pub(super) fn undo(&mut self, request: RequestId, effect: &Effect) {
        if self.find(request) == Some(effect) {
            self.effects.remove(&request);
            self.bytes -= size(effect);
        }
    }

    fn forget(&mut self, now: MasterTime) {
        let oldest = now.saturating_sub(OUTCOME_KEPT);
        while self.effects.len() >= MAX_OUTCOMES || self.bytes > MAX_BYTES || {
            let first = self.order.front();
            first.is_some_and(|(at, _)| *at <= oldest)
        } {
            let Some((at, request)) = self.order.pop_front() else {
                return;
            };
            // One that was taken back and carried out later stands further behind too.
            if self
                .effects
                .get(&request)
                .is_some_and(|(noted, _)| *noted == at)
                && let Some((_, gone)) = self.effects.remove(&request)
            {
                self.bytes -= size(&gone);
            }
        }
    }
}

fn size(effect: &Effect) -> usize {
    match effect {
        Effect::Job(_) => 0,
        Effect::Reply(reply) => reply.len(),
    }
}

impl JobStore {
    /// Stores the reply to a request whose effect is not a job.
    ///
    /// # Errors
    /// When SQLite fails; nothing was stored.
    ///
    /// # Cancel safety
    /// A dropped call may have stored the reply or not.
    pub async fn record_outcome(
        &self,
        request: RequestId,
        reply: Vec<u8>,
    ) -> Result<Committed<Vec<u8>>, StoreError> {
        let now = self.now();
        let effect = Effect::Reply(reply.into());
        let (outcomes, undone) = (Arc::clone(&self.outcomes), Arc::clone(&self.outcomes));
        let noted = effect.clone();
        let began = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&began);
        let act = move |connection: &Connection| {
            let before = lock(&outcomes).begin(request, noted.clone(), now);
            match (before, &noted) {
                (Some(Effect::Reply(before)), _) => Ok(Committed::Before(before.to_vec())),
                (Some(Effect::Job(_)), _) => Ok(Committed::Before(Vec::new())),
                (None, Effect::Reply(reply)) => {
                    begun.store(true, Ordering::Relaxed);
                    insert(connection, request, reply, now)?;
                    Ok(Committed::Now)
                }
                (None, Effect::Job(_)) => Ok(Committed::Now),
            }
        };
        let settled = move |result: &Result<Committed<Vec<u8>>, StoreError>| {
            // Not what an earlier request has recorded.
            if result.is_err() && began.load(Ordering::Relaxed) {
                lock(&undone).undo(request, &effect);
            }
        };
        self.writer.call(Place::Newest, 0, act, settled).await
    }

    /// Returns the reply to a request of the last ten minutes that was carried out and did not publish a
    /// job.
    pub fn outcome(&self, request: RequestId) -> Option<Vec<u8>> {
        match lock(&self.outcomes).find(request)? {
            Effect::Reply(reply) => Some(reply.to_vec()),
            Effect::Job(_) => None,
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
            "INSERT OR REPLACE INTO outcomes (request_id, reply, created) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![request.0, reply, rows::from_time(now)])?;
    Ok(())
}

/// Reads the outcomes of the last ten minutes from a partition, the oldest first.
pub(super) fn read(
    connection: &Connection,
    now: MasterTime,
) -> Result<Vec<(MasterTime, RequestId, Effect)>, StoreError> {
    let oldest = rows::from_time(now.saturating_sub(OUTCOME_KEPT));
    let mut all = Vec::new();
    let mut jobs = connection
        .prepare("SELECT created, request_id, jid FROM jobs WHERE jid > ?1 AND created > ?2")?;
    // A job's jid is about the time at which it was created.
    let from = oldest.saturating_sub(60_000).saturating_mul(1_000);
    let mut found = jobs.query(params![from, oldest])?;
    while let Some(row) = found.next()? {
        let job = Effect::Job(row.get(2)?);
        all.push((rows::time(row, 0)?, RequestId(row.get(1)?), job));
    }
    let mut replies =
        connection.prepare("SELECT created, request_id, reply FROM outcomes WHERE created > ?1")?;
    let mut found = replies.query([oldest])?;
    while let Some(row) = found.next()? {
        let reply = Effect::Reply(rows::blob(row, 2)?.into());
        all.push((rows::time(row, 0)?, RequestId(row.get(1)?), reply));
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
    fn a_request_acts_once_until_its_outcome_is_forgotten() {
        let mut outcomes = Outcomes::default();
        assert_eq!(outcomes.begin(request(1), Effect::Job(7), 1_000), None);
        let again = outcomes.begin(request(1), Effect::Job(8), 1_001);
        assert_eq!(again, Some(Effect::Job(7)));
        let later = 1_000 + OUTCOME_KEPT;
        assert_eq!(outcomes.begin(request(1), Effect::Job(9), later), None);
        assert_eq!(outcomes.find(request(1)), Some(&Effect::Job(9)));
    }

    #[test]
    fn what_was_not_committed_is_taken_back_and_nothing_else() {
        let mut outcomes = Outcomes::default();
        assert_eq!(outcomes.begin(request(1), Effect::Job(7), 1_000), None);
        outcomes.undo(request(1), &Effect::Job(8));
        assert!(outcomes.find(request(1)).is_some());
        outcomes.undo(request(1), &Effect::Job(7));
        assert_eq!(outcomes.begin(request(1), Effect::Job(8), 1_001), None);
    }

    #[test]
    fn replies_are_bounded_in_bytes() {
        let mut outcomes = Outcomes::default();
        for number in 0..20 {
            let reply = Effect::Reply(vec![0; MAX_BYTES / 8].into());
            assert_eq!(outcomes.begin(request(number), reply, 1_000), None);
            assert!(outcomes.bytes <= MAX_BYTES + MAX_BYTES / 8);
        }
        assert_eq!(outcomes.find(request(0)), None);
        assert!(outcomes.find(request(19)).is_some());
    }
}
