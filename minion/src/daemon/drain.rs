//! The way out: no new jobs, a short time for those that run, what is there is sent.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use saline_protocol::message::{Class, MinionRequest};

use super::Minion;
use super::stage::Stage;

/// What running jobs get before they are interrupted.
const TO_FINISH: Duration = Duration::from_secs(5);

/// What interrupted jobs get to say so.
const TO_STOP: Duration = Duration::from_secs(2);

/// What returns get to be acknowledged.
const TO_SEND: Duration = Duration::from_secs(5);

/// What the master gets to hear the goodbye, and the transport to close.
const TO_LEAVE: Duration = Duration::from_secs(1);

impl Minion {
    /// Comes to rest. Takes a few seconds at most.
    pub(super) async fn drain(self: &Arc<Self>) {
        tracing::info!(
            "the minion stops: {} jobs run",
            self.host.running.list().len()
        );
        self.stage.set(Stage::Draining);
        self.draining.cancel();
        let clock = self.context.clock;
        self.jobs.tracker.close();
        let finished = clock.deadline(clock.after(TO_FINISH), self.jobs.tracker.wait());
        if finished.await.is_err() {
            for job in self.host.running.list() {
                tracing::warn!("job {}: {} is interrupted", job.jid, job.fun);
            }
            self.host.stop.raise();
            let stopped = clock.deadline(clock.after(TO_STOP), self.jobs.tracker.wait());
            if stopped.await.is_err() {
                // The next start makes their returns.
                tracing::warn!("{} jobs did not stop", self.host.running.list().len());
            }
        }
        let link = self.links.borrow().clone();
        if let Some(link) = link {
            let sent = async {
                while self.spool.unacknowledged() > 0 {
                    self.acknowledged.notified().await;
                }
            };
            tokio::select! {
                _ = clock.deadline(clock.after(TO_SEND), sent) => {}
                _ = link.ended() => {}
            }
            let goodbye = link.ask(Class::Event, &MinionRequest::Goodbye, TO_LEAVE);
            if let Err(error) = goodbye.await {
                tracing::debug!("the master was not told goodbye: {error}");
            }
            // An error means that something had to be cut.
            let _ = link.client.shutdown(TO_LEAVE).await;
        }
        let left = self.spool.unacknowledged();
        if left > 0 {
            tracing::warn!("{left} returns wait in the spool for the next start");
        }
        self.host.stop.raise();
        self.context.cancel.cancel();
        if self.jobs.tracker.is_empty() {
            // Nothing writes to the spool any more: another instance may.
            self.lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
        }
        tracing::info!("the minion has stopped");
    }
}
