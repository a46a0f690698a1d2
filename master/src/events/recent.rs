//! The last events in memory, each with its number, for those who ask for events over a session. They are kept only while
//! somebody asks.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use saline_event_bus::EncodedEvent;
use saline_messages::{EventCursor, Jid, random};
use saline_protocol::transport::{Clock, Instant, Topic};
use tokio::sync::watch;

/// The largest number of events in memory.
const MAX_EVENTS: usize = 16_384;

/// The most that these may come to, in bytes. An event counts as its bytes and [`OVERHEAD`].
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The memory that an event takes beside its bytes, about.
const OVERHEAD: usize = 256;

/// For how long events are kept after somebody asked for some.
const KEPT_AFTER: Duration = Duration::from_secs(300);

/// The largest number of jobs whose owners are remembered; the oldest are forgotten first, and looked up again.
const MAX_OWNERS: usize = 16_384;

/// The segment of topics above the tags of events.
const ABOVE_TAGS: &str = "event/";

/// An event in memory. Clones share its bytes.
#[derive(Debug, Clone)]
pub(crate) struct RecentEvent {
    /// The number of the event.
    pub(crate) number: u64,
    /// The event as it is published.
    pub(crate) bytes: Bytes,
    topic: Topic,
    /// The one who ordered the run that the event is of; none for an event of anything else. The owner of a job is
    /// remembered once for all of its events.
    pub(crate) owner: Option<Arc<str>>,
}

impl RecentEvent {
    /// Returns the tag of the event.
    pub(crate) fn tag(&self) -> &str {
        let topic = self.topic.as_str();
        topic.strip_prefix(ABOVE_TAGS).unwrap_or(topic)
    }
}

/// Some events after a place.
#[derive(Debug, Default)]
pub(crate) struct RecentPage {
    /// The events, in the order of their numbers, which have no gaps.
    pub(crate) events: Vec<RecentEvent>,
    /// Whether events between the place and these are no longer known.
    pub(crate) gap: bool,
    /// The number of the last event that is known, or the place after which the first one will be.
    pub(crate) last: u64,
}

/// The last events. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct RecentEvents(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    start: u64,
    /// Whether events are kept now. Read for each event, also while nobody asks.
    is_kept: AtomicBool,
    ring: Mutex<Ring>,
    fired: watch::Sender<()>,
    owners: Mutex<Owners>,
}

/// Events with consecutive numbers, of which the oldest go first.
#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<RecentEvent>,
    bytes: usize,
    /// The number of the last event, or one that no event has.
    last: u64,
    /// Until when events are kept; none while they are not.
    kept_until: Option<Instant>,
}

/// Who ordered the jobs that events tell of. A job that the store does not have has no owner.
#[derive(Debug, Default)]
struct Owners {
    by_job: HashMap<Jid, Option<Arc<str>>>,
    oldest_first: VecDeque<Jid>,
}

impl RecentEvents {
    /// Creates the state in which nobody asked for events.
    pub(crate) fn new(clock: Clock) -> Self {
        // Without randomness two starts of the master may pass for one. A cursor of the other one is then taken for one of
        // this start, and events are missed without a notice: as good as the bus.
        let start = random::bytes().map_or(0, u64::from_le_bytes);
        Self(Arc::new(Shared {
            clock,
            start,
            is_kept: AtomicBool::new(false),
            ring: Mutex::default(),
            fired: watch::Sender::new(()),
            owners: Mutex::default(),
        }))
    }

    /// Whether somebody asked for events some minutes ago or later.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_kept.load(Ordering::Relaxed)
    }

    /// Keeps events from now on, for some minutes.
    pub(crate) fn keep(&self) {
        let now = self.0.clock.now();
        let mut ring = self.ring();
        ring.end_if_due(now);
        if ring.kept_until.is_none() {
            // A listener with an older cursor has missed the events that were fired meanwhile.
            ring.last += 1;
        }
        ring.kept_until = Some(now + KEPT_AFTER);
        self.0.is_kept.store(true, Ordering::Relaxed);
    }

    /// Adds an event that is being fired, and wakes those who wait for one.
    pub(super) fn push(&self, event: &EncodedEvent, owner: Option<&str>) {
        let now = self.0.clock.now();
        let mut ring = self.ring();
        if ring.end_if_due(now) {
            self.0.is_kept.store(false, Ordering::Relaxed);
        }
        if ring.kept_until.is_none() {
            return;
        }
        ring.push(event, owner.map(Arc::from));
        drop(ring);
        self.0.fired.send_replace(());
    }

    /// Returns the place after the last event.
    pub(crate) fn cursor(&self) -> EventCursor {
        self.cursor_at(self.ring().last)
    }

    /// Returns the place after the event of this number.
    pub(crate) fn cursor_at(&self, number: u64) -> EventCursor {
        EventCursor {
            start: self.0.start,
            number,
        }
    }

    /// Returns at most `most` events after a place.
    pub(crate) fn after(&self, cursor: EventCursor, most: usize) -> RecentPage {
        let ring = self.ring();
        // One of another start is before everything.
        match cursor.start == self.0.start {
            true => ring.after(Some(cursor.number), most),
            false => ring.after(None, most),
        }
    }

    /// Returns what is told of each event that is added from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.0.fired.subscribe()
    }

    /// Remembers who ordered a job; none when nobody here did.
    pub(crate) fn note_owner(&self, job: &Jid, owner: Option<&str>) {
        let mut owners = self.owners();
        let owner = owner.map(Arc::from);
        if owners.by_job.insert(job.clone(), owner).is_some() {
            return;
        }
        owners.oldest_first.push_back(job.clone());
        if owners.oldest_first.len() > MAX_OWNERS
            && let Some(oldest) = owners.oldest_first.pop_front()
        {
            owners.by_job.remove(&oldest);
        }
    }

    /// Returns who ordered a job, if it is remembered.
    pub(crate) fn owner(&self, job: &Jid) -> Option<Option<Arc<str>>> {
        self.owners().by_job.get(job).cloned()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Nothing panics under this lock.
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        // As above.
        self.0.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    /// Forgets all events if nobody has asked for a while; returns whether that is so.
    fn end_if_due(&mut self, now: Instant) -> bool {
        let is_due = self.kept_until.is_some_and(|until| now >= until);
        if is_due {
            let last = self.last;
            *self = Self::default();
            self.last = last;
        }
        is_due
    }

    fn push(&mut self, event: &EncodedEvent, owner: Option<Arc<str>>) {
        self.last += 1;
        self.bytes += event.bytes.len() + OVERHEAD;
        self.events.push_back(RecentEvent {
            number: self.last,
            bytes: event.bytes.clone(),
            topic: event.topic.clone(),
            owner,
        });
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes.len() + OVERHEAD;
        }
    }

    /// Returns at most `most` events after the one of this number, or from the first one on.
    fn after(&self, number: Option<u64>, most: usize) -> RecentPage {
        // The number before that of the first event.
        let before = self.last - self.events.len() as u64;
        let known = number.filter(|number| (before..=self.last).contains(number));
        let skipped = usize::try_from(known.unwrap_or(before) - before).unwrap_or(usize::MAX);
        RecentPage {
            events: self
                .events
                .iter()
                .skip(skipped)
                .take(most)
                .cloned()
                .collect(),
            gap: known.is_none(),
            last: self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use saline_messages::Event;

    use super::*;

    /// The bytes of all events of the tests.
    static LARGEST: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![7; MAX_BYTES]));

    fn event(tag: &str, size: usize) -> EncodedEvent {
        EncodedEvent {
            topic: Event::topic(tag).unwrap(),
            bytes: LARGEST.slice(..size),
        }
    }

    fn numbers(page: &RecentPage) -> Vec<u64> {
        page.events.iter().map(|event| event.number).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_kept_only_while_somebody_asks_and_what_was_missed_is_a_gap() {
        let recent = RecentEvents::new(Clock);
        recent.push(&event("early", 1), None);
        assert!(!recent.is_kept());
        recent.keep();
        let first = recent.cursor();
        recent.push(&event("a", 1), None);
        recent.push(&event("b", 1), Some("amy"));
        let page = recent.after(first, 10);
        let told = page.events.iter();
        let told: Vec<_> = told
            .map(|e| (e.number, e.tag(), e.owner.as_deref()))
            .collect();
        assert_eq!(told, [(2, "a", None), (3, "b", Some("amy"))]);
        assert!(!page.gap);
        let second = recent.cursor();
        assert!(numbers(&recent.after(second, 10)).is_empty());

        Clock.pause(KEPT_AFTER - Duration::from_secs(1)).await;
        recent.keep();
        Clock.pause(KEPT_AFTER - Duration::from_secs(1)).await;
        recent.push(&event("c", 1), None);
        assert!(!recent.after(second, 10).gap, "they were kept all the time");
        Clock.pause(Duration::from_secs(1)).await;
        recent.push(&event("missed", 1), None);
        assert!(!recent.is_kept(), "nobody asked for so long");
        recent.keep();
        recent.push(&event("d", 1), None);
        let page = recent.after(second, 10);
        assert!(page.gap);
        assert_eq!(
            page.events.iter().map(RecentEvent::tag).collect::<Vec<_>>(),
            ["d"]
        );
    }

    #[test]
    fn places_of_another_start_and_places_to_come_are_gaps() {
        let recent = RecentEvents::new(Clock);
        recent.keep();
        let place = recent.cursor();
        recent.push(&event("a", 1), None);
        let other = EventCursor {
            start: place.start ^ 1,
            ..place
        };
        let to_come = recent.cursor_at(place.number + 2);
        for cursor in [other, to_come] {
            let page = recent.after(cursor, 10);
            assert!(page.gap, "{cursor:?}");
            assert_eq!(numbers(&page), [place.number + 1]);
        }
        assert_ne!(RecentEvents::new(Clock).cursor().start, place.start);
    }

    #[test]
    fn an_event_that_is_larger_than_all_the_room_is_a_gap_and_takes_no_room() {
        let recent = RecentEvents::new(Clock);
        recent.keep();
        let place = recent.cursor();
        recent.push(&event("a", 1), None);
        recent.push(&event("huge", MAX_BYTES), None);
        let page = recent.after(place, 10);
        assert!(page.gap);
        assert!(numbers(&page).is_empty());
        assert_eq!(recent.ring().bytes, 0);
    }

    #[test]
    fn the_owners_of_so_many_jobs_are_remembered() {
        let recent = RecentEvents::new(Clock);
        let job = |number: usize| Jid::parse(&format!("20261121091409{number:06}")).unwrap();
        for number in 0..=MAX_OWNERS {
            recent.note_owner(&job(number), Some("amy"));
            recent.note_owner(&job(number), Some("amy"));
        }
        assert_eq!(recent.owner(&job(0)), None);
        assert_eq!(recent.owner(&job(1)), Some(Some(Arc::from("amy"))));
        assert_eq!(recent.owners().oldest_first.len(), MAX_OWNERS);
    }

    proptest! {
        /// Each size is an event, and none is a look from a place of before.
        #[test]
        fn what_is_after_a_place_is_as_in_the_model(
            steps in prop::collection::vec(prop::option::weighted(0.8, 0..MAX_BYTES / 4), 0..60),
            places in prop::collection::vec(0..80_u64, 1..8),
            most in 0..20_usize,
        ) {
            let mut ring = Ring::default();
            // Every event that was ever added, by its size.
            let mut all: Vec<usize> = Vec::new();
            for step in steps {
                if let Some(size) = step {
                    ring.push(&event("a", size), None);
                    all.push(size + OVERHEAD);
                    continue;
                }
                // The longest end that has room.
                let mut kept = 0;
                let mut bytes = 0;
                while kept < all.len() && bytes + all[all.len() - 1 - kept] <= MAX_BYTES {
                    bytes += all[all.len() - 1 - kept];
                    kept += 1;
                }
                let (first, last) = (all.len() - kept, all.len() as u64);
                for place in &places {
                    let page = ring.after(Some(*place), most);
                    let is_known = (first as u64..=last).contains(place);
                    prop_assert_eq!(page.gap, !is_known);
                    let from = if is_known { *place } else { first as u64 };
                    let expected: Vec<u64> = (from + 1..=last).take(most).collect();
                    prop_assert_eq!(numbers(&page), expected);
                    prop_assert_eq!(page.last, last);
                }
                prop_assert_eq!(ring.bytes, bytes);
            }
        }
    }
}
