//! The books about processes.

use super::{Book, seconds};
use crate::evidence::{Evidence, UsageSeries};

/// How much more memory a process may have in the end than it had when it had started, in KiB.
const MEMORY: u64 = 160 * 1024;

/// How many more descriptors.
const DESCRIPTORS: u64 = 64;

/// The samples after the start of a process that are not compared with.
const WARM_UP: usize = 2;

pub(super) fn are_flat(evidence: &Evidence) -> Book {
    let mut book = Book::new(
        "flat",
        "a process has about the memory and the descriptors in the end that it began with",
    );
    // A process that was killed had work to do, perhaps; the others had nothing any more.
    let ends = |series: &UsageSeries| series.samples.last().map(|(at, _)| *at);
    let end = evidence
        .usage
        .iter()
        .filter_map(ends)
        .max()
        .unwrap_or_default();
    let until_the_end = evidence
        .usage
        .iter()
        .filter(|series| ends(series) == Some(end));
    for series in until_the_end {
        let first = series
            .samples
            .iter()
            .skip(WARM_UP)
            .take(3)
            .map(|(_, usage)| *usage);
        let last = series.samples.iter().rev().take(3).map(|(_, usage)| *usage);
        let (Some(first), Some(last)) = (
            first.max_by_key(|usage| usage.memory),
            last.min_by_key(|usage| usage.memory),
        ) else {
            continue;
        };
        book.checked += 1;
        let process = format!("{} (process {})", series.instance, series.pid);
        if last.memory > first.memory + MEMORY {
            let evidence = format!("{} KiB of memory, then {} KiB", first.memory, last.memory);
            book.find("", &process, evidence);
        }
        if last.descriptors > first.descriptors + DESCRIPTORS {
            let evidence = format!(
                "{} descriptors, then {}",
                first.descriptors, last.descriptors
            );
            book.find("", &process, evidence);
        }
    }
    book
}

pub(super) fn daemons_stay(evidence: &Evidence) -> Book {
    let mut book = Book::new("up", "no daemon ends by itself");
    book.checked = evidence.minions + 1;
    for (who, at, how) in &evidence.history.ended {
        book.find("", who, format!("ended at {}: {how}", seconds(*at)));
    }
    book
}
