//! The verb that reads events over a session. A request waits while there is none that it may get: it is a long poll.

use std::sync::Arc;
use std::time::Duration;

use saline_messages::{
    EventCursor, EventTag, EventsPage, EventsRequest, Jid, MAX_EVENT_PREFIXES, MAX_EVENTS_WAIT,
    OperatorReply, RefusedVerb,
};
use saline_protocol::transport::Clock;
use tokio::sync::Semaphore;

use super::queries::PAGE_OVERHEAD;
use crate::authorize::{About, Action, Authorizer, Principal};
use crate::bounds::EventWaits;
use crate::events::{RecentEvent, RecentEvents};
use crate::jobs::{JobStore, StoreError};

/// The largest size of a prefix in bytes.
const MAX_PREFIX: usize = 256;

/// The size of a page in bytes from which on nothing is added to it: each of hundreds of listeners has one. An event that
/// is larger comes alone.
const PAGE_BYTES: usize = 256 * 1024;

/// The bytes that an event takes in a page beside its own.
const EVENT_OVERHEAD: usize = 16;

/// The number of events that are looked at before other tasks have their turn.
const LOOKED_AT_TOGETHER: usize = 256;

/// How long a request rests after events of which it may get none: each of hundreds of listeners looks at every event.
const REST: Duration = Duration::from_millis(5);

/// Carries out requests for events.
#[derive(Debug)]
pub struct EventsVerb {
    pub(crate) authorizer: Authorizer,
    pub(crate) jobs: Arc<JobStore>,
    pub(crate) recent: RecentEvents,
    pub(crate) waits: EventWaits,
    pub(crate) clock: Clock,
    /// The largest message in bytes.
    pub(crate) max_message: usize,
    /// Has one permit, for whoever looks up the owner of a job: the listeners of one user need the same one.
    pub(crate) lookups: Semaphore,
}

/// Whose events somebody gets.
#[derive(Debug, Clone, Copy)]
enum Visible<'a> {
    All,
    /// Those of jobs and runs that have this owner.
    Of(&'a str),
}

impl EventsVerb {
    /// Carries out the request of a principal. What it may get is judged by the rules that are in force when the events
    /// are there.
    ///
    /// # Cancel safety
    /// The request changes nothing.
    pub(crate) async fn carry_out(
        &self,
        principal: &Principal,
        request: EventsRequest,
    ) -> Result<OperatorReply, StoreError> {
        if let Err(why) = check(&request) {
            return Ok(OperatorReply::Invalid(why));
        }
        // Before the first look, so that what is fired from now on is there.
        self.recent.keep();
        let owner = principal.owner();
        let wait = Duration::from_millis(request.wait_ms.min(MAX_EVENTS_WAIT).into());
        let end = self.clock.after(wait);
        let mut cursor = request.after.unwrap_or_else(|| self.recent.cursor());
        let mut place = None;
        let mut fired = self.recent.subscribe();
        loop {
            // Before the look, so that no event after it is missed.
            fired.borrow_and_update();
            let authorizer = &self.authorizer;
            let decided = authorizer.authorize(principal, Action::ReadEvents, About::Nothing);
            if let Err(refusal) = decided {
                return Ok(OperatorReply::NotAllowed(refusal.line));
            }
            let visible = match authorizer.gets_all_events(principal) {
                true => Visible::All,
                false => Visible::Of(&owner),
            };
            let page = self.page(cursor, &request.prefixes, visible).await?;
            if !page.events.is_empty() || page.gap {
                return Ok(OperatorReply::Events(page));
            }
            if self.waits.is_closed() {
                return Ok(OperatorReply::Refused(RefusedVerb::ShuttingDown));
            }
            let was_nothing = page.next == cursor;
            cursor = page.next;
            if self.clock.now() >= end {
                return Ok(OperatorReply::Events(page));
            }
            let place = match &place {
                Some(place) => place,
                None => match self.waits.take_place(principal) {
                    Ok(taken) => place.insert(taken),
                    Err(delay) => return Ok(OperatorReply::busy(delay)),
                },
            };
            let next = async {
                if !was_nothing {
                    self.clock.pause(REST).await;
                }
                // The sender lives as long as this verb.
                let _ = fired.changed().await;
            };
            tokio::select! {
                () = next => {}
                () = place.given_up() => {
                    if self.waits.is_closed() {
                        return Ok(OperatorReply::Refused(RefusedVerb::ShuttingDown));
                    }
                    return Ok(OperatorReply::Events(page));
                }
                () = self.clock.until(end) => {}
            }
        }
    }

    /// Returns the first events after a place that are visible and have one of the prefixes, as many as there is room for.
    async fn page(
        &self,
        after: EventCursor,
        prefixes: &[String],
        visible: Visible<'_>,
    ) -> Result<EventsPage, StoreError> {
        let most_bytes = self.max_message.saturating_sub(PAGE_OVERHEAD);
        let mut page = EventsPage {
            events: Vec::new(),
            next: after,
            gap: false,
        };
        let mut bytes = 0;
        loop {
            let recent = self.recent.after(page.next, LOOKED_AT_TOGETHER);
            page.gap |= recent.gap;
            if recent.events.is_empty() {
                if recent.gap {
                    page.next = self.recent.cursor_at(recent.last);
                }
                return Ok(page);
            }
            for event in recent.events {
                let next = self.recent.cursor_at(event.number);
                if !has_prefix(event.tag(), prefixes) || !self.is_visible(&event, visible).await? {
                    page.next = next;
                    continue;
                }
                let size = event.bytes.len() + EVENT_OVERHEAD;
                if size > most_bytes {
                    // It fits in no page.
                    page.gap = true;
                    page.next = next;
                    continue;
                }
                if !page.events.is_empty() && bytes + size > most_bytes.min(PAGE_BYTES) {
                    return Ok(page);
                }
                bytes += size;
                page.next = next;
                page.events.push((event.number, event.bytes));
            }
            tokio::task::yield_now().await;
        }
    }

    async fn is_visible(
        &self,
        event: &RecentEvent,
        visible: Visible<'_>,
    ) -> Result<bool, StoreError> {
        let Visible::Of(owner) = visible else {
            return Ok(true);
        };
        if let Some(of_run) = &event.owner {
            return Ok(**of_run == *owner);
        }
        match EventTag::parse(event.tag()) {
            Some(EventTag::Job(jid, _) | EventTag::Batch(jid, _)) => {
                Ok(self.owner(&jid).await?.as_deref() == Some(owner))
            }
            _ => Ok(false),
        }
    }

    /// Returns who ordered a job; none if the store does not have it. The store is read once for all of its events and
    /// listeners.
    async fn owner(&self, jid: &Jid) -> Result<Option<Arc<str>>, StoreError> {
        if let Some(known) = self.recent.owner(jid) {
            return Ok(known);
        }
        // The semaphore is never closed.
        let _turn = self.lookups.acquire().await;
        if let Some(known) = self.recent.owner(jid) {
            return Ok(known);
        }
        let owner = self.jobs.owner(jid).await?;
        self.recent.note_owner(jid, owner.as_deref());
        Ok(owner.map(Arc::from))
    }
}

/// Checks the bounds of a request.
fn check(request: &EventsRequest) -> Result<(), String> {
    if request.prefixes.len() > MAX_EVENT_PREFIXES {
        return Err(format!(
            "a request for events names at most {MAX_EVENT_PREFIXES} prefixes of tags, and this one {}",
            request.prefixes.len()
        ));
    }
    match request.prefixes.iter().find(|p| p.len() > MAX_PREFIX) {
        Some(long) => Err(format!(
            "a prefix of tags has at most {MAX_PREFIX} bytes, and one of this request {}",
            long.len()
        )),
        None => Ok(()),
    }
}

fn has_prefix(tag: &str, prefixes: &[String]) -> bool {
    prefixes.is_empty() || prefixes.iter().any(|prefix| tag.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use saline_data::Value;
    use saline_messages::{Event, EventOrigin, OperatorRequest};

    use super::*;
    use crate::parts::testing::{TestMaster, configuration, is_waiting};

    fn request(after: EventCursor) -> EventsRequest {
        EventsRequest {
            after: Some(after),
            prefixes: Vec::new(),
            wait_ms: MAX_EVENTS_WAIT,
        }
    }

    async fn fire(master: &TestMaster, tag: &str, size: usize) {
        let data = vec![("x".to_owned(), Value::from("x".repeat(size)))];
        let events = master.state.runner_parts().events;
        let origin = EventOrigin::operator("root");
        events.sent_by(origin, tag, data).await.unwrap();
    }

    fn tags(reply: Result<OperatorReply, StoreError>) -> (Vec<String>, EventsPage) {
        let Ok(OperatorReply::Events(page)) = reply else {
            panic!("{reply:?}");
        };
        let events = page.events.iter();
        let tags = events.map(|(_, bytes)| Event::decode(bytes).unwrap().tag);
        (tags.collect(), page)
    }

    #[tokio::test]
    async fn a_request_waits_until_there_is_an_event_with_its_prefix() {
        let master = TestMaster::start(|_| ()).await;
        let verb = master.state.operator_verbs().events;
        verb.recent.keep();
        let start = verb.recent.cursor();
        let mut waiting = pin!(verb.carry_out(
            &Principal::LocalRoot,
            EventsRequest {
                prefixes: vec!["mine/".to_owned(), "ours/".to_owned()],
                ..request(start)
            }
        ));
        assert!(is_waiting(waiting.as_mut()));
        fire(&master, "theirs/1", 1).await;
        fire(&master, "ours/2", 1).await;
        let (tags, page) = tags(waiting.await);
        assert_eq!(tags, ["ours/2"]);
        assert_eq!(page.next.number, start.number + 2);
        assert!(!page.gap);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_has_an_end() {
        let master = TestMaster::start(|_| ()).await;
        let verb = master.state.operator_verbs().events;
        verb.recent.keep();
        let start = verb.recent.cursor();
        let begun = verb.clock.now();
        let long = EventsRequest {
            wait_ms: u32::MAX,
            ..request(start)
        };
        let (tags, page) = tags(verb.carry_out(&Principal::LocalRoot, long).await);
        assert!(tags.is_empty());
        assert_eq!((page.next, page.gap), (start, false));
        let waited = verb.clock.now().saturating_duration_since(begun);
        let most = Duration::from_millis(MAX_EVENTS_WAIT.into());
        assert!(waited >= most && waited < most * 2, "{waited:?}");
    }

    #[tokio::test]
    async fn a_page_has_its_bounds_and_what_fits_in_no_message_is_a_gap() {
        let master = TestMaster::start(|_| ()).await;
        let mut verb = master.state.operator_verbs().events;
        verb.max_message = PAGE_BYTES * 2;
        verb.recent.keep();
        let mut cursor = verb.recent.cursor();
        for (tag, size) in [
            ("a", PAGE_BYTES / 2),
            ("b", PAGE_BYTES / 3),
            ("c", PAGE_BYTES / 3),
            ("large", PAGE_BYTES + 1),
            ("too/large", PAGE_BYTES * 2),
            ("d", 1),
        ] {
            fire(&master, tag, size).await;
        }
        let mut pages = Vec::new();
        for _ in 0..4 {
            let reply = verb.carry_out(&Principal::LocalRoot, request(cursor)).await;
            let (tags, page) = tags(reply);
            cursor = page.next;
            pages.push((tags.join(" "), page.gap));
        }
        let expected = [("a b", false), ("c", false), ("large", true), ("d", false)];
        let expected = expected.map(|(tags, gap)| (tags.to_owned(), gap));
        assert_eq!(pages, expected);
    }

    #[tokio::test]
    async fn the_rules_in_force_at_the_end_of_a_wait_decide() {
        let rules = |rules: &str| configuration(&format!("operators: {{amy: [{rules}]}}\n"));
        let all = rules("'@events'");
        let operators = all.operators.clone();
        let master = TestMaster::start(|config| config.operators = operators).await;
        let verb = master.state.operator_verbs().events;
        let amy = Principal::Operator("amy".to_owned());
        verb.recent.keep();
        let start = verb.recent.cursor();
        let mut waiting = pin!(verb.carry_out(&amy, request(start)));
        assert!(is_waiting(waiting.as_mut()));
        fire(&master, "of/root", 1).await;
        assert_eq!(tags(waiting.await).0, ["of/root"]);

        for (rules, is_allowed) in [(rules("test.ping"), true), (rules(""), false)] {
            let end = verb.recent.cursor();
            master.state.settings().set(&all);
            let mut waiting = pin!(verb.carry_out(&amy, request(end)));
            assert!(is_waiting(waiting.as_mut()));
            master.state.settings().set(&rules);
            fire(&master, "of/root", 1).await;
            if is_allowed {
                assert!(is_waiting(waiting.as_mut()), "it is not one of its own");
            } else {
                let reply = waiting.await.unwrap();
                assert!(matches!(reply, OperatorReply::NotAllowed(_)), "{reply:?}");
            }
        }
    }

    #[tokio::test]
    async fn the_end_of_the_master_ends_the_waits_of_hundreds_of_listeners() {
        let master = TestMaster::start(|_| ()).await;
        let verbs = master.state.operator_verbs();
        verbs.events.recent.keep();
        let start = verbs.events.recent.cursor();
        let ask = || OperatorRequest::Events(request(start));
        let listeners = (0..500).map(|_| Box::pin(verbs.carry_out(&Principal::LocalRoot, ask())));
        let mut listeners: Vec<_> = listeners.collect();
        for listener in &mut listeners {
            assert!(is_waiting(listener.as_mut()));
        }
        master.state.event_waits().close();
        let stopping = OperatorReply::Refused(RefusedVerb::ShuttingDown);
        for listener in listeners {
            assert_eq!(listener.await, stopping);
        }
        let late = verbs.carry_out(&Principal::LocalRoot, ask()).await;
        assert_eq!(late, stopping);
    }

    #[tokio::test]
    async fn what_is_too_long_is_refused() {
        let master = TestMaster::start(|_| ()).await;
        let verb = master.state.operator_verbs().events;
        for prefixes in [
            vec!["a".repeat(MAX_PREFIX + 1)],
            vec!["a".to_owned(); MAX_EVENT_PREFIXES + 1],
        ] {
            let asked = EventsRequest {
                prefixes,
                ..request(verb.recent.cursor())
            };
            let reply = verb.carry_out(&Principal::LocalRoot, asked).await.unwrap();
            assert!(matches!(reply, OperatorReply::Invalid(_)), "{reply:?}");
        }
        assert!(!verb.recent.is_kept());
    }
}
