//! The queue of frames to one client: answers, confirmations and publications.

use std::collections::VecDeque;

use bytes::Bytes;
use saline_protocol::transport::{Answer, Limits};

use super::WriterWake;
use crate::wire::frame::{HEADER, REQUEST_HEADER};
use crate::wire::{BOUNDARY, FrameKind, PublicationFrame, SendBuffer};

/// Bytes of answers, confirmations and losses that wait for one client that is admitted before nothing
/// more is read from it.
const OWED: usize = 1024 * 1024;
/// The bytes that an answer, a confirmation or a loss of one subscription counts as, beside its
/// payload: without them, a client that asks and never reads could queue them without bound.
const OVERHEAD: usize = 64;
/// Counts of losses that a queue holds before it takes no publication until some were written: what is small
/// and fits between what is large and does not would otherwise put one behind every publication.
const MAX_LOSSES: usize = 1024;

/// The queue of one connection. Answers go before publications; what does not fit into the limits of
/// publications is dropped, counted for each subscription, and told at its place.
#[derive(Debug)]
pub(crate) struct OutboundQueue {
    answers: VecDeque<(u64, Answer)>,
    publications: VecDeque<Queued>,
    /// Publications among them, and the bytes of their payloads.
    messages: usize,
    bytes: usize,
    /// The most of both.
    most_messages: usize,
    most_bytes: usize,
    /// The largest payload that the client takes.
    largest: usize,
    /// Bytes of answers, confirmations and losses.
    owed: usize,
    /// With more of them, nothing is read.
    most_owed: usize,
    /// The client was admitted and has to be told.
    admission_is_unsaid: bool,
    /// Requests that were taken and not answered.
    unanswered: usize,
    /// The last publication that was for this connection, and the subscriptions that lost it, sorted:
    /// a client may have a thousand that all lose it.
    last: u64,
    dropped_for: Vec<u64>,
    /// Counts of losses that are queued, one for each subscription of a group.
    losses: usize,
    wake: WriterWake,
    is_closed: bool,
}

#[derive(Debug)]
enum Queued {
    Publication(PublicationFrame),
    /// Among the publications, so that those behind it were published after it.
    Confirmation {
        subscription: u64,
        granted: bool,
    },
    /// How many publications each of these subscriptions, which are sorted, lost here.
    Lost(Vec<(u64, u64)>),
}

/// The result of enqueuing a publication on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnqueueResult {
    Queued,
    /// Queued, and the queue is half full now.
    HalfFull,
    /// There was no room for this subscription.
    Dropped,
}

/// The next step of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Write,
    Wait { answers_are_due: bool },
    Closed,
}

/// The frames that a writer took out of a queue. Kept so that its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    /// The client is to be told that it is admitted.
    is_admitted: bool,
    answers: Vec<(u64, Answer)>,
    publications: Vec<Queued>,
    /// The reader, which waited because too much was owed, may go on.
    pub(crate) has_room: bool,
}

impl OutboundQueue {
    /// Returns the queue of a client that takes payloads of up to `largest` bytes, with the limits
    /// before admission if there are any.
    pub(crate) fn new(limits: &Limits, largest: usize) -> Self {
        let mut queue = Self {
            answers: VecDeque::new(),
            publications: VecDeque::new(),
            messages: 0,
            bytes: 0,
            most_messages: limits.subscriber_queue_messages,
            most_bytes: limits.subscriber_queue_bytes,
            largest,
            owed: 0,
            most_owed: OWED,
            admission_is_unsaid: false,
            unanswered: 0,
            last: 0,
            dropped_for: Vec::new(),
            losses: 0,
            wake: WriterWake::Busy,
            is_closed: false,
        };
        if let Some(admission) = &limits.admission {
            queue.most_messages = queue.most_messages.min(admission.queue_messages);
            queue.most_bytes = queue.most_bytes.min(admission.queue_bytes);
            queue.most_owed = queue.most_owed.min(admission.queue_bytes);
        }
        queue
    }

    /// The client is admitted: the limits of all hold from now on. It is told if it `hears` that.
    pub(crate) fn admit(&mut self, limits: &Limits, hears: bool) {
        self.most_messages = limits.subscriber_queue_messages;
        self.most_bytes = limits.subscriber_queue_bytes;
        self.most_owed = OWED;
        self.admission_is_unsaid = hears && !self.is_closed;
    }

    /// Forgets everything, and takes nothing from now on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.answers = VecDeque::new();
        self.publications = VecDeque::new();
        (self.owed, self.losses) = (0, 0);
    }

    /// Returns whether the writer has to be woken for what was queued, of which so many are answers.
    pub(crate) fn take_wake(&mut self, answered: usize) -> bool {
        self.wake.queued(answered)
    }

    /// Returns whether the writer may wait for more answers of a burst.
    pub(crate) fn is_gathering(&self) -> bool {
        self.wake.is_gathering()
    }

    /// Returns whether so much is owed that nothing more may be read.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.owed > self.most_owed
    }

    /// Returns the bytes that wait, about.
    pub(crate) fn waiting(&self) -> usize {
        self.owed + self.bytes + self.messages * REQUEST_HEADER
    }

    /// Takes note of requests that were handed to the handlers.
    pub(crate) fn expect_answers(&mut self, requests: usize) {
        self.unanswered += requests;
    }

    /// Queues the answer to a request.
    pub(crate) fn answer(&mut self, request: u64, answer: Answer) {
        // A request that a reader which was cut had not handed over was not counted.
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.is_closed {
            return;
        }
        self.owed += size_of_answer(&answer);
        self.answers.push_back((request, answer));
    }

    /// Queues the answer to a subscription.
    pub(crate) fn confirm(&mut self, subscription: u64, granted: bool) {
        if self.is_closed {
            return;
        }
        self.owed += OVERHEAD;
        self.publications.push_back(Queued::Confirmation {
            subscription,
            granted,
        });
    }

    /// Queues the publication with this number, once for all subscriptions that take it. When there
    /// is no room it is lost for each of them.
    pub(crate) fn publish(
        &mut self,
        number: u64,
        publication: &PublicationFrame,
        subscription: u64,
    ) -> EnqueueResult {
        if self.is_closed {
            return EnqueueResult::Queued;
        }
        if self.last == number {
            // An overlapping filter, or another subscription of the same client.
            let dropped_for = &self.dropped_for;
            if dropped_for.is_empty() || dropped_for.binary_search(&subscription).is_ok() {
                return EnqueueResult::Queued;
            }
            self.lose(subscription);
            return EnqueueResult::Dropped;
        }
        self.last = number;
        self.dropped_for.clear();
        let size = publication.size;
        let has_room = self.messages < self.most_messages
            && (self.messages == 0 || self.bytes + size <= self.most_bytes)
            && self.losses < MAX_LOSSES
            && size <= self.largest;
        if !has_room {
            self.lose(subscription);
            return EnqueueResult::Dropped;
        }
        self.messages += 1;
        self.bytes += size;
        self.publications
            .push_back(Queued::Publication(publication.clone()));
        match self.messages == self.most_messages / 2 {
            true => EnqueueResult::HalfFull,
            false => EnqueueResult::Queued,
        }
    }

    /// Takes note of a loss where the queue ends.
    fn lose(&mut self, subscription: u64) {
        if let Err(place) = self.dropped_for.binary_search(&subscription) {
            self.dropped_for.insert(place, subscription);
        }
        if let Some(Queued::Lost(lost)) = self.publications.back_mut() {
            match lost.binary_search_by_key(&subscription, |(other, _)| *other) {
                Ok(place) => {
                    lost[place].1 += 1;
                    return;
                }
                Err(place) => lost.insert(place, (subscription, 1)),
            }
        } else {
            let lost = vec![(subscription, 1)];
            self.publications.push_back(Queued::Lost(lost));
        }
        self.losses += 1;
        self.owed += OVERHEAD;
    }

    /// Moves what is to be written next into `drained`, up to about the boundary of a write beside
    /// `staged` bytes that wait already.
    pub(crate) fn drain(&mut self, staged: usize, drained: &mut Drained) -> Next {
        if self.is_closed {
            return Next::Closed;
        }
        let was_overdrawn = self.is_overdrawn();
        let mut size = staged;
        if std::mem::take(&mut self.admission_is_unsaid) {
            drained.is_admitted = true;
            size += HEADER;
        }
        while size < BOUNDARY
            && let Some((id, answer)) = self.answers.pop_front()
        {
            let owed = size_of_answer(&answer);
            size += owed;
            self.owed -= owed;
            drained.answers.push((id, answer));
        }
        while size < BOUNDARY
            && let Some(next) = self.publications.pop_front()
        {
            size += REQUEST_HEADER;
            match &next {
                Queued::Publication(frame) => {
                    size += frame.size;
                    self.messages -= 1;
                    self.bytes -= frame.size;
                }
                Queued::Confirmation { .. } => self.owed -= OVERHEAD,
                Queued::Lost(lost) => {
                    self.losses -= lost.len();
                    self.owed -= OVERHEAD * lost.len();
                }
            }
            drained.publications.push(next);
        }
        drained.has_room = was_overdrawn && !self.is_overdrawn();
        if size > 0 {
            self.wake = WriterWake::Busy;
            return Next::Write;
        }
        self.wake = WriterWake::Waiting;
        Next::Wait {
            answers_are_due: self.unanswered > 0,
        }
    }

    /// Gives back the memory that an idle connection does not need.
    pub(crate) fn rest(&mut self) {
        self.answers.shrink_to_fit();
        self.publications.shrink_to_fit();
        self.dropped_for = Vec::new();
    }

    /// Returns how many entries the queue keeps memory for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.answers.capacity() + self.publications.capacity() + self.dropped_for.capacity()
    }
}

fn size_of_answer(answer: &Answer) -> usize {
    match answer {
        Answer::Reply(payload) => OVERHEAD + payload.len(),
        Answer::NoReply => OVERHEAD,
    }
}

impl Drained {
    /// Encodes everything into `buffer`. A reply above `largest` bytes, which the client does not
    /// take, becomes the news that there is none.
    pub(crate) fn encode_into(&mut self, buffer: &mut SendBuffer, largest: usize) {
        let nothing = Bytes::new();
        if std::mem::take(&mut self.is_admitted) {
            buffer.frame(FrameKind::Admitted, &[], &nothing);
        }
        for (id, answer) in self.answers.drain(..) {
            match answer {
                Answer::Reply(payload) if payload.len() <= largest => {
                    buffer.message(FrameKind::Reply, id, &payload);
                }
                _ => buffer.frame(FrameKind::NoReply, &id.to_le_bytes(), &nothing),
            }
        }
        for next in self.publications.drain(..) {
            match next {
                Queued::Publication(frame) => frame.put_into(buffer),
                Queued::Confirmation {
                    subscription,
                    granted,
                } => {
                    let kind = match granted {
                        true => FrameKind::Subscribed,
                        false => FrameKind::SubscriptionRefused,
                    };
                    buffer.frame(kind, &subscription.to_le_bytes(), &nothing);
                }
                Queued::Lost(lost) => {
                    for (subscription, count) in lost {
                        let mut body = [0; 16];
                        body[..8].copy_from_slice(&subscription.to_le_bytes());
                        body[8..].copy_from_slice(&count.to_le_bytes());
                        buffer.frame(FrameKind::Lagged, &body, &nothing);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
