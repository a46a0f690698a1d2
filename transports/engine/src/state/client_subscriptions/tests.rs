//! A model of one client's subscriptions, beside a server that is told of them.
//!
//! What holds, whatever the schedule: a subscriber gets each publication that it takes once, in order,
//! from its confirmation on; it hears of each loss of the link and of each return once, in turn; and
//! the server has exactly the subscriptions that stand, once everything has been said and read.

use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use saline_protocol::transport::Limits;

use super::*;
use crate::state::testing::schedules;
use crate::{DeliveryReceiver, delivery_queue};

/// The most filters of the client.
const MAX_FILTERS: usize = 8;

#[derive(Debug, Clone)]
enum Step {
    Add(Vec<TopicFilter>),
    Withdraw(usize),
    /// With so many filters that may be announced before it is admitted.
    Connected(usize),
    Admitted,
    Disconnected,
    /// The server reads so many announcements, and refuses the subscriptions among them, or not.
    ServerReads {
        most: usize,
        refuses: bool,
    },
    Publish(Topic),
    /// The server tells a subscription that it lost so many.
    Lose {
        subscription: usize,
        count: u64,
    },
    /// The server refuses what it was not asked for.
    RefuseUnasked(u64),
    /// The client reads so many frames together.
    ClientReads(usize),
    Close,
}

fn topic() -> impl Strategy<Value = Topic> {
    "[ab](/[ab]){0,2}".prop_map(|text| text.parse().unwrap())
}

fn filters() -> impl Strategy<Value = Vec<TopicFilter>> {
    let filter = (any::<bool>(), topic()).prop_map(|(prefix, topic)| match prefix {
        true => TopicFilter::Prefix(topic),
        false => TopicFilter::Exact(topic),
    });
    prop::collection::vec(filter, 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => filters().prop_map(Step::Add),
        4 => (0usize..12).prop_map(Step::Withdraw),
        4 => prop_oneof![Just(usize::MAX), 0usize..4].prop_map(Step::Connected),
        2 => Just(Step::Admitted),
        2 => Just(Step::Disconnected),
        8 => (1usize..6, prop::bool::weighted(0.2))
            .prop_map(|(most, refuses)| Step::ServerReads { most, refuses }),
        10 => topic().prop_map(Step::Publish),
        2 => (0usize..12, 1u64..4).prop_map(|(subscription, count)| Step::Lose { subscription, count }),
        1 => (0u64..12).prop_map(Step::RefuseUnasked),
        8 => (1usize..8).prop_map(Step::ClientReads),
        1 => prop::bool::weighted(0.1).prop_map(|close| if close { Step::Close } else { Step::Admitted }),
    ]
}

/// What the server has sent and the client has not read.
enum FromServer {
    Confirmed(u64),
    Refused(u64),
    Publication(Topic, Bytes),
    Lost(u64, u64),
}

struct Subscriber {
    filters: Vec<TopicFilter>,
    receiver: DeliveryReceiver,
    expected: Vec<Delivery>,
    /// Held by whoever waits for the first confirmation.
    waiting: Rc<u64>,
    was_confirmed: bool,
    is_confirmed: bool,
    has_ended: bool,
}

impl Subscriber {
    fn takes(&self, topic: &Topic) -> bool {
        self.filters.iter().any(|filter| filter.matches(topic))
    }

    fn expect_lost(&mut self, count: u64) {
        if let Some(Delivery::Lagged(Lost::Messages(last))) = self.expected.last_mut() {
            *last += count;
        } else {
            self.expected.push(Delivery::Lagged(Lost::Messages(count)));
        }
    }
}

struct Run {
    machine: ClientSubscriptions<Rc<u64>>,
    /// Number `n` is at `n - 1`.
    subscribers: Vec<Subscriber>,
    is_connected: bool,
    /// Filters that may be announced before the connection is admitted, less those that were.
    announceable: usize,
    is_closed: bool,
    published: u64,
    /// What the server has on this connection, what it has been told of, and what it has sent.
    server: BTreeMap<u64, Vec<TopicFilter>>,
    announced: BTreeSet<u64>,
    sent: VecDeque<FromServer>,
}

impl Run {
    fn new() -> Self {
        Self {
            machine: ClientSubscriptions::new(MAX_FILTERS),
            subscribers: Vec::new(),
            is_connected: false,
            announceable: 0,
            is_closed: false,
            published: 0,
            server: BTreeMap::new(),
            announced: BTreeSet::new(),
            sent: VecDeque::new(),
        }
    }

    fn live(&mut self, id: u64) -> Option<&mut Subscriber> {
        let found = self.subscribers.get_mut(id.checked_sub(1)? as usize);
        found.filter(|subscriber| !subscriber.has_ended)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Add(filters) => self.add(filters),
            Step::Withdraw(n) => {
                self.machine.withdraw(n as u64);
                if let Some(subscriber) = self.live(n as u64) {
                    subscriber.has_ended = true;
                }
            }
            Step::Connected(before) if !self.is_connected && !self.is_closed => {
                self.machine.connected(before);
                self.is_connected = true;
                self.announceable = before;
            }
            Step::Admitted if self.is_connected => {
                self.machine.admitted();
                self.announceable = usize::MAX;
            }
            Step::Disconnected if self.is_connected => self.disconnected(),
            Step::ServerReads { most, refuses } => self.server_reads(most, refuses),
            Step::Publish(topic) => {
                self.published += 1;
                let payload = Bytes::copy_from_slice(&self.published.to_le_bytes());
                // A connection gets a publication once, whoever of it takes it.
                let mut filters = self.server.values().flatten();
                if filters.any(|filter| filter.matches(&topic)) {
                    self.sent.push_back(FromServer::Publication(topic, payload));
                }
            }
            Step::Lose {
                subscription,
                count,
            } => {
                let id = subscription as u64;
                if self.server.contains_key(&id) {
                    self.sent.push_back(FromServer::Lost(id, count));
                }
            }
            Step::RefuseUnasked(id) if !self.announced.contains(&id) => self.refused(id),
            Step::ClientReads(most) => self.client_reads(most),
            Step::Close => {
                self.machine.close();
                self.is_closed = true;
                for subscriber in &mut self.subscribers {
                    subscriber.has_ended = true;
                }
                self.cut();
            }
            Step::Connected(_) | Step::Admitted | Step::Disconnected | Step::RefuseUnasked(_) => {}
        }
    }

    fn add(&mut self, filters: Vec<TopicFilter>) {
        let live = self.subscribers.iter().filter(|one| !one.has_ended);
        let before: usize = live.map(|one| one.filters.len()).sum();
        let (queue, receiver) = delivery_queue(&Limits::default());
        let waiting = Rc::new(self.subscribers.len() as u64 + 1);
        let added = self
            .machine
            .add(filters.clone(), queue, Rc::clone(&waiting));
        let expected = match filters.len() {
            _ if self.is_closed => Err(AddError::Closed),
            0 => Err(AddError::TooMany),
            more if before + more > MAX_FILTERS => Err(AddError::TooMany),
            _ => Ok(*waiting),
        };
        assert_eq!(added, expected);
        if added.is_ok() {
            self.subscribers.push(Subscriber {
                filters,
                receiver,
                expected: Vec::new(),
                waiting,
                was_confirmed: false,
                is_confirmed: false,
                has_ended: false,
            });
        }
    }

    fn disconnected(&mut self) {
        self.machine.disconnected();
        for subscriber in &mut self.subscribers {
            let was_confirmed = std::mem::take(&mut subscriber.is_confirmed);
            if was_confirmed && !subscriber.has_ended {
                subscriber.expected.push(Delivery::Disconnected);
            }
        }
        self.cut();
    }

    fn cut(&mut self) {
        self.is_connected = false;
        self.server.clear();
        self.announced.clear();
        self.sent.clear();
        assert_eq!(self.machine.next_announcement(), None);
    }

    fn server_reads(&mut self, most: usize, refuses: bool) {
        for _ in 0..most {
            match self.machine.next_announcement() {
                None => return,
                Some(Announcement::Subscribe(id, filters)) => {
                    assert!(
                        self.is_connected && self.announced.insert(id),
                        "{id} said twice"
                    );
                    assert_eq!(filters, self.subscribers[id as usize - 1].filters);
                    let left = self.announceable.checked_sub(filters.len());
                    assert!(left.is_some(), "{id} has to wait for admission");
                    if self.announceable < usize::MAX {
                        self.announceable = left.unwrap_or_default();
                    }
                    if refuses {
                        self.sent.push_back(FromServer::Refused(id));
                    } else {
                        self.server.insert(id, filters.to_vec());
                        self.sent.push_back(FromServer::Confirmed(id));
                    }
                }
                Some(Announcement::Unsubscribe(id)) => {
                    assert!(self.announced.contains(&id), "{id} was never said");
                    self.server.remove(&id);
                }
            }
        }
    }

    /// As the task that reads does: publications that come together are delivered together.
    fn client_reads(&mut self, most: usize) {
        let mut arrived = Vec::new();
        for _ in 0..most {
            let Some(frame) = self.sent.pop_front() else {
                break;
            };
            if let FromServer::Publication(topic, payload) = frame {
                self.expect(&topic, &payload);
                arrived.push((topic, payload));
                continue;
            }
            assert_eq!(self.machine.deliver(&mut arrived), 0);
            match frame {
                FromServer::Publication(..) => {}
                FromServer::Confirmed(id) => self.confirmed(id),
                FromServer::Refused(id) => self.refused(id),
                FromServer::Lost(id, count) => {
                    self.machine.lagged(id, count);
                    if let Some(found) = self.live(id) {
                        found.expect_lost(count);
                    }
                }
            }
        }
        assert_eq!(self.machine.deliver(&mut arrived), 0);
        assert!(arrived.is_empty());
    }

    fn refused(&mut self, id: u64) {
        let waiting = self.machine.refused(id);
        let found = self.live(id).filter(|found| !found.was_confirmed);
        assert_eq!(waiting.map(|waiting| *waiting), found.map(|_| id));
        if let Some(found) = self.live(id) {
            found.has_ended = true;
        }
    }

    fn expect(&mut self, topic: &Topic, payload: &Bytes) {
        for subscriber in &mut self.subscribers {
            if subscriber.is_confirmed && !subscriber.has_ended && subscriber.takes(topic) {
                let (topic, payload) = (topic.clone(), payload.clone());
                subscriber
                    .expected
                    .push(Delivery::Message { topic, payload });
            }
        }
    }

    fn confirmed(&mut self, id: u64) {
        // A server that says it twice changes nothing.
        let waiting = [self.machine.confirmed(id), self.machine.confirmed(id)];
        let waiting = waiting.map(|waiting| waiting.map(|waiting| *waiting));
        let Some(found) = self.live(id) else {
            return assert_eq!(waiting, [None, None]);
        };
        assert_eq!(waiting, [(!found.was_confirmed).then_some(id), None]);
        if std::mem::replace(&mut found.was_confirmed, true) {
            found.expected.push(Delivery::Connected);
        }
        found.is_confirmed = true;
    }

    /// Says and reads everything, and checks what each subscriber has got.
    fn finish(mut self) {
        self.step(Step::Connected(1));
        self.server_reads(1000, false);
        self.step(Step::Admitted);
        self.server_reads(1000, false);
        self.client_reads(1000);
        let live = |one: &&Subscriber| !one.has_ended;
        let live: Vec<u64> = self
            .subscribers
            .iter()
            .filter(live)
            .map(|one| *one.waiting)
            .collect();
        let served: Vec<u64> = self.server.keys().copied().collect();
        assert_eq!(served, live, "what the server has");
        let mut cx = Context::from_waker(Waker::noop());
        for subscriber in &mut self.subscribers {
            let mut got = Vec::new();
            while let Some(delivery) = subscriber.receiver.try_next() {
                got.push(delivery);
            }
            assert_eq!(got, subscriber.expected);
            let next = pin!(subscriber.receiver.next()).poll(&mut cx);
            assert_eq!(next == Poll::Ready(None), subscriber.has_ended);
            // Whoever waited has heard, or was dropped.
            assert_eq!(Rc::strong_count(&subscriber.waiting), 1);
        }
        for id in live {
            self.machine.withdraw(id);
        }
        assert_eq!((self.machine.filters, self.machine.all.len()), (0, 0));
        assert_eq!(self.machine.index.count(&"a".parse().unwrap()), 0);
    }
}

proptest! {
    #![proptest_config(schedules(16))]

    #[test]
    fn subscribers_get_what_they_ask_for(steps in prop::collection::vec(step(), 1..80)) {
        let mut run = Run::new();
        run.step(Step::Connected(usize::MAX));
        for step in steps {
            run.step(step);
        }
        run.finish();
    }
}

/// Both lose what does not fit, and both losses count.
#[test]
fn what_a_full_queue_drops_is_counted() {
    let mut limits = Limits::default();
    limits.subscriber_queue_messages = 2;
    let mut machine = ClientSubscriptions::new(MAX_FILTERS);
    machine.connected(usize::MAX);
    let topic: Topic = "a/b".parse().unwrap();
    let mut receivers = Vec::new();
    for filter in [
        TopicFilter::Exact(topic.clone()),
        TopicFilter::Prefix("a".parse().unwrap()),
    ] {
        let (queue, receiver) = delivery_queue(&limits);
        let id = machine.add(vec![filter], queue, ()).unwrap();
        assert_eq!(machine.confirmed(id), Some(()));
        receivers.push(receiver);
    }
    let mut arrived = vec![(topic, Bytes::new()); 5];
    assert_eq!(machine.deliver(&mut arrived), 2 * 3);
    for receiver in &mut receivers {
        let last = std::iter::from_fn(|| receiver.try_next()).last();
        assert_eq!(last, Some(Delivery::Lagged(Lost::Messages(3))));
    }
}
