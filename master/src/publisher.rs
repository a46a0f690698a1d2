//! What goes out to minions: sealed, numbered and in order, by one task that owns epoch and counters.

use std::sync::{Arc, Mutex, PoisonError};

use saline_protocol::channel::publication::{Body, PublicationKey, topic_all, topic_of};
use saline_protocol::message::{GroupKeyMaterial, MinionId, SessionId, SignedJob};
use saline_protocol::random::{self, NoRandomness};
use saline_protocol::transport::{Context, Publisher};
use tokio::sync::{mpsc, oneshot};

use crate::sessions::{Principal, Session, Sessions};

/// Publications that wait to be sealed.
const QUEUE: usize = 1024;

/// A job for more minions than this goes to everybody's topic.
pub const OWN_TOPIC_MOST: usize = 64;

enum Command {
    Job(SignedJob, Vec<MinionId>),
    Rotate(Vec<Arc<Session>>, oneshot::Sender<()>),
}

/// The room that publishes.
#[derive(Debug, Clone)]
pub struct Publications {
    commands: mpsc::Sender<Command>,
    current: Arc<Mutex<GroupKeyMaterial>>,
}

impl Publications {
    /// Publishes over `listeners`, by number; its task belongs to `context`.
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

    /// The group key now, and the number of the last publication to everybody.
    pub fn current(&self) -> GroupKeyMaterial {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Publishes a job to these minions, in the order of the calls, each in the session that it has
    /// when its turn comes: one that came in between asked for its jobs before this one was stored.
    ///
    /// # Cancel safety
    /// When the future is dropped the job was taken or it was not.
    pub async fn job(&self, job: SignedJob, to: Vec<MinionId>) {
        // The task ends with the master; the job is in the store and is caught up after a restart.
        let _ = self.commands.send(Command::Job(job, to)).await;
    }

    /// Begins a new epoch and tells its key to these sessions, and to nobody else, before anything
    /// is published in it.
    ///
    /// # Cancel safety
    /// A rotation that was taken is carried out when the future is dropped.
    pub async fn rotate(&self, live: Vec<Arc<Session>>) {
        let (done, finished) = oneshot::channel();
        if self
            .commands
            .send(Command::Rotate(live, done))
            .await
            .is_ok()
        {
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
                Command::Job(job, to) if to.len() <= OWN_TOPIC_MOST => {
                    let body = Body::Job(job);
                    for id in to {
                        // One that has gone asks for what it missed when it is back.
                        if let Some(session) = self.sessions.alive(&id) {
                            self.send_to_one(&session, &body).await;
                        }
                    }
                }
                Command::Job(job, _) => self.send_to_all(&Body::Job(job)).await,
                Command::Rotate(live, done) => {
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

    async fn send_to_all(&mut self, body: &Body) {
        let mut material = self.material();
        material.last_number += 1;
        let number = material.last_number;
        let key = PublicationKey::group(&material);
        let topic = topic_all();
        let counter = self.next_counter();
        let frame = key.seal(&topic, SessionId::default(), counter, number, body);
        // Told before it is sent: one who comes in between asks for what it missed.
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = material;
        for listener in &self.listeners {
            if let Err(error) = listener.publish(&topic, frame.clone()).await {
                tracing::warn!("a publication to all minions was not sent: {error}");
            }
        }
    }

    async fn send_to_one(&mut self, session: &Session, body: &Body) {
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
                // The old key stays: the next rotation tries again, and jobs are signed all the same.
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
        let body = Body::GroupKey(material);
        for session in live {
            self.send_to_one(session, &body).await;
        }
        tracing::info!(
            "the group key was rotated, {} minions were told",
            live.len()
        );
    }
}
