//! The subscription of a session without an event bus: requests for events, each of which waits at the master until there
//! are some.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use saline_messages::{
    Event, EventCursor, EventsPage, EventsRequest, MAX_EVENTS_WAIT, OperatorReply, OperatorRequest,
};
use saline_protocol::transport::{
    Backoff, Context, Delivery, Lost, Subscriber, Topic, TopicFilter,
};

use crate::ClientError;
use crate::master::Master;

/// The first and the longest time between two requests when the master gives no events.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The topic above those of all events.
const ALL_EVENTS: &str = "event";

/// A request for events that is under way.
type Asking = Pin<Box<dyn Future<Output = Result<OperatorReply, ClientError>> + Send>>;

/// Yields the events of some topics as the master has them. It ends when the master refuses events, and with its client.
pub(crate) struct EventPolls {
    master: Arc<dyn Master>,
    context: Context,
    topics: Vec<TopicFilter>,
    /// The place after the events that were received.
    cursor: EventCursor,
    /// What was received and not yielded yet: one page at most.
    found: VecDeque<Delivery>,
    /// Kept when the one who waits for it goes, so that at most one request of this subscription waits at the master.
    asking: Option<Asking>,
    backoff: Backoff,
    /// Whether the master was away at the last request.
    is_away: bool,
    has_ended: bool,
}

impl EventPolls {
    /// Subscribes to these topics: every event that is fired after this returns is received, or counted as lost.
    ///
    /// # Errors
    /// `NotAllowed` when the master refuses events; others as for every request.
    ///
    /// # Cancel safety
    /// Nothing is left behind when the future is dropped.
    pub(crate) async fn begin(
        master: Arc<dyn Master>,
        context: Context,
        topics: Vec<TopicFilter>,
    ) -> Result<Self, ClientError> {
        let request = request(None, &topics, 0);
        let cursor = match master.ask(&request).await? {
            OperatorReply::Events(page) => page.next,
            OperatorReply::NotAllowed(why) => return Err(ClientError::NotAllowed(why)),
            OperatorReply::NotLoggedIn => return Err(ClientError::NotLoggedIn),
            OperatorReply::Invalid(why) => return Err(ClientError::Invalid(why)),
            OperatorReply::Failed(why) => return Err(ClientError::Failed(why)),
            _ => return Err(ClientError::WrongAnswer("Events")),
        };
        Ok(Self {
            master,
            context,
            topics,
            cursor,
            found: VecDeque::new(),
            asking: None,
            backoff: Backoff::new(INTERVALS.0, INTERVALS.1),
            is_away: false,
            has_ended: false,
        })
    }

    /// Returns the next request, which begins after this delay.
    fn ask(&self, delay: Duration) -> Asking {
        let request = request(Some(self.cursor), &self.topics, MAX_EVENTS_WAIT);
        let (master, clock) = (Arc::clone(&self.master), self.context.clock);
        Box::pin(async move {
            if !delay.is_zero() {
                clock.pause(delay).await;
            }
            master.ask(&request).await
        })
    }

    /// Takes a reply, and begins the next request if there is to be one after a delay.
    fn take(&mut self, reply: Result<OperatorReply, ClientError>) {
        match reply {
            Ok(OperatorReply::Events(page)) => {
                if std::mem::take(&mut self.is_away) {
                    self.found.push_back(Delivery::Connected);
                }
                self.backoff.reset();
                self.take_page(page);
            }
            // The master is there, and says so again below if it is not.
            Ok(OperatorReply::Failed(why)) => {
                tracing::debug!("the master gives no events now: {why}");
                self.asking = Some(self.ask_later());
            }
            Err(ClientError::MasterGone { .. }) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    self.found.push_back(Delivery::Disconnected);
                }
                self.asking = Some(self.ask_later());
            }
            other => {
                tracing::debug!("the subscription to events ends: {other:?}");
                self.has_ended = true;
            }
        }
    }

    fn ask_later(&mut self) -> Asking {
        let delay = self.backoff.next_delay();
        self.ask(delay)
    }

    fn take_page(&mut self, page: EventsPage) {
        self.cursor = page.next;
        if page.gap {
            self.found.push_back(Delivery::Lagged(Lost::Unknown));
        }
        for (number, bytes) in page.events {
            let topic = match Event::decode(&bytes) {
                Ok(event) => Event::topic(&event.tag).ok(),
                Err(error) => {
                    tracing::warn!(number, %error, "ignored a malformed event of the master");
                    None
                }
            };
            let wanted = |topic: &Topic| self.topics.iter().any(|filter| filter.matches(topic));
            if let Some(topic) = topic.filter(wanted) {
                let payload = Vec::from(bytes).into();
                self.found.push_back(Delivery::Message { topic, payload });
            }
        }
    }
}

#[async_trait]
impl Subscriber for EventPolls {
    /// Returns what comes next.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: the request that is under way goes on with the next call.
    async fn next(&mut self) -> Option<Delivery> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(found);
            }
            if self.has_ended {
                return None;
            }
            let asking = match self.asking.take() {
                Some(asking) => asking,
                None => self.ask(Duration::ZERO),
            };
            let reply = tokio::select! {
                biased;
                () = self.context.cancel.cancelled() => return None,
                reply = self.asking.insert(asking) => reply,
            };
            self.asking = None;
            self.take(reply);
        }
    }
}

impl fmt::Debug for EventPolls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventPolls")
            .field("topics", &self.topics)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

/// Returns a request for events of these topics. The master compares tags by their letters, so what it returns is matched
/// with the topics again.
fn request(after: Option<EventCursor>, topics: &[TopicFilter], wait_ms: u32) -> OperatorRequest {
    let prefix = |filter: &TopicFilter| {
        let below = filter.topic().as_str().strip_prefix(ALL_EVENTS)?;
        Some(below.strip_prefix('/')?.to_owned())
    };
    // A topic without a tag is that of all events.
    let prefixes: Option<Vec<String>> = topics.iter().map(prefix).collect();
    OperatorRequest::Events(EventsRequest {
        after,
        prefixes: prefixes.unwrap_or_default(),
        wait_ms,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use saline_data::Value;
    use saline_messages::EventOrigin;
    use saline_protocol::transport::Clock;
    use tokio::sync::Notify;

    use super::*;
    use crate::master_absence::MasterAbsence;

    /// A master that answers each request for events with the next reply, and waits while there is none.
    #[derive(Debug, Default)]
    struct Scripted {
        replies: Mutex<VecDeque<Result<OperatorReply, ClientError>>>,
        asked: Mutex<Vec<EventsRequest>>,
        added: Notify,
        absence: MasterAbsence,
    }

    impl Scripted {
        fn add(&self, reply: Result<OperatorReply, ClientError>) {
            self.replies.lock().unwrap().push_back(reply);
            self.added.notify_one();
        }

        fn asked(&self) -> Vec<EventsRequest> {
            self.asked.lock().unwrap().clone()
        }
    }

    #[async_trait]
    impl Master for Scripted {
        async fn ask(&self, request: &OperatorRequest) -> Result<OperatorReply, ClientError> {
            let OperatorRequest::Events(request) = request else {
                return Err(ClientError::Closed);
            };
            self.asked.lock().unwrap().push(request.clone());
            loop {
                let reply = self.replies.lock().unwrap().pop_front();
                match reply {
                    Some(reply) => return reply,
                    None => self.added.notified().await,
                }
            }
        }

        async fn subscribe(
            self: Arc<Self>,
            _: Vec<TopicFilter>,
        ) -> Result<Box<dyn Subscriber>, ClientError> {
            Err(ClientError::Closed)
        }

        fn absence(&self) -> &MasterAbsence {
            &self.absence
        }

        fn sessions(&self) -> u64 {
            1
        }

        fn endpoint(&self) -> String {
            "here".to_owned()
        }

        fn clock(&self) -> Clock {
            Clock
        }
    }

    fn at(number: u64) -> EventCursor {
        EventCursor { start: 7, number }
    }

    /// A page of events with these tags, the last of which has this number.
    fn page(tags: &[&str], last: u64, gap: bool) -> Result<OperatorReply, ClientError> {
        let event = |tag: &&str| Event {
            tag: (*tag).to_owned(),
            origin: EventOrigin::master(),
            data: Value::map([("x", Value::Int(1))]),
        };
        let events = tags.iter().map(|tag| (1, event(tag).encode()));
        Ok(OperatorReply::Events(EventsPage {
            events: events.collect(),
            next: at(last),
            gap,
        }))
    }

    fn gone() -> ClientError {
        ClientError::MasterGone {
            endpoint: "here".to_owned(),
            gone: Duration::from_secs(30),
        }
    }

    async fn begin(topics: &[&str]) -> (Arc<Scripted>, Context, EventPolls) {
        let master = Arc::new(Scripted::default());
        let context = Context::default();
        master.add(page(&[], 3, false));
        let topics = topics.iter();
        let topics = topics.map(|topic| TopicFilter::Prefix(topic.parse().unwrap()));
        let begun = EventPolls::begin(Arc::clone(&master) as _, context.clone(), topics.collect());
        let polls = begun.await.unwrap();
        (master, context, polls)
    }

    async fn next(polls: &mut EventPolls) -> String {
        match polls.next().await {
            Some(Delivery::Message { topic, .. }) => topic.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn events_of_the_topics_come_in_their_order_and_what_is_missed_is_a_gap() {
        let (master, _context, mut polls) = begin(&["event/salt/job"]).await;
        master.add(page(&["salt/job/1/new", "salt/jobs", "salt/job"], 6, false));
        master.add(page(&["salt/job/2/new"], 9, true));
        assert_eq!(next(&mut polls).await, "event/salt/job/1/new");
        assert_eq!(next(&mut polls).await, "event/salt/job");
        assert_eq!(next(&mut polls).await, "Some(Lagged(Unknown))");
        assert_eq!(next(&mut polls).await, "event/salt/job/2/new");
        let asked: Vec<_> = master.asked();
        let asked = asked
            .iter()
            .map(|r| (r.after, r.wait_ms, r.prefixes.join(",")));
        let prefix = || "salt/job".to_owned();
        let expected = [
            (None, 0, prefix()),
            (Some(at(3)), MAX_EVENTS_WAIT, prefix()),
            (Some(at(6)), MAX_EVENTS_WAIT, prefix()),
        ];
        assert_eq!(asked.collect::<Vec<_>>(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_dropped_again_and_again_is_one_request() {
        let (master, _context, mut polls) = begin(&["event"]).await;
        for _ in 0..10 {
            let until = Clock.after(Duration::from_millis(1));
            assert!(Clock.deadline(until, polls.next()).await.is_err());
        }
        master.add(page(&["a"], 4, false));
        assert_eq!(next(&mut polls).await, "event/a");
        assert_eq!(master.asked().len(), 2);
        assert!(master.asked()[1].prefixes.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_master_that_is_away_is_asked_again_at_growing_intervals() {
        let (master, context, mut polls) = begin(&["event"]).await;
        let begun = Clock.now();
        for _ in 0..10 {
            master.add(Err(gone()));
        }
        master.add(Ok(OperatorReply::Failed("the disk is full".to_owned())));
        master.add(page(&["a"], 4, true));
        assert_eq!(next(&mut polls).await, "Some(Disconnected)");
        assert_eq!(next(&mut polls).await, "Some(Connected)");
        assert_eq!(next(&mut polls).await, "Some(Lagged(Unknown))");
        assert_eq!(next(&mut polls).await, "event/a");
        let passed = Clock.now().saturating_duration_since(begun);
        assert!(passed > INTERVALS.1, "{passed:?}");
        context.cancel.cancel();
        assert_eq!(next(&mut polls).await, "None");
    }

    #[tokio::test]
    async fn a_subscription_ends_when_events_are_refused() {
        for refused in [
            Ok(OperatorReply::NotAllowed("no rule".to_owned())),
            Err(ClientError::NotLoggedIn),
            Err(ClientError::Closed),
        ] {
            let (master, _context, mut polls) = begin(&["event"]).await;
            master.add(refused);
            assert_eq!(next(&mut polls).await, "None");
            assert_eq!(next(&mut polls).await, "None");
        }
        let master = Arc::new(Scripted::default());
        master.add(Ok(OperatorReply::NotAllowed("no rule".to_owned())));
        let begun = EventPolls::begin(master, Context::default(), Vec::new()).await;
        assert!(
            matches!(begun, Err(ClientError::NotAllowed(_))),
            "{begun:?}"
        );
    }
}
