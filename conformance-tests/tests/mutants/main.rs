//! The suite, tested by transports that are wrong on purpose.
//!
//! Each mutant is the in-memory transport with one [`Fault`](fault::Fault) put round it, or the
//! [`toy`], a small backend over TCP, with one [`WireFault`](wire_fault::WireFault) in it. It has to
//! fail the requirements that it declares; what else it fails is held by `snapshot.txt`; the null
//! mutants fail nothing. Which mutants fail a requirement is written to
//! `target/conformance/mutants.json`. The snapshot takes minutes and runs with `--ignored`.

#![allow(clippy::unwrap_used, reason = "the whole program is a test")]

mod client;
mod fault;
mod mutant;
mod server;
mod snapshot;
mod subscriber;
mod toy;
mod transport;
mod wire_fault;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use saline_conformance::{
    Backend, KnownGap, Level, Need, Requirement, UnixSocket, Verdict, report, requirements, run_one,
};
use serde_json::json;

use fault::Fault;
use mutant::{Mutant, Which};
use wire_fault::WireFault;

/// Written by tests that need the machine for themselves: what is right must not fail because of what others load it with, and what
/// is wrong takes all of it. Read by those that wait most of their time.
static MACHINE: RwLock<()> = RwLock::new(());

/// Waits until no other test of this program runs.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no test runs that needs the machine for itself.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}

/// What `mutant` fails, of those that `wanted` takes.
fn failures(mutant: Mutant, wanted: impl Fn(&Requirement) -> bool) -> Vec<String> {
    let backend: Arc<dyn Backend> = Arc::new(mutant);
    requirements::all()
        .filter(|requirement| wanted(requirement))
        .filter_map(|requirement| failure(&backend, requirement))
        .collect()
}

/// The same, several at once, as the suite runs them: who needs the machine alone, alone.
fn failures_at_once(mutant: Mutant, wanted: impl Fn(&Requirement) -> bool) -> Vec<String> {
    let backend: Arc<dyn Backend> = Arc::new(mutant);
    let (alone, others): (Vec<_>, Vec<_>) = requirements::all()
        .filter(|requirement| wanted(requirement))
        .partition(|own| own.is_exclusive());
    let mut failed: Vec<_> = alone.iter().map(|own| failure(&backend, own)).collect();
    failed.extend(beside_each_other(&others, |own| failure(&backend, own)));
    failed.into_iter().flatten().collect()
}

fn failure(backend: &Arc<dyn Backend>, requirement: &Requirement) -> Option<String> {
    match run_one(backend, requirement) {
        Verdict::Fail(text) => Some(format!("{}: {text}", requirement.id)),
        _ => None,
    }
}

/// Names the mutants to try, by a part of their names; all of them without.
const ONLY: &str = "SALINE_MUTANTS";

/// Mutants, or requirements of one, that run at once: most of their time they wait.
const AT_ONCE: usize = 24;

/// What `run` comes to for every one of `all`, in their order.
fn beside_each_other<I: Sync, T: Send>(all: &[I], run: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let mut outcomes = std::thread::scope(|scope| {
        let work = || {
            let take = || {
                let place = next.fetch_add(1, Ordering::Relaxed);
                all.get(place).map(|one| (place, one))
            };
            std::iter::from_fn(take)
                .map(|(place, one)| (place, run(one)))
                .collect::<Vec<_>>()
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join().unwrap());
        joined.flatten().collect::<Vec<_>>()
    });
    outcomes.sort_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The mutants to try, with their targets.
fn tried() -> Vec<(Which, &'static [&'static str])> {
    let only = std::env::var(ONLY).unwrap_or_default();
    Which::all()
        .filter(|(which, _)| which.to_string().contains(&only))
        .collect()
}

/// Whether it is about a wire, and so for the toy.
fn is_of_the_wire(requirement: &Requirement) -> bool {
    let of_the_wire = [
        Need::RawConnections,
        Need::ConnectionWire,
        Need::UdpWire,
        Need::AnyWire,
        Need::LocalSockets,
        Need::Admission,
        Need::Departures,
    ];
    requirement
        .needs
        .iter()
        .any(|need| of_the_wire.contains(need))
}

#[test]
fn the_null_mutant_fails_nothing() {
    let _alone = alone();
    let null = Mutant::new(Which::Memory(Fault::None));
    assert_eq!(failures(null, |_| true), Vec::<String>::new());
}

#[test]
fn the_null_mutant_fails_nothing_in_real_time() {
    let _alone = alone();
    let mut null = Mutant::new(Which::Memory(Fault::None));
    null.paused = false;
    let shared = |requirement: &Requirement| !requirement.needs.contains(&Need::OwnProcess);
    assert_eq!(failures_at_once(null, shared), Vec::<String>::new());
}

#[test]
fn the_null_toy_fails_nothing_of_the_wire() {
    let _alone = alone();
    let null = Mutant::new(Which::Toy(WireFault::None));
    assert_eq!(failures_at_once(null, is_of_the_wire), Vec::<String>::new());
}

/// Whether it is about a wire, and loads the machine with nothing but datagrams. What loads it with connections is left to
/// the toy over TCP, and to the suites of the examples, which have the other wires.
fn is_of_another_wire(requirement: &Requirement) -> bool {
    let loads = requirement.is_exclusive() && !requirement.needs.contains(&Need::UdpWire);
    is_of_the_wire(requirement) && !loads
}

#[test]
fn the_null_toy_fails_nothing_of_the_wire_over_udp() {
    let _turn = beside_others();
    let null = Mutant::new(Which::Datagrams(WireFault::None));
    assert_eq!(
        failures_at_once(null, is_of_another_wire),
        Vec::<String>::new()
    );
}

#[test]
fn the_null_toy_fails_nothing_of_the_wire_over_unix_sockets() {
    let _turn = beside_others();
    for kind in [UnixSocket::Stream, UnixSocket::SeqPacket] {
        let null = Mutant::new(Which::Paths(kind, WireFault::None));
        assert!(requirements::all().any(|own| own.id == "SEC-001" && own.skipped(&null).is_none()));
        assert_eq!(
            failures_at_once(null, is_of_another_wire),
            Vec::<String>::new(),
            "{kind:?}"
        );
    }
}

#[test]
fn every_mutant_fails_what_it_declares() {
    let _alone = alone();
    let outcomes = beside_each_other(&tried(), |&(which, targets)| {
        let outcome = |target: &&'static str| {
            let failed = failures(Mutant::new(which), |own| own.id == *target);
            if let Some(text) = failed.first() {
                println!("{which} fails {text}");
            }
            (which, *target, !failed.is_empty())
        };
        targets.iter().map(outcome).collect::<Vec<_>>()
    });
    let mut survived = Vec::new();
    let mut killers: BTreeMap<&str, Vec<String>> = requirements::all()
        .map(|requirement| (requirement.id, Vec::new()))
        .collect();
    for (which, target, failed) in outcomes.into_iter().flatten() {
        match failed {
            true => killers.get_mut(target).unwrap().push(which.to_string()),
            false => survived.push(format!("{which} passes {target}")),
        }
    }
    let killers = killers
        .into_iter()
        .map(|(requirement, mutants)| json!({ "requirement": requirement, "mutants": mutants }));
    let killers = serde_json::Value::Array(killers.collect());
    let folder = report::folder();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("mutants.json"), format!("{killers:#}\n")).unwrap();
    assert_eq!(survived, Vec::<String>::new());
}

#[test]
fn every_must_has_a_mutant() {
    let ids: BTreeSet<_> = requirements::all().map(|own| own.id).collect();
    let targets: BTreeSet<_> = Which::all().flat_map(|(_, targets)| targets).collect();
    for target in &targets {
        assert!(ids.contains(*target), "{target} is no requirement");
    }
    let musts = requirements::all().filter(|own| own.level == Level::Must);
    let bare: Vec<_> = musts
        .map(|own| own.id)
        .filter(|id| !targets.contains(id))
        .collect();
    assert_eq!(bare, Vec::<&str>::new(), "MUSTs without a mutant");
}

#[test]
fn a_known_gap_is_no_failure_until_it_passes() {
    const GAPS: &[KnownGap] = &[KnownGap {
        id: "PUB-005",
        reason: "on purpose",
    }];
    let verdict = |fault| {
        let mut mutant = Mutant::new(Which::Memory(fault));
        mutant.gaps = GAPS;
        let backend: Arc<dyn Backend> = Arc::new(mutant);
        let gap = requirements::all().find(|requirement| requirement.id == "PUB-005");
        run_one(&backend, gap.unwrap())
    };
    assert!(matches!(
        verdict(Fault::DeliverPerFilter),
        Verdict::KnownGap("on purpose", _)
    ));
    assert_eq!(verdict(Fault::None), Verdict::UnexpectedPass("on purpose"));
}

#[test]
fn requirements_are_well_formed() {
    let mut ids = BTreeSet::new();
    let mut names = BTreeSet::new();
    for requirement in requirements::all() {
        let id = requirement.id;
        assert!(ids.insert(id), "{id} stands twice");
        assert!(
            names.insert((requirement.area(), requirement.name)),
            "{id}: the name stands twice"
        );
        for sentence in [requirement.sentence, requirement.why] {
            assert!(sentence.ends_with('.'), "{id}: {sentence:?} has no end");
        }
        assert!(!requirement.look_at.is_empty(), "{id}: where to look?");
        let number = id.split_once('-').map(|(_, number)| number);
        assert!(
            number.is_some_and(|n| n.len() == 3 && n.parse::<u16>().is_ok()),
            "{id}"
        );
    }
    assert!(ids.len() >= 80, "{} requirements", ids.len());
}
