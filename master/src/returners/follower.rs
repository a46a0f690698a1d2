//! Follows the stores for one destination.

use std::sync::Arc;
use std::time::Duration;

use saline_config::ReturnerName;
use saline_protocol::transport::{Backoff, Clock};
use saline_returners::{Content, DeliveryError, Destination, Record};

use super::figures::ReturnerFigures;
use super::wanted::Wanted;
use crate::events::{Acknowledged, EventCursor, EventReader, PageLimits};
use crate::jobs::{JobStore, ReceiptFollower, StoreError, WantsReceived};

/// How often a follower looks whether something was stored: what comes in between is one batch.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The size of a batch, and the largest value in it that was returned. A return with a larger one is delivered without it.
const BATCH: PageLimits = PageLimits {
    bytes: 1024 * 1024,
    payload: 16 * 1024 * 1024,
};

/// How long a delivery may take. A program has its own time, and this beside it.
const DELIVERY: Duration = Duration::from_secs(60);

/// How long a follower waits after a failure, at first and at most.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// How long a place may stay unwritten that is only ahead of what nobody wanted.
const UNWRITTEN: Duration = Duration::from_secs(60);

/// What a follower works with, before it follows.
pub(super) struct Follower {
    pub(super) destination: Box<dyn Destination>,
    pub(super) wanted: Wanted,
    /// The time that a program has for a batch.
    pub(super) limit: Duration,
    pub(super) reader: EventReader,
    pub(super) jobs: Arc<JobStore>,
    pub(super) figures: Arc<ReturnerFigures>,
    pub(super) clock: Clock,
}

impl Follower {
    /// Takes up the place where the last run of the master was, or begins with what is stored from now on. What is pruned
    /// before the destination has it is counted from here on.
    ///
    /// # Errors
    /// When the place cannot be read or written.
    ///
    /// # Cancel safety
    /// The place may be written when the future is dropped.
    pub(super) async fn begin(self) -> Result<Following, StoreError> {
        let (reader, end) = (&self.reader, self.reader.end());
        let name = self.figures.name();
        let consumer = format!("returner/{name}");
        let mut cursor = reader.cursor(consumer.clone()).await?;
        if cursor.event > end.event || cursor.receipt > end.receipt {
            tracing::warn!(
                "returner {name}: it had records from a time ahead of now; it starts over with what is stored from now on"
            );
            reader.forget(consumer.clone()).await?;
            cursor = EventCursor::default();
        }
        if cursor == EventCursor::default() {
            cursor = end;
            keep_place(reader, name, &consumer, cursor).await?;
        }
        let wanted = self.wanted.clone();
        let wants: WantsReceived =
            Arc::new(move |jid, minion, returners| wanted.is_wanted(jid, minion, returners));
        let receipts = Arc::new(ReceiptFollower::new(wants, cursor.receipt));
        self.jobs.follow(Arc::clone(&receipts));
        Ok(Following {
            parts: self,
            consumer,
            cursor,
            written: cursor,
            receipts,
            told_lost: 0,
            outage: None,
        })
    }
}

/// A follower at its place.
pub(super) struct Following {
    parts: Follower,
    /// The name under which its place is kept.
    consumer: String,
    /// Up to here the destination has everything.
    cursor: EventCursor,
    /// The cursor that is on the disk.
    written: EventCursor,
    receipts: Arc<ReceiptFollower>,
    /// How many of the lost publications and returns were logged.
    told_lost: u64,
    /// The reason of the last failure that was logged, while nothing can be delivered.
    outage: Option<String>,
}

impl Following {
    /// Follows the stores for as long as the master runs.
    pub(super) async fn run(mut self) {
        let clock = self.parts.clock;
        let mut write_by = clock.after(UNWRITTEN);
        let mut backoff = Backoff::new(WAITS.0, WAITS.1);
        loop {
            self.tell_lost(0);
            if self.parts.reader.is_at_end(self.cursor) {
                clock.pause(LOOK_INTERVAL).await;
                continue;
            }
            match self.step(clock.now() >= write_by).await {
                Ok(has_more) => {
                    backoff.reset();
                    if self.written == self.cursor {
                        write_by = clock.after(UNWRITTEN);
                    }
                    if !has_more {
                        clock.pause(LOOK_INTERVAL).await;
                    }
                }
                Err(error) => {
                    self.tell_outage(&format!("the stores of the master: {error}"));
                    clock.pause(backoff.next_delay()).await;
                }
            }
        }
    }

    /// Delivers a batch, and notes the place after it. Returns whether there may be more.
    pub(super) async fn step(&mut self, is_overdue: bool) -> Result<bool, StoreError> {
        let wants = Arc::clone(self.receipts.wants());
        let page = self.parts.reader.read_wanted(
            self.cursor,
            BATCH,
            move |jid: &_, minion: Option<&_>, returners: &[String]| wants(jid, minion, returners),
        );
        let page = page.await?;
        let (records, lost) = self.parts.wanted.records(page.events);
        self.tell_lost(lost);
        if !records.is_empty() {
            self.deliver(&records).await;
        }
        self.cursor = page.next;
        self.receipts.set_done(page.next.receipt);
        if !records.is_empty() || is_overdue {
            self.write().await?;
        }
        Ok(page.more)
    }

    /// Notes the place on the disk.
    async fn write(&mut self) -> Result<(), StoreError> {
        let (cursor, name) = (self.cursor, self.parts.figures.name());
        keep_place(&self.parts.reader, name, &self.consumer, cursor).await?;
        self.written = cursor;
        Ok(())
    }

    /// Delivers a batch, as often as it takes. Where something in it is refused, its halves are delivered one after the other, until
    /// it is known which record that is: this one is left out.
    async fn deliver(&mut self, records: &[Record]) {
        let clock = self.parts.clock;
        let mut backoff = Backoff::new(WAITS.0, WAITS.1);
        // What is left, the end first.
        let mut left = vec![records];
        while let Some(batch) = left.pop() {
            let Some(first) = batch.first() else {
                continue;
            };
            self.parts.figures.set_waiting(first.number);
            match self.attempt(batch).await {
                Ok(()) => {
                    self.parts.figures.add_delivered(batch.len());
                    self.tell_end_of_outage();
                    backoff.reset();
                }
                Err(DeliveryError::Refused(why)) if batch.len() == 1 => {
                    self.leave_out(first, &why);
                }
                Err(DeliveryError::Refused(_)) => {
                    let (first, second) = batch.split_at(batch.len() / 2);
                    left.extend([second, first]);
                }
                Err(DeliveryError::Away(why)) => {
                    left.push(batch);
                    self.parts.figures.add_failure();
                    self.tell_outage(&why);
                    clock.pause(backoff.next_delay()).await;
                    self.tell_lost(0);
                }
            }
        }
        self.parts.figures.set_waiting(0);
    }

    /// Delivers a batch once, within a bounded time.
    async fn attempt(&mut self, batch: &[Record]) -> Result<(), DeliveryError> {
        let clock = self.parts.clock;
        let until = clock.after(DELIVERY + self.parts.limit);
        let delivering = self.parts.destination.deliver(batch);
        let delivered = clock.deadline(until, delivering).await;
        delivered
            .unwrap_or_else(|_| Err(DeliveryError::Away("a delivery took too long".to_owned())))
    }

    /// Counts and logs that a record will never be delivered.
    fn leave_out(&self, record: &Record, why: &str) {
        self.parts.figures.add_refused();
        let shown = match &record.content {
            Content::Job { jid, .. } => format!("job {jid}"),
            Content::Return { jid, minion, .. } => format!("the return of {minion} in job {jid}"),
            Content::Event { tag, .. } => format!("event {tag} with number {}", record.number),
        };
        tracing::error!(
            "returner {}: {shown} was refused and is not delivered again: {why}",
            self.parts.figures.name()
        );
    }

    /// Logs why nothing can be delivered, unless that was logged.
    fn tell_outage(&mut self, why: &str) {
        if self.outage.as_deref() == Some(why) {
            return;
        }
        tracing::warn!(
            "returner {}: nothing is delivered: {why}. What it has not got stays in the stores of the master, for as long as \
             keep_jobs_seconds, job_store_size and durable_events_size allow",
            self.parts.figures.name()
        );
        self.outage = Some(why.to_owned());
    }

    fn tell_end_of_outage(&mut self) {
        if self.outage.take().is_some() {
            saline_daemon::notice!(
                "returner {}: records are delivered again",
                self.parts.figures.name()
            );
        }
    }

    /// Counts and logs what was removed from the stores before the destination had it: `events` of the kept events, and what the
    /// job store tells.
    fn tell_lost(&mut self, events: u64) {
        let lost = self.receipts.lost();
        let jobs = lost.saturating_sub(self.told_lost);
        self.told_lost = lost;
        if jobs + events == 0 {
            return;
        }
        let figures = &self.parts.figures;
        figures.add_lost(jobs + events);
        tracing::error!(
            "returner {}: records were removed before they were delivered (jobs and returns: {jobs}, events: {events}), because \
             of keep_jobs_seconds, job_store_size or durable_events_size, or since the disk was full",
            figures.name()
        );
    }
}

/// Notes a place on the disk. That there is no room for it is logged: the next start would start over.
async fn keep_place(
    reader: &EventReader,
    name: ReturnerName,
    consumer: &str,
    cursor: EventCursor,
) -> Result<(), StoreError> {
    let noted = reader.acknowledge(consumer.to_owned(), cursor).await?;
    if noted == Acknowledged::NoPlace {
        tracing::error!(
            "returner {name}: its place is not kept, since 64 consumers of events have one; `saline-run event.forget` ends one of \
             these"
        );
    }
    Ok(())
}
