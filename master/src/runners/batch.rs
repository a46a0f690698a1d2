//! `batch`: jobs that are carried out in batches.

use saline_functions::{Failure, function};
use std::time::Duration;

use saline_data::Value;
use saline_messages::{Batch, Jid, Job, MinionId, MinionJobState};

use super::Functions;
use super::error::{no_batch, no_such_job};
use super::job_report::{self, State};
use super::jobs::cancelled;
use super::run::Run;
use crate::jobs::{BatchFailures, BatchProgress, BatchStop};

type Result<T, E = Failure> = std::result::Result<T, E>;

pub(super) const FUNCTIONS: Functions = &[&LIST_ACTIVE, &STATUS, &STOP];

/// Returns the batches that are under way, by jid.
///
/// CLI Example:
///
///     saline-run batch.list_active
#[function]
async fn list_active(run: &Run) -> Result<Value> {
    let mut batches = run.parts.jobs.batches();
    if !run.sees_all() {
        let mut own = Vec::new();
        for batch in batches {
            if run.check_job(&batch.jid).await.is_ok() {
                own.push(batch);
            }
        }
        batches = own;
    }
    let entries = batches.iter().map(|batch| {
        let mut entries = settings(&batch.batch);
        entries.extend(numbers(batch, true));
        (batch.jid.to_string(), Value::map(entries))
    });
    Ok(Value::Map(entries.collect()))
}

/// Returns how far a batch has come: its minions by state, and why it ended early if it did. `grace_seconds_left` is null
/// unless the batch waits for minions that went away; it is the time that they have to come back.
///
/// CLI Example:
///
///     saline-run batch.status 20261121091409931549
#[function]
async fn status(run: &Run, jid: Jid) -> Result<Value> {
    run.check_job(&jid).await?;
    let job = run.parts.jobs.job(&jid).await?;
    let job = job.ok_or_else(|| no_such_job(&jid))?;
    let batch = job.batch.ok_or_else(|| no_batch(&jid))?;
    // In this order: a batch that ends meanwhile is shown by the states of its end.
    let active = run.parts.jobs.batches();
    let active = active.into_iter().find(|batch| batch.jid == jid);
    let states = job_report::states(run, &jid).await?;
    let was_cut = match &active {
        Some(progress) => progress.stopped == Some(BatchStop::Halted),
        None => states.iter().any(is_cancelled),
    };
    let failed = match was_cut && batch.failhard {
        true => {
            let failures = run.parts.jobs.failures(&jid).await?;
            halted_by(failures, &states)
        }
        false => Vec::new(),
    };
    let progress = active.unwrap_or_else(|| ended(&jid, batch, &states, &failed));
    let minions = Minions {
        states: &states,
        failed: &failed,
        grace_left: run.parts.jobs.grace_left(&jid),
    };
    Ok(told(&job.job, &progress, minions))
}

/// Returns the minions whose failures halted a batch that was cut short: those whose returns are failures, or whose
/// runs are lost; none if an operator stopped it before.
fn halted_by(failures: BatchFailures, states: &[State]) -> Vec<MinionId> {
    if failures.were_late {
        return Vec::new();
    }
    let lost = states.iter().filter(|(_, state)| {
        matches!(
            state,
            MinionJobState::LostTrack | MinionJobState::MayHaveRun
        )
    });
    let mut minions = failures.minions;
    minions.extend(lost.map(|(minion, _)| minion.clone()));
    minions.sort();
    minions
}

fn is_cancelled((_, state): &State) -> bool {
    *state == MinionJobState::Cancelled
}

/// Returns how far a batch had come when it ended, by the states of its minions. The master does not keep why a batch
/// ended: one that left minions out was halted if a minion failed and that was to halt it.
fn ended(jid: &Jid, batch: Batch, states: &[State], failed: &[MinionId]) -> BatchProgress {
    let count = |is: &dyn Fn(MinionJobState) -> bool| {
        let found = states.iter().filter(|(_, state)| is(*state)).count();
        u64::try_from(found).unwrap_or(u64::MAX)
    };
    let waits = |state| matches!(state, MinionJobState::Waiting | MinionJobState::Queued);
    let (minions, waiting) = (count(&|_| true), count(&waits));
    let ended = count(&MinionJobState::is_final);
    BatchProgress {
        jid: jid.clone(),
        batch,
        minions,
        waiting,
        active: minions.saturating_sub(waiting + ended),
        ended,
        stopped: states.iter().any(is_cancelled).then_some(match failed {
            [] => BatchStop::Cancelled,
            _ => BatchStop::Halted,
        }),
    }
}

/// The minions of a batch.
#[derive(Debug, Clone, Copy)]
struct Minions<'s> {
    states: &'s [State],
    /// Those whose failures have halted the batch.
    failed: &'s [MinionId],
    /// How long minions that hold the batch up still have to come back; none if nobody does.
    grace_left: Option<Duration>,
}

/// Returns a batch in the same shape whether it is under way or has ended.
fn told(job: &Job, progress: &BatchProgress, minions: Minions<'_>) -> Value {
    let Minions {
        states,
        failed,
        grace_left,
    } = minions;
    let is_under_way = progress.ended < progress.minions;
    let mut entries = vec![
        ("jid", Value::from(job.jid.as_str())),
        ("fun", Value::from(job.fun.as_str())),
        ("tgt", Value::from(job.target.expression.as_str())),
    ];
    entries.extend(settings(&progress.batch));
    entries.extend(numbers(progress, is_under_way));
    let halted_by = Value::texts(failed.iter().map(MinionId::as_str));
    entries.push(("halted_by", halted_by));
    let left = grace_left.map_or(Value::Null, |time| {
        Value::Float(time.as_millis() as f64 / 1_000.0)
    });
    entries.push(("grace_seconds_left", left));
    let named = MinionJobState::ALL.into_iter().filter_map(|which| {
        let minions = states.iter().filter(|(_, state)| *state == which);
        let minions: Vec<&str> = minions.map(|(minion, _)| minion.as_str()).collect();
        (!minions.is_empty()).then(|| (which.name(), Value::texts(minions)))
    });
    entries.push(("states", Value::map(named)));
    Value::map(entries)
}

/// Stops a batch: no further minion gets its turn, and those that have begun go on. Returns the state of every
/// minion, as `jobs.cancel` does.
///
/// CLI Example:
///
///     saline-run batch.stop 20261121091409931549
#[function]
async fn stop(run: &Run, jid: Jid) -> Result<Value> {
    run.check_job(&jid).await?;
    let job = run.parts.jobs.job(&jid).await?;
    let job = job.ok_or_else(|| no_such_job(&jid))?;
    if job.batch.is_none() {
        return Err(no_batch(&jid));
    }
    cancelled(run, &jid).await
}

fn settings(batch: &Batch) -> Vec<(&'static str, Value)> {
    let seconds = |ms: u64| Value::Float(ms as f64 / 1_000.0);
    vec![
        ("batch", Value::Int(batch.size.into())),
        ("batch_wait", seconds(batch.wait_ms)),
        ("batch_timeout", seconds(batch.timeout_ms)),
        ("failhard", Value::Bool(batch.failhard)),
    ]
}

fn numbers(progress: &BatchProgress, is_under_way: bool) -> Vec<(&'static str, Value)> {
    let status = match progress.stopped {
        None if is_under_way => "active",
        None => "complete",
        Some(BatchStop::Halted) => "halted",
        Some(BatchStop::Cancelled) => "stopped",
    };
    vec![
        ("status", Value::from(status)),
        ("minions", Value::from(progress.minions)),
        ("waiting", Value::from(progress.waiting)),
        ("active", Value::from(progress.active)),
        ("ended", Value::from(progress.ended)),
    ]
}

#[cfg(test)]
mod tests {
    use MinionJobState::{Cancelled, NotConnected, Returned, Running};
    use saline_messages::{Arguments, MustClaim};
    use saline_targeting::Target;

    use super::super::tests::shown;
    use super::*;

    fn batch() -> Batch {
        Batch {
            size: 8,
            wait_ms: 1_500,
            timeout_ms: 0,
            failhard: true,
            queues: false,
        }
    }

    fn job() -> Job {
        Job {
            jid: Jid::parse("20261121091409931549").unwrap(),
            target: Target::glob("*"),
            fun: "cmd.run".to_owned(),
            arg: Arguments::default().pack(),
            user: "root".to_owned(),
            created: 0,
            expires: 0,
            claims: MustClaim::NOBODY,
        }
    }

    #[test]
    fn a_batch_is_told_by_its_numbers() {
        let progress = BatchProgress {
            jid: job().jid,
            batch: batch(),
            minions: 500,
            waiting: 480,
            active: 8,
            ended: 12,
            stopped: Some(BatchStop::Halted),
        };
        let mut entries = settings(&progress.batch);
        entries.extend(numbers(&progress, true));
        assert_eq!(
            shown(&Value::map(entries)),
            "{batch: 8, batch_wait: 1.5, batch_timeout: 0, failhard: true, status: halted, minions: 500, waiting: 480, active: 8, ended: 12}"
        );
    }

    #[test]
    fn a_batch_that_has_ended_says_why_and_in_the_same_shape() {
        let told = |states: &[MinionJobState], failed: &[&str]| {
            let named = states.iter().zip(1..);
            let id = |name: &str| MinionId::parse(name).unwrap();
            let states: Vec<State> = named
                .map(|(state, number)| (id(&format!("m{number}")), *state))
                .collect();
            let failed: Vec<MinionId> = failed.iter().map(|name| id(name)).collect();
            let job = job();
            let minions = Minions {
                states: &states,
                failed: &failed,
                grace_left: None,
            };
            told(&job, &ended(&job.jid, batch(), &states, &failed), minions)
        };
        let halted = told(&[Returned, Returned, Cancelled], &["m2"]);
        assert_eq!(
            shown(&halted),
            "{jid: 20261121091409931549, fun: cmd.run, tgt: *, batch: 8, batch_wait: 1.5, batch_timeout: 0, failhard: true, \
             status: halted, minions: 3, waiting: 0, active: 0, ended: 3, halted_by: [m2], grace_seconds_left: null, \
             states: {returned: [m1, m2], cancelled: [m3]}}"
        );
        let status = |value: &Value| value.get("status").cloned();
        let stopped = told(&[Returned, Cancelled], &[]);
        assert_eq!(status(&stopped), Some("stopped".into()));
        let complete = told(&[Returned, NotConnected], &[]);
        assert_eq!(status(&complete), Some("complete".into()));
        let under_way = told(&[Returned, Running], &[]);
        assert_eq!(status(&under_way), Some("active".into()));
        let keys = |value: &Value| match value {
            Value::Map(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
            _ => Vec::new(),
        };
        assert_eq!(keys(&under_way), keys(&complete));
        assert_eq!(keys(&under_way), keys(&halted));
    }
}
