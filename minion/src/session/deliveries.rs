//! Handles the publications and link events of a session's subscription.

use saline_channel::publication::{Content, PublicationError, topic_all};
use saline_messages::Job;
use saline_protocol::transport::{Delivery, Subscriber, Topic};

use super::session_loop::ActiveSession;
use crate::jobs::job_runner::Origin;
use crate::link::minion_session::Ended;

impl ActiveSession {
    /// Handles deliveries until the client ends.
    pub(super) async fn deliveries(&self, mut subscriber: Box<dyn Subscriber>) {
        while let Some(delivery) = subscriber.next().await {
            match delivery {
                Delivery::Message { topic, payload } => self.publication(&topic, &payload),
                Delivery::Lagged(lost) => {
                    tracing::warn!(
                        "publications were lost on the way: {lost}; the master is asked for the jobs"
                    );
                    self.catch_up.notify_one();
                }
                Delivery::Connected => {
                    saline_daemon::notice!("the connection to the master is back");
                    self.session.set_up(true);
                    self.catch_up.notify_one();
                }
                Delivery::Disconnected => {
                    tracing::warn!("the connection to the master is down");
                    self.session.set_up(false);
                    // A heartbeat waits for the next connection and goes first there. The master admits it
                    // with that, so that larger requests need not wait; and it may have been restarted:
                    // its answer shows whether it knows the session.
                    self.beat.notify_one();
                }
                other => tracing::debug!("unknown delivery: {other:?}"),
            }
        }
        self.session.end(Ended::Lost);
    }

    /// Returns how a published job reached the minion.
    fn origin(&self, topic: &Topic, job: &Job) -> Origin {
        if *topic != topic_all() {
            return Origin::Own;
        }
        let lease = self.promised().lease;
        if lease.covers(job.created) && !job.claims.include(&self.parts.id) {
            Origin::All
        } else {
            Origin::Unleased
        }
    }

    fn publication(&self, topic: &Topic, payload: &[u8]) {
        let opened = self.opener().open(topic, payload);
        match opened {
            Ok(opened) => {
                if opened.gap {
                    tracing::debug!("publications on {topic} were missed");
                    self.catch_up.notify_one();
                }
                match opened.content {
                    Content::Job(job, secrets) => {
                        let origin = self.origin(topic, &job);
                        tracing::debug!("job {}: published on {topic}, {origin:?}", job.jid);
                        self.parts.jobs.take(job, secrets, origin);
                    }
                    Content::HeartbeatRequest => {
                        tracing::trace!("the master asks for a heartbeat");
                        self.beat.notify_one();
                    }
                    Content::NewEpoch(epoch) => {
                        tracing::debug!("the group key was rotated, epoch {epoch:016x}");
                    }
                }
            }
            // The next heartbeat brings the new group key, and the numbers that show what was missed.
            Err(PublicationError::OtherEpoch) => self.beat.notify_one(),
            Err(PublicationError::Replayed) => {
                tracing::debug!("a publication on {topic} was replayed or late");
            }
            Err(error) => tracing::warn!("a publication on {topic} was refused: {error}"),
        }
    }
}
