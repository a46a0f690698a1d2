//! More jobs than one page of missed ones, published while a minion is stopped.

use std::time::Duration;

use rustix::process::Signal;
use saline_client::{Client, JobSpec};
use saline_config::{MasterConfig, parse_arguments};
use saline_protocol::target::Target;
use saline_protocol::transport::Clock;

use super::Injector;
use crate::error::{ChaosError, Result};
use crate::plan::{Fault, Token, Weather, command};
use crate::publisher::Publication;
use crate::timeline::{Condition, Who};

/// The first token of bursts; those of plans are below.
const FIRST: u32 = 100_000;

/// How long a burst may take.
const BURST: Duration = Duration::from_secs(20);

impl Injector<'_> {
    /// Stops a minion, publishes many jobs for it, and lets it go on with a new connection.
    pub(super) async fn missed_jobs(
        self,
        minion: usize,
        jobs: usize,
        lasts: Duration,
    ) -> Result<()> {
        let Some(seat) = self.fleet.seat(minion) else {
            return Ok(());
        };
        let timeline = &self.fleet.timeline;
        self.begin(Fault::MissedJobs(minion, jobs), lasts);
        let daemon = seat.daemon.lock().await;
        let client = self.operator_session().await?;
        let _stopped = timeline.disturb(Who::Minion(minion), Condition::Stopped);
        daemon.signal(Signal::STOP);
        let begin = Clock.now();
        let burst = self.burst(&client, minion, jobs);
        let published = Clock.deadline(Clock.after(BURST), burst).await;
        let took = Clock.now() - begin;
        client.shutdown().await;
        Clock.pause(lasts.saturating_sub(took)).await;
        // What waits in its socket is lost, so it has to ask for what it missed.
        seat.link.set(Weather::Cut);
        daemon.signal(Signal::CONT);
        timeline.note(format_args!(
            "m{minion} continues after {} jobs in {:.1} s",
            published.unwrap_or_default(),
            took.as_secs_f64()
        ));
        Ok(())
    }

    async fn operator_session(self) -> Result<Client> {
        let schemes: Vec<&str> = self.registry.schemes().collect();
        let config = MasterConfig::load(&self.fleet.operator.config(), &schemes)?.config;
        Ok(Client::connect(&config, self.registry).await?)
    }

    /// Returns how many jobs were published.
    async fn burst(self, client: &Client, minion: usize, jobs: usize) -> usize {
        let timeline = &self.fleet.timeline;
        let name = format!("m{minion}");
        let base = FIRST + self.publisher.published().len() as u32 * 1000;
        let mut done = 0;
        for number in 0..jobs {
            let token = Token(base % 900_000 + number as u32);
            let Ok(target) = Target::glob(&name).compile() else {
                break;
            };
            let line = command(token, Duration::ZERO, 0);
            let spec = JobSpec::new(target, "cmd.run").with_arguments(parse_arguments(&[line]));
            let mut publication = Publication {
                token: Some(token),
                targets: vec![name.clone()],
                way: "burst",
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
