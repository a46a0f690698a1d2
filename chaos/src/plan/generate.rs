//! Draws a plan from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Fault, FaultKind, FaultPlan, JOB_TTL, JobPlan, LinkFault, Plan, PublishMode, Token};
use crate::random::Random;
use crate::sabotage::Sabotage;

/// How long a master or a minion is left alone after a fault, so that presence can be judged.
const CALM: Duration = Duration::from_secs(3);

/// The jobs that a minion misses: more than one page of them.
const MISSED: usize = 320;

/// How long a job of a batch takes at most.
const LONGEST_IN_BATCH: Duration = Duration::from_millis(800);

/// The first token of missed jobs, and how many each fault has to itself. Those of other jobs are below.
const MISSED_TOKENS: (u32, u32) = (100_000, 1000);

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// What a plan depends on.
#[derive(Debug, Clone)]
pub(crate) struct PlanSpec {
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    pub(crate) minions: usize,
    pub(crate) sabotage: Option<Sabotage>,
    /// The kinds of faults; all of them when it is empty.
    pub(crate) only: Vec<FaultKind>,
}

/// Draws the plan.
pub(crate) fn generate(spec: &PlanSpec) -> Plan {
    let mut random = Random::new(spec.seed);
    // Drawn apart, so that more jobs do not mean other faults.
    let mut of_faults = Random::new(random.number(0..=u64::MAX - 1));
    let mut of_jobs = Random::new(random.number(0..=u64::MAX - 1));
    let mut of_batches = Random::new(random.number(0..=u64::MAX - 1));
    Plan {
        faults: faults(spec, &mut of_faults),
        jobs: jobs(spec, &mut of_jobs, &mut of_batches),
    }
}

/// What a fault occupies, so that no two of them meddle with the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Occupied {
    Master,
    Minion(usize),
}

fn faults(spec: &PlanSpec, random: &mut Random) -> Vec<FaultPlan> {
    let mut faults = Vec::new();
    let mut free: BTreeMap<Occupied, Duration> = BTreeMap::new();
    let mut deck: Vec<FaultKind> = Vec::new();
    let mut cursor = Duration::from_millis(1500);
    let mut skipped = 0;
    while cursor < spec.length && skipped < 64 {
        if deck.is_empty() {
            deck = new_deck(spec, random);
        }
        let Some(kind) = deck.pop() else { break };
        let token = missed_token(faults.len());
        let (fault, lasts) = draw(kind, spec, token, random);
        let occupied = fault.minion().map_or(Occupied::Master, Occupied::Minion);
        let at = cursor.max(free.get(&occupied).copied().unwrap_or_default());
        if at + lasts > spec.length {
            // A shorter one may still fit.
            skipped += 1;
            continue;
        }
        free.insert(occupied, at + lasts + CALM);
        faults.push(FaultPlan { at, lasts, fault });
        cursor += random.millis(400..=1800);
    }
    faults.sort_by_key(|fault| fault.at);
    faults
}

/// Returns the kinds of faults in the order from the last to the first.
fn new_deck(spec: &PlanSpec, random: &mut Random) -> Vec<FaultKind> {
    use FaultKind::{Cut, KillMaster, KillMinion, MissedJobs, PowerLossOfMaster, StopMinion};
    let mut deck: Vec<FaultKind> = match spec.sabotage {
        _ if !spec.only.is_empty() => spec.only.clone(),
        None => FaultKind::ALL.to_vec(),
        // Those that show it, and nothing that could excuse it.
        Some(Sabotage::AckBeforeCommit) => vec![KillMaster, KillMaster, PowerLossOfMaster],
        Some(Sabotage::ForgetSpool) => vec![KillMinion, KillMinion, KillMaster],
        Some(Sabotage::Rerun) => vec![KillMinion, KillMaster, Cut],
        Some(Sabotage::LiePresence) => vec![KillMinion, StopMinion],
        Some(Sabotage::ExpireRunning) => vec![Cut],
        Some(Sabotage::TruncateCatchup) => vec![MissedJobs],
    };
    random.shuffle(&mut deck);
    deck
}

/// Returns the first token of the jobs that the fault of this number has, if it has any.
fn missed_token(number: usize) -> Token {
    let (first, each) = MISSED_TOKENS;
    let room = (1_000_000 - first) / each;
    Token(first + (number as u32 % room) * each)
}

/// Draws the details of a fault, and how long it lasts.
fn draw(kind: FaultKind, spec: &PlanSpec, token: Token, random: &mut Random) -> (Fault, Duration) {
    let minion = random.index(spec.minions) + 1;
    let long_away = spec.sabotage == Some(Sabotage::LiePresence) || random.percent(40);
    let hours = match random.percent(50) {
        true => 25,
        false => -25,
    };
    match kind {
        FaultKind::KillMaster => (Fault::KillMaster, random.millis(100..=2500)),
        FaultKind::KillMinion if long_away => {
            (Fault::KillMinion(minion), random.millis(7500..=9000))
        }
        FaultKind::KillMinion => (Fault::KillMinion(minion), random.millis(100..=1500)),
        // Longer than two heartbeats.
        FaultKind::StopMaster => (Fault::StopMaster, random.millis(2500..=5000)),
        FaultKind::StopMinion => (Fault::StopMinion(minion), random.millis(2500..=9000)),
        FaultKind::Delay => {
            let link_fault = LinkFault::Delay(random.number(50..=900));
            (Fault::Link(minion, link_fault), random.millis(2000..=8000))
        }
        FaultKind::Throttle => {
            let link_fault = LinkFault::Throttle(random.number(8..=400) * KIB);
            (Fault::Link(minion, link_fault), random.millis(2000..=8000))
        }
        FaultKind::BlackHole => {
            let lasts = random.millis(1000..=8000);
            (Fault::Link(minion, LinkFault::BlackHole), lasts)
        }
        FaultKind::Cut => (Fault::Link(minion, LinkFault::Cut), Duration::ZERO),
        FaultKind::FullDisk => (Fault::FullDisk, random.millis(2000..=5000)),
        FaultKind::ClockOfMaster => (Fault::ClockOfMaster(hours), random.millis(3000..=7000)),
        FaultKind::ClockOfMinion => {
            let fault = Fault::ClockOfMinion(minion, hours);
            (fault, random.millis(3000..=7000))
        }
        FaultKind::PowerLossOfMinion => {
            let fault = Fault::PowerLossOfMinion(minion);
            (fault, random.millis(200..=2000))
        }
        FaultKind::PowerLossOfMaster => (Fault::PowerLossOfMaster, random.millis(200..=2000)),
        FaultKind::RestoreMaster => (Fault::RestoreMaster, random.millis(3000..=6000)),
        FaultKind::CloneMinion => (Fault::CloneMinion(minion), random.millis(4000..=9000)),
        FaultKind::MissedJobs => {
            let fault = Fault::MissedJobs(minion, MISSED, token);
            (fault, random.millis(1000..=1500))
        }
    }
}

fn jobs(spec: &PlanSpec, random: &mut Random, of_batches: &mut Random) -> Vec<JobPlan> {
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
            // One after the other, they take long enough.
            takes = takes.min(LONGEST_IN_BATCH);
        }
        let prints = prints(targets.len() == 1, random);
        jobs.push(JobPlan {
            at,
            token: Token(token),
            targets,
            mode,
            takes,
            prints,
            batch,
        });
        at += random.millis(250..=800);
    }
    jobs
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(seed: u64, seconds: u64) -> PlanSpec {
        PlanSpec {
            seed,
            length: Duration::from_secs(seconds),
            minions: 6,
            sabotage: None,
            only: Vec::new(),
        }
    }

    #[test]
    fn the_same_seed_is_the_same_plan_and_another_is_another() {
        assert_eq!(generate(&spec(7, 60)), generate(&spec(7, 60)));
        assert_ne!(generate(&spec(7, 60)), generate(&spec(8, 60)));
    }

    #[test]
    fn a_plan_stays_the_same_from_version_to_version() {
        let plan = generate(&spec(1, 20));
        let first: Vec<_> = plan.faults.iter().take(3).collect();
        let shown = first
            .iter()
            .map(|f| format!("{} {} {}", f.at.as_millis(), f.lasts.as_millis(), f.fault));
        let expected = [
            "1500 6176 clone of m1",
            "2641 3919 link of m5: black hole",
            "3523 1110 kill -9 of the master",
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn two_minutes_have_every_kind_of_fault() {
        for seed in 0..50 {
            let plan = generate(&spec(seed, 120));
            let of = |test: fn(Fault) -> bool| plan.faults.iter().any(|f| test(f.fault));
            assert!(of(|f| f == Fault::KillMaster), "seed {seed}");
            assert!(of(|f| matches!(f, Fault::CloneMinion(_))), "seed {seed}");
            assert!(of(|f| f == Fault::RestoreMaster), "seed {seed}");
            assert!(of(|f| f == Fault::FullDisk), "seed {seed}");
            assert!(of(|f| matches!(f, Fault::MissedJobs(..))), "seed {seed}");
        }
    }

    #[test]
    fn no_two_faults_meddle_with_the_same_process() {
        for seed in 0..200 {
            let plan = generate(&spec(seed, 60));
            for (index, one) in plan.faults.iter().enumerate() {
                for other in &plan.faults[index + 1..] {
                    let same = one.fault.minion() == other.fault.minion();
                    let apart = one.at + one.lasts + CALM <= other.at;
                    assert!(!same || apart, "seed {seed}: {one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn tokens_are_unique_and_everything_happens_in_time() {
        let plan = generate(&spec(3, 60));
        let mut tokens: Vec<_> = plan.jobs.iter().map(|job| job.token).collect();
        tokens.dedup();
        assert_eq!(tokens.len(), plan.jobs.len());
        let end = Duration::from_secs(60);
        assert!(plan.jobs.iter().all(|job| job.at < end));
        assert!(
            plan.faults
                .iter()
                .all(|fault| fault.at + fault.lasts <= end)
        );
        assert!(plan.faults.is_sorted_by_key(|fault| fault.at));
        let batches = plan.jobs.iter().filter(|job| job.batch.is_some());
        assert!(batches.count() > 3, "jobs for all are batches now and then");
    }
}
