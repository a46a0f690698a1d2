//! What waits to be written on a connection: its stream of publications, and what travels alone.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::{BufMut, Bytes, BytesMut};
use saline_engine::{FrameBytes, FrameRun};
use saline_protocol::transport::Limits;
use tokio::sync::Notify;

use crate::batch::Batch;
use crate::frame::{HEADER, Kind, VERSION, header};
use crate::lock;
use crate::log::Encoded;

/// Confirmations that may wait to be written before a client is read no further.
const CONFIRMATIONS: usize = 1024;

/// What waits to be written on a connection's stream of publications.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    pub(crate) wake: Notify,
    /// Confirmations were written.
    taken: Notify,
    most_messages: usize,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<Queued>,
    /// The bytes of the frames in it.
    length: usize,
    /// Messages and bytes that wait, those that travel alone included.
    messages: usize,
    bytes: usize,
    /// Those of them that are in the queue.
    small_messages: usize,
    small_bytes: usize,
    confirmations: usize,
    /// The last publication, and the subscriptions for which it was dropped.
    last: u64,
    dropped_for: Vec<u64>,
    /// Losses to be told, by subscription.
    losses: Vec<(u64, u64)>,
    /// The writer has nothing to do.
    idle: bool,
    closed: bool,
}

#[derive(Debug)]
enum Queued {
    Frame(Bytes),
    Run(FrameRun),
}

impl QueueState {
    fn push(&mut self, frame: Bytes) {
        self.length += frame.len();
        self.waiting.push_back(Queued::Frame(frame));
    }

    fn bare(&mut self, kind: Kind, number: u64) {
        self.push(Bytes::copy_from_slice(&header(kind, number, 0)));
    }

    fn run(&mut self, run: &FrameRun) {
        self.length += run.len();
        let joined = match self.waiting.back_mut() {
            Some(Queued::Run(last)) => last.extend(run),
            _ => false,
        };
        if !joined {
            self.waiting.push_back(Queued::Run(run.clone()));
        }
    }

    fn lose(&mut self, subscription: u64) {
        self.dropped_for.push(subscription);
        let mut losses = self.losses.iter_mut();
        match losses.find(|(id, _)| *id == subscription) {
            Some((_, count)) => *count += 1,
            None => self.losses.push((subscription, 1)),
        }
    }

    fn tell_losses(&mut self) {
        for (subscription, count) in std::mem::take(&mut self.losses) {
            let mut frame = BytesMut::with_capacity(HEADER + 8);
            frame.put_slice(&header(Kind::Lost, subscription, 8));
            frame.put_u64_le(count);
            self.push(frame.freeze());
        }
    }
}

impl Queue {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            state: Mutex::default(),
            wake: Notify::new(),
            taken: Notify::new(),
            most_messages: limits.subscriber_queue_messages,
            most_bytes: limits.subscriber_queue_bytes,
        }
    }

    /// Takes the publication of this number for one subscription; a connection with several takes
    /// it once. What is large goes to `alone`. Returns how many losses that makes.
    pub(crate) fn offer(
        &self,
        number: u64,
        subscription: u64,
        message: &Encoded,
        size: usize,
        alone: &Lane,
    ) -> u64 {
        let mut state = lock(&self.state);
        if state.closed {
            return 0;
        }
        let mut lost = 0;
        if state.last == number {
            // An overlapping filter, or another subscription of the same client.
            if state.dropped_for.is_empty() || state.dropped_for.contains(&subscription) {
                return 0;
            }
            state.lose(subscription);
            lost = 1;
        } else {
            state.last = number;
            state.dropped_for.clear();
            let full = state.messages >= self.most_messages
                || (state.messages > 0 && state.bytes + size > self.most_bytes);
            if full {
                state.lose(subscription);
                lost = 1;
            } else {
                if !state.losses.is_empty() {
                    state.tell_losses();
                }
                state.messages += 1;
                state.bytes += size;
                match message {
                    Encoded::Large(name, head, payload) => {
                        let mut frame = BytesMut::with_capacity(HEADER + name.len());
                        frame.put_slice(&header(Kind::Announced, 0, name.len()));
                        frame.put_slice(name);
                        state.push(frame.freeze());
                        alone.push(Alone {
                            head: head.clone(),
                            payload: payload.clone(),
                            is_publication: true,
                        });
                    }
                    small => {
                        state.small_messages += 1;
                        state.small_bytes += size;
                        match small {
                            Encoded::Logged(run) => state.run(run),
                            Encoded::Apart(frame) => state.push(frame.clone()),
                            Encoded::Large(..) => {}
                        }
                    }
                }
            }
        }
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.wake.notify_one();
        }
        lost
    }

    /// Welcomes the client: what comes after this it will see.
    pub(crate) fn welcome(&self) {
        lock(&self.state).bare(Kind::Welcome, VERSION);
    }

    /// Confirms or refuses a subscription, at this place in the stream.
    pub(crate) fn confirm(&self, subscription: u64, taken: bool) {
        let kind = if taken {
            Kind::Subscribed
        } else {
            Kind::Refused
        };
        let mut state = lock(&self.state);
        if state.closed {
            return;
        }
        state.tell_losses();
        state.confirmations += 1;
        state.bare(kind, subscription);
        drop(state);
        self.wake.notify_one();
    }

    /// Forgets what is still to be told to a subscription that has gone.
    pub(crate) fn forget(&self, subscription: u64) {
        lock(&self.state)
            .losses
            .retain(|(id, _)| *id != subscription);
    }

    /// Waits until not too many confirmations wait: a client that reads none makes no more.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn room_to_confirm(&self) {
        while lock(&self.state).confirmations >= CONFIRMATIONS {
            self.taken.notified().await;
        }
    }

    /// How many bytes wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.state).length
    }

    /// Puts everything that waits into `batch`, to be written next. When there is nothing, the next
    /// publication wakes the writer.
    pub(crate) fn take(&self, batch: &mut Batch) {
        let mut state = lock(&self.state);
        // What was lost came after what is taken now.
        state.tell_losses();
        state.messages -= std::mem::take(&mut state.small_messages);
        state.bytes -= std::mem::take(&mut state.small_bytes);
        if std::mem::take(&mut state.confirmations) >= CONFIRMATIONS {
            self.taken.notify_one();
        }
        let waiting = std::mem::take(&mut state.waiting);
        let length = std::mem::take(&mut state.length);
        state.idle = waiting.is_empty();
        drop(state);
        // Copied without the lock, which publishers need.
        batch.reserve(length);
        for queued in waiting {
            match queued {
                Queued::Frame(frame) => batch.bytes(&frame),
                Queued::Run(run) => run.read(|frames| match frames {
                    FrameBytes::Copy(frames) => batch.copy(frames),
                    FrameBytes::Share(frames) => batch.bytes(&frames),
                }),
            }
        }
    }

    /// A message of `size` bytes that travels alone is on its way.
    fn release(&self, size: usize) {
        let mut state = lock(&self.state);
        state.messages = state.messages.saturating_sub(1);
        state.bytes = state.bytes.saturating_sub(size);
    }

    pub(crate) fn close(&self) {
        let closed = QueueState {
            closed: true,
            ..QueueState::default()
        };
        *lock(&self.state) = closed;
    }
}

/// A message that gets a stream of its own.
#[derive(Debug)]
pub(crate) struct Alone {
    pub(crate) head: Bytes,
    pub(crate) payload: Bytes,
    /// Else a reply.
    pub(crate) is_publication: bool,
}

/// The large messages of a connection, which go one after the other.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// `None` once the connection is closed.
    queue: Mutex<LaneState>,
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
struct LaneState {
    queue: VecDeque<Alone>,
    closed: bool,
}

impl Lane {
    pub(crate) fn push(&self, message: Alone) {
        let mut state = lock(&self.queue);
        if !state.closed {
            state.queue.push_back(message);
            self.wake.notify_one();
        }
    }

    /// The next one. It counts as sent from here on, in the queue of publications too.
    pub(crate) fn take(&self, publications: &Queue) -> Option<Alone> {
        let message = lock(&self.queue).queue.pop_front()?;
        if message.is_publication {
            publications.release(message.payload.len());
        }
        Some(message)
    }

    pub(crate) fn close(&self) {
        *lock(&self.queue) = LaneState {
            closed: true,
            ..LaneState::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_loss_wakes_a_writer_that_sleeps() {
        let mut limits = Limits::default();
        limits.subscriber_queue_messages = 1;
        let (queue, alone, mut batch) = (Queue::new(&limits), Lane::default(), Batch::default());
        let large = Encoded::Large("t".into(), "head".into(), "large".into());
        assert_eq!(queue.offer(1, 7, &large, 5, &alone), 0);
        queue.take(&mut batch);
        queue.take(&mut batch);
        // The writer has nothing to do, and what is large still waits.
        batch.take();
        assert_eq!(queue.offer(2, 7, &large, 5, &alone), 1);
        assert_eq!(queue.offer(2, 7, &large, 5, &alone), 0);
        assert_eq!(queue.offer(2, 8, &large, 5, &alone), 1);
        queue.wake.notified().await;
        queue.take(&mut batch);
        assert_eq!(batch.len(), 2 * (HEADER + 8));
        assert!(alone.take(&queue).is_some());
        assert_eq!(queue.offer(3, 7, &large, 5, &alone), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_no_confirmations_makes_no_more() {
        let queue = Queue::new(&Limits::default());
        for id in 0..CONFIRMATIONS as u64 {
            queue.room_to_confirm().await;
            queue.confirm(id, true);
        }
        let waiting = queue.room_to_confirm();
        let room = Clock.deadline(Clock.after(Duration::from_secs(60)), waiting);
        assert!(room.await.is_err(), "there is room for more than all");
        let (waiting, taken) = (queue.room_to_confirm(), async {
            let mut batch = Batch::default();
            queue.take(&mut batch);
            batch
        });
        let ((), taken) = tokio::join!(waiting, taken);
        assert!(!taken.is_empty());
    }
}
