//! Runs every target on stable Rust: on its seeds and its corpus, on changed copies of them, and on random
//! bytes, which are the same in every run.
//!
//! `SALINE_WRITE_SEEDS=1` writes the seeds into the corpora.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngSeed, TestRunner};
use saline_fuzz_targets::{TARGETS, Target};

fn main() -> ExitCode {
    if std::env::var_os("SALINE_WRITE_SEEDS").is_some() {
        TARGETS.iter().for_each(write_seeds);
    }
    let mut trials = Vec::new();
    for target in TARGETS {
        trials.push(Trial::test(format!("replay::{}", target.name), || {
            replay(target)
        }));
        trials.push(Trial::test(format!("random::{}", target.name), || {
            random(target)
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn corpus(target: &Target) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpora")
        .join(target.name)
}

fn write_seeds(target: &Target) {
    fs::create_dir_all(corpus(target)).unwrap();
    for (number, seed) in (target.seeds)().iter().enumerate() {
        fs::write(corpus(target).join(format!("seed-{number:02}")), seed).unwrap();
    }
}

/// Returns the inputs of a corpus, with the names of their files, in a fixed order.
fn inputs(target: &Target) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(corpus(target)).expect("every target has a corpus");
    let mut inputs: Vec<_> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.display().to_string(), fs::read(path).unwrap())
        })
        .collect();
    inputs.sort();
    inputs
}

/// The input of a corpus, and those that the target makes of it.
fn replay(target: &Target) -> Result<(), Failed> {
    let inputs = inputs(target);
    if inputs.is_empty() {
        return Err(format!("{} is empty", corpus(target).display()).into());
    }
    let seeds = (target.seeds)().into_iter();
    let seeds = seeds
        .enumerate()
        .map(|(n, seed)| (format!("seed {n}"), seed));
    for (name, bytes) in inputs.into_iter().chain(seeds) {
        // The panic has said what is wrong.
        catch_unwind(AssertUnwindSafe(|| target.run(&bytes)))
            .map_err(|_| format!("{} fails on {name}: {}", target.name, hex(&bytes)))?;
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Change {
    Set(Index, u8),
    Remove(Index, u8),
    Insert(Index, Vec<u8>),
    Repeat(Index, u8),
    /// The rest is that of another input.
    Splice(Index, Index),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let place = |index: &Index, bytes: &[u8]| index.index(bytes.len() + 1);
        let range = |index: &Index, length: u8, bytes: &[u8]| {
            let start = place(index, bytes);
            start..bytes.len().min(start + usize::from(length))
        };
        match self {
            Self::Set(index, byte) => {
                let at = place(index, bytes);
                if let Some(found) = bytes.get_mut(at) {
                    *found = *byte;
                }
            }
            Self::Remove(index, length) => drop(bytes.drain(range(index, *length, bytes))),
            Self::Insert(index, new) => {
                let at = place(index, bytes);
                bytes.splice(at..at, new.iter().copied());
            }
            Self::Repeat(index, length) => {
                let repeated = bytes[range(index, *length, bytes)].to_vec();
                let at = place(index, bytes);
                bytes.splice(at..at, repeated);
            }
            Self::Splice(index, other) => {
                let other = other.get(inputs);
                let at = place(index, bytes);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[at.min(other.len())..]);
            }
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    // The bytes at which decoders turn.
    let byte = prop_oneof![
        any::<u8>(),
        Just(0),
        Just(1),
        Just(0x7f),
        Just(0x80),
        Just(0xff)
    ];
    let change = prop_oneof![
        4 => (any::<Index>(), byte.clone()).prop_map(|(at, byte)| Change::Set(at, byte)),
        1 => (any::<Index>(), 0..20_u8).prop_map(|(at, length)| Change::Remove(at, length)),
        2 => (any::<Index>(), vec(byte, 1..9)).prop_map(|(at, new)| Change::Insert(at, new)),
        1 => (any::<Index>(), 1..40_u8).prop_map(|(at, length)| Change::Repeat(at, length)),
        1 => any::<(Index, Index)>().prop_map(|(at, other)| Change::Splice(at, other)),
    ];
    vec(change, 1..6)
}

fn random(target: &Target) -> Result<(), Failed> {
    let mut known: Vec<Vec<u8>> = (target.seeds)();
    known.extend(inputs(target).into_iter().map(|(_, bytes)| bytes));
    let of_corpus = (any::<Index>(), changes()).prop_map(move |(index, changes)| {
        let mut bytes = index.get(&known).clone();
        for change in changes {
            change.apply(&mut bytes, &known);
        }
        bytes
    });
    let inputs = prop_oneof![
        1 => vec(any::<u8>(), 0..300),
        3 => of_corpus,
    ];
    let config = ProptestConfig {
        cases: target.cases,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(&inputs, |bytes| {
            target.run(&bytes);
            Ok(())
        })
        .map_err(|error| format!("{}: {error}", target.name).into())
}
