//! Runs one requirement in this process.

use std::sync::Arc;
use std::time::Duration;

use saline_protocol::transport::Clock;

use crate::busy::BusyWatch;
use crate::kit::{RawAt, World};
use crate::{Backend, Failure, Outcome, Requirement, requirements};

/// What a single requirement may take before it counts as hung.
const WATCHDOG: Duration = Duration::from_secs(90);

/// Runs `requirement` in this process, on a runtime of its own, with raw connections at `raw_at`.
pub(crate) fn check(
    backend: &Arc<dyn Backend>,
    requirement: &Requirement,
    raw_at: RawAt,
) -> Outcome {
    let mut builder = if backend.time_may_be_paused() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.start_paused(true);
        builder
    } else {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2);
        builder
    };
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("no runtime: {error}")))?;
    let busy = BusyWatch::start();
    let outcome = runtime.block_on(async {
        let world = Arc::new(World::new(requirement.id, Arc::clone(backend), raw_at)?);
        // A task, so that what it does runs beside the reactor and not on this thread.
        let run = world.spawn((requirement.run)(Arc::clone(&world)));
        let outcome = Clock.deadline(Clock.after(WATCHDOG), run).await;
        world.end();
        match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(Failure::new(format!("the run itself panicked: {panic}"))),
            Err(_) => Err(Failure::new(format!("still running after {WATCHDOG:?}"))),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    let outcome = outcome.map_err(with_step);
    // Paused time waits for nobody.
    if backend.time_may_be_paused() {
        return outcome;
    }
    busy.judge(outcome)
}

/// Adds to a failure where to look first, where the step that failed belongs to another requirement.
fn with_step(failure: Failure) -> Failure {
    let of = |id| requirements::all().find(|own| own.id == id);
    let Some(own) = failure.step().and_then(of) else {
        return failure;
    };
    let name = own.name.replace('_', " ");
    Failure::new(format!(
        "{failure}\n  this step is {} {name}, so look there first, at: {}",
        own.id, own.look_at
    ))
}
