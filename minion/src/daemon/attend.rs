//! One session, from its beginning to its end: heartbeats, publications, and what was missed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saline_protocol::channel::PublicationOpener;
use saline_protocol::channel::publication::{topic_all, topic_of, verify_job};
use saline_protocol::message::{Class, HeartbeatReply, MinionReply, MinionRequest, Publications};
use saline_protocol::transport::{Context, Endpoint, Subscriber, TopicFilter, jitter};
use tokio::sync::Notify;

use super::Minion;
use super::jobs::Origin;
use super::link::{AskError, Ended, Link};

/// How long the master may take to confirm subscriptions, and to answer what is short.
const ANSWER: Duration = Duration::from_secs(10);

/// How soon to try again what did not travel.
const AGAIN: Duration = Duration::from_millis(500);

/// After that long without an answer to heartbeats, three of them at least, the way to the master is
/// looked for anew.
const SILENCE: Duration = Duration::from_secs(30);

/// What the tasks of one session share.
#[derive(Debug)]
pub(super) struct Attendance {
    pub(super) minion: Arc<Minion>,
    pub(super) link: Arc<Link>,
    opener: Mutex<PublicationOpener>,
    /// Something may have been missed.
    pub(super) catch_up: Notify,
    /// A heartbeat is wanted before its time.
    pub(super) beat: Notify,
}

impl Minion {
    /// Serves one session until it is over.
    ///
    /// # Cancel safety
    /// When the future is dropped, the session's tasks end with the minion's context.
    pub(super) async fn attend(self: &Arc<Self>, link: Arc<Link>) -> Ended {
        let Some(group) = link.welcome.group.clone() else {
            tracing::error!("the master let the minion in without a group key");
            return Ended::Lost;
        };
        let opener = link.session.opener(&self.id, &group);
        let attendance = Arc::new(Attendance {
            minion: Arc::clone(self),
            link: Arc::clone(&link),
            opener: Mutex::new(opener),
            catch_up: Notify::new(),
            beat: Notify::new(),
        });
        // The first word proves the session to the master, which then counts the minion as present.
        attendance.beat().await;
        let ended = tokio::select! {
            ended = link.ended() => Some(ended),
            subscriber = attendance.subscribe() => match subscriber {
                Some(subscriber) => {
                    let context = self.context.child();
                    attendance.start(&context, subscriber);
                    self.links.send_replace(Some(Arc::clone(&link)));
                    self.announce(&context, &link);
                    let ended = link.ended().await;
                    self.links.send_replace(None);
                    context.cancel.cancel();
                    context.tracker.close();
                    context.tracker.wait().await;
                    Some(ended)
                }
                None => None,
            },
        };
        let ended = ended.unwrap_or(Ended::Lost);
        link.end(ended);
        ended
    }
}

impl Attendance {
    async fn subscribe(&self) -> Option<Box<dyn Subscriber>> {
        let (link, id) = (&self.link, &self.minion.id);
        let at = match &link.welcome.publications {
            Publications::SameConnection => None,
            Publications::Port(port) => Some(link.endpoint.clone().with_port(*port)),
            Publications::Path(path) => Some(Endpoint::local(&link.endpoint.scheme, path)),
        };
        let topics = [topic_all(), topic_of(id)].map(TopicFilter::Exact).to_vec();
        let deadline = self.minion.context.clock.after(ANSWER);
        match link.client.subscribe(at.as_ref(), topics, deadline).await {
            Ok(subscriber) => {
                let shown = at.as_ref().unwrap_or(&link.endpoint);
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
        // What was published before the subscription stood.
        self.catch_up.notify_one();
    }

    /// Sends heartbeats as often as the master says, and when somebody wants one.
    async fn heartbeats(&self) {
        let clock = self.minion.context.clock;
        let mut interval = Duration::from_millis(self.link.welcome.heartbeat_ms);
        let (mut heard, mut patience) = (clock.now(), SILENCE.max(interval * 3));
        loop {
            tokio::select! {
                () = clock.pause(interval) => {}
                () = self.beat.notified() => {}
            }
            interval = match self.beat().await {
                Some(interval) => {
                    (heard, patience) = (clock.now(), SILENCE.max(interval * 3));
                    interval
                }
                None if clock.now() - heard > patience => {
                    tracing::warn!("the master is silent");
                    return self.link.end(Ended::Lost);
                }
                // Soon, and not all minions at once.
                None => AGAIN + jitter(AGAIN),
            };
        }
    }

    /// Sends one heartbeat: when the next one is due, if it was answered.
    async fn beat(&self) -> Option<Duration> {
        let request = MinionRequest::Heartbeat {
            running: self.minion.host.running.jids(),
            epoch: self.opener().epoch(),
        };
        match self.link.ask(Class::Event, &request, ANSWER).await {
            Ok(MinionReply::Heartbeat(reply)) => {
                self.take_heartbeat(&reply);
                Some(Duration::from_millis(reply.heartbeat_ms.max(1)))
            }
            Ok(_) => {
                self.link.end(Ended::Lost);
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
        self.minion.clock.set(reply.clock);
        let mut opener = self.opener();
        if let Some(group) = &reply.group {
            opener.install(group);
        }
        if opener.missed(reply.epoch, reply.last_all, reply.last_own) {
            tracing::debug!("publications were missed");
            self.catch_up.notify_one();
        }
    }

    /// Whenever something may have been missed: asks for it until it is answered.
    async fn catch_ups(&self) {
        let clock = self.minion.context.clock;
        loop {
            self.catch_up.notified().await;
            loop {
                let request = MinionRequest::PendingJobs;
                match self.link.ask(Class::Event, &request, ANSWER).await {
                    Ok(MinionReply::Jobs(jobs)) => {
                        for signed in jobs {
                            match verify_job(&self.link.session.master(), signed) {
                                Some(job) => self.minion.take(job, Origin::Own),
                                None => tracing::warn!("a job that the master did not sign"),
                            }
                        }
                        break;
                    }
                    Ok(_) => {
                        self.link.end(Ended::Lost);
                        return;
                    }
                    Err(AskError::Ended) => return,
                    Err(AskError::Busy(after)) => clock.pause(after).await,
                    Err(error) => {
                        tracing::debug!("cannot ask for missed jobs: {error}");
                        clock.pause(AGAIN).await;
                    }
                }
            }
        }
    }

    pub(super) fn opener(&self) -> MutexGuard<'_, PublicationOpener> {
        self.opener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
