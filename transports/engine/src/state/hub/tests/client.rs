//! One client, as the model of a server has it: what it is owed, and what it reads.

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Waker};

use bytes::Bytes;
use saline_protocol::transport::{Answer, Limits, Topic, TopicFilter};

use super::{FILTERS, Hub, LARGEST};
use crate::state::testing::Accepts;
use crate::state::{Drained, Next, OutboundQueue};
use crate::wire::{BOUNDARY, Bounds, Frame, FrameReader, Greeting, SendBuffer};

/// A subscription, as the model has it.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) filters: Vec<TopicFilter>,
    /// The numbers of the publications that it is owed, of which the first few are accounted for:
    /// delivered, or told as lost.
    pub(super) owed: Vec<u64>,
    pub(super) accounted: usize,
    pub(super) is_confirmed: bool,
    pub(super) has_ended: bool,
}

impl Subscription {
    pub(super) fn takes(&self, topic: &Topic) -> bool {
        !self.has_ended && self.filters.iter().any(|filter| filter.matches(topic))
    }
}

/// How the server knows a client.
pub(super) type Handle = (u64, Rc<RefCell<OutboundQueue>>);

/// A client, and what it will read.
pub(super) struct Client {
    pub(super) handle: Handle,
    pub(super) reader: FrameReader,
    pub(super) buffer: SendBuffer,
    pub(super) drained: Drained,
    /// Number `n` is at `n`. None was used twice.
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) confirmations: VecDeque<(u64, bool)>,
    pub(super) answers: VecDeque<(u64, Option<usize>)>,
    pub(super) asked: u64,
    pub(super) unanswered: usize,
    /// The sizes of the publications that are queued.
    pub(super) queued: VecDeque<usize>,
    /// The writer went to wait, and was not woken.
    pub(super) sleeps: bool,
}

impl Client {
    pub(super) fn new(number: u64, limits: &Limits) -> Self {
        let mut reader = FrameReader::new(Bounds::client(&Limits::default()));
        reader.push(&Greeting::new(limits).encode());
        assert!(matches!(reader.next(), Ok(Some(Frame::Greeting(_)))));
        let queue = OutboundQueue::new(limits, LARGEST);
        Self {
            handle: (number, Rc::new(RefCell::new(queue))),
            reader,
            buffer: SendBuffer::default(),
            drained: Drained::default(),
            subscriptions: Vec::new(),
            confirmations: VecDeque::new(),
            answers: VecDeque::new(),
            asked: 0,
            unanswered: 0,
            queued: VecDeque::new(),
            sleeps: false,
        }
    }

    pub(super) fn queue(&self) -> RefMut<'_, OutboundQueue> {
        self.handle.1.borrow_mut()
    }

    fn live(&self) -> impl Iterator<Item = &Subscription> {
        self.subscriptions.iter().filter(|one| !one.has_ended)
    }

    pub(super) fn has_room(&self, size: usize, limits: &Limits) -> bool {
        let bytes = self.queued.iter().sum::<usize>() + size;
        self.queued.len() < limits.subscriber_queue_messages
            && (self.queued.is_empty() || bytes <= limits.subscriber_queue_bytes)
            && size <= LARGEST
    }

    pub(super) fn has_everything(&self) -> bool {
        let mut subscriptions = self.subscriptions.iter();
        let is_even = subscriptions.all(|one| one.accounted == one.owed.len());
        is_even
            && self.answers.is_empty()
            && self.confirmations.is_empty()
            && self.queued.is_empty()
    }

    pub(super) fn subscribe(&mut self, hub: &mut Hub<Handle>, filters: Vec<TopicFilter>) {
        let held: usize = self.live().map(|one| one.filters.len()).sum();
        let fits = held + filters.len() <= FILTERS;
        let id = self.subscriptions.len() as u64;
        let granted = hub.subscribe(self.handle.0, id, filters.clone(), FILTERS);
        assert_eq!(granted, Ok(Some(fits)));
        self.queue().confirm(id, fits);
        self.confirmations.push_back((id, fits));
        self.subscriptions.push(Subscription {
            filters,
            owed: Vec::new(),
            accounted: 0,
            is_confirmed: false,
            has_ended: !fits,
        });
    }

    pub(super) fn answer(&mut self, reply: Option<usize>) {
        let answer = match reply {
            Some(size) => Answer::Reply(Bytes::from(vec![1; size])),
            None => Answer::NoReply,
        };
        self.asked += 1;
        self.unanswered = self.unanswered.saturating_sub(1);
        self.queue().answer(self.asked, answer);
        let reply = reply.filter(|size| *size <= LARGEST);
        self.answers.push_back((self.asked, reply));
    }

    /// Writes once, and reads what comes out. Returns whether there was anything.
    pub(super) fn drain(&mut self, staged: usize) -> bool {
        let next = self.handle.1.borrow_mut().drain(staged, &mut self.drained);
        self.drained.encode_into(&mut self.buffer, LARGEST);
        let mut received = Accepts {
            most: usize::MAX,
            ..Accepts::default()
        };
        let mut cx = Context::from_waker(Waker::noop());
        while !self.buffer.is_empty() {
            assert!(self.buffer.poll_write(&mut cx, &mut received).is_ready());
        }
        let wrote = !received.bytes.is_empty();
        assert!(wrote || self.has_everything() || staged >= BOUNDARY);
        let answers_are_due = self.unanswered > 0;
        match wrote || staged > 0 {
            true => assert_eq!(next, Next::Write),
            false => assert_eq!(next, Next::Wait { answers_are_due }),
        }
        self.sleeps = next != Next::Write;
        self.reader.push(&received.bytes);
        let mut answers_are_over = false;
        while let Some(frame) = self.reader.next().expect("good frames") {
            let is_answer = matches!(frame, Frame::Reply { .. } | Frame::NoReply(_));
            assert!(!is_answer || !answers_are_over, "answers go first");
            answers_are_over |= !is_answer;
            self.read(frame);
        }
        wrote
    }

    fn read(&mut self, frame: Frame) {
        match frame {
            Frame::Reply { id, payload } => {
                assert_eq!(self.answers.pop_front(), Some((id, Some(payload.len()))));
            }
            Frame::NoReply(id) => assert_eq!(self.answers.pop_front(), Some((id, None))),
            Frame::Subscribed(id) => {
                assert_eq!(self.confirmations.pop_front(), Some((id, true)));
                self.subscriptions[id as usize].is_confirmed = true;
            }
            Frame::SubscriptionRefused(id) => {
                assert_eq!(self.confirmations.pop_front(), Some((id, false)));
            }
            Frame::Publication { payload, .. } => {
                assert_eq!(self.queued.pop_front(), Some(payload.len()));
                let number = u64::from_le_bytes(*payload.first_chunk().unwrap());
                let mut subscribers = 0;
                for subscription in &mut self.subscriptions {
                    let next = subscription.owed.get(subscription.accounted);
                    assert!(
                        next.is_none_or(|next| *next >= number),
                        "a loss was not told"
                    );
                    if next == Some(&number) {
                        assert!(subscription.is_confirmed);
                        subscription.accounted += 1;
                        subscribers += 1;
                    }
                }
                assert!(subscribers > 0, "nobody takes it, or it came twice");
            }
            Frame::Lagged { id, count } => {
                let subscription = &mut self.subscriptions[id as usize];
                subscription.accounted += count as usize;
                assert!(subscription.is_confirmed && count > 0);
                assert!(subscription.accounted <= subscription.owed.len());
            }
            frame => panic!("{frame:?}"),
        }
    }
}
