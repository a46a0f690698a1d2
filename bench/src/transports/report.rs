//! Pairs, medians, the table and the JSON.

use std::fs::File;
use std::io::Write;

use saline_protocol::transport::Registry;
use serde_json::{Value, json};

use crate::Result;
use crate::process::load;
use crate::transports::plan::{Over, Plan, Spec, Work};
use crate::transports::server_process::{Measured, measure};

/// The figures of one side in one cell of the table.
#[derive(Debug, Default)]
struct Side {
    per_second: Vec<f64>,
    cpu_us: Vec<f64>,
    delivered: u64,
    lost: u64,
}

impl Side {
    fn add(&mut self, measured: Measured) {
        let operations = measured.operations as f64;
        let per_second = operations / measured.elapsed.as_secs_f64();
        self.per_second.push(per_second);
        self.cpu_us
            .push(measured.cpu.as_secs_f64() * 1e6 / operations);
        self.delivered += measured.operations;
        self.lost += measured.lost;
    }
}

/// Measures everything in `plan`. What fails is said, and the rest is measured all the same.
///
/// # Errors
/// When something failed, or the JSON cannot be written.
pub(crate) fn run(plan: &Plan, registry: &Registry) -> Result<()> {
    let mut json = plan.json.as_ref().map(File::create).transpose()?;
    // Who reads this may have seen enough, which is no reason to panic.
    let _ = writeln!(
        std::io::stdout(),
        "{} pairs of {} s each; load {}; CPU is of both processes",
        plan.pairs,
        plan.seconds,
        load().map_or_else(|| "unknown".into(), |load| load.to_string()),
    );
    let _ = writeln!(
        std::io::stdout(),
        "{:<8} {:<34} {:>11} {:>11} {:>6} {:>9} {:>9} {:>11} {:>6} {:>5}",
        "backend",
        "work",
        "a second",
        "bare",
        "ratio",
        "CPU µs",
        "bare µs",
        "bare loop",
        "lost",
        "load"
    );
    let mut failed = 0;
    for backend in &plan.backends {
        for &work in &plan.works {
            match cell(plan, backend, work, registry) {
                Ok(line) => {
                    let _ = writeln!(std::io::stdout(), "{}", row(&line, work));
                    if let Some(json) = &mut json {
                        writeln!(json, "{line}")?;
                    }
                }
                Err(error) => {
                    failed += 1;
                    let _ = writeln!(
                        std::io::stdout(),
                        "{backend:<8} {:<34} failed: {error}",
                        work.to_string()
                    );
                }
            }
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} measurements failed").into()),
    }
}

/// One cell: rounds in which all sides take turns, and turns in beginning.
fn cell(plan: &Plan, backend: &str, work: Work, registry: &Registry) -> Result<Value> {
    let sides = match Over::all(backend, work) {
        all if plan.alone => &all[..1],
        all => all,
    };
    let mut reached: Vec<_> = sides.iter().map(|_| Side::default()).collect();
    let mut ratios = Vec::new();
    for round in 0..plan.pairs {
        for turn in 0..sides.len() {
            let which = (round + turn) % sides.len();
            let spec = Spec {
                backend: backend.to_owned(),
                over: sides[which],
                work,
                seconds: plan.seconds,
                workers: plan.workers,
                at: Vec::new(),
            };
            let measured =
                measure(spec, registry).map_err(|error| format!("{:?}: {error}", sides[which]))?;
            reached[which].add(measured);
        }
        if let [ours, bare, ..] = &reached[..] {
            ratios.push(ours.per_second[round] / bare.per_second[round]);
        }
    }
    let mut reached = reached.into_iter();
    let [ours, bare, strict] = std::array::from_fn(|_| reached.next());
    let ours = ours.unwrap_or_default();
    let rate = |side: &Option<Side>| side.as_ref().and_then(|side| median(&side.per_second));
    let cpu = |side: &Option<Side>| side.as_ref().and_then(|side| median(&side.cpu_us));
    let (outstanding, subscribers) = match work {
        Work::Requests { outstanding, .. } => (outstanding, 0),
        Work::FanOut { subscribers, .. } => (0, subscribers),
    };
    Ok(json!({
        "bench": work.name(),
        "backend": backend,
        "clients": work.clients(),
        "outstanding": outstanding,
        "bytes": work.bytes(),
        "subscribers": subscribers,
        "per_second": median(&ours.per_second).map(f64::round),
        "bare_per_second": rate(&bare).map(f64::round),
        "ratio": median(&ratios).map(hundredths),
        "cpu_us": median(&ours.cpu_us).map(thousandths),
        "bare_cpu_us": cpu(&bare).map(thousandths),
        "loop_per_second": rate(&strict).map(f64::round),
        "loop_cpu_us": cpu(&strict).map(thousandths),
        "delivered": ours.delivered,
        "lost": ours.lost,
        "bare_delivered": bare.as_ref().map(|bare| bare.delivered),
        "bare_lost": bare.as_ref().map(|bare| bare.lost),
        "pairs": plan.pairs,
        "seconds": plan.seconds,
        "workers": plan.workers,
        "load": load(),
    }))
}

fn row(line: &Value, work: Work) -> String {
    let number = |field: &str| match line[field].as_f64() {
        Some(number) if number >= 100.0 => number.round().to_string(),
        Some(number) => number.to_string(),
        None => "-".to_owned(),
    };
    let lost = line["lost"].as_u64().unwrap_or_default();
    let bare_lost = line["bare_lost"].as_u64().unwrap_or_default();
    format!(
        "{:<8} {:<34} {:>11} {:>11} {:>6} {:>9} {:>9} {:>11} {:>6} {:>5}",
        line["backend"].as_str().unwrap_or_default(),
        work.to_string(),
        number("per_second"),
        number("bare_per_second"),
        number("ratio"),
        number("cpu_us"),
        number("bare_cpu_us"),
        number("loop_per_second"),
        match bare_lost {
            0 => lost.to_string(),
            _ => format!("{lost}/{bare_lost}"),
        },
        number("load"),
    )
}

/// The one in the middle, or the mean of the two.
fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let (below, above) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[below] + values[above]) / 2.0)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
