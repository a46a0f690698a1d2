//! Publications in the order in which they were published, although large ones travel apart.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use saline_protocol::transport::{Delivery, Lost, Topic};

use crate::frame::Broken;
use crate::subscriber::{Subscription, Subscriptions, message};

/// Messages that may wait for a large one that was published before them on the same topic.
const HELD_MESSAGES: usize = 1024;

/// Their bytes.
const HELD_BYTES: usize = 1024 * 1024;

/// Puts large messages, which travel alone, back where they were published: what comes after one on
/// the same topic waits for it.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    held: VecDeque<Held>,
    /// Announced and not arrived.
    missing: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Held {
    topic: Option<Topic>,
    targets: Vec<Arc<Subscription>>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A large message that has not arrived.
    Missing,
    Arrived(Bytes),
    Lost(u64),
}

impl Sorter {
    /// Messages of the stream.
    pub(crate) fn messages(&mut self, to: &Subscriptions, messages: &mut Vec<(Topic, Bytes)>) {
        if self.missing == 0 {
            return to.deliver(messages);
        }
        for (topic, payload) in messages.drain(..) {
            self.message(to, topic, payload);
        }
    }

    fn message(&mut self, to: &Subscriptions, topic: Topic, payload: Bytes) {
        if !self.is_awaited(Some(&topic)) {
            return to.deliver(&mut vec![(topic, payload)]);
        }
        self.bytes += payload.len();
        self.held.push_back(Held {
            targets: to.targets(&topic),
            topic: Some(topic),
            what: What::Arrived(payload),
        });
    }

    /// A loss that the server tells.
    pub(crate) fn lost(&mut self, to: &Subscriptions, subscription: u64, count: u64) {
        let Some(target) = to.target(subscription) else {
            return;
        };
        if self.missing == 0 {
            return target.push(Delivery::Lagged(Lost::Messages(count)));
        }
        self.held.push_back(Held {
            topic: None,
            targets: vec![target],
            what: What::Lost(count),
        });
    }

    /// A large message has its place here.
    pub(crate) fn announced(&mut self, to: &Subscriptions, topic: Topic) {
        self.missing += 1;
        self.held.push_back(Held {
            targets: to.targets(&topic),
            topic: Some(topic),
            what: What::Missing,
        });
    }

    /// A large message arrived. False when it has not been announced yet.
    pub(crate) fn arrived(&mut self, topic: &Topic, payload: &Bytes) -> Result<bool, Broken> {
        let mut held = self.held.iter_mut();
        let Some(first) = held.find(|held| matches!(held.what, What::Missing)) else {
            return Ok(false);
        };
        if first.topic.as_ref() != Some(topic) {
            return Err(Broken::Violation("another message was announced"));
        }
        first.what = What::Arrived(payload.clone());
        self.bytes += payload.len();
        self.missing -= 1;
        self.release();
        Ok(true)
    }

    /// Whether no more can be held: the stream is read on when something has arrived.
    pub(crate) fn is_full(&self) -> bool {
        self.missing > 0 && (self.held.len() >= HELD_MESSAGES || self.bytes >= HELD_BYTES)
    }

    /// Whether something on `topic` (for a loss: on any) is missing.
    fn is_awaited(&self, topic: Option<&Topic>) -> bool {
        self.missing > 0
            && self.held.iter().any(|held| {
                matches!(held.what, What::Missing)
                    && (topic.is_none() || held.topic.as_ref() == topic)
            })
    }

    /// Delivers everything that waits for nothing any more.
    fn release(&mut self) {
        let mut waiting = VecDeque::new();
        for held in std::mem::take(&mut self.held) {
            // Only what was published before it counts, and that is in `waiting`.
            let awaited = waiting.iter().any(|before: &Held| {
                matches!(before.what, What::Missing)
                    && (held.topic.is_none() || before.topic == held.topic)
            });
            match &held.what {
                What::Missing => waiting.push_back(held),
                _ if awaited => waiting.push_back(held),
                What::Arrived(payload) => {
                    self.bytes -= payload.len();
                    if let Some(topic) = &held.topic {
                        for target in &held.targets {
                            target.push(message(topic, payload));
                        }
                    }
                }
                What::Lost(count) => {
                    for target in &held.targets {
                        target.push(Delivery::Lagged(Lost::Messages(*count)));
                    }
                }
            }
        }
        self.held = waiting;
    }
}
