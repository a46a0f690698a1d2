//! Returns whose payload comes in parts. Each part is committed as a row with whatever else is queued, so that the returns
//! of other minions pass between them, and the last one with the return.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use saline_messages::{
    Jid, MAX_PART, MinionId, Outgoing, Part, RETCODE_INTERRUPTED, Return, ReturnPart,
    ReturnVerdict, TransferDigest,
};

use super::memory::transfers::{Admission, PartToWrite, ReturnKey, Transfers};
use super::tables::return_parts::{self, StoredTransfer};
use super::{JobStore, StoreError, jid, lock, returns};
use crate::disk::writer::StoreFile;

/// The outcome of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartOutcome {
    /// This many bytes from the beginning on are stored.
    Received(u64),
    /// The verdict on the return, of which no further part is wanted.
    Verdict(ReturnVerdict),
    /// The part was not taken now: there is no room for it, or another part of it is being written.
    Busy,
    /// The part fits no payload, or the payload is another one than was announced.
    Malformed,
}

/// The right to write a part of a return. Dropped before the part was written, it is given back.
struct WriteTurn {
    transfers: Arc<Mutex<Transfers>>,
    key: ReturnKey,
    first: i64,
    /// The digest of the parts that are stored.
    digest: Option<TransferDigest>,
    is_over: bool,
}

impl JobStore {
    /// Stores a part of a minion's return, and the return with its last part. The answer comes after the commit.
    ///
    /// # Errors
    /// When SQLite fails. The minion should send the part again.
    ///
    /// # Cancel safety
    /// A dropped call may have stored the part. It may be repeated.
    pub async fn store_return_part(
        &self,
        minion: &MinionId,
        sent: ReturnPart,
    ) -> Result<PartOutcome, StoreError> {
        let unknown = Ok(PartOutcome::Verdict(ReturnVerdict::UnknownJob));
        let Some(job) = jid::to_micros(&sent.jid) else {
            return unknown;
        };
        if sent.retcode == RETCODE_INTERRUPTED && self.is_disputed(minion, &sent.jid) {
            return Ok(PartOutcome::Verdict(ReturnVerdict::Disputed));
        }
        let Some(start) = self.partitions.holding(job) else {
            return unknown;
        };
        if sent.part.bytes.len() > MAX_PART {
            return Ok(PartOutcome::Malformed);
        }
        let (key, now) = ((minion.clone(), job), self.clock.clock().now());
        let admission = lock(&self.transfers).admit(&key, start, &sent.part, now);
        let part = match admission {
            Admission::Received(received) => return Ok(PartOutcome::Received(received)),
            Admission::Busy => return Ok(PartOutcome::Busy),
            Admission::Malformed => return Ok(PartOutcome::Malformed),
            Admission::Write(part) => part,
        };
        let turn = WriteTurn {
            transfers: Arc::clone(&self.transfers),
            key,
            first: part.transfer.first,
            digest: part.digest.clone(),
            is_over: false,
        };
        match self.write_part(turn, part, sent).await {
            // It was pruned meanwhile: its jobs are unknown.
            Err(StoreError::Removed) => unknown,
            written => written,
        }
    }

    async fn write_part(
        &self,
        mut turn: WriteTurn,
        part: PartToWrite,
        sent: ReturnPart,
    ) -> Result<PartOutcome, StoreError> {
        let (start, first) = (part.start, turn.first);
        if turn.digest.is_none() {
            // A master before this one stored the parts before it.
            let read = move |connection: &Connection| return_parts::digest(connection, first);
            turn.digest = Some(self.reader.moment(start, read).await?);
        }
        let ReturnPart {
            retcode,
            success,
            part:
                Part {
                    transfer: id,
                    bytes,
                    ..
                },
            ..
        } = sent;
        let mut digest = turn.digest.clone().unwrap_or_default();
        digest.update(&bytes);
        if part.is_last && digest.id() != id {
            turn.forget();
            return Ok(PartOutcome::Malformed);
        }
        let (length, now) = (bytes.len(), self.now());
        let received = part.transfer.received + length as u64;
        let (open, after) = (Arc::clone(&self.open), Arc::clone(&self.open));
        let receipts = Arc::clone(&self.receipts);
        let act = move |connection: &Connection| {
            let StoredTransfer { minion, job, .. } = &part.transfer;
            if part.is_first() || part.is_last {
                let lookup = lock(&open).lookup(*job, minion);
                let refused = returns::refusal(connection, *job, minion, lookup)?;
                let is_duplicate = || returns::is_duplicate(connection, *job, minion, retcode);
                let verdict = match refused {
                    None if is_duplicate()? => Some(ReturnVerdict::Duplicate),
                    refused => refused,
                };
                if let Some(verdict) = verdict {
                    return_parts::remove(connection, first)?;
                    return Ok(Some(verdict));
                }
            }
            if part.is_first() && !part.is_last {
                return_parts::begin(connection, &part.transfer)?;
            }
            return_parts::insert(connection, part.number, &bytes)?;
            if !part.is_last {
                return Ok(None);
            }
            let row = returns::ReturnRow {
                retcode,
                success,
                payload: &[],
                parts: Some(first),
            };
            let verdict = returns::insert(connection, *job, minion, &row, &receipts)?;
            return_parts::end(connection, first)?;
            Ok(Some(verdict))
        };
        let counts = Arc::clone(&self.counts);
        let settled = move |written: &Result<Option<ReturnVerdict>, StoreError>| match written {
            Ok(None) => turn.written(length as u64, digest),
            Ok(Some(verdict)) => {
                counts.return_judged(*verdict, retcode != 0 || !success);
                if matches!(verdict, ReturnVerdict::Stored | ReturnVerdict::Duplicate) {
                    let (minion, job) = &turn.key;
                    let failed = retcode != 0 || !success;
                    lock(&after).returned(*job, minion, failed, now);
                }
                turn.ended();
            }
            Err(StoreError::Removed) => turn.ended(),
            Err(_) => drop(turn),
        };
        let place = StoreFile::Partition(start);
        let written = self.writer.call(place, length, act, settled).await?;
        Ok(written.map_or(PartOutcome::Received(received), PartOutcome::Verdict))
    }

    /// Stores a return whose large payload came as one, in parts. None if there is no room for it now.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// A dropped call may have stored the return, or some parts of it. It may be repeated.
    pub async fn store_large_return(
        &self,
        minion: &MinionId,
        returned: Return,
    ) -> Result<Option<ReturnVerdict>, StoreError> {
        let Return {
            jid,
            retcode,
            success,
            payload,
            ..
        } = returned;
        let whole = Outgoing::new(payload.into_bytes());
        let mut offset = 0;
        loop {
            let part = ReturnPart {
                jid: jid.clone(),
                retcode,
                success,
                part: whole.part(offset, MAX_PART),
            };
            match self.store_return_part(minion, part).await? {
                PartOutcome::Received(received) if received > offset => offset = received,
                PartOutcome::Verdict(verdict) => return Ok(Some(verdict)),
                PartOutcome::Received(_) | PartOutcome::Busy | PartOutcome::Malformed => {
                    return Ok(None);
                }
            }
        }
    }

    /// Whether the return of a minion is arriving in parts: then the minion is there for the job, although it may be silent
    /// otherwise, since its other messages wait behind the parts.
    pub fn is_arriving(&self, minion: &MinionId, jid: &Jid) -> bool {
        let now = self.clock.clock().now();
        jid::to_micros(jid)
            .is_some_and(|job| lock(&self.transfers).is_arriving(&(minion.clone(), job), now))
    }

    /// Forgets payloads of which no part has come for an hour.
    pub fn sweep_transfers(&self) {
        let stale = lock(&self.transfers).sweep(self.clock.clock().now());
        for (minion, job) in stale {
            tracing::info!(
                "job {}: minion {minion} stopped sending its large return; it starts over when it is back",
                jid::from_micros(job)
            );
        }
    }

    /// Removes the parts of returns that will not come.
    ///
    /// # Errors
    /// When SQLite fails. The next call tries again.
    ///
    /// # Cancel safety
    /// What was not removed is removed by the next call, or at the next start.
    pub(super) async fn remove_unneeded_parts(&self) -> Result<(), StoreError> {
        let mut unneeded = lock(&self.transfers).take_unneeded();
        while let Some((start, first)) = unneeded.pop() {
            let remove = move |connection: &Connection| return_parts::remove(connection, first);
            let place = StoreFile::Partition(start);
            match self.writer.call(place, 0, remove, |_| {}).await {
                Ok(()) | Err(StoreError::Removed) => {}
                Err(error) => {
                    unneeded.push((start, first));
                    lock(&self.transfers).put_back_unneeded(unneeded);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl WriteTurn {
    /// Notes that the part is stored.
    fn written(mut self, bytes: u64, digest: TransferDigest) {
        self.is_over = true;
        lock(&self.transfers).written(&self.key, self.first, bytes, digest);
    }

    /// Notes that the parts are those of a return now, or are removed.
    fn ended(mut self) {
        self.is_over = true;
        lock(&self.transfers).ended(&self.key, self.first);
    }

    /// Has all parts of the return removed.
    fn forget(mut self) {
        self.is_over = true;
        lock(&self.transfers).discard(&self.key, self.first);
    }
}

impl Drop for WriteTurn {
    fn drop(&mut self) {
        if !self.is_over {
            lock(&self.transfers).not_written(&self.key, self.first, self.digest.take());
        }
    }
}
