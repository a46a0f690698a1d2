//! More jobs than one page of missed ones, published while a minion is stopped.

use std::time::Duration;

use rustix::process::Signal;
use saline_client::{Client, JobSpec};
use saline_config::{MasterConfig, parse_arguments};
use saline_protocol::transport::Clock;
use saline_targeting::Target;

use super::Injector;
use crate::error::{ChaosError, Result};
use crate::plan::{JobPlan, Token};
use crate::publisher::Publication;
use crate::timeline::{Condition, Who};

/// How long a minion is waited for before a burst.
const PRESENCE: Duration = Duration::from_secs(10);

/// How often it is looked whether it is there.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How long a burst may take.
const BURST: Duration = Duration::from_secs(20);

impl Injector<'_> {
    /// Stops a minion, publishes many jobs for it, and starts it again, so that it has to ask for what it
    /// missed, whatever waits in its sockets.
    pub(super) async fn missed_jobs(
        self,
        minion: usize,
        jobs: usize,
        first: Token,
        lasts: Duration,
    ) -> Result<()> {
        let Some(seat) = self.fleet.seat(minion) else {
            return Ok(());
        };
        let timeline = &self.fleet.timeline;
        let mut daemon = seat.daemon.lock().await;
        if !self.is_present(minion).await {
            timeline.note(format_args!("m{minion} is not there to miss {jobs} jobs"));
            return Ok(());
        }
        let client = self.operator_session().await?;
        let _down = timeline.disturb(Who::Minion(minion), Condition::Down);
        daemon.signal(Signal::STOP);
        let begin = Clock.now();
        let burst = self.burst(&client, minion, jobs, first);
        let published = Clock.deadline(Clock.after(BURST), burst).await;
        let took = Clock.now() - begin;
        client.shutdown().await;
        Clock.pause(lasts.saturating_sub(took)).await;
        daemon.kill();
        daemon.start()?;
        timeline.note(format_args!(
            "m{minion} is started again after {} jobs in {:.1} s",
            published.unwrap_or_default(),
            took.as_secs_f64()
        ));
        Ok(())
    }

    /// Waits for a while until the minion is called present: what is not offered to it, it does not miss.
    async fn is_present(self, minion: usize) -> bool {
        let name = format!("m{minion}");
        let deadline = Clock.after(PRESENCE);
        while Clock.now() < deadline {
            let present = self.fleet.operator.present().await;
            if present.is_some_and(|present| present.contains(&name)) {
                return true;
            }
            Clock.pause(POLL_INTERVAL).await;
        }
        false
    }

    async fn operator_session(self) -> Result<Client> {
        let schemes: Vec<&str> = self.registry.schemes().collect();
        let config = MasterConfig::load(&self.fleet.operator.config(), &schemes)?.config;
        Ok(Client::connect(&config, self.registry).await?)
    }

    /// Returns how many jobs were published.
    async fn burst(self, client: &Client, minion: usize, jobs: usize, first: Token) -> usize {
        let timeline = &self.fleet.timeline;
        let name = format!("m{minion}");
        let mut done = 0;
        for number in 0..jobs as u32 {
            let token = Token(first.0 + number);
            let Ok(target) = Target::glob(&name).compile() else {
                break;
            };
            let job = JobPlan {
                token,
                targets: vec![minion],
                ..JobPlan::default()
            };
            let arguments = parse_arguments(&[job.command()]);
            let spec = JobSpec::new(target, "cmd.run").with_arguments(arguments);
            let mut publication = Publication {
                job,
                mode: "burst",
                began: timeline.now(),
                ..Publication::default()
            };
            match client.run_async(spec).await {
                Ok(published) => {
                    publication.jid = published.jid.map(|jid| jid.to_string());
                    done += 1;
                }
                Err(error) => publication.errors = ChaosError::from(error).to_string(),
            }
            publication.ended = Some(timeline.now());
            let failed = publication.jid.is_none();
            self.publisher.keep(publication);
            if failed {
                break;
            }
        }
        done
    }
}
