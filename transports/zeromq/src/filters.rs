//! What one subscription asked for, and which numbers come next.

use std::collections::HashMap;

use saline_protocol::transport::{Topic, TopicFilter};

use crate::published::{self, Published};

/// One filter, and the number that comes next.
#[derive(Debug)]
pub(crate) struct Filter {
    bit: u8,
    /// `None` until the publisher has confirmed it on the link that stands.
    pub(crate) next: Option<u64>,
}

/// What is subscribed to: no filter takes anything that another one takes too, so that a message
/// counts once.
#[derive(Debug)]
pub(crate) struct Filters {
    pub(crate) by_key: HashMap<Vec<u8>, Filter>,
    /// The bits of all of them.
    bits: u16,
    /// The publisher that confirmed them.
    pub(crate) incarnation: u64,
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
                let bit = published::filter_bit(filter);
                (published::filter_key(filter), Filter { bit, next: None })
            })
            .collect();
        Self {
            bits: by_key
                .values()
                .fold(0, |bits, filter| bits | 1 << filter.bit),
            by_key,
            incarnation: 0,
        }
    }

    /// The filter that takes `topic`.
    fn of(&mut self, topic: &[u8]) -> Option<&mut Filter> {
        let bits = self.bits;
        let key = published::keys_of(topic)
            .find(|(bit, key)| bits & (1 << bit) != 0 && self.by_key.contains_key(*key))?
            .1;
        self.by_key.get_mut(key)
    }

    /// Reads a frame and moves the numbers on.
    pub(crate) fn meaning(&mut self, bytes: &[u8]) -> Meaning {
        let known = self.incarnation;
        let (number, incarnation, payload, key) = match Published::decode(bytes) {
            Some(Published::Message {
                topic,
                incarnation,
                numbers,
                payload,
            }) => {
                let Some(filter) = self.of(topic) else {
                    return Meaning::Nothing;
                };
                (numbers.get(filter.bit), incarnation, Some(payload), topic)
            }
            Some(Published::Beacon {
                key,
                incarnation,
                number,
            }) => {
                if !self.by_key.contains_key(key) {
                    return Meaning::Nothing;
                }
                (Some(number), incarnation, None, key)
            }
            Some(Published::Beat { incarnation }) if known == 0 || incarnation == known => {
                return Meaning::Nothing;
            }
            Some(Published::Beat { .. }) => return Meaning::Broken,
            Some(Published::Confirmed { .. }) => return Meaning::Nothing,
            None => return Meaning::Foreign,
        };
        let filter = match payload {
            Some(_) => self.of(key),
            None => self.by_key.get_mut(key),
        };
        let Some(Filter {
            next: Some(next), ..
        }) = filter
        else {
            // Not confirmed yet: from before the subscription.
            return Meaning::Nothing;
        };
        // A publisher that forgot a filter which is subscribed to numbers it anew.
        let Some(number) = number.filter(|_| incarnation == known) else {
            return Meaning::Broken;
        };
        match payload {
            Some(payload) => {
                let Some(lost) = number.checked_sub(*next) else {
                    return Meaning::Broken;
                };
                *next = number + 1;
                let text = &key[..key.len() - 2];
                match std::str::from_utf8(text)
                    .ok()
                    .and_then(|text| Topic::parse(text).ok())
                {
                    Some(topic) => Meaning::Message {
                        lost,
                        payload,
                        topic,
                    },
                    None => Meaning::Broken,
                }
            }
            None => {
                let lost = (number + 1).saturating_sub(*next);
                *next += lost;
                Meaning::Lost(lost)
            }
        }
    }
}

/// What a frame means to a subscription.
pub(crate) enum Meaning {
    /// A message in its place, after so many lost ones.
    Message {
        lost: u64,
        payload: usize,
        topic: Topic,
    },
    /// So many messages were lost.
    Lost(u64),
    /// Nothing.
    Nothing,
    /// It is not one of our frames.
    Foreign,
    /// The link cannot be trusted any more: everything must be confirmed anew.
    Broken,
}
