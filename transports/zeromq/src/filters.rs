//! The filters of one subscription, and the sequence numbers that come next.

use std::collections::HashMap;
use std::ops::Range;

use saline_protocol::transport::{Topic, TopicFilter};

use crate::joined_publications;
use crate::publication_wire::{self, Published};

/// One filter, and the number that comes next.
#[derive(Debug)]
pub(crate) struct Filter {
    bit: u8,
    /// `None` until the publisher has confirmed it on the current connection.
    pub(crate) next: Option<u64>,
}

/// The filters of one subscription. Filters that another one covers are left out, so that a message
/// counts once.
#[derive(Debug)]
pub(crate) struct Filters {
    pub(crate) by_key: HashMap<Vec<u8>, Filter>,
    /// The bits of all of them.
    bits: u16,
    /// The publisher that confirmed them.
    pub(crate) incarnation: u64,
    /// The topic of the last message, and how it is written: most often one topic follows itself.
    last: Option<(Vec<u8>, Topic)>,
}

impl Filters {
    pub(crate) fn new(topics: Vec<TopicFilter>) -> Self {
        let covered = |filter: &TopicFilter| {
            topics.iter().any(|other| {
                other != filter
                    && matches!(other, TopicFilter::Prefix(_))
                    && other.matches(filter.topic())
            })
        };
        let by_key: HashMap<_, _> = topics
            .iter()
            .filter(|filter| !covered(filter))
            .map(|filter| {
                let bit = publication_wire::filter_bit(filter);
                (
                    publication_wire::filter_key(filter),
                    Filter { bit, next: None },
                )
            })
            .collect();
        Self {
            bits: by_key
                .values()
                .fold(0, |bits, filter| bits | 1 << filter.bit),
            by_key,
            incarnation: 0,
            last: None,
        }
    }

    /// Returns the filter that takes `topic`.
    fn of(&mut self, topic: &[u8]) -> Option<&mut Filter> {
        let bits = self.bits;
        let key = publication_wire::keys_of(topic)
            .find(|(bit, key)| bits & (1 << bit) != 0 && self.by_key.contains_key(*key))?
            .1;
        self.by_key.get_mut(key)
    }

    /// Returns the topic whose key is `key`.
    fn topic(&mut self, key: &[u8]) -> Option<Topic> {
        match &self.last {
            Some((last, topic)) if last == key => Some(topic.clone()),
            _ => {
                // Behind it are the `/` and the NUL.
                let text = std::str::from_utf8(key.get(..key.len().checked_sub(2)?)?).ok()?;
                let topic = Topic::parse(text).ok()?;
                self.last = Some((key.to_vec(), topic.clone()));
                Some(topic)
            }
        }
    }

    /// Reads a frame and advances the numbers.
    pub(crate) fn meaning(&mut self, bytes: &[u8]) -> Meaning {
        let known = self.incarnation;
        match Published::decode(bytes) {
            Some(Published::Message {
                topic,
                incarnation,
                numbers,
                payload,
                series,
            }) => {
                let payloads = match series {
                    true => joined_publications::split(bytes, payload).map(Payloads::Several),
                    false => Some(Payloads::One(payload)),
                };
                let Some(payloads) = payloads else {
                    return Meaning::Foreign;
                };
                let Some(filter) = self.of(topic) else {
                    return Meaning::Nothing;
                };
                let Some(next) = &mut filter.next else {
                    // Not confirmed yet: from before the subscription.
                    return Meaning::Nothing;
                };
                // A publisher that forgot a filter which is subscribed to numbers it again.
                let number = numbers.get(filter.bit).filter(|_| incarnation == known);
                let Some((number, lost)) = number.and_then(|n| Some((n, n.checked_sub(*next)?)))
                else {
                    return Meaning::Broken;
                };
                *next = number.saturating_add(payloads.count());
                match self.topic(topic) {
                    Some(topic) => Meaning::Messages {
                        lost,
                        payloads,
                        topic,
                    },
                    None => Meaning::Broken,
                }
            }
            Some(Published::Beacon {
                key,
                incarnation,
                number,
            }) => match self.by_key.get_mut(key) {
                Some(Filter {
                    next: Some(next), ..
                }) if incarnation == known => {
                    let lost = number.saturating_add(1).saturating_sub(*next);
                    *next += lost;
                    Meaning::Lost(lost)
                }
                Some(Filter { next: Some(_), .. }) => Meaning::Broken,
                _ => Meaning::Nothing,
            },
            Some(Published::Ping { incarnation }) if known == 0 || incarnation == known => {
                Meaning::Ping
            }
            Some(Published::Ping { .. }) => Meaning::Broken,
            Some(Published::Confirmed { .. }) => Meaning::Nothing,
            None => Meaning::Foreign,
        }
    }
}

/// What a frame means to a subscription.
pub(crate) enum Meaning {
    /// Publications for the subscriber, and how many were lost before them.
    Messages {
        lost: u64,
        payloads: Payloads,
        topic: Topic,
    },
    /// The number of publications that were lost.
    Lost(u64),
    /// A link ping, which has to be answered.
    Ping,
    /// A frame that means nothing to this subscription.
    Nothing,
    /// A frame that is not of this transport.
    Foreign,
    /// A frame that shows that the numbers cannot be trusted: everything must be confirmed again.
    Broken,
}

/// The ranges of the payloads in a frame.
pub(crate) enum Payloads {
    /// One payload, from here to the end.
    One(usize),
    Several(Vec<Range<usize>>),
}

impl Payloads {
    fn count(&self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Several(ranges) => ranges.len() as u64,
        }
    }
}
