//! Publishes jobs and group keys to minions: one task seals and numbers them, and owns the epoch and
//! the counters.

use std::sync::{Arc, Mutex, PoisonError};

use saline_channel::publication::{Body, EncodedBody, PublicationKey, topic_all, topic_of};
use saline_data::printable::number_of;
use saline_messages::random::{self, NoRandomness};
use saline_messages::{GroupKeyMaterial, MinionId, SessionId, SignedJob};
use saline_protocol::transport::{Context, Publisher};
use tokio::sync::{mpsc, oneshot};

use crate::authorize::Principal;
use crate::sessions::{Session, Sessions};

/// The largest number of publications that wait to be sealed.
const QUEUE: usize = 1024;

/// A job for more minions than this is published on the topic of all minions.
pub const MAX_OWN_TOPIC: usize = 64;

enum Command {
    /// A job, which is sealed for each of these minions alone.
    Private(SignedJob, Vec<MinionId>),
    /// A job, which is sealed with the group key.
    ToAll(SignedJob),
    Rotate(oneshot::Sender<()>),
    RequestHeartbeats,
    /// Asks the minion of this session alone.
    RequestHeartbeat(Arc<Session>, oneshot::Sender<()>),
}

/// A handle to the task that publishes to minions.
#[derive(Debug, Clone)]
pub struct MinionPublisher {
    commands: mpsc::Sender<Command>,
    current: Arc<Mutex<GroupKeyMaterial>>,
}

impl MinionPublisher {
    /// Starts the task, which belongs to `context`. A session's listener number is its index in
    /// `listeners`.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn start(
        listeners: Vec<Arc<dyn Publisher>>,
        sessions: Arc<Sessions>,
        context: &Context,
    ) -> Result<Self, NoRandomness> {
        let (commands, queue) = mpsc::channel(QUEUE);
        // Half of the numbers stay free above the first, so that rotations never run out.
        let epoch = u64::from_be_bytes(random::bytes()?) >> 1;
        let current = Arc::new(Mutex::new(GroupKeyMaterial {
            epoch,
            key: random::bytes()?,
            last_number: 0,
        }));
        let sealer = Sealer {
            listeners,
            sessions,
            counter: 0,
            current: Arc::clone(&current),
        };
        context.spawn(sealer.run(queue));
        Ok(Self { commands, current })
    }

    /// Returns the current group key and the number of the last publication to all minions.
    pub fn current(&self) -> GroupKeyMaterial {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the number of publications that wait to be sealed.
    pub(crate) fn queued(&self) -> usize {
        self.commands.max_capacity() - self.commands.capacity()
    }

    /// Publishes a job to these minions, in the order of the calls: to more than 64 with the group key, which
    /// every accepted minion has, to fewer, or with secrets, as a [private job](Self::private_job).
    ///
    /// # Cancel safety
    /// When the future is dropped the job was taken or it was not.
    pub async fn job(&self, job: SignedJob, to: Vec<MinionId>) {
        let command = match to.len() <= MAX_OWN_TOPIC || job.secrets.is_some() {
            true => Command::Private(job, to),
            false => Command::ToAll(job),
        };
        // The task ends with the master; the job is in the store and is caught up after a restart.
        let _ = self.commands.send(command).await;
    }

    /// Publishes a job sealed for each of these minions alone. Each minion's session is looked
    /// up when its turn comes, since a minion that connects between the commit and the publication
    /// may have asked for its jobs before this one was stored.
    ///
    /// # Cancel safety
    /// When the future is dropped the job was taken or it was not.
    pub async fn private_job(&self, job: SignedJob, to: Vec<MinionId>) {
        // The task ends with the master; the job is in the store and is caught up after a restart.
        let _ = self.commands.send(Command::Private(job, to)).await;
    }

    /// Asks every minion for a heartbeat.
    ///
    /// # Cancel safety
    /// When the future is dropped the minions may be told or not.
    pub async fn request_heartbeats(&self) {
        // The task ends with the master; heartbeats come in any case.
        let _ = self.commands.send(Command::RequestHeartbeats).await;
    }

    /// Asks the minion of one session for a heartbeat, and returns when that is sent.
    ///
    /// # Cancel safety
    /// When the future is dropped the minion may be asked or not.
    pub async fn request_heartbeat(&self, session: Arc<Session>) {
        let (done, sent) = oneshot::channel();
        let command = Command::RequestHeartbeat(session, done);
        if self.commands.send(command).await.is_ok() {
            // An error means that the master is going down.
            let _ = sent.await;
        }
    }

    /// Begins a new epoch, and sends its key to the sessions that are alive then and to no other, before
    /// anything is published in it.
    ///
    /// # Cancel safety
    /// A rotation that was taken is carried out when the future is dropped.
    pub async fn rotate(&self) {
        let (done, finished) = oneshot::channel();
        if self.commands.send(Command::Rotate(done)).await.is_ok() {
            // An error means that the master is going down.
            let _ = finished.await;
        }
    }
}

struct Sealer {
    listeners: Vec<Arc<dyn Publisher>>,
    sessions: Arc<Sessions>,
    /// The nonce: one counter over all topics of an epoch.
    counter: u64,
    current: Arc<Mutex<GroupKeyMaterial>>,
}

impl Sealer {
    async fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        while let Some(command) = queue.recv().await {
            match command {
                Command::Private(job, to) => {
                    let body = Body::Job(job).encode();
                    for id in to {
                        // Also to one that is silent: the number shows it what it missed when it is back.
                        if let Some(session) = self.sessions.seated(&id) {
                            self.send_to_one(&session, &body).await;
                        }
                    }
                }
                Command::ToAll(job) => self.send_to_all(&Body::Job(job).encode()).await,
                Command::RequestHeartbeats => {
                    self.send_to_all(&Body::HeartbeatRequest.encode()).await
                }
                Command::RequestHeartbeat(session, done) => {
                    let body = Body::HeartbeatRequest.encode();
                    self.send_to_one(&session, &body).await;
                    let _ = done.send(());
                }
                Command::Rotate(done) => {
                    // Asked for now: a session that ended while the command waited gets no key.
                    let live = self.sessions.all_alive();
                    self.rotate(&live).await;
                    let _ = done.send(());
                }
            }
        }
    }

    fn material(&self) -> GroupKeyMaterial {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn next_counter(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    async fn send_to_all(&mut self, body: &EncodedBody) {
        let mut material = self.material();
        material.last_number += 1;
        let number = material.last_number;
        let key = PublicationKey::group(&material);
        let topic = topic_all();
        let counter = self.next_counter();
        let frame = key.seal(&topic, SessionId::default(), counter, number, body);
        // The number is visible before the frame is sent, so that a minion that connects in
        // between notices the gap and asks for missed jobs.
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = material;
        for listener in &self.listeners {
            if let Err(error) = listener.publish(&topic, frame.clone()).await {
                tracing::warn!("a publication to all minions was not sent: {error}");
            }
        }
    }

    async fn send_to_one(&mut self, session: &Session, body: &EncodedBody) {
        let Principal::Minion(id) = &session.principal else {
            return;
        };
        let epoch = self.material().epoch;
        let topic = topic_of(id);
        let number = session.next_own(epoch);
        let counter = self.next_counter();
        let frame = session
            .publications
            .key(epoch)
            .seal(&topic, session.id, counter, number, body);
        let Some(listener) = self.listeners.get(session.listener) else {
            return;
        };
        if let Err(error) = listener.publish(&topic, frame).await {
            tracing::warn!("a publication to minion {id} was not sent: {error}");
        }
    }

    async fn rotate(&mut self, live: &[Arc<Session>]) {
        let key = match random::bytes() {
            Ok(key) => key,
            Err(error) => {
                // The old key stays until the next rotation; jobs are signed in any case.
                tracing::error!("the group key was not rotated: {error}");
                return;
            }
        };
        let material = GroupKeyMaterial {
            epoch: self.material().epoch + 1,
            key,
            last_number: 0,
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = material.clone();
        self.counter = 0;
        let body = Body::GroupKey(material).encode();
        for session in live {
            self.send_to_one(session, &body).await;
        }
        tracing::info!(
            "the group key was rotated and sent to {}",
            number_of(live.len(), "minion")
        );
    }
}
