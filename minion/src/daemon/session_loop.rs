//! Serves one session from its beginning to its end: heartbeats, publications, missed jobs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_protocol::channel::PublicationOpener;
use saline_protocol::channel::publication::{topic_all, topic_of, verify_job};
use saline_protocol::message::{
    Class, HeartbeatReply, MinionId, MinionReply, MinionRequest, PublicationAddress,
};
use saline_protocol::transport::{Context, Endpoint, Subscriber, TopicFilter, jitter};
use tokio::sync::Notify;

use super::current_session::CurrentSession;
use super::jobs::{JobRunner, Origin};
use super::master_clock::MasterClock;
use super::master_session::{AskError, Ended, MasterSession};
use crate::host::Host;

/// How long the master may take to confirm subscriptions and to answer short requests.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay before a failed request is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// A master that answers no heartbeat for this time, and for three heartbeats at least, is given up.
const MASTER_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves sessions, one after the other.
#[derive(Debug)]
pub struct SessionLoop {
    pub(super) id: MinionId,
    /// The largest message that the minion sends, in bytes.
    pub(super) max_message: usize,
    pub(super) host: Arc<Host>,
    pub(super) clock: Arc<MasterClock>,
    pub(super) jobs: Arc<JobRunner>,
    pub(super) current: CurrentSession,
    pub(super) context: Context,
}

/// What the tasks of one session share.
#[derive(Debug)]
pub(super) struct ActiveSession {
    pub(super) parts: Arc<SessionLoop>,
    pub(super) session: Arc<MasterSession>,
    opener: Mutex<PublicationOpener>,
    /// Notified when jobs may have been missed.
    pub(super) catch_up: Notify,
    /// Notified when a heartbeat is wanted before its time.
    pub(super) beat: Notify,
}

impl SessionLoop {
    /// Serves one session until it ends.
    ///
    /// # Cancel safety
    /// When the future is dropped, the session's tasks end with the minion's context.
    pub async fn run(self: &Arc<Self>, session: Arc<MasterSession>) -> Ended {
        let welcome = &session.welcome;
        self.clock.set(welcome.clock);
        let accepted = usize::try_from(welcome.max_message).unwrap_or(usize::MAX);
        self.host.set_max_message(self.max_message.min(accepted));
        let Some(group) = welcome.group.clone() else {
            tracing::error!("the master accepted the minion without a group key");
            return Ended::Lost;
        };
        let opener = session.session.opener(&self.id, &group);
        let active = Arc::new(ActiveSession {
            parts: Arc::clone(self),
            session: Arc::clone(&session),
            opener: Mutex::new(opener),
            catch_up: Notify::new(),
            beat: Notify::new(),
        });
        // The first request proves the session to the master, which then counts the minion as present.
        active.beat().await;
        let ended = tokio::select! {
            ended = session.ended() => ended,
            subscriber = active.subscribe() => match subscriber {
                Some(subscriber) => self.serve(&active, subscriber).await,
                None => Ended::Lost,
            },
        };
        session.end(ended);
        ended
    }

    /// Runs the session's tasks until it ends.
    async fn serve(&self, active: &Arc<ActiveSession>, subscriber: Box<dyn Subscriber>) -> Ended {
        let context = self.context.child();
        active.start(&context, subscriber);
        self.current.set(Some(Arc::clone(&active.session)));
        let ended = active.session.ended().await;
        self.current.set(None);
        context.cancel.cancel();
        context.tracker.close();
        context.tracker.wait().await;
        ended
    }
}

impl ActiveSession {
    async fn subscribe(&self) -> Option<Box<dyn Subscriber>> {
        let (session, id) = (&self.session, &self.parts.id);
        let at = match &session.welcome.publications {
            PublicationAddress::SameConnection => None,
            PublicationAddress::Port(port) => Some(session.endpoint.clone().with_port(*port)),
            PublicationAddress::Path(path) => Some(Endpoint::local(&session.endpoint.scheme, path)),
        };
        let topics = [topic_all(), topic_of(id)].map(TopicFilter::Exact).to_vec();
        let deadline = self.parts.context.clock.after(ANSWER_TIMEOUT);
        match session
            .client
            .subscribe(at.as_ref(), topics, deadline)
            .await
        {
            Ok(subscriber) => {
                let shown = at.as_ref().unwrap_or(&session.endpoint);
                tracing::info!("subscribed to publications at {shown}");
                Some(subscriber)
            }
            Err(error) => {
                tracing::warn!("cannot subscribe to publications: {error}");
                None
            }
        }
    }

    fn start(self: &Arc<Self>, context: &Context, subscriber: Box<dyn Subscriber>) {
        let this = Arc::clone(self);
        context.spawn(async move { this.heartbeats().await });
        let this = Arc::clone(self);
        context.spawn(async move { this.catch_ups().await });
        let this = Arc::clone(self);
        context.spawn(async move { this.deliveries(subscriber).await });
        // Jobs published before the subscription was confirmed.
        self.catch_up.notify_one();
    }

    /// Sends heartbeats as often as the master says, and whenever `beat` is notified.
    async fn heartbeats(&self) {
        let clock = self.parts.context.clock;
        let mut interval = Duration::from_millis(self.session.welcome.heartbeat_ms);
        let (mut heard, mut timeout) = (clock.now(), MASTER_TIMEOUT.max(interval * 3));
        loop {
            tokio::select! {
                () = clock.pause(interval) => {}
                () = self.beat.notified() => {}
            }
            interval = match self.beat().await {
                Some(interval) => {
                    (heard, timeout) = (clock.now(), MASTER_TIMEOUT.max(interval * 3));
                    interval
                }
                None if clock.now() - heard > timeout => {
                    tracing::warn!(
                        "the master has not answered heartbeats for {} s",
                        timeout.as_secs()
                    );
                    return self.session.end(Ended::Lost);
                }
                // Soon, with jitter so that not all minions ask at once.
                None => RETRY_DELAY + jitter(RETRY_DELAY),
            };
        }
    }

    /// Sends one heartbeat. Returns the delay before the next one, if the master answered.
    async fn beat(&self) -> Option<Duration> {
        let request = MinionRequest::Heartbeat {
            running: self.parts.host.running.jids(),
            epoch: self.opener().epoch(),
        };
        match self
            .session
            .ask(Class::Event, &request, ANSWER_TIMEOUT)
            .await
        {
            Ok(MinionReply::Heartbeat(reply)) => {
                self.take_heartbeat(&reply);
                Some(Duration::from_millis(reply.heartbeat_ms.max(1)))
            }
            Ok(_) => {
                self.session.end(Ended::Lost);
                None
            }
            Err(error) => {
                tracing::debug!("a heartbeat was not answered: {error}");
                match error {
                    AskError::Busy(after) => Some(after),
                    _ => None,
                }
            }
        }
    }

    fn take_heartbeat(&self, reply: &HeartbeatReply) {
        self.parts.clock.set(reply.clock);
        let mut opener = self.opener();
        if let Some(group) = &reply.group {
            opener.install(group);
        }
        if opener.missed(reply.epoch, reply.last_all, reply.last_own) {
            tracing::debug!("publications were missed");
            self.catch_up.notify_one();
        }
    }

    /// Asks for missed jobs whenever `catch_up` is notified, until the master answers.
    async fn catch_ups(&self) {
        let clock = self.parts.context.clock;
        loop {
            self.catch_up.notified().await;
            let mut after = None;
            loop {
                let request = MinionRequest::PendingJobs {
                    after: after.clone(),
                };
                match self
                    .session
                    .ask(Class::Event, &request, ANSWER_TIMEOUT)
                    .await
                {
                    Ok(MinionReply::Jobs(page)) => {
                        after = page.jobs.last().map(|signed| signed.job.jid.clone());
                        for signed in page.jobs {
                            match verify_job(&self.session.session.master(), signed) {
                                Some(job) => self.parts.jobs.take(job, Origin::Own),
                                None => {
                                    tracing::warn!("ignored a job that the master did not sign")
                                }
                            }
                        }
                        if !page.more || after.is_none() {
                            break;
                        }
                    }
                    Ok(_) => {
                        self.session.end(Ended::Lost);
                        return;
                    }
                    Err(AskError::Ended) => return,
                    Err(AskError::Busy(after)) => clock.pause(after).await,
                    Err(error) => {
                        tracing::debug!("cannot ask for missed jobs: {error}");
                        clock.pause(RETRY_DELAY).await;
                    }
                }
            }
        }
    }

    pub(super) fn opener(&self) -> MutexGuard<'_, PublicationOpener> {
        self.opener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
