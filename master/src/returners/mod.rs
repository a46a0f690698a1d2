//! Delivers what the stores have to destinations outside of the master: `ext_job_cache`, `event_return`, and the destinations
//! that an order names for its job.
//!
//! Each destination has a follower, a task of its own that reads the stores after a cursor, delivers in batches, and notes the
//! cursor on the disk when the destination has them. So a destination that is away loses nothing for as long as jobs and events
//! are kept, delays no other one, and costs the memory of one batch.

mod figures;
mod follower;
#[cfg(test)]
mod tests;
mod wanted;

use std::sync::Arc;

use saline_config::{MasterConfig, ReturnerConfig, ReturnerName};
use saline_exec::{Launcher, Program};
use saline_protocol::transport::Context;
use saline_returners::JobCache;

use crate::error::MasterError;
use crate::events::{DurableEvents, EventReader};
use crate::jobs::JobStore;

pub(crate) use figures::ReturnerFigures;
use follower::Follower;
use wanted::Wanted;

/// The destinations of a master: those that its configuration had when it started.
#[derive(Debug, Clone)]
pub(crate) struct Returners {
    config: Arc<ReturnerConfig>,
    figures: Arc<[Arc<ReturnerFigures>]>,
}

impl Returners {
    /// Takes the destinations from `config`. Nothing is delivered before they are [followed](Self::begin).
    pub(crate) fn new(config: &MasterConfig) -> Self {
        let names = config.returners.configured().into_iter();
        Self {
            figures: names
                .map(|name| Arc::new(ReturnerFigures::new(name)))
                .collect(),
            config: Arc::new(config.returners.clone()),
        }
    }

    /// Returns what was delivered to each destination.
    pub(crate) fn figures(&self) -> &[Arc<ReturnerFigures>] {
        &self.figures
    }

    /// Returns the database in which jobs are looked up that the job store has no more.
    pub(crate) fn job_cache(&self, context: &Context) -> Option<JobCache> {
        JobCache::of(&self.config, context)
    }

    /// Checks that an order may name these destinations: the configuration has them.
    ///
    /// # Errors
    /// One line for the one who asked.
    pub(crate) fn check(&self, names: &[String]) -> Result<(), String> {
        let known = || {
            let known: Vec<&str> = self.figures.iter().map(|one| one.name().as_str()).collect();
            match known.is_empty() {
                true => "it has none".to_owned(),
                false => format!("it has {}", known.join(", ")),
            }
        };
        for name in names {
            let found = ReturnerName::from_name(name);
            if !found.is_some_and(|found| self.config.is_configured(found)) {
                return Err(format!(
                    "--return: the configuration of the master has no destination {name:?}: {}",
                    known()
                ));
            }
        }
        Ok(())
    }

    /// Begins to follow the stores for each destination: what is stored from now on will be delivered. The tasks belong to
    /// `context`.
    ///
    /// # Errors
    /// When a destination cannot be what the configuration says, or the place of its follower cannot be read.
    ///
    /// # Cancel safety
    /// Some destinations may be followed when the future is dropped.
    pub(crate) async fn begin(
        &self,
        exec: &Program,
        jobs: &Arc<JobStore>,
        durable: &Arc<DurableEvents>,
        context: &Context,
    ) -> Result<(), MasterError> {
        if self.config.is_configured(ReturnerName::Executable)
            && let Err(error) = exec.check()
        {
            return Err(MasterError::Returner(error.to_string()));
        }
        let launcher = Launcher::new(exec.clone(), Vec::new());
        for figures in self.figures.iter() {
            let name = figures.name();
            let Some(reader) = EventReader::new(jobs, durable) else {
                let why = format!("{name}: the store of events, which has its place, is not open");
                return Err(MasterError::Returner(why));
            };
            let destination = saline_returners::open(name, &self.config, &launcher, context);
            let follower = Follower {
                destination: destination.map_err(MasterError::Returner)?,
                wanted: Wanted::new(name, &self.config, durable),
                limit: self.config.executable.timeout,
                reader,
                jobs: Arc::clone(jobs),
                figures: Arc::clone(figures),
                clock: context.clock,
            };
            let following = follower.begin().await?;
            context.spawn(following.run());
        }
        Ok(())
    }
}
