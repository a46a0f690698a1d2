//! Draws a plan from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::file_order::file_orders;
use super::generate_jobs::jobs;
use super::spec::PlanSpec;
use super::{Fault, FaultKind, FaultPlan, LinkFault, NODES, Plan, Token};
use crate::random::Random;
use crate::sabotage::Sabotage;

/// How long a master or a minion is left alone after a fault, so that presence can be judged.
const CALM: Duration = Duration::from_secs(3);

/// The jobs that a minion misses: more than one page of them.
const MISSED: usize = 320;

/// The first token of missed jobs, and how many each fault has to itself. Those of other jobs are below.
const MISSED_TOKENS: (u32, u32) = (100_000, 1000);

const KIB: u64 = 1024;

/// Draws the plan.
pub(crate) fn generate(spec: &PlanSpec) -> Plan {
    let mut random = Random::new(spec.seed);
    // Drawn apart, so that more jobs do not mean other faults.
    let mut of_faults = Random::new(random.number(0..=u64::MAX - 1));
    let mut of_jobs = Random::new(random.number(0..=u64::MAX - 1));
    let mut of_batches = Random::new(random.number(0..=u64::MAX - 1));
    let mut of_acts = Random::new(random.number(0..=u64::MAX - 1));
    let mut of_files = Random::new(random.number(0..=u64::MAX - 1));
    Plan {
        faults: faults(spec, &mut of_faults),
        jobs: jobs(spec, &mut of_jobs, &mut of_batches, &mut of_acts),
        file_orders: file_orders(spec, &mut of_files),
    }
}

/// What a fault occupies, so that no two of them meddle with the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Occupied {
    Master,
    Minion(usize),
    Link(usize),
    /// The servers of NATS: one fault at a time leaves most of them alone.
    Nodes,
}

impl Occupied {
    /// Returns what a fault occupies. In half of the cases a link fails whatever is done to its minion.
    fn by(fault: Fault, overlaps: bool) -> Vec<Self> {
        match (fault, fault.minion()) {
            (Fault::Link(minion, _), _) if overlaps => vec![Self::Link(minion)],
            (Fault::Link(minion, _), _) => vec![Self::Link(minion), Self::Minion(minion)],
            (Fault::KillNode(_) | Fault::StopNode(_) | Fault::SplitNodes, _) => vec![Self::Nodes],
            (_, Some(minion)) => vec![Self::Minion(minion)],
            (_, None) => vec![Self::Master],
        }
    }
}

fn faults(spec: &PlanSpec, random: &mut Random) -> Vec<FaultPlan> {
    let mut faults = Vec::new();
    let mut free: BTreeMap<Occupied, Duration> = BTreeMap::new();
    let mut deck: Vec<FaultKind> = Vec::new();
    let mut cursor = Duration::from_millis(1500);
    let (mut skipped, mut bursts) = (0, 0);
    while cursor < spec.length && skipped < 64 {
        if deck.is_empty() {
            deck = new_deck(spec, random);
        }
        let Some(kind) = deck.pop() else { break };
        let (fault, lasts) = draw(kind, spec, missed_token(bursts), random);
        let occupied = Occupied::by(fault, random.percent(50));
        let from = occupied.iter().filter_map(|what| free.get(what)).max();
        let at = cursor.max(from.copied().unwrap_or_default());
        if at + lasts > spec.length {
            // A shorter one may still fit, or one of a process that is free earlier: the master is soon taken until the end.
            skipped += 1;
            continue;
        }
        skipped = 0;
        bursts += usize::from(kind == FaultKind::MissedJobs);
        for what in occupied {
            free.insert(what, at + lasts + CALM);
        }
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
        None => FaultKind::all(spec.with_nodes),
        // Those that show it, and nothing that could excuse it.
        Some(Sabotage::AckBeforeCommit) => vec![KillMaster, KillMaster, PowerLossOfMaster],
        Some(Sabotage::ForgetSpool) => vec![KillMinion, KillMinion, KillMaster],
        Some(Sabotage::Rerun) => vec![KillMinion, KillMaster, Cut],
        Some(Sabotage::LiePresence) => vec![KillMinion, StopMinion],
        Some(Sabotage::ExpireRunning | Sabotage::ShortenReturns) => vec![Cut],
        Some(Sabotage::TruncateCatchup) => vec![MissedJobs],
    };
    random.shuffle(&mut deck);
    deck
}

/// Returns the first token of the jobs of the burst with this number.
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
            // Half of them are slower than a modem.
            let rate = match random.percent(50) {
                true => random.number(1..=8),
                false => random.number(8..=400),
            };
            let link_fault = LinkFault::Throttle(rate * KIB);
            (Fault::Link(minion, link_fault), random.millis(2000..=8000))
        }
        FaultKind::BlackHole => {
            let lasts = random.millis(1000..=8000);
            (Fault::Link(minion, LinkFault::BlackHole), lasts)
        }
        FaultKind::HalfOpen => {
            let lasts = random.millis(3000..=10_000);
            (Fault::Link(minion, LinkFault::HalfOpen), lasts)
        }
        FaultKind::RestartMaster => (Fault::RestartMaster, random.millis(50..=1000)),
        FaultKind::RestartMinion => (Fault::RestartMinion(minion), random.millis(50..=1000)),
        FaultKind::FullDiskOfMinion => {
            (Fault::FullDiskOfMinion(minion), random.millis(2000..=6000))
        }
        FaultKind::ChangeSpoolSync => (Fault::ChangeSpoolSync(minion), random.millis(500..=3000)),
        FaultKind::RollBackMinion => {
            // Within a heartbeat, and beyond several.
            let fault = Fault::RollBackMinion(minion, random.percent(50));
            (fault, random.millis(300..=7000))
        }
        FaultKind::DeleteKey => (Fault::DeleteKey(minion), random.millis(500..=2000)),
        FaultKind::ReplaceKey => (Fault::ReplaceKey(minion), random.millis(500..=2000)),
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
        FaultKind::KillNode => {
            let fault = Fault::KillNode(random.index(NODES) + 1);
            (fault, random.millis(100..=4000))
        }
        // Some longer than the two pings by which it is noticed.
        FaultKind::StopNode => {
            let fault = Fault::StopNode(random.index(NODES) + 1);
            (fault, random.millis(1500..=14_000))
        }
        FaultKind::SplitNodes => (Fault::SplitNodes, random.millis(1500..=14_000)),
        FaultKind::MissedJobs => {
            let fault = Fault::MissedJobs(minion, MISSED, token);
            (fault, random.millis(1000..=1500))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{JobAct, JobPlan};

    fn spec(seed: u64, seconds: u64) -> PlanSpec {
        PlanSpec {
            seed,
            length: Duration::from_secs(seconds),
            minions: 6,
            sabotage: None,
            with_nodes: false,
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
            "1500 4222 clock of m6: -25 h",
            "4417 6649 clone of m1",
            "5768 6104 SIGSTOP of m4",
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
    fn two_minutes_over_nats_have_every_fault_of_its_servers() {
        for seed in 0..50 {
            let mut spec = spec(seed, 120);
            spec.with_nodes = true;
            let plan = generate(&spec);
            let of = |test: fn(Fault) -> bool| plan.faults.iter().any(|f| test(f.fault));
            assert!(
                of(|f| matches!(f, Fault::KillNode(1..=NODES))),
                "seed {seed}"
            );
            assert!(
                of(|f| matches!(f, Fault::StopNode(1..=NODES))),
                "seed {seed}"
            );
            assert!(of(|f| f == Fault::SplitNodes), "seed {seed}");
            spec.with_nodes = false;
            let kinds = generate(&spec).faults;
            assert!(
                !kinds.iter().any(|f| f.fault == Fault::SplitNodes),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn no_two_faults_meddle_with_the_same_process() {
        for seed in 0..200 {
            let plan = generate(&spec(seed, 60));
            for (index, one) in plan.faults.iter().enumerate() {
                for other in &plan.faults[index + 1..] {
                    let is_link = |fault| matches!(fault, Fault::Link(..));
                    let same = one.fault.minion() == other.fault.minion()
                        && is_link(one.fault) == is_link(other.fault);
                    let apart = one.at + one.lasts + CALM <= other.at;
                    assert!(!same || apart, "seed {seed}: {one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn an_hour_has_faults_of_minions_until_its_end_and_no_token_twice() {
        let plan = generate(&spec(7, 3600));
        let minute = Duration::from_secs(60);
        for end in (1..=60).map(|minutes| minutes * minute) {
            let of_minions = plan
                .faults
                .iter()
                .filter(|one| one.fault.minion().is_some());
            let within = of_minions.filter(|one| one.at < end && one.at + minute >= end);
            assert!(within.count() > 10, "before {end:?}");
        }
        let bursts = plan.faults.iter().filter_map(|one| match one.fault {
            Fault::MissedJobs(_, jobs, first) => Some((first, jobs)),
            _ => None,
        });
        let mut bursts: Vec<_> = bursts.collect();
        bursts.sort_unstable();
        let all_differ = |pair: &[(Token, usize)]| pair[0].0.0 + pair[0].1 as u32 <= pair[1].0.0;
        assert!(bursts.windows(2).all(all_differ), "{bursts:?}");
        let last = plan.jobs.last().map(|job| job.token);
        assert!(last < bursts.first().map(|(first, _)| *first));
    }

    #[test]
    fn links_fail_while_something_else_is_done_to_their_minions() {
        let plan = generate(&spec(7, 300));
        let overlaps = plan.faults.iter().filter(|one| {
            let Fault::Link(minion, _) = one.fault else {
                return false;
            };
            plan.faults.iter().any(|other| {
                other.fault.minion() == Some(minion)
                    && !matches!(other.fault, Fault::Link(..))
                    && other.at < one.at + one.lasts
                    && one.at < other.at + other.lasts
            })
        });
        assert!(overlaps.count() > 2);
    }

    #[test]
    fn operators_cancel_and_kill_jobs_and_jobs_fail_and_are_offered_for_long() {
        let plan = generate(&spec(7, 120));
        let count = |test: fn(&&JobPlan) -> bool| plan.jobs.iter().filter(test).count();
        assert!(count(|job| matches!(job.act, Some((JobAct::Cancel, _)))) > 2);
        assert!(count(|job| matches!(job.act, Some((JobAct::Kill, _)))) > 2);
        assert!(count(|job| job.batch.is_some() && job.fails_on.is_some()) > 2);
        assert!(count(|job| job.ttl.is_some()) > 2);
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
