//! Reads events that nobody may miss, in the order in which they were stored: the kept events, and from the job store the
//! publications and the returns of jobs, which have no second row. A reader goes on after a cursor, and a consumer with a
//! name has its cursor on the disk.

use std::sync::Arc;

use saline_data::Value;
use saline_event_bus::{STAMP, stamp};
use saline_messages::{Event, EventOrigin, EventTag, Jid, JobEvent, MinionId};
use time::OffsetDateTime;

use super::durable::{DurableEvents, EventCursor, EventStore};
use super::reports::{EventData, job_new_data, job_returned_data};
use super::{MAX_EVENT_RETURN, ReturnReport};
use crate::authorize::origin_of_owner;
use crate::jobs::{JobStore, Received, ReceivedKind, ReceivedQuery, StoreError};

/// The name of the reactor as a consumer. No other one may have it.
pub(crate) const REACTOR: &str = "reactor";

/// Reads events of which a filter has matched the tag.
#[derive(Debug, Clone)]
pub(crate) struct EventReader {
    jobs: Arc<JobStore>,
    /// The filter.
    durable: Arc<DurableEvents>,
    store: Arc<EventStore>,
}

/// What became of the place of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// It is noted.
    Noted,
    /// It is beyond the last event: what comes until then would be missed.
    Beyond,
    /// The name is too long, or too many others are known.
    NoPlace,
}

/// An event, or the number of events that are lost at its place.
#[derive(Debug)]
pub(crate) struct ReadEvent {
    /// When it was stored, in microseconds since 1970, or a little more. A kept event may have the number of a
    /// publication or a return, which come from another store; two events of one store never share one.
    pub(crate) number: i64,
    /// The event.
    pub(crate) event: Result<Event, u64>,
    /// The names of the destinations that the order of a job named; none for a kept event.
    pub(crate) returners: Vec<String>,
}

/// How much of the stores is read at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLimits {
    /// About the bytes of all events, but at least one event if there is one.
    pub(crate) bytes: usize,
    /// The largest value that was returned, in bytes; the event of a larger one comes without it.
    pub(crate) payload: usize,
}

/// Some events.
#[derive(Debug)]
pub(crate) struct ReadPage {
    /// In the order of their numbers.
    pub(crate) events: Vec<ReadEvent>,
    /// The cursor after them.
    pub(crate) next: EventCursor,
    /// Whether there may be more.
    pub(crate) more: bool,
}

impl EventReader {
    /// Creates a reader; returns none while no event was to be kept.
    pub(crate) fn new(jobs: &Arc<JobStore>, durable: &Arc<DurableEvents>) -> Option<Self> {
        Some(Self {
            jobs: Arc::clone(jobs),
            durable: Arc::clone(durable),
            store: Arc::clone(durable.store()?),
        })
    }

    /// Returns the events after a cursor: about `max_bytes`, but at least one if there is one.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub(crate) async fn read(
        &self,
        after: EventCursor,
        max_bytes: usize,
    ) -> Result<ReadPage, StoreError> {
        let filter = Arc::clone(&self.durable);
        let limits = PageLimits {
            bytes: max_bytes,
            payload: MAX_EVENT_RETURN,
        };
        let wants = move |jid: &Jid, minion: Option<&MinionId>, _: &[String]| {
            filter.matches(&job_tag(jid, minion).to_string())
        };
        self.read_wanted(after, limits, wants).await
    }

    /// Returns the kept events after a cursor, and those publications and returns that are wanted: of these `wants` gets the jid,
    /// the minion that returned, and the destinations that the order of the job named.
    ///
    /// # Errors
    /// When SQLite fails.
    ///
    /// # Cancel safety
    /// The call changes nothing.
    pub(crate) async fn read_wanted(
        &self,
        after: EventCursor,
        limits: PageLimits,
        wants: impl Fn(&Jid, Option<&MinionId>, &[String]) -> bool + Clone + Send + 'static,
    ) -> Result<ReadPage, StoreError> {
        let kept = self.store.page(after.event, limits.bytes).await?;
        let query = ReceivedQuery {
            after: after.receipt,
            max_bytes: limits.bytes,
            max_payload: limits.payload,
            wants,
        };
        let received = self.jobs.received(query).await?;
        // What comes after a place up to which one of the two was read waits for the next page, so that the order holds.
        let last_kept = kept.events.last().map_or(after.event, |kept| kept.number);
        let mut end = i64::MAX;
        if kept.more {
            end = end.min(last_kept);
        }
        if received.more {
            end = end.min(received.until);
        }
        let mut next = EventCursor {
            event: after.event,
            receipt: received.until.min(end).max(after.receipt),
        };
        let mut events = Vec::with_capacity(kept.events.len() + received.entries.len());
        for kept in kept.events.into_iter().filter(|kept| kept.number <= end) {
            next.event = kept.number;
            let event = match kept.event {
                Ok(event) => Ok(Event::decode(&event)
                    .map_err(|_| StoreError::corrupt("an event", "other bytes"))?),
                Err(lost) => Err(lost),
            };
            events.push(ReadEvent {
                number: kept.number,
                event,
                returners: Vec::new(),
            });
        }
        let received_now = received.entries.into_iter();
        for mut received in received_now.filter(|received| received.receipt <= end) {
            let returners = std::mem::take(&mut received.returners);
            events.push(ReadEvent {
                number: received.receipt,
                event: Ok(self.event_of(received).await?),
                returners,
            });
        }
        events.sort_by_key(|read| read.number);
        Ok(ReadPage {
            events,
            next,
            more: end < i64::MAX,
        })
    }

    /// Returns how far a consumer has acknowledged: nothing when it is not known.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) async fn cursor(&self, consumer: String) -> Result<EventCursor, StoreError> {
        self.store.cursor(consumer).await
    }

    /// Returns the cursor after everything that there is, which is not the one before everything.
    pub(crate) fn last(&self) -> EventCursor {
        EventCursor {
            event: self.store.last_number().max(0),
            receipt: self.jobs.highest_receipt().max(0),
        }
    }

    /// Notes how far a consumer has read, and returns after the commit.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) async fn acknowledge(
        &self,
        consumer: String,
        cursor: EventCursor,
    ) -> Result<Acknowledged, StoreError> {
        if cursor.event > self.store.last_number() || cursor.receipt > self.jobs.highest_receipt() {
            return Ok(Acknowledged::Beyond);
        }
        Ok(match self.store.acknowledge(consumer, cursor).await? {
            true => Acknowledged::Noted,
            false => Acknowledged::NoPlace,
        })
    }

    /// Returns the cursor after everything that is stored now.
    pub(crate) fn end(&self) -> EventCursor {
        EventCursor {
            event: self.store.last_number(),
            receipt: self.jobs.highest_receipt(),
        }
    }

    /// Whether nothing was stored after a cursor.
    pub(crate) fn is_at_end(&self, cursor: EventCursor) -> bool {
        self.store.last_number() <= cursor.event && self.jobs.last_receipt() <= cursor.receipt
    }

    /// Forgets a consumer. Returns false when it is not known.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) async fn forget(&self, consumer: String) -> Result<bool, StoreError> {
        self.store.forget(consumer).await
    }

    /// Returns the names of all consumers.
    ///
    /// # Errors
    /// When SQLite fails.
    pub(crate) async fn consumers(&self) -> Result<Vec<String>, StoreError> {
        self.store.consumers().await
    }

    /// Returns the event of a publication or a return, as it was on the bus but for its stamp, which is that of the store.
    async fn event_of(&self, received: Received) -> Result<Event, StoreError> {
        let (tag, origin, mut data): (_, _, EventData) = match received.what {
            ReceivedKind::Job(stored, minions) => {
                let (job, operator) = (&stored.job, &stored.operator);
                let data = job_new_data(job, operator, &minions);
                (job_tag(&job.jid, None), origin_of_owner(operator), data)
            }
            ReceivedKind::Return {
                jid,
                minion,
                retcode,
                success,
                payload,
            } => {
                let report = ReturnReport {
                    call: self.jobs.function_of(&jid).await?,
                    retcode,
                    success,
                    payload,
                };
                let data = job_returned_data(&jid, &minion, report);
                (
                    job_tag(&jid, Some(&minion)),
                    EventOrigin::minion(&minion),
                    data,
                )
            }
        };
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(received.receipt) * 1_000);
        let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        data.push((STAMP, Value::from(stamp(time))));
        Ok(Event {
            tag: tag.to_string(),
            origin,
            data: Value::map(data),
        })
    }
}

/// Returns the tag of the publication of a job, or of the return of a minion.
pub(crate) fn job_tag(jid: &Jid, minion: Option<&MinionId>) -> EventTag {
    let event = match minion {
        None => JobEvent::New,
        Some(minion) => JobEvent::Returned(minion.clone()),
    };
    EventTag::Job(jid.clone(), event)
}
