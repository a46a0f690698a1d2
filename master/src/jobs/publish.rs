//! Stores jobs with the states of their minions, and reads those that are under way at the start.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rusqlite::{Connection, params};
use saline_data::Packed;
use saline_messages::{
    Batch, MasterTime, MinionId, MinionJobState, Published, RequestId, SignedJob, decode, encode,
};

use super::memory::minion_record::MinionRecord;
use super::memory::open_jobs::{OpenJobs, Recovered};
use super::memory::receipts::ReceiptSource;
use super::memory::states::{self, States};
use super::request_log::{CarriedOut, LogEntry};
use super::{JobStore, StoreError, batches, jid, lock, may_become, returns, secrets};
use crate::disk::columns;
use crate::disk::writer::StoreFile;
use crate::jobs::tables::heard_heartbeats::{self, HeardHeartbeats};
use crate::jobs::tables::{minion_states, rows};

/// The number of minions in a state that is not final, of all jobs, from which no more jobs are taken: they are held in
/// memory, about 100 bytes each.
const MAX_OFFERS: usize = 5_000_000;

/// The number of minions that are named when no more jobs are taken.
const BUSIEST: usize = 3;

/// A job to be published.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// The job with the master's signature, so that a minion that missed it gets the same bytes.
    pub job: SignedJob,
    /// The operator whose session asked; [`Job::user`](saline_messages::Job::user) is only
    /// what it said.
    pub operator: String,
    /// The request that asked.
    pub request: RequestId,
    /// The expected minions and their states.
    pub minions: Vec<(MinionId, MinionJobState)>,
    /// The names in a list for which there is no key.
    pub unknown: Vec<String>,
    /// How the job is carried out in batches, if it is. Its minions are `Waiting` then.
    pub batch: Option<Batch>,
    /// When the minions were chosen by their accepted keys, if they were: the job is withdrawn from those whose keys
    /// have gone since.
    pub resolved: Option<MasterTime>,
    /// The metadata of the job, if it has any: a packed mapping.
    pub metadata: Option<Packed>,
    /// The names of the destinations that get the job and its returns, beside those of every job.
    pub returners: Vec<String>,
}

impl JobStore {
    /// Stores a job, the states of its minions and that its request was carried out, all or nothing. A
    /// request that was carried out before is not carried out again: what it published is returned, with
    /// the states that the minions had then.
    ///
    /// # Errors
    /// [`StoreError::JidTaken`] when there is such a job, [`StoreError::TooManyOpen`] when too much is
    /// under way; otherwise when SQLite fails. Nothing was stored.
    ///
    /// # Cancel safety
    /// A dropped call may have stored everything or nothing; the same request tells.
    pub async fn publish(&self, new: NewJob) -> Result<CarriedOut<Published>, StoreError> {
        let under_way = lock(&self.open).offers();
        let is_known = || lock(&self.request_log).find(new.request).is_some();
        if under_way >= MAX_OFFERS && !is_known() {
            let busiest = lock(&self.open).busiest(BUSIEST);
            let busiest = busiest
                .iter()
                .map(|(minion, jobs)| format!("{minion} ({jobs})"));
            return Err(StoreError::TooManyOpen {
                offers: under_way,
                busiest: busiest.collect::<Vec<_>>().join(", "),
            });
        }
        if self
            .records
            .has_unwritten_key_of(new.minions.iter().map(|(minion, _)| minion))
        {
            // The disk must know to which keys the offers were made before it has the offers.
            self.flush_all().await?;
        }
        let now = self.now();
        let job = &new.job.job;
        let (request, expires, batch) = (new.request, job.expires, new.batch);
        let resolved = new.resolved;
        let number = jid::to_micros(&job.jid)
            .ok_or_else(|| StoreError::corrupt("a jid that is a time", job.jid.as_str()))?;
        let mut states: States = new.minions.clone();
        states.sort_by(|a, b| a.0.cmp(&b.0));
        states.dedup_by(|a, b| a.0 == b.0);
        let packed = states::encode(&states);
        let heard = self
            .records
            .look(|records| heard_heartbeats::published(&states, records));
        let beside = new
            .metadata
            .as_ref()
            .map_or(0, |packed| packed.as_bytes().len());
        let secrets = new.job.secrets.as_ref();
        let sealed = secrets.map(|secrets| self.secrets.seal(number, secrets));
        let sealed = sealed.transpose()?;
        let has_secrets = sealed.is_some();
        let beside = beside + sealed.as_ref().map_or(0, Vec::len);
        let beside = beside + heard.as_ref().map_or(0, Vec::len);
        let bytes = rows::job_size(job) + packed.len() + beside;
        let (began, undone) = (Arc::clone(&self.request_log), Arc::clone(&self.request_log));
        let (known, receipts) = (Arc::clone(&self.open), Arc::clone(&self.receipts));
        let act = move |connection: &Connection| {
            match lock(&began).begin(request, LogEntry::Job(number), now) {
                Some(LogEntry::Job(before)) => return Ok(Some(before)),
                Some(LogEntry::Reply(_) | LogEntry::Begun) => {
                    return Err(StoreError::corrupt("the request of a job", "another one"));
                }
                None => {}
            }
            let heard = heard.as_deref();
            let gone = resolved.map(|resolved| lock(&known).gone_since(resolved));
            match gone.filter(|gone| !gone.is_empty()) {
                None => insert(connection, number, &new, &packed, heard, &receipts)?,
                Some(gone) => {
                    let left = withdrawn_from(states::decode(&packed)?, &gone);
                    let left = states::encode(&left);
                    insert(connection, number, &new, &left, heard, &receipts)?;
                }
            }
            if let Some(sealed) = &sealed {
                secrets::insert(connection, number, sealed)?;
            }
            Ok(None)
        };
        let open = Arc::clone(&self.open);
        let (stored_secrets, counts) = (Arc::clone(&self.secrets), Arc::clone(&self.counts));
        let grace = batches::grace(self.settings.heartbeat);
        let settled = move |result: &Result<Option<i64>, StoreError>| match result {
            Ok(None) => {
                counts.job_published();
                let mut open = lock(&open);
                let of_batch = batch.map(|batch| (batch, states.clone()));
                open.insert(number, expires, states, now);
                if has_secrets {
                    stored_secrets.note(number);
                }
                if let Some((batch, states)) = of_batch {
                    open.insert_batch(number, states, batch, grace, None);
                }
                if let Some(resolved) = resolved {
                    open.withdraw_late(number, resolved, now);
                }
            }
            Ok(Some(_)) => {}
            Err(_) => lock(&undone).undo(request, &LogEntry::Job(number)),
        };
        let place = StoreFile::NewJob(number);
        match self.writer.call(place, bytes, act, settled).await? {
            None => Ok(CarriedOut::Now),
            Some(before) => self.published(before).await.map(CarriedOut::Before),
        }
    }

    /// Returns what was said about a job when it was published.
    async fn published(&self, job: i64) -> Result<Published, StoreError> {
        let read = self.read(job, move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT expires, unknown, states, batch FROM jobs WHERE jid = ?1",
            )?;
            let mut found = statement.query([job])?;
            let Some(row) = found.next()? else {
                return Ok(None);
            };
            let unknown = decode(columns::blob(row, 1)?);
            Ok(Some(Published {
                jid: Some(jid::from_micros(job)),
                expires: columns::time(row, 0)?,
                minions: states::decode(columns::blob(row, 2)?)?,
                unknown: unknown.map_err(|_| StoreError::corrupt("a list of names", "others"))?,
                without_grains: Vec::new(),
                without_pillar: Vec::new(),
                batch: rows::batch(row, 3)?,
                warnings: Vec::new(),
            }))
        });
        read.await?.ok_or(StoreError::Removed)
    }
}

/// Withdraws the offers to these minions.
fn withdrawn_from(mut states: States, gone: &BTreeSet<MinionId>) -> States {
    for (minion, state) in &mut states {
        if gone.contains(minion) && may_become(*state, MinionJobState::Withdrawn) {
            *state = MinionJobState::Withdrawn;
        }
    }
    states
}

fn insert(
    connection: &Connection,
    number: i64,
    new: &NewJob,
    states: &[u8],
    heard: Option<&[u8]>,
    receipts: &ReceiptSource,
) -> Result<(), StoreError> {
    let SignedJob { job, signature, .. } = &new.job;
    let inserted = connection
        .prepare_cached(
            "INSERT INTO jobs (jid, created, expires, request_id, signature, fun, user,
                               operator, tgt_type, tgt, arg, unknown, claims, cancelled, states,
                               heartbeats, batch, receipt)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0, ?14, ?15, ?16, ?17)
             ON CONFLICT (jid) DO NOTHING",
        )?
        .execute(params![
            number,
            columns::from_time(job.created),
            columns::from_time(job.expires),
            new.request.0,
            signature,
            job.fun,
            job.user,
            new.operator,
            job.target.kind.name(),
            job.target.expression,
            job.arg.as_packed().as_bytes(),
            encode(&new.unknown),
            encode(&job.claims),
            states,
            heard,
            new.batch.as_ref().map(encode),
            receipts.next(),
        ])?;
    if inserted == 0 {
        return Err(StoreError::JidTaken(job.jid.clone()));
    }
    if let Some(metadata) = &new.metadata {
        connection
            .prepare_cached("INSERT INTO metadata (jid, metadata) VALUES (?1, ?2)")?
            .execute(params![number, metadata.as_bytes()])?;
    }
    if !new.returners.is_empty() {
        connection
            .prepare_cached("INSERT INTO job_returners (jid, names) VALUES (?1, ?2)")?
            .execute(params![number, new.returners.join(" ")])?;
    }
    Ok(())
}

/// Reads the jobs of a partition that are under way: minions may begin them, or run them. Minions of a batch get
/// `grace` milliseconds to come back. Notes in `heard` what the rows say of heartbeats.
pub(super) fn read_open(
    connection: &Connection,
    now: MasterTime,
    grace: MasterTime,
    records: &HashMap<MinionId, MinionRecord>,
    open: &mut OpenJobs,
    heard: &mut HeardHeartbeats,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(
        "SELECT jid, expires, states, cancelled, batch, heartbeats FROM jobs INDEXED BY jobs_expires
         WHERE expires > ?1
         UNION ALL
         SELECT jid, expires, states, cancelled, batch, heartbeats FROM jobs
         WHERE expires <= ?1 AND batch IS NOT NULL AND jid IN
             (SELECT jid FROM state_changes INDEXED BY running_minions WHERE state = 3)",
    )?;
    let mut found = statement.query([columns::from_time(now)])?;
    while let Some(row) = found.next()? {
        let (job, expires) = (row.get(0)?, columns::time(row, 1)?);
        let mut states = minion_states::read_all(connection, job, columns::blob(row, 2)?)?;
        heard_heartbeats::read(connection, job, &states, row, 5, heard)?;
        for (minion, state) in &mut states {
            *state = match states::at(now, expires, *state, records.get(minion)) {
                // It is an offer still, whose expiry is not acknowledged.
                MinionJobState::Unconfirmed => MinionJobState::Offered,
                told => told,
            };
        }
        let is_failure = |(_, state): &_| {
            matches!(
                state,
                MinionJobState::LostTrack | MinionJobState::MayHaveRun
            )
        };
        let has_lost = states.iter().any(is_failure);
        let batch = rows::batch(row, 4)?;
        let of_batch = batch.map(|batch| (batch, states.clone()));
        open.insert(job, expires, states, now);
        if let Some((batch, states)) = of_batch {
            let has_failed = has_lost || returns::has_failed(connection, job)?;
            let recovered = Some((Recovered { has_failed }, now));
            open.insert_batch(job, states, batch, grace, recovered);
        }
        if row.get::<_, i64>(3)? > 0 {
            open.cancel(job, now);
        }
        open.are_written_as_running(job);
    }
    read_running(connection, now, open)
}

/// Reads the minions that run jobs of a partition which have expired: of these nobody else is under way.
fn read_running(
    connection: &Connection,
    now: MasterTime,
    open: &mut OpenJobs,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(
        "SELECT jobs.jid, expires, minion FROM state_changes INDEXED BY running_minions
         CROSS JOIN jobs USING (jid)
         WHERE state = 3 AND expires <= ?1 AND batch IS NULL AND NOT EXISTS
             (SELECT 1 FROM returns
              WHERE returns.jid = jobs.jid AND returns.minion = state_changes.minion)",
    )?;
    let mut found = statement.query([columns::from_time(now)])?;
    while let Some(row) = found.next()? {
        let (job, expires) = (row.get(0)?, columns::time(row, 1)?);
        open.insert_late(job, expires, &columns::minion(row, 2)?, now);
    }
    Ok(())
}
