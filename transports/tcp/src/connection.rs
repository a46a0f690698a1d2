//! One connection on the serving side, as handlers, publishers and its tasks see it: what waits to be
//! written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use saline_protocol::transport::{Answer, Context, Peer, ReplyRoute, ReplyToken};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::batch::{BOUNDARY, Batch};
use crate::frame::{Hello, Kind, Publication, REQUEST_HEADER};
use crate::inbox::Incoming;
use crate::lock;
use crate::log::{Logged, Run};
use crate::server::Core;

/// Bytes of replies and confirmations that wait for one client before nothing more is read from it.
const OWED: usize = 1024 * 1024;
/// What a confirmation counts as.
const CONFIRMATION: usize = 64;

/// A connection, as handlers, publishers and its two tasks see it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    pub(crate) core: Arc<Core>,
    /// What its client said.
    pub(crate) client: Hello,
    /// How much may wait for it: messages, and bytes of their payloads.
    most: (usize, usize),
    outbox: Mutex<Outbox>,
    /// Tells the writer that there is something to write.
    pub(crate) wake: Notify,
    /// Tells the reader that little enough is owed.
    room: Notify,
    /// The connection is over.
    pub(crate) closed: CancellationToken,
    /// The same, cheap to ask.
    is_closed: AtomicBool,
    /// The writer has written everything there was, and nothing follows.
    pub(crate) flushed: CancellationToken,
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Outbox {
    replies: VecDeque<(u64, Answer)>,
    publications: VecDeque<Queued>,
    /// Publications among them, and the bytes of their payloads.
    messages: usize,
    bytes: usize,
    /// Bytes of replies and confirmations.
    owed: usize,
    /// Requests that were taken and not answered.
    unanswered: usize,
    /// The last publication that was for this connection, and for which subscriptions it was dropped.
    last: u64,
    dropped_for: Vec<u64>,
    /// The writer has nothing to do.
    idle: bool,
    closed: bool,
}

#[derive(Debug)]
enum Queued {
    Publication(Publication),
    /// Publications that stand side by side in the log.
    Run(Run),
    /// In the row of the publications, so that what is behind it was published after it.
    Confirmation(u64, bool),
    /// How many publications each of these subscriptions lost here.
    Lost(Vec<(u64, u64)>),
}

/// What became of a publication on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    /// Taken, and the queue is half full now.
    Half,
    Dropped,
}

impl Connection {
    pub(crate) fn new(core: Arc<Core>, peer: Peer, client: Hello) -> Arc<Self> {
        let limits = &core.lifetime.context.limits;
        Arc::new(Self {
            peer,
            client,
            most: (
                limits.subscriber_queue_messages,
                limits.subscriber_queue_bytes,
            ),
            core,
            outbox: Mutex::default(),
            wake: Notify::new(),
            room: Notify::new(),
            closed: CancellationToken::new(),
            is_closed: AtomicBool::new(false),
            flushed: CancellationToken::new(),
        })
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        lock(&self.outbox)
    }

    /// Whether the connection is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// What the server was given.
    pub(crate) fn context(&self) -> &Context {
        &self.core.lifetime.context
    }

    /// Unlocks, and wakes the writer if it sleeps.
    fn tell_writer(&self, mut outbox: MutexGuard<'_, Outbox>) {
        let idle = std::mem::take(&mut outbox.idle);
        drop(outbox);
        if idle {
            self.wake.notify_one();
        }
    }

    /// Ends the connection where it stands.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let mut outbox = self.outbox();
        let unsaid = std::mem::take(&mut *outbox);
        outbox.closed = true;
        drop(outbox);
        drop(unsaid);
        self.closed.cancel();
    }

    /// Hands requests to whoever takes them.
    pub(crate) fn hand_over(&self, requests: &mut Vec<Incoming>) {
        if !requests.is_empty() {
            self.outbox().unanswered += requests.len();
            self.core.inbox.push(requests);
        }
    }

    /// Queues the answer to a subscription.
    pub(crate) fn confirm(&self, id: u64, granted: bool) {
        let mut outbox = self.outbox();
        if outbox.closed {
            return;
        }
        outbox.owed += CONFIRMATION;
        outbox
            .publications
            .push_back(Queued::Confirmation(id, granted));
        self.tell_writer(outbox);
    }

    /// Queues the publication with this number, once for all subscriptions that take it. When there
    /// is no room it is lost for each of them.
    pub(crate) fn publish(&self, number: u64, publication: &Logged, subscription: u64) -> Taken {
        let mut outbox = self.outbox();
        if outbox.closed {
            return Taken::Yes;
        }
        if outbox.last == number {
            // An overlapping filter, or another subscription of the same client.
            if outbox.dropped_for.is_empty() || outbox.dropped_for.contains(&subscription) {
                return Taken::Yes;
            }
            outbox.lose(subscription);
            return Taken::Dropped;
        }
        outbox.last = number;
        outbox.dropped_for.clear();
        let (messages, bytes) = self.most;
        let room = outbox.messages < messages
            && (outbox.messages == 0 || outbox.bytes + publication.size() <= bytes);
        if !room || publication.size() > self.client.max_message {
            outbox.lose(subscription);
            self.tell_writer(outbox);
            return Taken::Dropped;
        }
        outbox.messages += 1;
        outbox.bytes += publication.size();
        let queued = match publication {
            Logged::Apart(publication) => Some(Queued::Publication(publication.clone())),
            Logged::InLog(run) => {
                let follows = match outbox.publications.back_mut() {
                    Some(Queued::Run(last)) => last.extend(run),
                    _ => false,
                };
                (!follows).then(|| Queued::Run(run.clone()))
            }
        };
        outbox.publications.extend(queued);
        let half = outbox.messages == messages / 2;
        self.tell_writer(outbox);
        if half { Taken::Half } else { Taken::Yes }
    }

    /// Takes what is to be written next. What is owed goes before publications.
    pub(crate) fn take(&self, batch: &mut Batch, taken: &mut Parcel) -> Todo {
        let mut outbox = self.outbox();
        if outbox.closed {
            return Todo::Closed;
        }
        let owed = outbox.owed;
        let mut size = batch.len();
        while size < BOUNDARY
            && let Some((id, answer)) = outbox.replies.pop_front()
        {
            size += REQUEST_HEADER;
            if let Answer::Reply(payload) = &answer {
                size += payload.len();
                outbox.owed -= payload.len();
            }
            taken.replies.push((id, answer));
        }
        while size < BOUNDARY
            && let Some(next) = outbox.publications.pop_front()
        {
            let (messages, bytes) = match &next {
                Queued::Publication(publication) => (1, publication.size),
                Queued::Run(run) => (run.messages, run.bytes),
                Queued::Confirmation(..) => {
                    outbox.owed -= CONFIRMATION;
                    (0, 0)
                }
                Queued::Lost(_) => (0, 0),
            };
            size += REQUEST_HEADER * messages.max(1) + bytes;
            outbox.messages -= messages;
            outbox.bytes -= bytes;
            taken.publications.push(next);
        }
        let room = owed > OWED && outbox.owed <= OWED;
        let todo = if size > 0 {
            Todo::Write
        } else {
            outbox.idle = true;
            Todo::Wait {
                answers_are_due: outbox.unanswered > 0,
            }
        };
        drop(outbox);
        if room {
            self.room.notify_one();
        }
        // Copied without the lock, which handlers and publishers need.
        taken.put_into(batch, self.client.max_message);
        todo
    }
}

/// What a writer has taken. Kept for its memory.
#[derive(Debug, Default)]
pub(crate) struct Parcel {
    replies: Vec<(u64, Answer)>,
    publications: Vec<Queued>,
}

impl Parcel {
    fn put_into(&mut self, batch: &mut Batch, largest: usize) {
        let nothing = Bytes::new();
        for (id, answer) in self.replies.drain(..) {
            match answer {
                Answer::Reply(payload) if payload.len() <= largest => {
                    batch.frame(Kind::Reply, &id.to_le_bytes(), &payload);
                }
                _ => batch.frame(Kind::NoReply, &id.to_le_bytes(), &nothing),
            }
        }
        for next in self.publications.drain(..) {
            match next {
                Queued::Publication(publication) => batch.publication(&publication),
                Queued::Run(run) => run.put_into(batch),
                Queued::Confirmation(id, granted) => {
                    let kind = if granted {
                        Kind::Subscribed
                    } else {
                        Kind::Denied
                    };
                    batch.frame(kind, &id.to_le_bytes(), &nothing);
                }
                Queued::Lost(lost) => {
                    for (subscription, count) in lost {
                        let mut body = [0; 16];
                        body[..8].copy_from_slice(&subscription.to_le_bytes());
                        body[8..].copy_from_slice(&count.to_le_bytes());
                        batch.frame(Kind::Lagged, &body, &nothing);
                    }
                }
            }
        }
    }
}

impl Connection {
    /// Waits until little enough is owed that more may be read. Returns whether it had to.
    pub(crate) async fn room(&self) -> bool {
        let mut waited = false;
        while self.outbox().owed > OWED {
            waited = true;
            self.room.notified().await;
        }
        waited
    }
}

impl Outbox {
    /// Takes note of a loss where the queue ends.
    fn lose(&mut self, subscription: u64) {
        self.dropped_for.push(subscription);
        if let Some(Queued::Lost(lost)) = self.publications.back_mut() {
            match lost.iter_mut().find(|(other, _)| *other == subscription) {
                Some((_, count)) => *count += 1,
                None => lost.push((subscription, 1)),
            }
        } else {
            let lost = vec![(subscription, 1)];
            self.publications.push_back(Queued::Lost(lost));
        }
    }
}

impl ReplyRoute for Connection {
    fn answer(&self, token: ReplyToken, answer: Answer) {
        self.core.permits.add_permits(1);
        let mut outbox = self.outbox();
        if outbox.closed {
            return;
        }
        // What a reader that was cut had not handed over was not counted.
        outbox.unanswered = outbox.unanswered.saturating_sub(1);
        if let Answer::Reply(payload) = &answer {
            outbox.owed += payload.len();
        }
        outbox.replies.push_back((token.request, answer));
        self.tell_writer(outbox);
    }
}

/// What a writer does next.
pub(crate) enum Todo {
    Write,
    Wait { answers_are_due: bool },
    Closed,
}
