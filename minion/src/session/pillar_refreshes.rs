//! Brings the minion's pillar when a session has begun, when grains were reported, and when somebody wants it, and again while the
//! master does not give it. No job waits for it.

use std::sync::Arc;
use std::time::Duration;

use saline_data::printable::number_of;
use saline_modules::pillar::{ANSWER_TIMEOUT, Exchanged, MasterPillar};
use saline_modules::{Host, NotAnswered};
use saline_protocol::transport::{Backoff, Context, Instant};

use super::master_requests::MasterRequests;
use crate::link::current_session::CurrentSession;

/// How long the master is asked for one pillar, before the next attempt.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The first and the longest delay before the master is asked again that has not given the pillar.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10 * 60));

/// Brings the minion's pillar whenever that is wanted.
#[derive(Debug)]
pub(crate) struct PillarRefreshes {
    host: Arc<Host>,
    requests: MasterRequests,
    session: CurrentSession,
    context: Context,
}

impl PillarRefreshes {
    /// Creates the task of a minion.
    pub(crate) fn new(host: Arc<Host>, session: CurrentSession, context: Context) -> Self {
        Self {
            host,
            requests: MasterRequests::new(session.clone(), context.clone()),
            session,
            context,
        }
    }

    /// Brings the pillar for as long as the minion runs. Those who want it while it is brought have it brought once more.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::new(RETRY_DELAYS.0, RETRY_DELAYS.1);
        let mut retry_at = None;
        loop {
            let awaited = self.wanted(retry_at.take()).await;
            let complete = match self.refresh().await {
                Ok(0) => {
                    backoff.reset();
                    true
                }
                Ok(errors) => {
                    backoff.reset();
                    tracing::warn!(
                        "the pillar has {}, so the last one without any is kept: `pillar.items` of this minion shows them",
                        number_of(errors, "error")
                    );
                    false
                }
                Err(why) => {
                    let delay = backoff.next_delay();
                    retry_at = Some(self.context.clock.after(delay));
                    tracing::warn!(
                        "the pillar was not refreshed, which is tried again in {} s: {why}",
                        delay.as_secs()
                    );
                    false
                }
            };
            if awaited {
                self.host.tell_pillar_refreshed(complete);
            }
        }
    }

    /// Waits until a refresh is wanted, or until it is time to try again. Returns whether somebody is told of the end.
    async fn wanted(&self, retry_at: Option<Instant>) -> bool {
        let wanted = self.host.pillar.wanted();
        match retry_at {
            Some(at) => self
                .context
                .clock
                .deadline(at, wanted)
                .await
                .unwrap_or(false),
            None => wanted.await,
        }
    }

    /// Brings the pillar once, and returns how many errors it has; as an error, why it was not brought.
    async fn refresh(&self) -> Result<usize, String> {
        let clock = self.context.clock;
        let mut sessions = self.session.subscribe();
        let mut exchange = self.host.own_pillar_exchange();
        let end = clock.after(REFRESH_TIMEOUT);
        loop {
            // An error means that the minion stops.
            let has_session = sessions.wait_for(Option::is_some).await.is_ok();
            if !has_session {
                return Err("the minion stops".to_owned());
            }
            let request = exchange.request(MasterPillar::part_size(&self.requests));
            let reply = match self
                .requests
                .ask_about_pillar(request, ANSWER_TIMEOUT)
                .await
            {
                Ok(reply) => reply,
                Err(NotAnswered::Later(delay)) if clock.after(delay) < end => {
                    clock.pause(delay).await;
                    continue;
                }
                Err(NotAnswered::Later(_)) => return Err("the master does not answer".to_owned()),
                Err(NotAnswered::Refused(why)) => return Err(why),
            };
            let received = match exchange.take(reply).map_err(|error| error.to_string())? {
                None => continue,
                Some(Exchanged::Unchanged) => return Ok(self.host.pillar.errors()),
                Some(Exchanged::Whole(received)) => received,
            };
            let host = Arc::clone(&self.host);
            let held = self
                .context
                .spawn_blocking(move || host.hold_pillar(received));
            let held = held.await.map_err(|_| "the minion stops".to_owned())?;
            tracing::info!("the master has sent the pillar");
            return held
                .map(|pillar| pillar.errors().len())
                .map_err(|error| error.to_string());
        }
    }
}
