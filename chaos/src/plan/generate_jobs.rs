//! Draws the jobs of a plan from a seed.

use std::time::Duration;

use super::spec::PlanSpec;
use super::{JOB_TTL, JobAct, JobPlan, PublishMode, Token};
use crate::random::Random;
use crate::sabotage::Sabotage;

/// The longest duration of a job of a batch.
const LONGEST_IN_BATCH: Duration = Duration::from_millis(800);

/// How long a job with `--ttl` is offered.
const OFFERED_LONG: Duration = Duration::from_secs(20);

/// The shortest duration of a job that is killed.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Draws the jobs. Batches and the acts of operators have generators of their own, so that a change to them does not change the
/// other jobs.
pub(super) fn jobs(
    spec: &PlanSpec,
    random: &mut Random,
    of_batches: &mut Random,
    of_acts: &mut Random,
) -> Vec<JobPlan> {
    let mut jobs = Vec::new();
    let mut at = Duration::from_millis(200);
    let mut token = 0;
    while at < spec.length {
        token += 1;
        let targets = targets(spec, random);
        let mode = match random.number(1..=100) {
            1..=55 => PublishMode::Attached,
            56..=88 => PublishMode::Async,
            _ => PublishMode::Killed(random.millis(10..=1500)),
        };
        let mut takes = takes(spec, random);
        let batch = match targets.is_empty() && of_batches.percent(25) {
            true => Some(of_batches.number(1..=3) as u32),
            false => None,
        };
        if batch.is_some() {
            // The minions run it one after the other, which takes long enough.
            takes = takes.min(LONGEST_IN_BATCH);
        }
        let prints = prints(targets.len() == 1, random);
        let mut job = JobPlan {
            at,
            token: Token(token),
            targets,
            mode,
            takes,
            prints,
            batch,
            ..JobPlan::default()
        };
        draw_acts(&mut job, spec, of_acts);
        jobs.push(job);
        at += random.millis(250..=800);
    }
    jobs
}

/// Draws on which minion the job fails, for how long it is offered, and what an operator does about it.
fn draw_acts(job: &mut JobPlan, spec: &PlanSpec, random: &mut Random) {
    let minion = random.index(spec.minions) + 1;
    let fails = random.percent(if job.batch.is_some() { 30 } else { 5 });
    job.fails_on = fails.then_some(minion);
    // Such an offer must have expired when the run has settled.
    if random.percent(8) && job.at + OFFERED_LONG < spec.length + JOB_TTL {
        job.ttl = Some(OFFERED_LONG);
    }
    let after = random.millis(0..=1500);
    let act = match random.number(1..=100) {
        1..=8 => Some(JobAct::Cancel),
        9..=16 => Some(JobAct::Kill),
        _ => None,
    };
    // Both acts need the jid, which only `--async` prints at once.
    job.act = act
        .filter(|_| job.mode == PublishMode::Async)
        .map(|act| (act, after));
    if matches!(job.act, Some((JobAct::Kill, _))) {
        job.takes = job.takes.max(LONG_ENOUGH);
    }
}

fn targets(spec: &PlanSpec, random: &mut Random) -> Vec<usize> {
    let one = random.index(spec.minions) + 1;
    let other = random.index(spec.minions) + 1;
    match random.number(1..=100) {
        1..=40 => Vec::new(),
        41..=60 if one != other => vec![one, other],
        _ => vec![one],
    }
}

fn takes(spec: &PlanSpec, random: &mut Random) -> Duration {
    let beyond_expiry = match spec.sabotage {
        Some(Sabotage::ExpireRunning) => 40,
        _ => 4,
    };
    let drawn = random.number(1..=100);
    match drawn {
        _ if drawn <= beyond_expiry => JOB_TTL + random.millis(1000..=3000),
        _ if drawn <= 15.max(beyond_expiry) => random.millis(2000..=4000),
        _ if drawn <= 45 => random.millis(100..=1500),
        _ => Duration::ZERO,
    }
}

/// Draws how much a job prints. Large returns come from one minion at a time.
fn prints(alone: bool, random: &mut Random) -> u64 {
    match random.number(1..=100) {
        1..=20 => 0,
        21..=60 => random.number(1..=200),
        61..=80 => random.number(KIB..=32 * KIB),
        91..=97 if alone => random.number(MIB..=5 * MIB),
        98.. if alone => 20 * MIB,
        _ if alone => random.number(100 * KIB..=600 * KIB),
        _ => random.number(1..=KIB),
    }
}
