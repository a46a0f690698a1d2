//! A model of what one server writes to its clients: the hub, the queue of each connection, and the
//! bytes that come out.
//!
//! What holds, whatever the schedule: for each subscription, what is delivered and what is told as
//! lost is, in this order, what was published between its confirmation and its end; nothing is lost
//! while there is room, and nothing is queued when there is none.

mod client;

use proptest::prelude::*;
use saline_protocol::transport::{Answer, Limits};

use self::client::{Client, Handle};
use super::*;
use crate::state::Next;
use crate::state::testing::schedules;
use crate::wire::{BOUNDARY, PublicationFrame};

const CONNECTIONS: usize = 4;
/// The most connections, and the most filters of one.
const MAX_CONNECTIONS: usize = 3;
const FILTERS: usize = 6;
/// The largest payload that a client takes, and that the server sends.
const LARGEST: usize = 20_000;

#[derive(Debug, Clone)]
enum Step {
    /// A client comes to a place, if there is none.
    Join(usize),
    Leave(usize),
    Subscribe {
        place: usize,
        filters: Vec<TopicFilter>,
    },
    /// It asks for a number that is in use.
    SubscribeAgain {
        place: usize,
        id: u64,
    },
    Unsubscribe {
        place: usize,
        id: u64,
    },
    /// So many of one topic.
    Publish {
        topic: Topic,
        size: usize,
        times: usize,
    },
    /// So many of its requests are handed to the handler.
    Ask {
        place: usize,
        requests: usize,
    },
    Answer {
        place: usize,
        reply: Option<usize>,
    },
    /// Its writer writes, beside so many bytes that wait already.
    Drain {
        place: usize,
        staged: usize,
    },
    Rest(usize),
}

fn topic() -> impl Strategy<Value = Topic> {
    "[ab](/[ab]){0,1}".prop_map(|text| text.parse().unwrap())
}

fn filters() -> impl Strategy<Value = Vec<TopicFilter>> {
    let filter = (any::<bool>(), topic()).prop_map(|(prefix, topic)| match prefix {
        true => TopicFilter::Prefix(topic),
        false => TopicFilter::Exact(topic),
    });
    prop::collection::vec(filter, 1..4)
}

fn step() -> impl Strategy<Value = Step> {
    let place = || 0..CONNECTIONS;
    let size = prop_oneof![8 => 8usize..60, 1 => 3900usize..4200, 1 => 15_000..LARGEST, 1 => LARGEST..LARGEST + 3];
    let reply = prop::option::of(prop_oneof![0usize..60, LARGEST - 1..LARGEST + 2]);
    let staged = prop_oneof![3 => Just(0), 1 => BOUNDARY - 200..=BOUNDARY];
    prop_oneof![
        4 => place().prop_map(Step::Join),
        1 => place().prop_map(Step::Leave),
        8 => (place(), filters()).prop_map(|(place, filters)| Step::Subscribe { place, filters }),
        1 => (place(), 0u64..4).prop_map(|(place, id)| Step::SubscribeAgain { place, id }),
        2 => (place(), 0u64..9).prop_map(|(place, id)| Step::Unsubscribe { place, id }),
        16 => (topic(), size, 1usize..5).prop_map(|(topic, size, times)| Step::Publish { topic, size, times }),
        1 => (place(), 0usize..3).prop_map(|(place, requests)| Step::Ask { place, requests }),
        3 => (place(), reply).prop_map(|(place, reply)| Step::Answer { place, reply }),
        6 => (place(), staged).prop_map(|(place, staged)| Step::Drain { place, staged }),
        1 => place().prop_map(Step::Rest),
    ]
}

struct Run {
    hub: Hub<Handle>,
    limits: Limits,
    places: [Option<Client>; CONNECTIONS],
    connections: u64,
    published: u64,
    /// What became of publications since that was last compared: as the hub told it, and as the model has it.
    told: Outcome,
    expected: Outcome,
}

/// What became of publications.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// Connections and subscriptions that lost one.
    lost: Vec<(u64, u64)>,
    /// Connections whose queue is half full now.
    half_full: Vec<u64>,
    sum: Published,
}

impl Outcome {
    fn note(&mut self, connection: u64, subscription: u64, result: EnqueueResult) {
        match result {
            EnqueueResult::Dropped => self.lost.push((connection, subscription)),
            EnqueueResult::HalfFull => self.half_full.push(connection),
            EnqueueResult::Queued => {}
        }
    }

    fn take(&mut self) -> Self {
        let mut this = std::mem::take(self);
        this.lost.sort_unstable();
        this.half_full.sort_unstable();
        this
    }
}

impl Run {
    fn step(&mut self, step: Step) {
        match step {
            Step::Join(place) => {
                if self.places[place].is_none() {
                    self.connections += 1;
                    let client = Client::new(self.connections, &self.limits);
                    let has_room = self.places.iter().flatten().count() < MAX_CONNECTIONS;
                    let added =
                        self.hub
                            .add(self.connections, client.handle.clone(), MAX_CONNECTIONS);
                    assert_eq!(added, has_room);
                    self.places[place] = Some(client).filter(|_| added);
                }
            }
            Step::Leave(place) => {
                if let Some(mut client) = self.places[place].take() {
                    let number = client.handle.0;
                    let removed = self.hub.remove(number).map(|(number, _)| number);
                    assert_eq!(removed, Some(number));
                    assert!(self.hub.remove(number).is_none() && self.hub.get(number).is_none());
                    let granted = self.hub.subscribe(number, 99, Vec::new(), FILTERS);
                    assert_eq!(granted, Ok(None));
                    let mut queue = client.handle.1.borrow_mut();
                    queue.close();
                    queue.confirm(1, true);
                    queue.answer(1, Answer::NoReply);
                    assert_eq!(queue.drain(0, &mut client.drained), Next::Closed);
                }
            }
            Step::Publish { topic, size, times } => {
                for _ in 0..times {
                    self.publish(&topic, size);
                }
            }
            Step::Subscribe { place, filters } => {
                if let Some(client) = &mut self.places[place] {
                    client.subscribe(&mut self.hub, filters);
                }
            }
            Step::SubscribeAgain { place, id } => {
                if let Some(client) = &self.places[place]
                    && client
                        .subscriptions
                        .get(id as usize)
                        .is_some_and(|one| !one.has_ended)
                {
                    let again = self.hub.subscribe(client.handle.0, id, Vec::new(), FILTERS);
                    assert!(again.is_err());
                }
            }
            Step::Unsubscribe { place, id } => {
                if let Some(client) = &mut self.places[place] {
                    self.hub.unsubscribe(client.handle.0, id);
                    if let Some(subscription) = client.subscriptions.get_mut(id as usize) {
                        subscription.has_ended = true;
                    }
                }
            }
            Step::Ask { place, requests } => {
                if let Some(client) = &mut self.places[place] {
                    client.queue().expect_answers(requests);
                    client.unanswered += requests;
                }
            }
            Step::Answer { place, reply } => {
                if let Some(client) = &mut self.places[place] {
                    client.answer(reply);
                }
            }
            Step::Drain { place, staged } => {
                if let Some(client) = &mut self.places[place] {
                    client.drain(staged);
                }
            }
            Step::Rest(place) => {
                if let Some(client) = &mut self.places[place] {
                    client.queue().rest();
                }
            }
        }
        for client in self.places.iter_mut().flatten() {
            let number = client.handle.0;
            let found = self.hub.get(number).map(|(number, _)| *number);
            assert_eq!(found, Some(number));
            // As the server does after it queued something.
            if client.handle.1.borrow_mut().take_wake(0) {
                client.sleeps = false;
            }
            assert!(
                !client.sleeps || client.has_everything(),
                "the writer was not woken"
            );
            let waiting = client.queue().waiting();
            assert!(waiting >= client.queued.iter().sum());
            assert_eq!(waiting == 0, client.has_everything());
        }
        assert_eq!(
            self.hub.is_empty(),
            self.places.iter().flatten().count() == 0
        );
    }

    fn publish(&mut self, topic: &Topic, size: usize) {
        self.published += 1;
        let mut payload = self.published.to_le_bytes().to_vec();
        payload.resize(size, 0);
        let frame = PublicationFrame::new(topic, payload.into());
        let told = &mut self.told;
        let published = self.hub.publish(topic, |handle, number, id| {
            let result = handle.1.borrow_mut().publish(number, &frame, id);
            told.note(handle.0, id, result);
            result
        });
        self.told.sum = published.expect("it is not silent");
        let (expected, mut count) = (&mut self.expected, 0);
        for client in self.places.iter_mut().flatten() {
            let has_room = client.has_room(size, &self.limits);
            let this = client.handle.0;
            let before = count;
            for (id, subscription) in client.subscriptions.iter_mut().enumerate() {
                if subscription.takes(topic) {
                    subscription.owed.push(self.published);
                    count += 1;
                    if !has_room {
                        expected.note(this, id as u64, EnqueueResult::Dropped);
                        expected.sum.lost += 1;
                    }
                }
            }
            if has_room && count > before {
                client.queued.push_back(size);
                if client.queued.len() == self.limits.subscriber_queue_messages / 2 {
                    expected.note(this, 0, EnqueueResult::HalfFull);
                    expected.sum.is_behind = true;
                }
            }
        }
        assert_eq!(self.told.take(), self.expected.take());
        assert_eq!(self.hub.subscriptions(topic), count);
    }

    /// Writes everything: each client has what it is owed. Then the server ends.
    fn finish(mut self) {
        let clients = self.places.iter_mut().flatten();
        for client in clients {
            while client.drain(0) {}
            assert!(client.has_everything());
        }
        self.hub.silence();
        let topic = "a".parse().unwrap();
        let none = self
            .hub
            .publish(&topic, |_, _, _| panic!("it was published"));
        assert_eq!(none, None);
        assert_eq!(self.hub.close().len(), self.places.iter().flatten().count());
        assert!(self.hub.is_empty() && self.hub.subscriptions(&topic) == 0);
        let client = Client::new(0, &self.limits);
        assert!(!self.hub.add(0, client.handle, MAX_CONNECTIONS));
    }
}

proptest! {
    #![proptest_config(schedules(16))]

    #[test]
    fn what_was_published_is_delivered_or_told_as_lost(
        messages in prop_oneof![1usize..6, Just(1000)],
        bytes in prop_oneof![20usize..200, Just(30_000), Just(1_000_000)],
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut limits = Limits::default();
        limits.subscriber_queue_messages = messages;
        limits.subscriber_queue_bytes = bytes;
        let mut run = Run {
            hub: Hub::default(),
            limits,
            places: Default::default(),
            connections: 0,
            published: 0,
            told: Outcome::default(),
            expected: Outcome::default(),
        };
        for step in steps {
            run.step(step);
        }
        run.finish();
    }
}
