//! What the subscription yields.

use saline_protocol::channel::publication::{Content, PublicationError, topic_all};
use saline_protocol::transport::{Delivery, Subscriber, Topic};

use super::attend::Attendance;
use super::jobs::Origin;
use super::link::Ended;

impl Attendance {
    /// Takes deliveries until the client ends.
    pub(super) async fn deliveries(&self, mut subscriber: Box<dyn Subscriber>) {
        while let Some(delivery) = subscriber.next().await {
            match delivery {
                Delivery::Message { topic, payload } => self.publication(&topic, &payload),
                Delivery::Lagged(lost) => {
                    tracing::warn!("publications were lost on the way: {lost:?}");
                    self.catch_up.notify_one();
                }
                Delivery::Connected => {
                    tracing::info!("the connection to the master stands again");
                    // The master may be another process by now: the first question finds out.
                    self.beat.notify_one();
                    self.catch_up.notify_one();
                }
                Delivery::Disconnected => tracing::warn!("the connection to the master is down"),
                other => tracing::debug!("an event that is not known: {other:?}"),
            }
        }
        self.link.end(Ended::Lost);
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
                    Content::Job(job) => {
                        let origin = if *topic == topic_all() {
                            Origin::All
                        } else {
                            Origin::Own
                        };
                        self.minion.take(job, origin);
                    }
                    Content::NewEpoch(epoch) => {
                        tracing::debug!("the group key was rotated, epoch {epoch:016x}");
                    }
                }
            }
            // The next heartbeat brings the key and says what was missed.
            Err(PublicationError::OtherEpoch) => self.beat.notify_one(),
            Err(PublicationError::Replayed) => {
                tracing::debug!("a publication on {topic} came twice or late");
            }
            Err(error) => tracing::warn!("a publication on {topic} was not believed: {error}"),
        }
    }
}
